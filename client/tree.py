"""A world's timeline as rows, newest first, each in a lane, like a version history. Pure; the player's thread.

A branch of the tree that leads to where the player stands keeps the first lane; at a fork one child goes on in its
parent's lane, the others begin lanes of their own.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from shared.protocol import Tree

MAX_LANES = 10
SNAPSHOT_MARK = "*"


@dataclass(frozen=True, slots=True)
class Row:
    """A node to draw. `branches` have their head here; `snapshots` keep it. `parent_row` is -1 for the first moment."""

    moment: int
    chunk: int
    lane: int
    parent_row: int
    is_here: bool
    num_children: int = 0
    snapshots: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()

    @property
    def target(self) -> str:
        """The snapshot or branch by which one gets here; "" when there is none."""
        names = (*self.snapshots, *self.branches)
        return names[0] if names else ""


def rows_of(tree: Tree) -> list[Row]:
    """The nodes as rows, the newest moment first. Parents that are not among them count as absent."""
    parents = {moment: parent for moment, parent, _, _ in tree.nodes}
    order = sorted(parents, reverse=True)
    lanes = _lanes(parents, tree.here)
    row_of = {moment: index for index, moment in enumerate(order)}
    children = Counter(parents.values())
    facts = {moment: (chunk, label) for moment, _, chunk, label in tree.nodes}
    rows: list[Row] = []
    for moment in order:
        chunk, label = facts[moment]
        names = [name for name in label.split(", ") if name]
        rows.append(
            Row(
                moment=moment,
                chunk=chunk,
                lane=min(MAX_LANES - 1, lanes[moment]),
                parent_row=row_of.get(parents[moment], -1),
                is_here=moment == tree.here,
                num_children=children[moment],
                snapshots=tuple(name[1:] for name in names if name.startswith(SNAPSHOT_MARK)),
                branches=tuple(name for name in names if not name.startswith(SNAPSHOT_MARK)),
            )
        )
    return rows


def _lanes(parents: Mapping[int, int], here: int) -> dict[int, int]:
    """Moment to lane. A parent has a lower id than its children, so ascending ids visit it first."""
    line: set[int] = set()
    at = here
    while at in parents and at not in line:
        line.add(at)
        at = parents[at]
    newest: dict[int, int] = {}  # moment -> newest moment that descends from it
    for moment in sorted(parents, reverse=True):
        newest.setdefault(moment, moment)
        parent = parents[moment]
        newest[parent] = max(newest.get(parent, parent), newest[moment])
    heirs: dict[int, int] = {}  # parent -> the child that stays in its lane
    for moment, parent in parents.items():
        rank = (moment in line, newest[moment])
        best = heirs.get(parent)
        if best is None or rank > (best in line, newest[best]):
            heirs[parent] = moment
    lanes: dict[int, int] = {}
    next_lane = 1
    for moment in sorted(parents, key=lambda one: (one not in line, one)):
        parent = parents[moment]
        if moment in line:
            lanes[moment] = 0
        elif parent in lanes and heirs.get(parent) == moment:
            lanes[moment] = lanes[parent]
        else:
            lanes[moment] = next_lane
            next_lane += 1
    return lanes


def text_of(row: Row) -> str:
    """A row in words."""
    parts = [f"★ {name}" for name in row.snapshots]
    parts += [name if name.startswith("branch") else f"branch {name}" for name in row.branches]
    if row.is_here:
        parts.append("you are here")
    if not parts:
        parts = ["the beginning" if row.parent_row < 0 else "ways part here" if row.num_children else "walked and left"]
    return " · ".join(parts)


def step(rows: list[Row], chosen: int | None, by: int) -> int | None:
    """The moment of the next row up (-1) or down (+1) that can be gone to; the same one when there is none."""
    names = [row.moment for row in rows if row.target]
    if not names:
        return None
    if chosen not in names:
        return names[0]
    return names[max(0, min(len(names) - 1, names.index(chosen) + by))]
