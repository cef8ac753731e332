"""torch.compile of the tiny network: it draws the same up to rounding, and warming up leaves nothing to compile."""

import pytest
import torch

from models.base import FreshBlock, ModelState, RecalledBlock
from models.matrix_game_2.load import load_model
from models.matrix_game_2.model import MatrixGame2Model
from models.warm_up import warm_up
from shared.controls import Controls, Key

WALK = Controls(Key.FORWARD, mouse_dx=3.0)


def walk(model: MatrixGame2Model) -> list[torch.Tensor]:
    """K,V of chunks that recall 0, 0, 0, 1, 2 and 3 blocks."""
    beginning = model.begin(3)
    state, first = beginning.state, beginning.chunks[0].block
    assert first is not None
    kept: list[torch.Tensor] = []
    for num_recalled in (0, 0, 0, 1, 2, 3):
        state, block = drawn(model, state, [recalled(model, first)] * num_recalled)
        kept.append(block.kv)
    return kept


def recalled(model: MatrixGame2Model, block: FreshBlock) -> RecalledBlock:
    return RecalledBlock(0, 0, block.kv.to(model.dtype), {}, block.footprint, block.poses)


def drawn(model: MatrixGame2Model, state: ModelState, recall: list[RecalledBlock]) -> tuple[ModelState, FreshBlock]:
    drawing = model.step(state, [WALK] * model.frames_per_chunk, recall)
    while True:
        try:
            next(drawing)
        except StopIteration as end:
            return end.value.state, end.value.block


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # torch's own, while it compiles
def test_compiled_it_draws_the_same_and_compiles_nothing_after_the_warm_up() -> None:
    plain = load_model("tiny", random_weights=True)
    compiled = load_model("tiny", random_weights=True, compiled=True)
    assert compiled.fingerprint == plain.fingerprint
    with torch.no_grad():
        warm_up(compiled, lambda _: None, longest_s=600.0)
        with torch.compiler.set_stance("fail_on_recompile"):
            after = walk(compiled)
        for one, other in zip(walk(plain), after, strict=True):
            torch.testing.assert_close(one, other, rtol=0.02, atol=0.01)  # bfloat16 blocks: one rounding apart
