"""The linear programme over whole choices (Dantzig-Wolfe), solved by HiGHS: good prices and a fractional plan.

A column is a whole choice of one block (so many of each slot), its share is between 0 and 1. Only here is a solver
used, and nothing it says is believed: prices go to :mod:`bound`, plans are counted again in exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np

from migsaw.plan.packing.bound import SCALE, Region
from migsaw.plan.packing.programme import Counts, Programme, Row
from migsaw.plan.solver import new_solver

INFINITY = highspy.kHighsInf
MOST_BITS = 20  # of a cost in the solver: beside its tolerance of 1e-7, what is smaller is noise


@dataclass(frozen=True, slots=True)
class Relaxed:
    """``shares`` of the columns (block, choice) above zero; ``units`` as fractions; ``broken``: rows were violated."""

    value: float
    prices: tuple[int, ...]
    shares: tuple[tuple[int, Counts, float], ...]
    units: tuple[float, ...]
    broken: bool


class Master:
    def __init__(self, programme: Programme) -> None:
        self.programme = programme
        self.size = max(1.0, max((sum(b.most) for b in programme.blocks), default=1) / 1000.0)
        most = max((*(unit.cost for unit in programme.units), *programme.costs), default=1)
        self.money = 1 << max(0, most.bit_length() - MOST_BITS)  # long decimals make long costs: the solver sees fewer
        self.columns: list[tuple[int, Counts]] = []
        self.known: set[tuple[int, Counts]] = set()
        self.pivots = 0
        self.highs: Any = new_solver()
        self.highs.setOptionValue("solver", "simplex")
        self.units = len(programme.units)
        self.penalty = 4.0 * max((unit.cost for unit in programme.units), default=1) + 4.0
        self._add_rows()

    def _add_rows(self) -> None:
        for unit in self.programme.units:
            self.highs.addCol(unit.cost / self.money, 0.0, unit.most / self.size, 0, [], [])
        self.highs.addCol(self.penalty / self.money, 0.0, INFINITY, 0, [], [])  # breaks rows, at a price
        for row in self.programme.rows:
            index = [*row.units, self.units]
            value = [*(-float(n) for n in row.units.values()), -1.0]
            self.highs.addRow(
                -INFINITY, self._room(row) / self.size, len(index), np.array(index, np.int32), np.array(value)
            )
        for _ in self.programme.blocks:
            self.highs.addRow(1.0, 1.0, 0, [], [])

    def _room(self, row: Row) -> int:
        return row.constant - sum(n * self.programme.fixed[slot] for slot, n in row.uses.items())

    def add(self, index: int, choice: Counts) -> None:
        """A column, unless it is there already."""
        if (index, choice) in self.known:
            return
        self.known.add((index, choice))
        self.columns.append((index, choice))
        block, programme = self.programme.blocks[index], self.programme
        taken = {slot: n for slot, n in zip(block.slots, choice, strict=True) if n}
        cost = sum(programme.costs[slot] * n for slot, n in taken.items()) / self.money / self.size
        where, value = [len(programme.rows) + index], [1.0]
        for r, row in enumerate(programme.rows):
            use = sum(row.uses.get(slot, 0) * n for slot, n in taken.items())
            if use:
                where.append(r)
                value.append(use / self.size)
        self.highs.addCol(cost, 0.0, INFINITY, len(where), np.array(where, np.int32), np.array(value))

    def enter(self, region: Region) -> None:
        """Only columns and units of the region may be used from now on."""
        low = [least / self.size for least, _ in region.units]
        high = [most / self.size for _, most in region.units]
        limits = {index: region.blocks[index] for index in region.blocks}
        uppers = [
            INFINITY
            if index not in limits or all(a <= n <= b for n, (a, b) in zip(choice, limits[index], strict=True))
            else 0.0
            for index, choice in self.columns
        ]
        every = np.arange(len(low), dtype=np.int32)
        self.highs.changeColsBounds(len(low), every, np.array(low), np.array(high))
        first = self.units + 1
        chosen = np.arange(first, first + len(uppers), dtype=np.int32)
        self.highs.changeColsBounds(len(uppers), chosen, np.zeros(len(uppers)), np.array(uppers))

    def set_penalty(self, penalty: float) -> None:
        """What breaking a row costs: low prices keep the arithmetic sharp, high ones show that a region is empty."""
        if penalty != self.penalty:
            self.penalty = penalty
            self.highs.changeColCost(self.units, penalty / self.money)

    def set_margin(self, margin: int) -> None:
        """Keeps so much of every at_most free, so that a plan that is rounded up still fits."""
        for r, row in enumerate(self.programme.rows):
            room = self._room(row)
            if row.constant:
                self.highs.changeRowBounds(r, -INFINITY, min(room, max(0, room - margin)) / self.size)

    def solve(self) -> Relaxed:
        self.highs.run()
        if self.highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            self.highs.clearSolver()  # once more, from nothing
            self.highs.run()
        solution, info = self.highs.getSolution(), self.highs.getInfo()
        self.pivots += max(0, info.simplex_iteration_count)
        values = solution.col_value or [0.0] * self.highs.getNumCol()  # where the solver gave up
        duals = solution.row_dual or [0.0] * self.highs.getNumRow()
        rows, first = len(self.programme.rows), self.units + 1
        prices = tuple(max(0, round(-dual * SCALE * self.money)) for dual in duals[:rows])
        columns = zip(self.columns, values[first:], strict=True)
        shares = tuple((*column, share) for column, share in columns if share > 1e-9)
        units = tuple(value * self.size for value in values[: self.units])
        broken = values[self.units] * self.size > 1e-6
        fixed = sum(c * n for c, n in zip(self.programme.costs, self.programme.fixed, strict=True))
        return Relaxed(info.objective_function_value * self.size * self.money + fixed, prices, shares, units, broken)


def averaged(programme: Programme, shares: Sequence[tuple[int, Counts, float]]) -> list[list[float]]:
    """The fractional choice of every block."""
    mean = [[0.0] * len(block.slots) for block in programme.blocks]
    for index, choice, share in shares:
        for k, n in enumerate(choice):
            mean[index][k] += share * n
    return mean
