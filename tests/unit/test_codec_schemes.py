"""The table of ways to spend 4 bits: our row of it is what the product's codec does."""

import pytest
import torch

from bench.codec import relative_rmse, sample
from bench.codec_schemes import asymmetric, per_channel, per_token, rotated, schemes, without_means
from bench.codec_schemes import relative_rmse as scheme_rmse


def test_our_row_has_the_error_of_the_codec_itself():
    keys, values = sample(256, 256)
    ours = next(scheme for name, _, scheme in schemes(256) if "ours" in name)
    pairs = [(keys.float(), values.float())]
    for which, rows in enumerate((keys, values)):
        assert scheme_rmse(pairs, which, ours) == pytest.approx(relative_rmse(rows, 128), rel=1e-3)


def test_a_rotation_undoes_itself():
    rows = torch.randn(6, 256, generator=torch.Generator().manual_seed(0))
    for span in (1, 64, 128):
        assert torch.allclose(rotated(rotated(rows, span), span), rows, atol=1e-5)


def test_channels_of_their_own_scale_suit_groups_along_the_channel():
    rows = torch.randn(120, 128, generator=torch.Generator().manual_seed(0)) * torch.logspace(-2, 2, 128)
    pairs = [(rows, rows)]
    along_tokens = scheme_rmse(pairs, 0, per_token(128, asymmetric))
    assert scheme_rmse(pairs, 0, per_channel(120, asymmetric)) < 0.6 * along_tokens


def test_means_that_are_taken_off_come_back():
    rows = torch.full((8, 128), 3.0)
    assert torch.equal(without_means(per_token(128, asymmetric))(rows), rows)
