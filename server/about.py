"""What an exported world says of itself, as a checked value: who it is, how much comes, and how its blocks are laid
out. The layout is proven by the fingerprint that it gives, so that no model is needed to import. Pure; any thread.
"""

from typing import Annotated, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from models.base import KVSpec, SidePlane
from server.pager.layout import SlotLayout
from server.world_card import WORLD_VERSION, WorldCard

MAX_ABOUT_BYTES = 65_536
MAX_BLOCK_BYTES = 1 << 30
MAX_BLOCKS = 1 << 24
_SIDE_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16, "uint8": torch.uint8}

Size = Annotated[int, Field(ge=1, le=1 << 20)]
Count = Annotated[int, Field(ge=0, lt=1 << 62)]


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


class Card(_Value):
    """The world's card."""

    id: Annotated[str, StringConstraints(pattern=r"^[a-z2-7]{26}$")]
    name: str = Field(min_length=1, max_length=64)
    seed: int = Field(ge=0, lt=1 << 63)
    model: str = Field(min_length=1, max_length=64)
    fingerprint: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{1,64}$")]
    created_s: float = Field(ge=0.0, le=1e12)
    version: Literal[1] = WORLD_VERSION


class Spec(_Value):
    """models.base.KVSpec; `side` holds [name, shape, dtype] of each side plane."""

    layers: int = Field(ge=1, le=4096)
    tokens: Size
    width: Size
    head_width: Size
    side: list[tuple[str, list[Size], Literal["float32", "float16", "bfloat16", "uint8"]]] = Field(
        default=[], max_length=16, strict=False
    )


class Blocks(_Value):
    """How many blocks come, and what their slab's log says beside them."""

    count: int = Field(ge=0, le=MAX_BLOCKS)
    spec: Spec
    fingerprint: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
    store_id: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
    opening: Count
    newest: Count


class About(_Value):
    """The first entry of an exported world. `bytes` is what the entries after it hold together."""

    format: Literal[1] = 1
    world: Card
    bytes: Count
    blocks: Blocks | None = None

    @property
    def card(self) -> WorldCard:
        return WorldCard(**self.world.model_dump())

    @property
    def layout(self) -> SlotLayout | None:
        """The layout of the blocks' slots; None without blocks."""
        return None if self.blocks is None else SlotLayout(_spec_of(self.blocks.spec))


def spec_fields(spec: KVSpec) -> Spec:
    """The layout of a block as plain values."""
    side = [(plane.name, list(plane.shape), str(plane.dtype).removeprefix("torch.")) for plane in spec.side]
    return Spec.model_validate(
        {
            "layers": spec.layers,
            "tokens": spec.tokens,
            "width": spec.width,
            "head_width": spec.head_width,
            "side": side,
        }
    )


def _spec_of(fields: Spec) -> KVSpec:
    side = tuple(SidePlane(name, tuple(shape), _SIDE_DTYPES[dtype]) for name, shape, dtype in fields.side)
    return KVSpec(fields.layers, fields.tokens, fields.width, fields.head_width, side)
