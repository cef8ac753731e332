"""The gymnasium environment: gymnasium's own checks, and what snapshot, restore and fork promise, byte for byte."""

from collections.abc import Iterator

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from models.base import Pixels
from server.environment import FORWARD, STAND, TURN_LEFT, TURN_RIGHT, WorldEnv, forks

OUT = (FORWARD, FORWARD, TURN_LEFT, FORWARD)
ELSEWHERE = (TURN_RIGHT, TURN_RIGHT, FORWARD, TURN_RIGHT, FORWARD, STAND)


@pytest.fixture
def env() -> Iterator[WorldEnv]:
    made = WorldEnv("rooms", render_mode="rgb_array")
    made.reset(seed=3)
    yield made
    made.close()


def walked(env: WorldEnv, actions: tuple[int, ...]) -> list[Pixels]:
    return [env.step(np.int64(action))[0] for action in actions]


def same(one: list[Pixels], other: list[Pixels]) -> bool:
    return len(one) == len(other) and all((a == b).all() for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("model", ["plain", "rooms"])
@pytest.mark.filterwarnings("error::UserWarning")
def test_it_passes_gymnasiums_own_checks(model: str) -> None:
    made = gymnasium.make("server.environment:worldpager/World-v0", model=model, render_mode="rgb_array").unwrapped
    check_env(made)


def test_restored_it_goes_on_as_if_it_had_never_left(env: WorldEnv) -> None:
    walked(env, (FORWARD, TURN_LEFT))
    here = env.snapshot()
    stayed = walked(env, OUT)
    env.restore(here)
    walked(env, ELSEWHERE)
    seen, info = env.restore(here)
    assert (seen == here.head.frame.pixels).all()  # pyright: ignore[reportOptionalMemberAccess] - it has one
    assert info["moment"] == here.head.moment
    assert same(walked(env, OUT), stayed)


def test_forks_draw_the_same_until_their_actions_differ(env: WorldEnv) -> None:
    walked(env, (FORWARD,))
    left, right = forks(env, 2)
    assert same(walked(left, OUT), walked(right, OUT))
    assert not same(walked(left, (TURN_LEFT,) * 3), walked(right, (TURN_RIGHT,) * 3))
    assert same(walked(env, OUT)[:1], walked(env.fork(), ())) is False  # the first one did not move meanwhile
    left.close()
    right.close()


def test_a_fork_can_stand_where_another_one_was(env: WorldEnv) -> None:
    scout = env.fork()
    walked(scout, OUT)
    found = scout.snapshot()
    expected = walked(scout, ELSEWHERE)
    scout.close()
    env.restore(found)
    assert same(walked(env, ELSEWHERE), expected)


def test_a_fork_outlives_the_one_it_came_from() -> None:
    first = WorldEnv("plain")
    first.reset(seed=5)
    second = first.fork()
    first.close()
    assert second.step(np.int64(FORWARD))[0].shape == second.observation_space.shape
    second.close()
    second.close()


def test_a_handle_of_a_world_that_was_left_is_refused(env: WorldEnv) -> None:
    here = env.snapshot()
    env.reset(seed=4)
    with pytest.raises(ValueError, match="take a new one"):
        env.restore(here)


def test_an_episode_is_truncated_where_it_was_asked_to_be_also_after_going_back() -> None:
    env = WorldEnv("plain", max_chunks=3)
    env.reset(seed=1)
    env.step(np.int64(FORWARD))
    here = env.snapshot()
    assert [env.step(np.int64(FORWARD))[3] for _ in range(2)] == [False, True]
    env.restore(here)
    assert [env.step(np.int64(FORWARD))[3] for _ in range(2)] == [False, True]
    env.close()


def test_before_the_first_reset_it_says_what_to_do() -> None:
    env = WorldEnv("plain")
    with pytest.raises(gymnasium.error.ResetNeeded, match="reset"):
        env.step(np.int64(FORWARD))
    env.close()


def test_once_closed_it_says_so() -> None:
    env = WorldEnv("plain")
    env.reset(seed=1)
    env.close()
    for use in (env.reset, env.snapshot, lambda: env.step(np.int64(FORWARD))):
        with pytest.raises(gymnasium.error.ClosedEnvironmentError, match="make another one"):
            use()


def test_the_vector_form_is_as_exact_as_one_alone() -> None:
    name = "server.environment:worldpager/World-v0"
    several = gymnasium.make_vec(name, num_envs=2, vectorization_mode="sync", model="plain")
    several.reset(seed=[7, 8])  # pyright: ignore[reportArgumentType] - documented, and not in its types
    alone = WorldEnv("plain")
    alone.reset(seed=8)
    for action in OUT:
        seen, *_ = several.step(np.array([STAND, action]))
        assert (seen[1] == alone.step(np.int64(action))[0]).all()
    several.close()
    alone.close()
