"""WorldPager as a gymnasium environment: `gymnasium.make("server.environment:worldpager/World-v0")`.

Beyond gymnasium's own interface it has `snapshot`, `restore` and `fork`, which cost the same however long the walk is.
A step is one chunk and an observation its last frame; there is no goal, so the reward is 0 and an episode never
terminates by itself: wrap it in yours. Stepping is exact: the same actions from the same handle give the same bytes.
"""

from dataclasses import dataclass
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces

from models.base import Pixels, WorldModel
from server.config import load_settings
from server.head import Head
from server.load import load_model
from server.pager.budgets import Budgets
from server.simulator import Simulator, Walk
from shared.controls import Controls, Key
from shared.pose import MOUSE_RAD_PER_COUNT

ID = "worldpager/World-v0"
STAND, FORWARD, BACK, LEFT, RIGHT, TURN_LEFT, TURN_RIGHT = range(7)
ACTIONS = ("stand", "forward", "back", "left", "right", "turn left", "turn right")
_KEYS = {FORWARD: Key.FORWARD, BACK: Key.BACK, LEFT: Key.LEFT, RIGHT: Key.RIGHT}
_TURNS = {TURN_LEFT: -1.0, TURN_RIGHT: 1.0}


@dataclass(frozen=True, slots=True, eq=False)
class Handle:
    """A moment of an episode that can be gone back to, for as long as it is held and its world is open."""

    world: str
    head: Head
    num_steps: int

    @property
    def state_bytes(self) -> int:
        """Bytes of tensors that this state and its neighbours in the window hold."""
        return self.head.state.num_bytes


class Shared:
    """A simulator that environments share: forks of one another, and none else. The last one closes it."""

    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator
        self.num_users = 0

    def leave(self) -> None:
        self.num_users -= 1
        if self.num_users == 0:
            self.simulator.close()


class WorldEnv(gymnasium.Env[Pixels, np.int64]):
    """A walk through a generated world. Belongs to one thread, and so do its forks, together with it."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 6, "bit_exact": True}  # noqa: RUF012 - gymnasium's own form

    def __init__(
        self,
        model: str = "rooms",
        render_mode: str | None = None,
        max_chunks: int | None = None,
        forked_from: "WorldEnv | None" = None,
    ) -> None:
        """`model`: as the server's --model. An episode is truncated after `max_chunks`. `fork` gives `forked_from`."""
        self.render_mode = render_mode
        self.max_chunks = max_chunks
        self.shared = _load(model) if forked_from is None else forked_from.shared
        self.shared.num_users += 1
        self.num_steps = 0
        self._walk: Walk | None = None
        self._is_closed = False
        width, height = self.world_model.frame_size
        self.observation_space = spaces.Box(0, 255, (height, width, 3), np.uint8)
        self.action_space = spaces.Discrete(len(ACTIONS))
        if forked_from is not None:
            self._walk = self.shared.simulator.fork(forked_from.walk)
            self.num_steps = forked_from.num_steps

    @property
    def world_model(self) -> WorldModel:
        return self.shared.simulator.model

    @property
    def walk(self) -> Walk:
        """The walk under way. Raises ResetNeeded before the first `reset`, ClosedEnvironmentError after `close`."""
        if self._is_closed:
            raise gymnasium.error.ClosedEnvironmentError("this environment was closed: make another one")
        if self._walk is None:
            raise gymnasium.error.ResetNeeded("call reset() first: it begins a world")
        return self._walk

    # ---- gymnasium's interface ----

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Pixels, dict[str, Any]]:
        """Begin a new world. The same seed begins the same one; handles of the last one are of no use any more."""
        if self._is_closed:
            raise gymnasium.error.ClosedEnvironmentError("this environment was closed: make another one")
        super().reset(seed=seed)
        world_seed = int(self.np_random.integers(2**31))
        self._end_walk()
        self._walk = self.shared.simulator.begin(world_seed)
        self.num_steps = 0
        return self._seen(), self._info()

    def step(self, action: np.int64) -> tuple[Pixels, SupportsFloat, bool, bool, dict[str, Any]]:
        """Draw one chunk. The world has no goal: the reward is 0, and it is never terminated."""
        self.walk.step(controls_of(int(action), self.world_model))
        self.num_steps += 1
        is_truncated = self.max_chunks is not None and self.num_steps >= self.max_chunks
        return self._seen(), 0.0, False, is_truncated, self._info()

    def render(self) -> Pixels | None:  # pyright: ignore[reportIncompatibleMethodOverride] - gymnasium types frames of any renderer
        """The newest frame, in render mode "rgb_array"."""
        return self._seen() if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        """End the walk. May be called twice."""
        if not self._is_closed:
            self._is_closed = True
            self._end_walk()
            self.shared.leave()

    # ---- what the product adds ----

    def snapshot(self) -> Handle:
        """This moment. O(1), and copies nothing."""
        walk = self.walk
        return Handle(walk.session.world, walk.head, self.num_steps)

    def restore(self, handle: Handle) -> tuple[Pixels, dict[str, Any]]:
        """Go back, or across, to a moment of this world; also one that a fork of this environment saw. O(1).

        Raises ValueError for a handle of another world.
        """
        if handle.world != self.walk.session.world:
            raise ValueError("this handle belongs to a world that was left with reset(): take a new one")
        self.walk.go_to(handle.head)
        self.num_steps = handle.num_steps
        return self._seen(), self._info()

    def fork(self) -> "WorldEnv":
        """Another environment that stands where this one does. O(1); it shares the model, the world and its memory."""
        return WorldEnv(render_mode=self.render_mode, max_chunks=self.max_chunks, forked_from=self)

    # ----

    def _seen(self) -> Pixels:
        return self.walk.pixels.copy()

    def _info(self) -> dict[str, Any]:
        head = self.walk.head
        return {"moment": head.moment, "chunk": head.chunk_index, "pose": head.state.pose.as_tuple()}

    def _end_walk(self) -> None:
        if self._walk is not None:
            self.shared.simulator.end(self._walk)
            self._walk = None


def controls_of(action: int, model: WorldModel) -> list[Controls]:
    """The controls of one chunk's frames. Turning is as fast as the model can draw."""
    counts = model.motion.turn_rad_s / model.fps / MOUSE_RAD_PER_COUNT
    held = Controls(_KEYS.get(action, Key(0)), _TURNS.get(action, 0.0) * counts)
    return [held] * model.frames_per_chunk


def forks(env: WorldEnv, num: int) -> list[WorldEnv]:
    """So many forks of one environment, to be stepped one after another."""
    return [env.fork() for _ in range(num)]


def _load(model: str) -> Shared:
    settings = load_settings({"model": model}, {}).settings
    budgets = Budgets(settings.gpu_bytes, settings.dram_bytes, settings.nvme_bytes)
    return Shared(Simulator(load_model(settings), budgets))


gymnasium.register(ID, entry_point="server.environment:WorldEnv")  # pyright: ignore[reportUnknownMemberType] - gymnasium's own types
