"""For all tests."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def gradients() -> Iterator[None]:
    """Commands switch gradients off for their process; the test after one finds them on."""
    yield
    torch.set_grad_enabled(True)
