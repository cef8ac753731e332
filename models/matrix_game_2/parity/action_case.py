"""Case c: the action module of the first action block, alone, cached and cache-less."""

from dataclasses import replace

import torch

from models.matrix_game_2.action_module import ActionModule, ActionPast
from models.matrix_game_2.actions import windows
from models.matrix_game_2.config import Config
from models.matrix_game_2.parity.case import CPU, Case, config_of, network_of
from models.matrix_game_2.parity.native import action_cache, fill_levels
from models.matrix_game_2.transformer import KeysValues
from models.matrix_game_2.window import ChunkKV, Window, action_reach, empty_kv, slid

KEPT_TOKENS = 5  # case c keeps every fifth location of the mouse cache


def action_windows(
    config: Config, keyboard: torch.Tensor, mouse: torch.Tensor | None, start: int, first_row: int = 0
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The action windows of a chunk, cut out of rows `[R, K]` and `[R, 2]` that begin at `first_row`."""
    action = config.network.action
    assert action is not None
    cut = (start, config.num_frame_per_block, action.vae_time_compression_ratio, action.window_rows, first_row)
    return windows(keyboard, *cut), None if mouse is None else windows(mouse, *cut)


def lone_kv(
    config: Config,
    start: int,
    layer: int,
    own: KeysValues | None,
    position: int | None,
    own_action: ActionPast | None,
) -> ChunkKV:
    """A chunk's K,V in which only one block's, or one action module's, is filled."""
    action = config.network.action
    assert action is not None
    frames, network, count = config.num_frame_per_block, config.network, len(action.blocks)
    self_kv = torch.zeros(network.num_layers, 2, config.chunk_tokens, network.dim)  # [L, 2, N, D]
    keyboard_kv = torch.zeros(count, 2, frames, action.keyboard_hidden_dim)  # [A, 2, F, Wk]
    mouse_kv = None
    if action.enable_mouse:
        mouse_kv = torch.zeros(count, 2, config.frame_tokens, frames, action.mouse_hidden_dim)  # [A, 2, S, F, Wm]
    if own is not None:
        self_kv[layer] = torch.stack([part.flatten(-2) for part in own])
    if position is not None and own_action is not None:
        keyboard_kv[position] = own_action.keyboard
        if mouse_kv is not None and own_action.mouse is not None:
            mouse_kv[position] = own_action.mouse
    return ChunkKV(start, self_kv, keyboard_kv, mouse_kv)


def action(case: Case) -> None:
    """Case c: the first block's action module, alone, in all its recorded forms.

    The cache-less forms are the cached one from an empty cache: the block-causal mask [end - window, end) is what the
    rolling cache holds (spec 5).
    """
    config = config_of(case)
    network = network_of(case, config)
    assert config.network.action is not None
    first = min(config.network.action.blocks)
    module = network.blocks[first].action_model
    assert module is not None
    for form in ("train", "bidir", "train9"):
        if f"{form}.y" in case.tensors:
            _whole_clip(case, config, module, form)
    window: Window = (empty_kv(config, torch.float32, CPU),)
    held: list[Window] = []
    while f"cached.c{len(held)}.x" in case.tensors:
        start = len(held) * config.num_frame_per_block
        after = _cached_chunk(case, config, module, window, start)
        held.append((*window, after[-1]))
        window = after
    _recorded_caches(case, config, held)


def _whole_clip(case: Case, config: Config, module: ActionModule, form: str) -> None:
    source = "train" if form == "bidir" else form
    x = case.given(f"{source}.x")[0]
    frames = len(x) // config.frame_tokens
    mouse = case.given_or_none(f"{source}.mouse")
    keyboard = case.given(f"{source}.keyboard")[0]
    if form == "bidir":
        config = replace(config, num_frame_per_block=frames)
    window: Window = (empty_kv(config, torch.float32, CPU),)
    outputs: list[torch.Tensor] = []
    step = config.num_frame_per_block
    for start in range(0, frames, step):
        part = x[start * config.frame_tokens : (start + step) * config.frame_tokens]
        cut = action_windows(config, keyboard, None if mouse is None else mouse[0], start)
        y, window = _module_chunk(config, module, part, cut, window, start)
        outputs.append(y)
    case.compare(f"{form}.y", torch.cat(outputs)[None])


def _module_chunk(
    config: Config,
    module: ActionModule,
    x: torch.Tensor,
    cut: tuple[torch.Tensor, torch.Tensor | None],
    window: Window,
    start: int,
) -> tuple[torch.Tensor, Window]:
    """Tokens `x [N, D]` of one chunk through the module: `[N, D]`, and the window after it."""
    own_frames = tuple(range(start, start + config.num_frame_per_block))
    turns, pasts = action_reach(config, window, start, own_frames)
    shape = (config.num_frame_per_block, config.frame_tokens)
    y, own = module(x.unflatten(0, shape), cut[0], cut[1], pasts[0], turns)
    return y.flatten(0, 1), slid(config, window, lone_kv(config, start, 0, None, 0, own))


def _cached_chunk(case: Case, config: Config, module: ActionModule, window: Window, start: int) -> Window:
    """One chunk through the module; compares what does not lie in a cache."""
    name = f"cached.c{start // config.num_frame_per_block}"
    mouse = case.given_or_none("cached.mouse")
    cut = action_windows(config, case.given("cached.keyboard")[0], None if mouse is None else mouse[0], start)
    y, after = _module_chunk(config, module, case.given(f"{name}.x")[0], cut, window, start)
    case.compare(f"{name}.y", y[None])
    case.compare_present(f"{name}.kb_window_embedded", module.embedded_windows(cut[0]))
    if cut[1] is not None:
        case.compare_present(f"{name}.mouse_window", cut[1].flatten(1))
    levels = fill_levels(config, start, 1)
    case.compare_present(f"{name}.idx", torch.tensor((levels if module.config.enable_mouse else [0, 0]) + levels), 0.0)
    return after


def _recorded_caches(case: Case, config: Config, held: list[Window]) -> None:
    """The caches recorded after some chunks.

    Upstream's cache is one buffer that is written in place, and the recordings made before the last chunk are views of
    it: they show what it held in the end (in the recorded set c1 equals c4 bit for bit, with c1's own fill levels).
    Where a recording equals the last one it is therefore compared with the last chunk's cache.
    """
    for which, step in (("kvk", 1), ("kvm", KEPT_TOKENS)):
        chunks = [i for i in range(len(held)) if f"cached.c{i}.{which}.k" in case.tensors]
        for chunk in chunks:
            last, now = (case.given(f"cached.c{i}.{which}.k") for i in (chunks[-1], chunk))
            true_chunk = len(held) - 1 if torch.equal(last, now) else chunk
            start = true_chunk * config.num_frame_per_block
            keys, values = action_cache(config, held[true_chunk], start, 0, now.shape[1], is_mouse=which == "kvm")
            shown = slice(None, None, step) if which == "kvm" else None  # None adds the batch axis
            case.compare(f"cached.c{chunk}.{which}.k", keys[shown])
            case.compare(f"cached.c{chunk}.{which}.v", values[shown])
