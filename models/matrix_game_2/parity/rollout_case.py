"""Case e: a session of several chunks, every pass of it, and what is in the caches after each chunk."""

from collections.abc import Mapping
from typing import Any

import torch

from models.matrix_game_2.config import Config
from models.matrix_game_2.parity.action_case import action_windows
from models.matrix_game_2.parity.case import CPU, ROLLOUT_TOLERANCE, Case, config_of, network_of
from models.matrix_game_2.parity.native import action_cache, fill_levels, self_cache
from models.matrix_game_2.sampler import Pass, context_pass, denoise
from models.matrix_game_2.scheduler import make_schedule, renoise_count
from models.matrix_game_2.transformer import ChunkInput, Transformer
from models.matrix_game_2.window import Window, build_reach, empty_kv, slid

SLICE_TOKENS, SLICE_DIMS = 7, 8  # `cN.self_{k,v}_slice` keep every seventh token and eight dimensions, spec 12


def rollout(case: Case) -> None:
    """Run the session, then compare flows, latents, caches and their statistics."""
    config = config_of(case)
    network = network_of(case, config)
    schedule = make_schedule(config.denoising_step_list, config.timestep_shift)
    case.compare_present("denoising_timesteps", schedule.steps)
    cross = network.cross_kv(case.given("visual_context")[0])
    window: Window = (empty_kv(config, torch.float32, CPU),)
    flows: list[torch.Tensor] = []
    latents: list[torch.Tensor] = []
    frames, num_latents = config.num_frame_per_block, case.given("noise").shape[2]
    for start in range(0, num_latents, frames):
        chunk = _chunk_input(case, config, cross, window, start)
        passes, latest = _chunk(case, config, network, chunk, start)
        _check_passes(case, config, passes, start)
        flows += [one.flow for one in passes]
        latents.append(passes[-1].latents)
        held = (*window, latest)
        window = slid(config, window, latest)
        _caches(case, config, held, start, is_last=start + frames >= num_latents)
    case.compare("flow", torch.stack(flows), ROLLOUT_TOLERANCE)
    case.compare("output_latents", torch.cat(latents, dim=1)[None], ROLLOUT_TOLERANCE)
    for which, name in enumerate(("final.cross_k", "final.cross_v")):
        case.compare_present(name, cross[:, which].unflatten(-1, (config.network.num_heads, -1)))


def _chunk_input(case: Case, config: Config, cross: torch.Tensor, window: Window, start: int) -> ChunkInput:
    mouse = case.given_or_none("mouse")
    keyboard, mouse = action_windows(config, case.given("keyboard")[0], None if mouse is None else mouse[0], start)
    cond = case.given("cond_concat")[0, :, start : start + config.num_frame_per_block]
    return ChunkInput(cond, keyboard, mouse, cross, build_reach(config, window, start))


def _chunk(case: Case, config: Config, network: Transformer, chunk: ChunkInput, start: int) -> Any:
    """All passes of a chunk in call order, and what the last one left."""
    frames = config.num_frame_per_block
    noise = case.given("noise")[0, :, start : start + frames]
    fresh_count = renoise_count(config.denoising_step_list)
    recorded = case.given_or_none("renoise")
    renoise = noise.new_empty(0) if recorded is None else recorded  # [draws, F, 16, h, w]
    first = start // frames * fresh_count
    passes = list(denoise(network, config, chunk, noise, lambda step: renoise[first + step]))
    last, latest = context_pass(network, config, chunk, passes[-1].latents, start)
    return [*passes, last], latest


def _check_passes(case: Case, config: Config, passes: list[Pass], start: int) -> None:
    """The recorded timesteps, token offsets and action row counts of this chunk's calls."""
    recorded = case.manifest.get("passes")
    if not recorded:
        return
    first = start // config.num_frame_per_block * len(passes)
    rows = 1 + config.time_ratio * (start + config.num_frame_per_block - 1)
    ours = [[one.timestep, start * config.frame_tokens, rows] for one in passes]
    theirs = [[one["t"][0], one["current_start"], one["n_actions"]] for one in recorded[first : first + len(passes)]]
    case.exact(f"passes of latent {start}", ours, theirs)


def _caches(case: Case, config: Config, held: Window, start: int, *, is_last: bool) -> None:
    chunk = start // config.num_frame_per_block
    network = config.network
    capacity = network.local_attn_size * config.frame_tokens
    layers = range(network.num_layers)
    pairs = [self_cache(config, held, start, layer, capacity) for layer in layers]
    self_kv = {name: torch.stack([pair[i] for pair in pairs]) for i, name in enumerate("kv")}  # [L, capacity, H, d]
    for name, kv in self_kv.items():
        case.compare_present(f"c{chunk}.self_{name}_slice", kv[:, ::SLICE_TOKENS, :, :SLICE_DIMS], ROLLOUT_TOLERANCE)
        if is_last:
            case.compare_present(f"final.self_{name}", kv, ROLLOUT_TOLERANCE)
    action = network.action
    assert action is not None
    keyboard = _action_kv(config, held, start, is_mouse=False)
    mouse = _action_kv(config, held, start, is_mouse=True) if action.enable_mouse else {}
    if is_last:
        _compare_final(case, "keyboard", keyboard)
        _compare_final(case, "mouse", mouse)
    for record in case.manifest.get("kv_after_chunk", ()):
        if record["chunk"] == chunk:
            levels = fill_levels(config, start, config.frame_tokens)
            _statistics(case, f"c{chunk}.self", record["self"], self_kv, levels, list(layers))
            blocks = sorted(action.blocks)
            levels = fill_levels(config, start, 1)
            _statistics(case, f"c{chunk}.keyboard", record["keyboard"], keyboard, levels, blocks)
            _statistics(case, f"c{chunk}.mouse", record["mouse"], mouse, levels, blocks if mouse else [])


def _action_kv(config: Config, held: Window, start: int, *, is_mouse: bool) -> dict[str, torch.Tensor]:
    """Keys and values of all action blocks: `[A, size, ...]` or `[A, S, size, ...]`."""
    action, size = config.network.action, config.network.local_attn_size
    assert action is not None
    blocks = range(len(action.blocks))
    pairs = [action_cache(config, held, start, index, size, is_mouse=is_mouse) for index in blocks]
    return {name: torch.stack([pair[i] for pair in pairs]) for i, name in enumerate("kv")}


def _compare_final(case: Case, which: str, kv: Mapping[str, torch.Tensor]) -> None:
    """`final.WHICH_k` and `_v`, whole or as `_everyN` of the locations."""
    for name, tensor in kv.items():
        stem = f"final.{which}_{name}"
        case.compare_present(stem, tensor, ROLLOUT_TOLERANCE)
        for full in [key for key in case.tensors if key.startswith(f"{stem}_every")]:
            case.compare(full, tensor[:, :: int(full.rpartition("every")[2])], ROLLOUT_TOLERANCE)


def _statistics(
    case: Case,
    what: str,
    records: list[dict[str, Any]],
    kv: Mapping[str, torch.Tensor],
    levels: list[int],
    layers: list[int],
) -> None:
    """Fill levels exactly and statistics per element, layer by layer; layers without such a cache hold zeros."""
    for layer, record in enumerate(records):
        ours = levels if layer in layers else [0, 0]
        case.exact(f"{what}[{layer}] fill", ours, [record["global_end"], record["local_end"]])
        for name in "kv":
            tensor = kv[name][layers.index(layer)] if layer in layers else torch.zeros(1)
            case.stats(f"{what}[{layer}].{name}", tensor, record[f"{name}_stats"], ROLLOUT_TOLERANCE)
