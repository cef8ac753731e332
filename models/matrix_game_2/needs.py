"""What a model needs, in bytes, computed from its config: for the doctor and for the server's budget. Any thread."""

from collections.abc import Mapping

import torch

from models.matrix_game_2.config import Config
from models.matrix_game_2.vae import GROUP_FRAMES
from models.matrix_game_2.vae_layers import KEPT_FRAMES
from models.matrix_game_2.weights import empty_clip, empty_network, empty_vae, steady_decoder, vae_dtypes

_LIVE_ACTIVATIONS = 5  # of the widest decoder layer at once: measured on the CPU, 2.6 GB at full size in float32


def block_bytes(config: Config, dtype: torch.dtype) -> int:
    """Self-attention K,V of one chunk: what is paged, before encoding."""
    return 2 * config.network.num_layers * config.chunk_tokens * config.network.dim * dtype.itemsize


def decoder_state_bytes(config: Config, device: torch.device) -> int:
    """The VAE decoder's state of one session."""
    itemsize = vae_dtypes(device).get("decoder", torch.float32).itemsize
    return sum(slot.numel() for slot in steady_decoder(config)) * itemsize


def action_bytes(config: Config, dtype: torch.dtype) -> int:
    """Mouse and keyboard K,V of one chunk: kept in the window, never paged."""
    action, frames = config.network.action, config.num_frame_per_block
    assert action is not None
    mouse = config.frame_tokens * action.mouse_hidden_dim if action.enable_mouse else 0
    return 2 * len(action.blocks) * frames * (mouse + action.keyboard_hidden_dim) * dtype.itemsize


def needs(config: Config, device: torch.device, dtype: torch.dtype) -> Mapping[str, int]:
    """Bytes by component on the device that draws, and `host_clip` on the host. States are per session.

    `working` lives for one chunk: the rotated keys and values of window, recall and the chunk itself. `next_state` is
    the state that a step makes beside the one it began from.
    """
    network = sum(tensor.numel() for tensor in empty_network(config).state_dict().values())
    half = vae_dtypes(device)
    vae = sum(
        tensor.numel() * half.get(name.partition(".")[0], torch.float32).itemsize
        for name, tensor in empty_vae(config).state_dict().items()
    )
    block = block_bytes(config, dtype)
    window = config.window_chunks * (block + action_bytes(config, dtype))
    decoder = decoder_state_bytes(config, device)
    height_px, width_px = config.frame_hw_px
    widest = config.vae_dim * (GROUP_FRAMES + KEPT_FRAMES) * height_px * width_px  # numbers of one activation
    return {
        "weights": network * dtype.itemsize,
        "vae": vae,
        "window_state": window,
        "decoder_state": decoder,
        "next_state": window + decoder,
        "cross_state": 2 * config.network.num_layers * config.clip_tokens * config.network.dim * dtype.itemsize,
        "working": block * (config.window_chunks + config.max_recall + 1),
        "decode_working": _LIVE_ACTIVATIONS * widest * half.get("decoder", torch.float32).itemsize,
        "recall_buffer": block * config.max_recall,
        "host_clip": sum(tensor.numel() for tensor in empty_clip(config).state_dict().values()) * 4,
    }
