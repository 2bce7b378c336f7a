"""A small integer programme: HiGHS proposes, exact arithmetic decides.

minimise c·x  subject to  rows  Σ a_j x_j ≤ b,  l_j ≤ x_j ≤ u_j,  x integer; all data are integers.
HiGHS was seen to call plans optimal that were not (``designs/0003``), so an answer counts only after it was checked in
integers. The lower bound is the safe dual bound of Neumaier and Shcherbina (2004), computed in fractions: for any
y ≥ 0,  c·x ≥ -y·b + Σ_j min over [l_j, u_j] of (c_j + y·A_j) x_j.  Where it does not meet the answer, branch and bound
goes on with the same bound at every node. Nothing of the solver's word is shown to a user.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

Row = tuple[Mapping[int, int], int]  # Σ coefficient · x ≤ right-hand side
Box = tuple[tuple[int, ...], tuple[int, ...]]  # lower and upper bounds

MAX_SOLVER_NODES = 2000  # of HiGHS; limits that do not depend on the clock
MAX_PROOF_NODES = 400
DENOMINATORS = (1, 60, 5040, 10**6)


@dataclass(frozen=True, slots=True)
class Answer:
    """``x`` keeps all rows; ``value`` is its objective; no solution has an objective below ``lower_bound``."""

    x: tuple[int, ...]
    value: int
    lower_bound: int


@dataclass
class Programme:
    upper: list[int] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def variable(self, upper: int) -> int:
        """A new variable 0 ≤ x ≤ upper; its index."""
        self.upper.append(upper)
        return len(self.upper) - 1

    def at_most(self, terms: Mapping[int, int], right: int) -> None:
        self.rows.append(({j: a for j, a in terms.items() if a}, right))

    def holds(self, x: Sequence[int]) -> bool:
        in_bounds = all(0 <= v <= u for v, u in zip(x, self.upper, strict=True))
        return in_bounds and all(sum(a * x[j] for j, a in terms.items()) <= right for terms, right in self.rows)

    def minimise(self, cost: Mapping[int, int], start: Sequence[int]) -> Answer:
        """The best integer solution found, never worse than ``start``, which must hold."""
        assert self.holds(start), "the start breaks a row"
        box = ((0,) * len(self.upper), tuple(self.upper))
        value, trivial = _value(cost, start), self.safe_bound(cost, [Fraction(0)] * len(self.rows), box)
        if value <= trivial:
            return Answer(tuple(start), value, value)
        return _Search(self, cost, tuple(start)).run(box)

    def safe_bound(self, cost: Mapping[int, int], duals: Sequence[Fraction], box: Box) -> int:
        """No integer point of the box that keeps the rows has a smaller objective; ``duals`` are any numbers ≥ 0."""
        total = Fraction(0)
        reduced: dict[int, Fraction] = {j: Fraction(c) for j, c in cost.items()}
        for y, (terms, right) in zip(duals, self.rows, strict=True):
            if y:
                total -= y * right
                for j, a in terms.items():
                    reduced[j] = reduced.get(j, Fraction(0)) + y * a
        total += sum(r * (box[1][j] if r < 0 else box[0][j]) for j, r in reduced.items())
        return math.ceil(total)


class _Search:
    """Incumbent from HiGHS, then best-first branch and bound until the bound meets it or the node limit."""

    def __init__(self, programme: Programme, cost: Mapping[int, int], start: tuple[int, ...]) -> None:
        self.programme, self.cost, self.best = programme, cost, start
        self.value = _value(cost, start)
        self.solver = _load(programme, cost)

    def run(self, box: Box) -> Answer:
        self._offer(self._propose())
        heap: list[tuple[int, int, Box, tuple[float, ...]]] = []
        self._push(heap, box, 0)
        for number in range(1, MAX_PROOF_NODES):
            if not heap or heap[0][0] >= self.value:
                break
            _, _, (low, high), x = heapq.heappop(heap)
            j = max(range(len(x)), key=lambda i: (min(x[i] % 1, 1 - x[i] % 1), -i))
            cut = math.floor(x[j])
            cut = min(max(cut, low[j]), high[j] - 1)
            self._push(heap, (low, (*high[:j], cut, *high[j + 1 :])), 2 * number)
            self._push(heap, ((*low[:j], cut + 1, *low[j + 1 :]), high), 2 * number + 1)
        bound = min(heap[0][0], self.value) if heap else self.value
        return Answer(self.best, self.value, bound)

    def _push(self, heap: list[tuple[int, int, Box, tuple[float, ...]]], box: Box, number: int) -> None:
        """Solves a node's relaxation; keeps it open unless it is settled."""
        x, duals, feasible = self._relax(box)
        cost = self.cost if feasible else {}
        bounds = [self.programme.safe_bound(cost, y, box) for y in _rationals(duals)]
        if not feasible:
            bounds = [
                self.value if b > 0 else self.programme.safe_bound(self.cost, [Fraction(0)] * len(duals), box)
                for b in bounds
            ]
        if feasible:
            self._offer([round(v) for v in x])
        bound = max(bounds)
        if bound < self.value and any(low < high for low, high in zip(*box, strict=True)):
            heapq.heappush(heap, (bound, number, box, tuple(x)))

    def _offer(self, x: Sequence[int]) -> None:
        if len(x) == len(self.best) and self.programme.holds(x) and _value(self.cost, x) < self.value:
            self.best, self.value = tuple(x), _value(self.cost, x)

    def _propose(self) -> list[int]:
        import highspy
        import numpy as np

        count = len(self.best)
        columns = np.arange(count, dtype=np.int32)
        self.solver.changeColsIntegrality(count, columns, np.full(count, highspy.HighsVarType.kInteger))
        first = highspy.HighsSolution()
        first.col_value = [float(v) for v in self.best]
        self.solver.setSolution(first)
        self.solver.run()
        found = [round(v) for v in self.solver.getSolution().col_value]
        self.solver.changeColsIntegrality(count, columns, np.full(count, highspy.HighsVarType.kContinuous))
        return found

    def _relax(self, box: Box) -> tuple[list[float], list[float], bool]:
        """(x, row duals ≥ 0, True), or where the relaxation is infeasible (middle of the box, a dual ray, False)."""
        import highspy
        import numpy as np

        count = len(self.best)
        low, high = (np.array(side, dtype=float) for side in box)
        self.solver.changeColsBounds(count, np.arange(count, dtype=np.int32), low, high)
        self.solver.run()
        if self.solver.getModelStatus() == highspy.HighsModelStatus.kOptimal:
            solution = self.solver.getSolution()
            return list(solution.col_value), [-y for y in solution.row_dual], True
        _, has_ray, ray = self.solver.getDualRay()
        duals = [-y for y in ray] if has_ray and ray is not None else [0.0] * len(self.programme.rows)
        return [(a + b) / 2 for a, b in zip(*box, strict=True)], duals, False


def _load(programme: Programme, cost: Mapping[int, int]):  # type: ignore[no-untyped-def]
    import highspy
    import numpy as np

    from migsaw.plan.solver import new_solver

    solver, count = new_solver(), len(programme.upper)
    solver.setOptionValue("mip_max_nodes", MAX_SOLVER_NODES)
    solver.setOptionValue("presolve", "off")  # so that an infeasible node comes with a dual ray
    solver.addVars(count, np.zeros(count), np.array(programme.upper, dtype=float))
    for j, c in cost.items():
        solver.changeColCost(j, float(c))
    for terms, right in programme.rows:
        indices, values = np.array(list(terms), dtype=np.int32), np.array(list(terms.values()), dtype=float)
        solver.addRow(-highspy.kHighsInf, float(right), len(indices), indices, values)
    return solver


def _value(cost: Mapping[int, int], x: Sequence[int]) -> int:
    return sum(c * x[j] for j, c in cost.items())


def _rationals(duals: Sequence[float]) -> list[list[Fraction]]:
    """The duals as nearby fractions ≥ 0; simple ones first, since true duals are often simple."""
    raw = [Fraction(max(0.0, y)) for y in duals]
    return [[y.limit_denominator(d) for y in raw] for d in DENOMINATORS]
