"""Before a server says ready, what is slow once is over, and nothing of it is left."""

from collections.abc import Generator, Sequence

import torch

from models.base import DrawnFrame, ModelState, Recall, Step
from models.plain import PlainModel
from models.warm_up import warm_up
from shared.controls import Controls


class Watched(PlainModel):
    """The plain model, which says what it was asked to draw with."""

    def __init__(self) -> None:
        super().__init__()
        self.recalls: list[list[int]] = []

    def step(
        self, state: ModelState, controls: Sequence[Controls], recall: Recall
    ) -> Generator[DrawnFrame, None, Step]:
        self.recalls.append([block.chunk_index for block in recall])
        assert all(block.chunk_index < state.window_start for block in recall), "a block of the window was recalled"
        assert all(block.kv.dtype is self.dtype and tuple(block.kv.shape) == self.kv_spec.shape for block in recall)
        return (yield from super().step(state, controls, recall))


def test_the_last_chunk_is_drawn_with_a_full_recall() -> None:
    model, shares = Watched(), list[float]()
    assert warm_up(model, shares.append)
    assert len(model.recalls) == model.window_chunks + 2
    assert [len(recall) for recall in model.recalls[:-1]] == [0] * (model.window_chunks + 1)
    assert len(model.recalls[-1]) == model.max_recall
    assert shares == sorted(shares)
    assert 0.0 < shares[0] < shares[-1] <= 1.0


def test_a_model_that_is_too_slow_is_not_waited_for() -> None:
    model = Watched()
    assert not warm_up(model, lambda _: None, longest_s=-1.0)
    assert model.recalls == []


def test_it_changes_nothing_that_is_drawn_later() -> None:
    cold, warm = PlainModel(), PlainModel()
    warm_up(warm, lambda _: None)
    before, after = cold.begin(7), warm.begin(7)
    for one, other in zip(before.chunks, after.chunks, strict=True):
        assert all((a.pixels == b.pixels).all() for a, b in zip(one.frames, other.frames, strict=True))
        if one.block is not None and other.block is not None:
            torch.testing.assert_close(one.block.kv, other.block.kv, rtol=0, atol=0)
