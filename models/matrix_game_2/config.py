"""Every size of the model, read from its config; the shipped variants. Owns no tensors. Any thread.

`NetworkConfig` is what `config.json` of a checkpoint says about the transformer. `Config` adds what no file of the
checkpoint says: latent size, step list, VAE and CLIP sizes, frame rate and the estimated motion scale (spec 1, 2, 8).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

PLACEMENTS = ("always-rebase", "native-then-rebase")
Placement = Literal["always-rebase", "native-then-rebase"]
CONFIG_FOLDER = Path(__file__).parent / "configs"
VAE_STRIDE_PX = 8  # pixels per latent cell, spec 8
MAX_SIDE_PX = 4096


@dataclass(frozen=True, slots=True)
class ActionConfig:
    """The action module: which blocks have one, and its sizes. `head_width` is the sum of the rotary dimensions."""

    blocks: tuple[int, ...]
    heads_num: int
    hidden_size: int
    keyboard_dim_in: int
    keyboard_hidden_dim: int
    enable_mouse: bool = False
    mouse_dim_in: int = 2
    mouse_hidden_dim: int = 0
    rope_dim_list: tuple[int, ...] = (8, 28, 28)
    rope_theta: float = 256.0
    vae_time_compression_ratio: int = 4
    windows_size: int = 3

    @property
    def window_rows(self) -> int:
        """Action rows that one latent frame looks at (12 in the published variants)."""
        return self.vae_time_compression_ratio * self.windows_size

    @property
    def keyboard_head_width(self) -> int:
        return self.keyboard_hidden_dim // self.heads_num

    @property
    def mouse_head_width(self) -> int:
        return self.mouse_hidden_dim // self.heads_num


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """The transformer's sizes, as `config.json` names them. Unknown keys of the file are dead and ignored (spec 2)."""

    dim: int
    num_heads: int
    num_layers: int
    ffn_dim: int
    action: ActionConfig | None
    in_dim: int = 36
    out_dim: int = 16
    freq_dim: int = 256
    patch_size: tuple[int, int, int] = (1, 2, 2)
    local_attn_size: int = 6
    sink_size: int = 0
    eps: float = 1e-6
    clip_dim: int = 1280

    @property
    def head_width(self) -> int:
        return self.dim // self.num_heads

    @property
    def cond_dim(self) -> int:
        """Channels of mask and image latent beside the noise."""
        return self.in_dim - self.out_dim


@dataclass(frozen=True, slots=True)
class MotionScale:
    """How far one frame of an action moves the camera: estimates, no published figure exists (spec 2)."""

    yaw_rad_per_unit: float = 0.26  # mouse unit 0.1 a frame turns about 1.5 degrees
    pitch_rad_per_unit: float = 0.26
    max_unit: float = 0.1  # upstream only ever sends 0 or +-0.1
    walk_m_per_frame: float = 0.12
    max_pitch_rad: float = 0.6


@dataclass(frozen=True, slots=True)
class Config:
    """A whole model: the network and all that surrounds it. Checked by `check`; immutable."""

    name: str
    kind: str  # universal, gta_drive or templerun: what the action vectors mean
    network: NetworkConfig
    latent_hw: tuple[int, int] = (44, 80)
    num_frame_per_block: int = 3
    denoising_step_list: tuple[int, ...] = (1000, 666, 333)
    context_noise: float = 0.0
    timestep_shift: float = 5.0
    fps: float = 16.0
    max_recall: int = 3
    placement: Placement = "always-rebase"
    idle_chunks: int = 8  # after so many chunks without any input the frame is held; 0 switches it off
    cond_latents: int = 30  # encoded of the picture and the grey behind it; from 29 on they are constant, spec 8
    vae_dim: int = 96
    clip_heads: int = 16
    clip_layers: int = 32
    clip_image_px: int = 224
    clip_patch_px: int = 14
    motion: MotionScale = field(default_factory=MotionScale)

    @property
    def latent_rows(self) -> int:
        return self.latent_hw[0] // self.network.patch_size[1]

    @property
    def latent_cols(self) -> int:
        return self.latent_hw[1] // self.network.patch_size[2]

    @property
    def frame_tokens(self) -> int:
        """S, tokens of one latent frame."""
        return self.latent_rows * self.latent_cols

    @property
    def chunk_tokens(self) -> int:
        """N, tokens of one chunk."""
        return self.num_frame_per_block * self.frame_tokens

    @property
    def frames_per_chunk(self) -> int:
        """Pixel frames of every chunk after the first."""
        return self.num_frame_per_block * self.time_ratio

    @property
    def time_ratio(self) -> int:
        """Pixel frames per latent frame: the VAE's, which the action rows follow."""
        return 4

    @property
    def frame_hw_px(self) -> tuple[int, int]:
        return (self.latent_hw[0] * VAE_STRIDE_PX, self.latent_hw[1] * VAE_STRIDE_PX)

    @property
    def window_chunks(self) -> int:
        """Earlier chunks of which attention still sees a part, the sink left out."""
        if self.network.local_attn_size < 0:
            return 1 << 30
        rolling = self.network.local_attn_size - self.num_frame_per_block - self.network.sink_size
        return -(-rolling // self.num_frame_per_block)

    @property
    def clip_tokens(self) -> int:
        return (self.clip_image_px // self.clip_patch_px) ** 2 + 1


def network_from_json(raw: Mapping[str, Any], clip_dim: int = 1280) -> NetworkConfig:
    """The network that a checkpoint's `config.json` describes. Raises ValueError naming a missing or bad key."""
    action_raw = raw.get("action_config") or {}
    action = _picked(ActionConfig, action_raw) if action_raw.get("blocks") else None
    network = _picked(NetworkConfig, {"clip_dim": clip_dim, **raw, "action": action})
    if network.dim % network.num_heads or network.head_width % 2:
        raise ValueError(f"dim {network.dim} does not split into {network.num_heads} heads of an even width")
    return network


def _picked(kind: type[Any], raw: Mapping[str, Any]) -> Any:
    """A `kind` built from those entries of `raw` that are its fields; lists become tuples."""
    names = {item.name for item in fields(kind)}
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in raw.items() if key in names}
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(f"{kind.__name__}: {error}") from error


def config_from_json(raw: Mapping[str, Any]) -> Config:
    """A config from its JSON form (the files in `configs/`). Raises ValueError naming what is wrong."""
    known = {item.name for item in fields(Config)} | {"about"}
    unknown = sorted(set(raw) - known)
    if unknown:
        raise ValueError(f"unknown keys in the model config: {', '.join(unknown)}")
    network = network_from_json(raw.get("network", {}))
    motion = _picked(MotionScale, raw.get("motion", {}))
    config: Config = _picked(Config, {**raw, "network": network, "motion": motion})
    return checked(config)


def checked(config: Config) -> Config:
    """The config itself, or ValueError with the name of the value that cannot work."""
    height, width = config.latent_hw
    _, patch_h, patch_w = config.network.patch_size
    local, frames = config.network.local_attn_size, config.num_frame_per_block
    problems = {
        "latent_hw does not divide by patch_size": height % patch_h or width % patch_w,
        "latent_hw is too large": max(config.frame_hw_px) > MAX_SIDE_PX,
        "local_attn_size is smaller than a chunk": 0 <= local < frames,
        "sink_size leaves no room for a chunk": local >= 0 and config.network.sink_size + frames > local,
        "placement is not one of " + ", ".join(PLACEMENTS): config.placement not in PLACEMENTS,
        "kind is not universal, gta_drive or templerun": config.kind not in ("universal", "gta_drive", "templerun"),
        "fps, max_recall or the step list is empty": config.fps <= 0
        or config.max_recall < 0
        or not config.denoising_step_list,
        "cond_latents is not positive": config.cond_latents < 1,
        "the network has no action module": config.network.action is None,
    }
    for message, is_wrong in problems.items():
        if is_wrong:
            raise ValueError(f"model config {config.name!r}: {message}")
    return config


def load_config(name_or_file: str | Path) -> Config:
    """A shipped variant by name (universal, gta_drive, templerun, tiny), or a JSON file of the same form."""
    shipped = {path.stem: path for path in sorted(CONFIG_FOLDER.glob("*.json"))}
    path = shipped.get(str(name_or_file).lower(), Path(name_or_file))
    if not path.is_file():
        raise ValueError(f"no model config {str(name_or_file)!r}: one of {', '.join(shipped)}, or a JSON file")
    return config_from_json(json.loads(path.read_text(encoding="utf-8")))


def with_network(config: Config, raw: Mapping[str, Any]) -> Config:
    """The same model around the network that a checkpoint's own `config.json` describes."""
    return checked(replace(config, network=network_from_json(raw, config.network.clip_dim)))
