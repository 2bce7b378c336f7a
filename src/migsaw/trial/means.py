"""The mean of a throughput that varies, with an interval that does not take neighbours in time for independent.

Batch means: consecutive values are put into a few batches, whose means vary nearly independently; their spread gives
the interval (Student's t). What correlation is left between neighbouring batches is estimated and widens it.
Source: Law, Simulation Modeling and Analysis, ch. 9.5.3; Kendall 1954 for the bias of a lag-one correlation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FEWEST, MOST = 10, 20  # batches
LEAST_VALUES = 4

# two-sided 95 % quantiles of Student's t by degrees of freedom, from any table
T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
       2.120, 2.110, 2.101, 2.093)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mean:
    """``half_width`` of the 95 % interval, in the unit of ``value``; infinite where too few values tell nothing."""

    value: float
    half_width: float
    values: int

    @property
    def relative(self) -> float:
        return self.half_width / self.value if self.value > 0 else float("inf")


def mean_of(values: Sequence[float], seconds: Sequence[float]) -> Mean:
    """Throughput over the whole time: every value counts for the seconds that it covers.

    Raises ValueError for no values, or times that are not positive.
    """
    if not values or len(values) != len(seconds) or min(seconds) <= 0:
        raise ValueError("values with the seconds that each covers are needed")
    rates, spans = np.asarray(values, dtype=float), np.asarray(seconds, dtype=float)
    value = float(rates @ spans / spans.sum())
    if len(values) < LEAST_VALUES:
        return Mean(value, float("inf"), len(values))
    return Mean(value, _half_width(_batches(rates, spans)), len(values))


def _batches(rates: NDArray[np.float64], spans: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means of 10 to 20 batches, as even as can be; of few values each is a batch of its own."""
    count = min(len(rates), MOST if len(rates) >= MOST * MOST else FEWEST)
    edges = np.linspace(0, len(rates), count + 1).round().astype(int)[:-1]
    means: NDArray[np.float64] = np.add.reduceat(rates * spans, edges) / np.add.reduceat(spans, edges)
    return means


def _half_width(means: NDArray[np.float64]) -> float:
    count = len(means)
    variance = float(means.var(ddof=1)) / count
    return T95[count - 2] * float(np.sqrt(variance * _inflation(means)))


def _inflation(means: NDArray[np.float64]) -> float:
    """(1 + r) ÷ (1 − r) of an AR(1) series, r the lag-one correlation without its bias (1 + 3r)/n; at least 1."""
    apart = means - means.mean()
    total = float(apart @ apart)
    if total <= 0:
        return 1.0
    found = float(apart[:-1] @ apart[1:]) / total
    r = min(0.9, (len(means) * found + 1) / (len(means) - 3))
    return max(1.0, (1 + r) / (1 - r))
