"""Action rows: what keys and mouse mean to each variant, and which rows a latent frame looks at. Pure; any thread.

One row belongs to one pixel frame: row j drives the step from frame j to frame j + 1 (spec 5). Keyboard rows are `[K]`,
mouse rows `[pitch, yaw]` (spec 2: up and right are positive, the vertical one comes first).
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from shared.controls import Controls, Key

UPSTREAM_STEP = 0.1  # the only mouse magnitude that upstream ever sends, spec 2
TEMPLERUN_SLOTS = ("nomove", "jump", "slide", "turnleft", "turnright", "leftside", "rightside")  # spec 2
HOLD_ROWS = 12  # pixel rows that a typed action is held for: one chunk


@dataclass(frozen=True, slots=True)
class ActionRows:
    """Consecutive action rows, `keyboard [R, K]` and `mouse [R, 2]` (None where the variant has no mouse)."""

    keyboard: torch.Tensor
    mouse: torch.Tensor | None

    def followed_by(self, later: "ActionRows") -> "ActionRows":
        """These rows and `later` behind them, as a new value."""
        mouse = None
        if self.mouse is not None and later.mouse is not None:
            mouse = torch.cat([self.mouse, later.mouse])  # [R + R', 2]
        return ActionRows(torch.cat([self.keyboard, later.keyboard]), mouse)

    def last(self, count: int) -> "ActionRows":
        """The last `count` rows, copied, so that no longer history stays alive behind them."""
        mouse = None if self.mouse is None else self.mouse[-count:].clone()
        return ActionRows(self.keyboard[-count:].clone(), mouse)


def windows(rows: torch.Tensor, start: int, frames: int, ratio: int, width: int, first_row: int = 0) -> torch.Tensor:
    """`[F, width, C]`: latent frame n sees rows ratio*n - width .. ratio*n - 1, a row below 0 meaning row 0 (spec 5).

    `rows [R, C]` begin at absolute row `first_row`.
    """
    wanted = [
        [max(0, ratio * latent - width + i) - first_row for i in range(width)]
        for latent in range(start, start + frames)
    ]
    return rows[torch.tensor(wanted, device=rows.device)]  # [F, width, C]


def keyboard_vector(controls: Controls, kind: str, size: int) -> list[float]:
    """The keyboard row `[size]` of a control (spec 2)."""
    keys = controls.keys
    if kind == "templerun":
        slot = _templerun_slot(controls)
        return [float(i == slot) for i in range(size)]
    order = (Key.FORWARD, Key.BACK, Key.LEFT, Key.RIGHT) if kind == "universal" else (Key.FORWARD, Key.BACK)
    held = [float(key in keys) for key in order]
    return (held + [0.0] * size)[:size]


def _templerun_slot(controls: Controls) -> int:
    """Turning by mouse comes first, then the keys in the order jump, slide, left, right; no move is slot 0."""
    if controls.mouse_dx:
        return TEMPLERUN_SLOTS.index("turnright" if controls.mouse_dx > 0 else "turnleft")
    by_key = {Key.FORWARD: "jump", Key.BACK: "slide", Key.LEFT: "leftside", Key.RIGHT: "rightside"}
    for key, name in by_key.items():
        if key in controls.keys:
            return TEMPLERUN_SLOTS.index(name)
    return 0


def typed_vectors(kind: str, typed: Sequence[str]) -> tuple[list[float], list[float] | None]:
    """Keyboard row and mouse row of what upstream's interactive script is typed (spec 2 and case h)."""
    letters = [letter for text in typed for letter in text.split()]
    if kind == "templerun":
        slots = {"q": 0, "w": 1, "s": 2, "z": 3, "c": 4, "a": 5, "d": 6}
        return [float(i == slots[letters[0]]) for i in range(len(TEMPLERUN_SLOTS))], None
    if kind == "gta_drive":
        yaw = UPSTREAM_STEP * (("d" in letters) - ("a" in letters))
        return [float("w" in letters), float("s" in letters)], [0.0, yaw]
    pitch = UPSTREAM_STEP * (("i" in letters) - ("k" in letters))
    yaw = UPSTREAM_STEP * (("l" in letters) - ("j" in letters))
    return [float(letter in letters) for letter in "wsad"], [pitch, yaw]


def typed_rows(held: Sequence[Sequence[float]], frames: int, ratio: int = 4) -> torch.Tensor:
    """All rows `[1 + ratio*(frames*chunks - 1), C]` after each chunk's vector was written over its rows (spec 8)."""
    rows: list[Sequence[float]] = []
    for chunk, vector in enumerate(held):
        rows += [vector] * (1 + ratio * (frames * (chunk + 1) - 1) - len(rows))
    return torch.tensor(rows)


def bench_rows(kind: str, num_rows: int, rng: random.Random) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Random rows `[R, K]` and `[R, 2]`, picks held for 12 rows after a first row of its own (case h).

    The specification names the procedure only as "random picks held for 12 frames". The order of the draws (a hold
    length, then a pick) and the lists were found by trial against case h: all 18 of its picks are reproduced, but other
    lists fit them too (docs/matrix-game-2.md).
    """
    picks = _bench_picks(kind)
    rows: list[Mapping[str, list[float]]] = []
    while len(rows) < num_rows:
        rng.randint(0, 0)  # upstream draws a hold length among one: it costs random bits
        pick = picks[rng.randint(0, len(picks) - 1)]
        rows += [pick] * (1 if not rows else min(HOLD_ROWS, num_rows - len(rows)))
    keyboard = torch.tensor([row["keyboard"] for row in rows])  # [R, K]
    if kind == "templerun":
        return keyboard, None
    return keyboard, torch.tensor([row["mouse"] for row in rows])  # [R, 2]


def _bench_picks(kind: str) -> list[dict[str, list[float]]]:
    if kind == "templerun":
        names = ("jump", "slide", "leftside", "rightside", "turnleft", "turnright", "nomove")
        return [{"keyboard": [float(slot == name) for slot in TEMPLERUN_SLOTS]} for name in names]
    if kind == "gta_drive":
        typed = ["a", "d"] * 2 + ["w", "s"] * 2 + [f"{key} {side}" for key in "ws" for side in "ad"]
    else:
        walks = ["w a", "w d", "w", "a", "d"]
        typed = ["w a", "w d"] * 5 + ["j", "l"] * 5 + ["w", "a", "d"] * 5
        typed += [f"{walk} {look}" for walk in walks for look in "jl"]
    vectors = [typed_vectors(kind, [text]) for text in typed]
    return [{"keyboard": keyboard, "mouse": mouse or [0.0, 0.0]} for keyboard, mouse in vectors]
