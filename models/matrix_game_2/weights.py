"""Networks without storage, and with random weights. Owns no files: `checkpoint.py` reads them. Engine thread."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import nn

from models.matrix_game_2.clip import ClipTower
from models.matrix_game_2.config import Config
from models.matrix_game_2.transformer import Transformer
from models.matrix_game_2.vae import VAE, Z_DIM
from models.matrix_game_2.vae_layers import SlotTensors

_MODULATION_SCALE = 0.1
_STEADY_LATENTS = 3  # after so many latents every slot of the decoder has its full size


@dataclass(frozen=True, slots=True)
class Parts:
    """The three networks. With random weights there is no CLIP tower: its tokens are drawn at random too."""

    network: Transformer
    vae: VAE
    clip: ClipTower | None


def empty_network(config: Config) -> Transformer:
    """The transformer without storage: names and shapes only."""
    with torch.device("meta"):
        return Transformer(config.network)


def empty_vae(config: Config) -> VAE:
    """The VAE without storage."""
    with torch.device("meta"):
        return VAE(config.vae_dim)


def empty_clip(config: Config) -> ClipTower:
    """The CLIP tower without storage."""
    with torch.device("meta"):
        return ClipTower(
            config.network.clip_dim, config.clip_heads, config.clip_layers, config.clip_image_px, config.clip_patch_px
        )


def vae_dtypes(device: torch.device) -> dict[str, torch.dtype]:
    """Data type by the first part of a key: the decoder in float16 on CUDA, as upstream (spec 7); else float32.

    The encoder runs once a world, so it can afford float32 everywhere.
    """
    if device.type != "cuda":
        return {}
    return {"decoder": torch.float16, "conv2": torch.float16}


def random_parts(config: Config, device: torch.device, dtype: torch.dtype, seed: int = 0) -> Parts:
    """Networks of random weights, a function of the seed (per kind of device), for systems measurements and tests."""
    generator = torch.Generator(device).manual_seed(seed)
    network, vae = empty_network(config), empty_vae(config)
    _fill(network, device, dtype, {}, generator)
    _fill(vae, device, torch.float32, vae_dtypes(device), generator)
    return Parts(network, vae, None)


@lru_cache(maxsize=8)
def steady_decoder(config: Config) -> SlotTensors:
    """The decoder's state without storage, found by decoding latents that have none: its shapes."""
    vae, state = empty_vae(config), ()
    for _ in range(_STEADY_LATENTS):
        _, state = vae.decode_next(torch.empty(Z_DIM, *config.latent_hw, device="meta"), state)
    return state


def _fill(
    module: nn.Module,
    device: torch.device,
    dtype: torch.dtype,
    special: Mapping[str, torch.dtype],
    generator: torch.Generator,
) -> None:
    """Draw every parameter so that activations keep their size: 1/sqrt(fan in), norms at 1, biases at 0."""
    drawn: dict[str, torch.Tensor] = {}
    for name, parameter in module.state_dict().items():
        value = torch.empty(parameter.shape, device=device, dtype=special.get(name.partition(".")[0], dtype))
        if name.endswith("bias"):
            value.zero_()
        elif name.endswith("modulation"):
            value.normal_(0.0, _MODULATION_SCALE, generator=generator)
        elif name.endswith("gamma") or parameter.ndim == 1:
            value.fill_(1.0)
        else:
            value.normal_(0.0, parameter[0].numel() ** -0.5, generator=generator)
        drawn[name] = value
    module.load_state_dict(drawn, strict=True, assign=True)
    module.requires_grad_(requires_grad=False)
