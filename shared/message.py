"""What every message of the wire is: frozen, strict, bounded. Pure; any thread."""

from pydantic import BaseModel, ConfigDict


class Message(BaseModel):
    """Base of all messages: frozen, strict types, unknown fields refused, no NaN or infinity."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


class News(Message):
    """Base of what the server says: unknown fields are passed over, so that a newer server may say more."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)
