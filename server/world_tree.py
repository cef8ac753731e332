"""A world's tree of moments as text: only where something begins, forks, is kept or ends. Pure; any thread."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from server.moments import NO_MOMENT, Moment
from server.world_log import WorldLog

MAX_DEPTH = 40  # branches of branches; a deeper one is only named


@dataclass(frozen=True, slots=True)
class Stretch:
    """Moments in a line, up to one worth drawing."""

    last: Moment
    num_chunks: int
    num_stale: int


def tree_lines(log: WorldLog) -> list[str]:
    """The tree, oldest first: what forks off is indented, the line that goes on stays in its column."""
    tree = _Tree(log)
    lines = [line for root in tree.children[NO_MOMENT] for line in tree.drawn(root, 0)]
    return lines or ["nothing was drawn yet"]


class _Tree:
    """The log's moments as a tree. Ids ascend from parent to child."""

    def __init__(self, log: WorldLog) -> None:
        self._moments = log.moments
        self._labels = _labels(log)
        self.children: defaultdict[int, list[int]] = defaultdict(list)
        newest: dict[int, int] = {}
        for number in sorted(log.moments, reverse=True):
            newest.setdefault(number, number)
            parent = log.moments[number].parent
            parent = parent if parent in log.moments and parent < number else NO_MOMENT
            self.children[parent].append(number)
            newest[parent] = max(newest.get(parent, NO_MOMENT), newest[number])
        for children in self.children.values():
            children.sort(
                key=newest.__getitem__
            )  # the line that reaches the newest moment goes on, the others fork off

    def drawn(self, first: int, depth: int) -> Iterator[str]:
        """One line of moments from `first` to its end, with what forks off it."""
        at: int | None = first
        while at is not None:
            stretch = self._stretch(at)
            if stretch.num_chunks > 1:
                yield f"│   {_in_words(stretch)}"
            yield f"●   {self._name(stretch.last)}"
            *sides, at = self.children.get(stretch.last.id) or [None]
            for side in sides:
                yield from self._side(side, depth) if side is not None else ()

    def _side(self, first: int, depth: int) -> Iterator[str]:
        if depth >= MAX_DEPTH:
            yield f"├─… from moment {first} on, not drawn"
            return
        yield "├─╮"
        yield from (f"│ {line}" for line in self.drawn(first, depth + 1))

    def _stretch(self, first: int) -> Stretch:
        at, num_chunks, num_stale = self._moments[first], 1, int(self._moments[first].stale)
        while len(after := self.children.get(at.id, [])) == 1 and at.id not in self._labels:
            coming = self._moments[after[0]]
            if coming.seeded != at.seeded:
                break
            at = coming
            num_chunks += 1
            num_stale += at.stale
        return Stretch(at, num_chunks, num_stale)

    def _name(self, moment: Moment) -> str:
        words = list(self._labels.get(moment.id, []))
        num_after = len(self.children.get(moment.id, []))
        if moment.seeded:
            words.insert(0, "what the world began with")
        if num_after > 1:
            words.append(f"{num_after} ways on")
        if not num_after and not words:
            words.append("nothing follows")
        return f"moment {moment.id}  chunk {moment.chunk_index}  {', '.join(words)}"


def _labels(log: WorldLog) -> Mapping[int, list[str]]:
    found: defaultdict[int, list[str]] = defaultdict(list)
    for kept in log.snapshots.values():
        found[kept.moment].append(f'snapshot "{kept.name}"')
    for branch in log.branches:
        if (head := log.head(branch)) is not None:
            found[head].append(f"head of {branch}")
    return dict(found)


def _in_words(stretch: Stretch) -> str:
    stale = f", {stretch.num_stale} with a stale recall" if stretch.num_stale else ""
    return f"{stretch.num_chunks} chunks{stale}"
