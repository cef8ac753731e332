"""`python -m bench planner`: what a planner gets from states that can be held. A search, and rollouts a second.

The search walks away from a view, then looks for the way back: breadth first, by going to a held state and trying each
action there. It knows that it is back by the picture alone. The rollouts begin at one state again and again: by going
back to it, by forking it, and, as one must without either, by drawing the whole walk up to it anew.
"""

import argparse
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import cast

import numpy as np
import torch

from bench.planner_picture import draw_search
from bench.report import command_line, write_report
from models.base import Pixels
from server.environment import ACTIONS, BACK, FORWARD, TURN_LEFT, TURN_RIGHT, Handle, WorldEnv
from shared.pose import Pose, wrap_rad

SEED = 900_300
CHUNKS_PER_ACTION = 3
AWAY = (TURN_RIGHT, FORWARD, FORWARD, TURN_RIGHT)
UNDOES = {FORWARD: BACK, BACK: FORWARD, TURN_LEFT: TURN_RIGHT, TURN_RIGHT: TURN_LEFT}  # and what is tried
SAME_VIEW_DB = 24.0  # a place seen again through memory comes to about 30 dB, another view of the room to 12
CELL_M, CELL_RAD = 0.05, 0.05  # poses nearer than this are one node of the search
PREFIX, ROLLOUT, REPEATS = 16, 4, 5
NUM_FORKS = 200


@dataclass(frozen=True, slots=True)
class Node:
    """One state of the search: how it was reached, and what is seen there."""

    handle: Handle
    pose: Pose
    seen: Pixels
    parent: int  # -1: the search began here
    action: int


@dataclass(frozen=True, slots=True)
class Search:
    """What a search found: every node in the order of finding, the view it looked for, and the node that shows it."""

    goal: Pixels
    nodes: list[Node]
    found: int | None
    best_db: float

    def way(self) -> list[int]:
        """The nodes from the beginning to the one that was found."""
        line, at = list[int](), self.found if self.found is not None else -1
        while at >= 0:
            line.append(at)
            at = self.nodes[at].parent
        return line[::-1]


def psnr_db(one: Pixels, other: Pixels) -> float:
    """Peak signal-to-noise ratio of two pictures, in dB."""
    error = float(np.mean((one.astype(np.float64) - other) ** 2))
    return 10.0 * float(np.log10(255.0**2 / max(error, 1e-3)))


def act(env: WorldEnv, action: int) -> tuple[Pixels, Pose]:
    """One action of the search: the same one for a few chunks."""
    seen, info = env.walk.pixels, dict[str, object]()
    for _ in range(CHUNKS_PER_ACTION):
        seen, _, _, _, info = env.step(np.int64(action))
    return seen, Pose(*cast(tuple[float, ...], info["pose"]))


def search(env: WorldEnv, limit: int) -> Search:
    """Walk away from what is seen now, then find the way back, trying at most `limit` states."""
    goal = env.walk.pixels
    seen, pose = goal, env.walk.head.state.pose
    for action in AWAY:
        seen, pose = act(env, action)
    nodes = [Node(env.snapshot(), pose, seen, -1, -1)]
    known = {_cell(pose)}
    best_db = psnr_db(seen, goal)
    frontier = deque([0])
    while frontier and len(nodes) < limit:
        at = frontier.popleft()
        for action, undoing in UNDOES.items():
            if undoing == nodes[at].action:
                continue  # it leads to where this came from
            env.restore(nodes[at].handle)
            seen, pose = act(env, action)
            if _cell(pose) in known:
                continue
            known.add(_cell(pose))
            nodes.append(Node(env.snapshot(), pose, seen, at, action))
            frontier.append(len(nodes) - 1)
            best_db = max(best_db, psnr_db(seen, goal))
            if psnr_db(seen, goal) >= SAME_VIEW_DB:
                return Search(goal, nodes, len(nodes) - 1, best_db)
    return Search(goal, nodes, None, best_db)


def _cell(pose: Pose) -> tuple[int, int, int]:
    yaw = wrap_rad(pose.yaw_rad + 0.5 * CELL_RAD)
    return round(pose.x_m / CELL_M), round(pose.z_m / CELL_M), round(yaw / CELL_RAD)


def rollouts(env: WorldEnv) -> dict[str, float]:
    """Rollouts a second from one state, three ways, in one run; and forks a second, without a rollout."""

    def drawn_again() -> None:
        _stand(env)
        _roll(env)

    def gone_back_to() -> None:
        env.restore(here)
        _roll(env)

    def forked() -> None:
        env.restore(here)
        other = env.fork()
        _roll(other)
        other.close()

    drawn_again()  # warms up
    here = _stand(env)
    rounds = [(_seconds(gone_back_to), _seconds(forked)) for _ in range(REPEATS)]
    restore_s, fork_s = (median(each) for each in zip(*rounds, strict=True))
    rerun_s = median([_seconds(drawn_again) for _ in range(REPEATS)])  # last: it leaves the world of `here`
    return {
        "rollouts_per_s_restore": round(1.0 / restore_s, 3),
        "rollouts_per_s_fork": round(1.0 / fork_s, 3),
        "rollouts_per_s_rerun": round(1.0 / rerun_s, 3),
        "restore_over_rerun": round(rerun_s / restore_s, 2),
        "forks_per_s": round(_forks_per_s(env), 1),
    }


def _stand(env: WorldEnv) -> Handle:
    """Where every rollout begins: a new world, and a walk in it."""
    env.reset(seed=SEED)
    for index in range(PREFIX):
        env.step(np.int64((FORWARD, TURN_LEFT, FORWARD, TURN_RIGHT)[index % 4]))
    return env.snapshot()


def _forks_per_s(env: WorldEnv) -> float:
    env.reset(seed=SEED)
    others: list[WorldEnv] = []
    taken_s = _seconds(lambda: others.extend(env.fork() for _ in range(NUM_FORKS)))
    for other in others:
        other.close()
    return NUM_FORKS / taken_s


def _roll(env: WorldEnv) -> None:
    for _ in range(ROLLOUT):
        env.step(np.int64(TURN_RIGHT))


def _seconds(work: Callable[[], None]) -> float:
    began_s = time.perf_counter()
    work()
    return time.perf_counter() - began_s


def main(argv: Sequence[str]) -> int:
    """Search, roll out, print; exit 1 when the way back was not found."""
    parser = argparse.ArgumentParser(prog="python -m bench planner", description=__doc__)
    parser.add_argument("--model", default="rooms", choices=["rooms", "plain"])
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--limit", type=int, default=1_000, help="states that the search may try")
    parser.add_argument("--picture", type=Path, metavar="PNG", help="the tree that was explored")
    parser.add_argument("--json", dest="path", metavar="PATH")
    options = parser.parse_args(argv)
    torch.set_grad_enabled(False)
    env = WorldEnv(options.model)
    env.reset(seed=options.seed)
    began_s = time.perf_counter()
    found = search(env, options.limit)
    search_s = time.perf_counter() - began_s
    if options.picture is not None:
        draw_search(options.picture, found)
    way = found.way()
    figures = {
        "found": found.found is not None,
        "view_psnr": round(found.best_db, 2),
        "tried_states": len(found.nodes),
        "search_s": round(search_s, 2),
        "way": [ACTIONS[found.nodes[at].action] for at in way[1:]],
        "away": [ACTIONS[action] for action in AWAY],
        "chunks_per_action": CHUNKS_PER_ACTION,
        "prefix_chunks": PREFIX,
        "rollout_chunks": ROLLOUT,
        **rollouts(env),
    }
    env.close()
    write_report(options.path, command_line(), figures)
    for name, value in figures.items():
        print(f"{name:24} {value}")
    return 0 if found.found is not None else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
