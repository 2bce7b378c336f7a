"""What free GPUs are worth while requests keep coming, from two fluid programmes; nothing here knows when they end.

Levels: a GPU with l units free can take a request of s units and becomes one with l - s. Of the GPUs as they are and
the requests expected, the programme allocates the most units; its dual values are the prices. Models: shares of
requests that insist on some models, against the free units of each model.
"""

from __future__ import annotations

from collections.abc import Sequence

import highspy
import numpy as np
import numpy.typing as npt

from migsaw.plan.placement.shared.cluster import Bools, Ints
from migsaw.plan.solver import new_solver

Floats = npt.NDArray[np.float64]


class LevelPrices:
    """One programme for a set of sizes, solved again and again from where it stood."""

    def __init__(self, sizes: Sequence[int], whole: int) -> None:
        self.sizes, self.whole = tuple(sizes), whole
        moves = [(level, n) for level in range(1, whole + 1) for n, size in enumerate(sizes) if size <= level]
        entries = [self._column(level, n) for level, n in moves]
        cost = [-float(self.sizes[n]) for _, n in moves]
        self._solver = _programme(cost, entries, whole + len(sizes))

    def solve(self, counts: Floats | Ints, demand: Floats) -> tuple[Floats, Floats, float]:
        """(worth of each level 0 … whole, price of each size, units allocated).

        ``counts``: GPUs of each level; ``demand``: requests of each size. The worth of a level is the least that goes
        with the prices: the best size it can still take, less its price, and the worth of what then is left.
        """
        bounds = np.concatenate([counts[1:], demand]).astype(float)
        duals, allocated = _solve(self._solver, bounds)
        prices = np.maximum(duals[self.whole :], 0.0)
        return self.worth(prices), prices, allocated

    def worth(self, prices: Floats) -> Floats:
        worth = np.zeros(self.whole + 1)
        for level in range(1, self.whole + 1):
            taken = [s - p + worth[level - s] for s, p in zip(self.sizes, prices, strict=True) if s <= level]
            worth[level] = max(worth[level - 1], *taken) if taken else worth[level - 1]
        return worth

    def _column(self, level: int, size: int) -> dict[int, float]:
        left = level - self.sizes[size]
        return {level - 1: 1.0, self.whole + size: 1.0} | ({left - 1: -1.0} if left else {})


def model_prices(free: Floats | Ints, demand: Floats, admits: Bools) -> Floats:
    """What one more unit of each model would add to the units allocated, above that of the cheapest model.

    ``free``: units of each model; ``demand``: units of each group of requests; ``admits``: [group, model].
    """
    groups, models = admits.shape
    pairs = [(g, m) for g in range(groups) for m in range(models) if admits[g, m]]
    entries = [{g: 1.0, groups + m: 1.0} for g, m in pairs]
    solver = _programme([-1.0] * len(pairs), entries, groups + models)
    duals, _ = _solve(solver, np.concatenate([demand, free]).astype(float))
    found: Floats = duals[groups:] - duals[groups:].min()
    return found


def _programme(cost: Sequence[float], columns: Sequence[dict[int, float]], rows: int) -> highspy.Highs:
    """Least cost, every row at most its bound."""
    programme = highspy.HighsLp()
    programme.num_col_, programme.num_row_ = len(cost), rows
    programme.col_cost_, programme.col_lower_ = np.array(cost), np.zeros(len(cost))
    programme.col_upper_ = np.full(len(cost), highspy.kHighsInf)
    programme.row_lower_, programme.row_upper_ = np.full(rows, -highspy.kHighsInf), np.zeros(rows)
    programme.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    programme.a_matrix_.start_ = np.cumsum([0, *map(len, columns)])
    programme.a_matrix_.index_ = np.array([row for column in columns for row in column])
    programme.a_matrix_.value_ = np.array([value for column in columns for value in column.values()])
    solver = new_solver()
    solver.passModel(programme)
    return solver


def _solve(solver: highspy.Highs, bounds: Floats) -> tuple[Floats, float]:
    for row, bound in enumerate(bounds):
        solver.changeRowBounds(row, -highspy.kHighsInf, float(bound))
    solver.run()
    return -np.array(solver.getSolution().row_dual), -float(solver.getInfo().objective_function_value)
