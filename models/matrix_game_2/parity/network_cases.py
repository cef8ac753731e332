"""Cases a, b and d: rotary tables, one block, the whole transformer for one chunk."""

import torch

from models.matrix_game_2.config import Config
from models.matrix_game_2.parity.action_case import action_windows, lone_kv
from models.matrix_game_2.parity.case import CPU, Case, config_of, network_of
from models.matrix_game_2.parity.native import fill_levels, self_cache
from models.matrix_game_2.positions import action_angles, angles, axis_widths, grid_angles, rotate, rotate_action
from models.matrix_game_2.transformer import Block, ChunkInput, Transformer, unpatched
from models.matrix_game_2.window import Window, build_reach, empty_kv, slid

ACTION_DIMS, ACTION_THETA = (8, 28, 28), 256.0  # of case a, whose manifest does not say: spec 5
ROPE_GRID = (3, 4, 6)  # frames, rows, columns: of case a's manifest text


def rope(case: Case) -> None:
    """Case a: both rotary tables, and both rotations at several offsets."""
    rows = case.given("rows").tolist()
    for width in case.manifest["head_dims"]:
        table = torch.cat([angles(rows, axis) for axis in axis_widths(width)], dim=-1)
        case.compare(f"table_d{width}_real", table.real, 0.0)
        case.compare(f"table_d{width}_imag", table.imag, 0.0)
        x = case.given(f"x_d{width}")
        frames, *grid = case.manifest.get("grid", ROPE_GRID)
        for offset in case.manifest["offsets"]:
            turns = grid_angles(tuple(range(offset, offset + frames)), grid[0], grid[1], width)
            case.compare(f"causal_d{width}_off{offset}", rotate(x, turns))
        case.compare(f"train_d{width}", rotate(x, grid_angles(tuple(range(frames)), grid[0], grid[1], width)))
    cos, sin = action_angles(case.given("action_rows").tolist(), ACTION_DIMS, ACTION_THETA)
    case.compare("action_cos", cos)
    case.compare("action_sin", sin)
    for name in ("action_q", "action_k"):
        x = case.given(name)
        for offset in case.manifest["offsets"]:
            cos, sin = action_angles(range(offset, offset + x.shape[1]), ACTION_DIMS, ACTION_THETA)
            case.compare(f"{name}_off{offset}", rotate_action(x, cos, sin))


def blocks(case: Case) -> None:
    """Case b: single blocks over a growing and evicting window."""
    config = config_of(case)
    network = network_of(case, config)
    for index in case.manifest["blocks"]:
        _one_block(case, config, network, index)


def _one_block(case: Case, config: Config, network: Transformer, index: int) -> None:
    prefix, block = f"blk{index}", network.blocks[index]
    k, v = block.cross_attn.project_kv(case.given(f"{prefix}.context")[0])  # [Tc, H, d] each
    cross = torch.stack([k.flatten(-2), v.flatten(-2)]).expand(config.network.num_layers, -1, -1, -1)
    window: Window = (empty_kv(config, torch.float32, CPU),)
    chunk, start = 0, 0
    while f"{prefix}.c{chunk}.x" in case.tensors:
        start = chunk * config.num_frame_per_block
        kept = window
        window = _block_chunk(case, config, block, cross, window, f"{prefix}.c{chunk}", start)
        chunk += 1
    held = (*kept, window[-1])
    keys, values = self_cache(config, held, start, index, case.given(f"{prefix}.kv.k").shape[1])
    case.compare(f"{prefix}.kv.k", keys[None])
    case.compare(f"{prefix}.kv.v", values[None])
    case.compare(f"{prefix}.cross.k", k[None])
    case.compare(f"{prefix}.cross.v", v[None])
    action_levels = fill_levels(config, start, 1) if block.action_model is not None else [0, 0]
    levels = fill_levels(config, start, config.frame_tokens) + action_levels
    case.compare(f"{prefix}.idx", torch.tensor(levels), 0.0)


def _block_chunk(
    case: Case, config: Config, block: Block, cross: torch.Tensor, window: Window, name: str, start: int
) -> Window:
    """One chunk through one block: compares what the case recorded, returns the window after it."""
    prefix = name.split(".", maxsplit=1)[0]
    frames = (config.num_frame_per_block, config.frame_tokens)
    x = case.given(f"{name}.x")[0].unflatten(0, frames)  # [F, S, D]
    mouse = case.given_or_none(f"{prefix}.mouse")
    keyboard, mouse = action_windows(
        config, case.given(f"{prefix}.keyboard")[0], None if mouse is None else mouse[0], start
    )
    reach = build_reach(config, window, start)
    chunk = ChunkInput(x.new_empty(0), keyboard, mouse, cross, reach)
    if f"{name}.self_attn_out" in case.tensors:
        case.compare(f"{name}.self_attn_out", block.attend_window(x, reach)[0].flatten(0, 1)[None])
    if f"{name}.cross_attn_out" in case.tensors:
        case.compare(f"{name}.cross_attn_out", block.attend_context(block.norm3(x), cross).flatten(0, 1)[None])
    past = None
    position = _action_position(config, block.index)
    if position is not None:
        past = reach.action_past[position]
    y, own, own_action = block(x, case.given(f"{name}.e")[0], chunk, past)
    case.compare(f"{name}.y", y.flatten(0, 1)[None])
    return slid(config, window, lone_kv(config, start, block.index, own, position, own_action))


def _action_position(config: Config, block_index: int) -> int | None:
    """Which of the action blocks this block is, or None."""
    action = config.network.action
    if action is None or block_index not in action.blocks:
        return None
    return sorted(action.blocks).index(block_index)


def model(case: Case) -> None:
    """Case d: the whole transformer for one chunk, its activations, and a chunk at the last native latent."""
    config = config_of(case)
    network = network_of(case, config)
    mouse = case.given_or_none("mouse")
    cut = action_windows(config, case.given("keyboard")[0], None if mouse is None else mouse[0], 0)
    chunk = _chunk_input(case, config, network, cut, 0)
    flow, _ = network(case.given("x")[0], case.given("t")[0], chunk)
    case.compare("flow", flow[None])
    case.compare_present("flow_train_style", flow[None])
    _activations(case, network, chunk)
    for start in sorted({int(name[5:].partition(".")[0]) for name in case.tensors if name.startswith("limit")}):
        rows = 1 + 4 * (start + config.num_frame_per_block - 1)
        keyboard = case.given(f"limit{start}.keyboard_tail")[0]
        tail = case.given_or_none(f"limit{start}.mouse_tail")
        cut = action_windows(config, keyboard, None if tail is None else tail[0], start, rows - len(keyboard))
        flow, _ = network(case.given("x")[0], case.given("t")[0], _chunk_input(case, config, network, cut, start))
        case.compare(f"limit{start}.flow", flow[None])


def _chunk_input(
    case: Case, config: Config, network: Transformer, cut: tuple[torch.Tensor, torch.Tensor | None], start: int
) -> ChunkInput:
    reach = build_reach(config, (empty_kv(config, torch.float32, CPU),), start)
    cross = network.cross_kv(case.given("visual_context")[0])
    return ChunkInput(case.given("cond_concat")[0], cut[0], cut[1], cross, reach)


def _activations(case: Case, network: Transformer, chunk: ChunkInput) -> None:
    patches = network.embed_patches(case.given("x")[0], chunk.cond)
    case.compare("act.patch", patches[None])
    time, time_proj = network.embed_time(case.given("t")[0])
    case.compare("act.time_emb", time)
    case.compare("act.time_proj", time_proj.flatten(1))
    case.compare("act.context", network.img_emb(case.given("visual_context")[0])[None])
    tokens = patches.flatten(2).permute(1, 2, 0)  # [F, S, D]
    pasts = iter(chunk.reach.action_past)
    for index, block in enumerate(network.blocks):
        past = next(pasts) if block.action_model is not None else None
        tokens, _, _ = block(tokens, time_proj, chunk, past)
        case.compare_present(f"act.block{index}", tokens.flatten(0, 1)[None])
    flow = unpatched(network.head(tokens, time), patches.shape[2:], network.config.patch_size)
    case.compare("flow", flow[None])
