"""The interval of a mean whose values hang together: coverage by simulation, widths against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from migsaw.trial.means import mean_of

MEAN = 100.0


def series(rng: np.random.Generator, phi: float, n: int) -> np.ndarray:
    """AR(1) in its steady state, with variance 1 / (1 − φ²)."""
    shocks = rng.normal(size=n)
    values = np.empty(n)
    values[0] = shocks[0] / math.sqrt(1 - phi**2)
    for i in range(1, n):
        values[i] = phi * values[i - 1] + shocks[i]
    return MEAN + values


def spread(phi: float, n: int) -> float:
    """Standard deviation of the mean of n values: the closed form of an AR(1) series."""
    near = 1 + 2 * sum((1 - lag / n) * phi**lag for lag in range(1, n))
    return math.sqrt(near / (1 - phi**2) / n)


@pytest.mark.parametrize(
    ("phi", "n", "least"),
    [(0.0, 20, 0.93), (0.0, 200, 0.93), (0.5, 100, 0.93), (0.8, 400, 0.93), (0.9, 1000, 0.92), (0.9, 100, 0.88)],
)
def test_95_percent_intervals_hold_the_mean_of_a_correlated_series(phi, n, least):
    """Of 800 series: one standard error is 0.8 %. Taken for independent, φ = 0.9 would give 34 %."""
    rng = np.random.default_rng(20261201)
    found = [mean_of(list(series(rng, phi, n)), [1.0] * n) for _ in range(800)]
    covered = np.mean([abs(m.value - MEAN) <= m.half_width for m in found])
    assert least <= covered <= 0.99
    widths = np.mean([m.half_width for m in found]) / (1.96 * spread(phi, n))
    assert 0.95 <= widths <= 1.6, "as wide as the closed form, and for the few batches not much wider"


def test_taken_for_independent_the_same_series_would_deceive():
    rng = np.random.default_rng(1)
    rows = [series(rng, 0.9, 400) for _ in range(300)]
    naive = [abs(row.mean() - MEAN) <= 1.96 * row.std(ddof=1) / 20 for row in rows]
    ours = [abs((m := mean_of(list(row), [1.0] * 400)).value - MEAN) <= m.half_width for row in rows]
    assert np.mean(naive) < 0.5
    assert np.mean(ours) > 0.9


def test_few_values_give_students_interval():
    """1 … 10 shuffled so that neighbours do not hang together: 5.5 ± 2.262 · sqrt(9.1667 / 10)."""
    m = mean_of([1, 10, 2, 9, 3, 8, 4, 7, 5, 6], [1.0] * 10)
    assert m.value == 5.5
    assert m.half_width == pytest.approx(2.262 * math.sqrt(110 / 12 / 10), rel=1e-3)


def test_a_value_counts_for_the_seconds_that_it_covers():
    """90 units in 9 s and 1 unit in 1 s are 9.1 a second, not the mean of 10 and 1."""
    assert mean_of([10.0, 1.0], [9.0, 1.0]).value == pytest.approx(9.1)


def test_a_constant_is_known_at_once_and_three_values_tell_nothing():
    assert mean_of([5.0] * 8, [1.0] * 8).half_width == 0
    assert mean_of([5.0] * 3, [1.0] * 3).half_width == math.inf
    for bad in (([], []), ([1.0], [0.0]), ([1.0], [1.0, 1.0])):
        with pytest.raises(ValueError, match="needed"):
            mean_of(*bad)
