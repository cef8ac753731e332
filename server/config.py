"""The settings: one frozen value, put together from flags, environment, a TOML file and defaults, checked at start.

A wrong or unknown value stops the start and names itself and its source. Nothing here imports torch. Any thread.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError

ENV_PREFIX = "WORLDPAGER_"
MASK = "********"

# of rooms: room for two recall sets of six blocks and a recall decoded in float32, and little more, so that a walk of
# minutes recalls from all three tiers
BUDGETS: dict[str, dict[str, str]] = {
    "rooms": {"gpu": "19MB", "dram": "4MB", "nvme": "256MB", "kept": "256MB"},
    "matrix-game-2": {"gpu": "4GB", "dram": "8GB", "nvme": "64GB", "kept": "4GB"},
}
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_BYTES = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([KMGT]?)(I?)B)?", re.IGNORECASE | re.ASCII)


class SettingsError(Exception):
    """The settings cannot be used; the text names each wrong value and where it came from."""


def parse_bytes(text: object) -> int:
    """The number of bytes that `text` names: 24000000, "24MB", "10.22GB" (10^9) or "10GiB" (2^30)."""
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    match = _BYTES.fullmatch(str(text).strip())
    if match is None:
        raise ValueError("not a number of bytes; write for example 24MB, 10.22GB (10^9) or 10GiB (2^30)")
    number, unit, binary = match[1], (match[2] or "").upper(), match[3]
    if binary and not unit:
        raise ValueError("not a number of bytes; iB needs a letter before it, for example 10GiB")
    return int(Decimal(number) * (_BINARY_UNITS[unit] if binary else _UNITS[unit]))


def _split_names(value: object) -> object:
    """One name, names with commas between them, or a list of names."""
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, list | tuple):
        return value
    return tuple(name.strip() for part in parts for name in str(part).split(",") if name.strip())  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - a list from outside


def _check_token(token: SecretStr) -> SecretStr:
    text = token.get_secret_value()
    if not (16 <= len(text) <= 256 and text.isascii() and text.isprintable() and " " not in text):
        raise ValueError("a token has 16 to 256 printable ASCII characters and no spaces")
    return token


def usable_cores() -> int:
    """How many cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


NumBytes = Annotated[int, BeforeValidator(parse_bytes), Field(ge=0, lt=2**62)]
Names = Annotated[tuple[str, ...], BeforeValidator(_split_names)]
Token = Annotated[SecretStr, AfterValidator(_check_token)]


class Settings(BaseModel):
    """What the server runs with. The outside names are the aliases: flag, WORLDPAGER_* variable and TOML key."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    model: Literal["rooms", "matrix-game-2", "plain"] = "rooms"  # plain: the tests' own
    worlds: Path = Path("worlds")
    host: str = Field(default="127.0.0.1", min_length=1, max_length=255)
    port: int = Field(default=8765, ge=0, le=65_535)
    gpu_bytes: NumBytes = Field(alias="gpu")
    dram_bytes: NumBytes = Field(alias="dram")
    nvme_bytes: NumBytes = Field(alias="nvme")
    kept_bytes: NumBytes = Field(alias="kept", default=256_000_000)  # states of snapshots and the rewind ring
    # a field of this name would shadow pydantic's own `model_config`
    model_settings: str = Field(default="", alias="model_config")
    weights: Path | None = None
    random_weights: bool = False
    compile: bool = False
    seed_image: Path | None = None  # new worlds begin with it
    token: Token | None = None
    allow_host: Names = ()
    autosave_s: float = Field(default=30.0, gt=0.0, le=86_400.0)
    threads: int | None = Field(default=None, ge=1, le=1_024)
    seed: int | None = Field(default=None, ge=0, lt=2**63)
    log_level: Literal["debug", "info", "warning", "error"] = "info"


NAMES: tuple[str, ...] = tuple(field.alias or name for name, field in Settings.model_fields.items())


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings, and for each outside name where its value came from."""

    settings: Settings
    sources: Mapping[str, str]

    def describe(self) -> str:
        """One line for each setting, as TOML with its source behind it. The token is masked."""
        values = self.settings.model_dump(by_alias=True)
        return "\n".join(f"{_toml_line(name, values[name])}  # {self.sources[name]}" for name in NAMES)


def _toml_line(name: str, value: object) -> str:
    if value is None:
        return f"# {name} is not set"
    if isinstance(value, bool):
        return f"{name} = {str(value).lower()}"
    if isinstance(value, int | float):
        return f"{name} = {value}"
    if isinstance(value, tuple):
        return f"{name} = {[str(item) for item in value]}"  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - a tuple of names
    return f'{name} = "{MASK if isinstance(value, SecretStr) else value}"'


def load_settings(flags: Mapping[str, object], environment: Mapping[str, str]) -> Loaded:
    """The settings by precedence: flag, environment, TOML file (`config`), default. Raises SettingsError.

    `flags` holds what was given on the command line by outside name, and nothing else.
    """
    given: dict[str, tuple[object, str]] = {}
    for name, value in flags.items():
        given[name] = (value, f"flag --{name.replace('_', '-')}")
    for variable, value in environment.items():
        if variable.startswith(ENV_PREFIX):
            name = variable.removeprefix(ENV_PREFIX).lower()
            given.setdefault(name, (value, f"environment {variable}"))
    config = given.pop("config", None)
    if config is not None:
        for name, value in _read_toml(str(config[0]), config[1]).items():
            given.setdefault(name, (value, f"file {config[0]}"))
    return _check(given)


def _read_toml(path: str, source: str) -> dict[str, object]:
    try:
        values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"config ({source}): the file {path} cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"config ({source}): {path} is not valid TOML: {error}") from error
    return {name.replace("-", "_"): value for name, value in values.items()}


def _check(given: Mapping[str, tuple[object, str]]) -> Loaded:
    sources = {name: source for name, (_, source) in given.items()}
    values = {name: value for name, (value, _) in given.items()}
    for tier, budget in BUDGETS.get(str(values.get("model", "rooms")), BUDGETS["rooms"]).items():
        values.setdefault(tier, budget)
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        lines = [_explain(fault, sources) for fault in error.errors(include_url=False, include_input=False)]
        raise SettingsError("\n".join(lines)) from None  # the cause would print the values
    if settings.weights is not None and not settings.weights.exists():
        raise SettingsError(
            f"weights ({sources['weights']}): there is nothing at {settings.weights}. Give the folder with the weights."
        )
    return Loaded(settings, {name: sources.get(name, "default") for name in NAMES})


def make_worlds_folder(loaded: Loaded) -> None:
    """Make the worlds folder when it is absent. Raises SettingsError when it cannot be made or written to."""
    folder = loaded.settings.worlds
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"worlds ({loaded.sources['worlds']}): {folder} cannot be made: {error.strerror}."
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise SettingsError(
            f"worlds ({loaded.sources['worlds']}): {folder} cannot be written to. Choose another folder."
        )


def _explain(fault: Mapping[str, Any], sources: Mapping[str, str]) -> str:
    name = str(fault["loc"][0])
    source = sources.get(name, "default")
    if fault["type"] == "extra_forbidden":
        return f"{name} ({source}): there is no such setting. The settings are: {', '.join((*NAMES, 'config'))}."
    return f"{name} ({source}): {str(fault['msg']).removeprefix('Value error, ')}."
