"""The window against a native rolling cache written from spec 6: the same flow bit for bit, evictions included."""

from dataclasses import replace

import pytest
import torch

from models.matrix_game_2.config import load_config
from models.matrix_game_2.positions import grid_angles, rotate
from models.matrix_game_2.sampler import chunk_kv
from models.matrix_game_2.transformer import ChunkInput
from models.matrix_game_2.weights import random_parts
from models.matrix_game_2.window import Reach, Recalled, build_reach, empty_kv, slid

CPU = torch.device("cpu")


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def tiny(local=6, sink=0, frames=3, placement="always-rebase"):
    config = replace(load_config("tiny"), latent_hw=(4, 6))
    network = replace(config.network, local_attn_size=local, sink_size=sink)
    return replace(config, network=network, num_frame_per_block=frames, placement=placement)


class NativeCache:
    """Spec 6 word for word: one buffer of rotated keys, two integers, written in place."""

    def __init__(self, config):
        network = config.network
        self.config, self.capacity = config, network.local_attn_size * config.frame_tokens
        self.k = torch.zeros(network.num_layers, self.capacity, network.num_heads, network.head_width)
        self.v = torch.zeros_like(self.k)
        self.global_end = self.local_end = 0

    def make_room(self, start):
        """Where a write at `start` goes, after the eviction that it causes."""
        num_new, end = self.config.chunk_tokens, start + self.config.chunk_tokens
        sink = self.config.network.sink_size * self.config.frame_tokens
        if end > self.global_end and self.local_end + num_new > self.capacity:
            evicted = self.local_end + num_new - self.capacity
            rolled = self.local_end - evicted - sink
            for buffer in (self.k, self.v):
                buffer[:, sink : sink + rolled] = buffer[:, sink + evicted : sink + evicted + rolled].clone()
            new_end = self.local_end + (end - self.global_end) - evicted
        else:
            new_end = self.local_end + (end - self.global_end)
        self.global_end, self.local_end = end, new_end
        return new_end - num_new

    def reach(self, at, like):
        num_new = self.config.chunk_tokens
        return Reach(
            torch.cat([self.k[:, :at], torch.zeros_like(self.k[:, :num_new])], dim=1),
            torch.cat([self.v[:, :at], torch.zeros_like(self.v[:, :num_new])], dim=1),
            like.turns,
            like.action_turns,
            like.action_past,
        )


def chunk_input(config, reach, seed):
    generator = torch.Generator().manual_seed(seed)
    action, frames = config.network.action, config.num_frame_per_block
    height, width = config.latent_hw
    return ChunkInput(
        torch.randn(config.network.cond_dim, frames, height, width, generator=generator),
        torch.randn(frames, action.window_rows, action.keyboard_dim_in, generator=generator),
        torch.randn(frames, action.window_rows, 2, generator=generator),
        torch.randn(config.network.num_layers, 2, 5, config.network.dim, generator=generator),
        reach,
    )


def noisy(config, seed):
    return torch.randn(16, config.num_frame_per_block, *config.latent_hw, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("placement", ["always-rebase", "native-then-rebase"])
@pytest.mark.parametrize(
    ("local", "sink", "frames"), [(6, 0, 3), (4, 0, 3), (9, 0, 3), (7, 2, 3), (6, 3, 3), (5, 1, 2)]
)
def test_without_recall_the_flow_is_the_native_caches_bit_for_bit(local, sink, frames, placement):
    config = tiny(local, sink, frames, placement)
    network = random_parts(config, CPU, torch.float32).network
    native, window = NativeCache(config), (empty_kv(config, torch.float32, CPU),)
    for chunk in range(6):
        start = chunk * frames
        at = native.make_room(start * config.frame_tokens)
        for timestep in (900.0, 0.0):
            t = torch.full((frames,), timestep)
            ours_reach = build_reach(config, window, start)
            native_reach = native.reach(at, ours_reach)
            ours, own = network(noisy(config, chunk), t, chunk_input(config, ours_reach, chunk), keep_kv=True)
            theirs, _ = network(noisy(config, chunk), t, chunk_input(config, native_reach, chunk))
            assert torch.equal(ours, theirs)
            native.k[:, at : at + config.chunk_tokens] = native_reach.k[:, -config.chunk_tokens :]
            native.v[:, at : at + config.chunk_tokens] = native_reach.v[:, -config.chunk_tokens :]
        window = slid(config, window, chunk_kv(own, start))


def walked(config, network, num_chunks, first=0):
    window, kept = (empty_kv(config, torch.float32, CPU),), []
    for chunk in range(num_chunks):
        start = first + chunk * config.num_frame_per_block
        reach = build_reach(config, window, start)
        clean = torch.zeros(config.num_frame_per_block)
        _, own = network(noisy(config, chunk), clean, chunk_input(config, reach, chunk), keep_kv=True)
        kept.append(chunk_kv(own, start))
        window = slid(config, window, kept[-1])
    return window, kept


def test_recalled_blocks_stand_in_front_of_the_window_newest_next_to_it():
    config = tiny()
    network = random_parts(config, CPU, torch.float32).network
    window, kept = walked(config, network, 5)
    old = [Recalled(kept[i].start, kept[i].self_kv) for i in (0, 2)]
    reach = build_reach(config, window, 15, old)
    plain = build_reach(config, window, 15)
    tokens = config.chunk_tokens
    assert torch.equal(reach.k[:, 2 * tokens : 3 * tokens], plain.k[:, :tokens])
    for place, (chunk, start) in enumerate(((0, 6), (2, 9))):  # w0 is 12
        turns = grid_angles((start, start + 1, start + 2), config.latent_rows, config.latent_cols, 32)
        keys = rotate(kept[chunk].self_kv[:, 0].unflatten(-1, (2, -1)), turns)
        assert torch.equal(reach.k[:, place * tokens : (place + 1) * tokens], keys)
        values = kept[chunk].self_kv[:, 1].unflatten(-1, (2, -1))
        assert torch.equal(reach.v[:, place * tokens : (place + 1) * tokens], values)


def test_recalling_the_last_evicted_chunk_equals_a_window_that_kept_it():
    """always-rebase gives it its own place, so a window of nine latents must see the same."""
    config, wide = tiny(6), tiny(9)
    network = random_parts(config, CPU, torch.float32).network
    _, kept = walked(config, network, 3)
    reach = build_reach(config, (kept[2],), 9, [Recalled(kept[1].start, kept[1].self_kv)])
    wide_reach = build_reach(wide, (kept[1], kept[2]), 9)
    assert torch.equal(reach.k[:, : -config.chunk_tokens], wide_reach.k[:, : -config.chunk_tokens])


def test_a_step_writes_into_none_of_its_inputs():
    config = tiny()
    network = random_parts(config, CPU, torch.float32).network
    window, kept = walked(config, network, 4)
    before = [chunk.self_kv.clone() for chunk in kept]
    reach = build_reach(config, window, 12, [Recalled(0, kept[0].self_kv)])
    network(noisy(config, 1), torch.zeros(3), chunk_input(config, reach, 1))
    assert all(torch.equal(chunk.self_kv, copy) for chunk, copy in zip(kept, before, strict=True))


def test_the_window_does_not_grow():
    for config in (tiny(6), tiny(4), tiny(7, 2)):
        network = random_parts(config, CPU, torch.float32).network
        window, _ = walked(config, network, 8)
        assert len(window) <= 3


def test_positions_beyond_the_native_table_change_nothing_but_rounding():
    """Only differences of positions enter attention: the same walk far behind the table gives nearly the same flow."""
    config = tiny()
    network = random_parts(config, CPU, torch.float32).network
    flows = []
    for first in (30, 1_014, 1_020, 1_050, 300_000):
        window, _ = walked(config, network, 3, first)
        reach = build_reach(config, window, first + 9)
        flow, _ = network(noisy(config, 9), torch.full((3,), 500.0), chunk_input(config, reach, 9))
        flows.append(flow)
    for flow in flows[1:]:
        assert (flow - flows[0]).abs().max() < 1e-4
