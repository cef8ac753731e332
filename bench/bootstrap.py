"""How sure a mean is: the bootstrap's 95 % interval, with fixed dice. Pure; any thread."""

from collections.abc import Sequence

import numpy as np

_RESAMPLES = 4_000
_OUTSIDE_PERCENT = (2.5, 97.5)


def interval(values: Sequence[float]) -> dict[str, float]:
    """Return the mean of independent values, and between which bounds it lies in 95 % of resamples (Efron 1979).

    Raises ValueError when there is no value.
    """
    if not len(values):
        raise ValueError("an interval needs at least one value")
    found = np.asarray(values, np.float64)
    picks = np.random.default_rng(0).integers(len(found), size=(_RESAMPLES, len(found)))
    low, high = np.percentile(found[picks].mean(1), _OUTSIDE_PERCENT)
    return {"mean": float(found.mean()), "low": float(low), "high": float(high)}
