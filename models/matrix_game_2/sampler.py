"""One chunk of latents: the denoising passes, then the context pass (spec 7). Keeps no state. Engine thread."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from models.matrix_game_2.config import Config
from models.matrix_game_2.scheduler import add_noise, expanded, make_schedule, x0_from_flow
from models.matrix_game_2.transformer import ChunkInput, OwnKV, Transformer
from models.matrix_game_2.window import ChunkKV


@dataclass(frozen=True, slots=True)
class Pass:
    """One call of the network: its timestep, its flow, and where the latents went."""

    timestep: float
    flow: torch.Tensor  # [16, F, h, w]
    latents: torch.Tensor  # [16, F, h, w]: x0 of this pass, or the context pass's input


def denoise(
    network: Transformer, config: Config, chunk: ChunkInput, noise: torch.Tensor, renoise: Callable[[int], torch.Tensor]
) -> Iterator[Pass]:
    """The denoising passes of a chunk; the last one's `latents` are the chunk.

    `noise [16, F, h, w]`; `renoise(k)` gives the fresh noise `[F, 16, h, w]` that follows step k.
    """
    schedule = make_schedule(config.denoising_step_list, config.timestep_shift)
    frames = config.num_frame_per_block
    x = noise
    for index, timestep in enumerate(schedule.steps):
        flow, _ = network(x, expanded(timestep, frames, x.device), chunk)
        x0 = x0_from_flow(flow, x, schedule.sigma_at(timestep))
        yield Pass(float(timestep), flow, x0)
        if index + 1 < len(schedule.steps):
            fresh = renoise(index).transpose(0, 1)  # [16, F, h, w]
            x = add_noise(x0, fresh, schedule.sigma_at(schedule.steps[index + 1]))


def context_pass(
    network: Transformer, config: Config, chunk: ChunkInput, latents: torch.Tensor, start: int
) -> tuple[Pass, ChunkKV]:
    """The clean pass over finished latents at the raw timestep `context_noise`: what the chunk leaves to later ones."""
    timestep = expanded(config.context_noise, config.num_frame_per_block, latents.device)
    flow, own = network(latents, timestep, chunk, keep_kv=True)
    assert own is not None
    return Pass(config.context_noise, flow, latents), chunk_kv(own, start)


def chunk_kv(own: OwnKV, start: int) -> ChunkKV:
    """A pass's keys and values as the window's value."""
    return ChunkKV(start, own.self_kv, own.keyboard_kv, own.mouse_kv)
