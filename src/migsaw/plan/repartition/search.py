"""Lexicographic integer programmes with a certificate for each level: HiGHS proposes, whole numbers decide.

minimise c·x  subject to  Σ a_j x_j <= b,  0 <= x_j <= u_j,  x whole; all data are whole. A solution counts after an
exact check of every row. A bound counts only as the safe dual bound (Neumaier and Shcherbina 2004): for any y >= 0,
c·x >= -y·b + Σ_j min over [l_j, u_j] of (c_j + y·A_j) x_j, here in integers over a common denominator. The relaxation
of a repartition has whole corners nearly always, so that one linear programme per level proves it; what is left is
closed by branch and bound with the same bound at each node. The work is limited by counts of nodes, never by time.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

Terms = Mapping[int, int]
Number = TypeVar("Number", int, float)
Box = tuple[tuple[int, ...], tuple[int, ...]]

DENOMINATORS = (1, 60, 5040, 5040 << 20)  # true duals are often simple fractions
MAX_SOLVER_NODES = 500
MAX_PROOF_NODES = 300
MAX_PROOF_COLUMNS = 100_000  # of all nodes together
ZERO = 1e-7
MAX_CUT_ROUNDS = 8
MAX_CUTS = 12  # of a round
MAX_DENOMINATOR, MAX_COMMON = 1000, 10**9
REACH = 8  # how far a variable may go from the corner of the relaxation
MAX_FREE = 2000


@dataclass(frozen=True, slots=True)
class Answer:
    """``x`` keeps all rows; no solution that keeps them has an objective below ``lower_bound``."""

    x: tuple[int, ...]
    value: int
    lower_bound: int


@dataclass(frozen=True, slots=True)
class _Node:
    bound: int
    x: tuple[float, ...]
    reduced: tuple[float, ...]


class Search:
    """One programme whose levels are minimised one after the other; each level's basis is the next one's start."""

    def __init__(self, upper: Sequence[int], rows: Sequence[tuple[Terms, int]]) -> None:
        self.upper, self.rows = list(upper), list(rows)
        self._cuts: set[int] = set()  # ids of rows
        self._solver = _load(self.upper, self.rows)

    def at_most(self, terms: Terms, right: int) -> None:
        self.rows.append((terms, right))
        _add_row(self._solver, terms, right)

    def open(self, columns: Mapping[int, int]) -> None:
        """Raises upper bounds: columns that were closed so far. Cuts found with them closed are forgotten."""
        for j, upper in columns.items():
            self.upper[j] = upper
        if self._cuts:
            self.rows = [row for row in self.rows if id(row) not in self._cuts]
            self._cuts = set()
            self._solver = _load(self.upper, self.rows)

    def holds(self, x: Sequence[int]) -> bool:
        in_bounds = all(0 <= v <= u for v, u in zip(x, self.upper, strict=True))
        return in_bounds and all(sum(a * x[j] for j, a in terms.items()) <= right for terms, right in self.rows)

    def minimise(self, cost: Terms, start: Sequence[int], slack: Fraction = Fraction(0)) -> Answer:
        """Never worse than ``start``, which must hold. Content with a gap of ``slack`` times the value."""
        assert self.holds(start), "the start breaks a row"
        self._cost, self._best, self._value = cost, tuple(start), value_of(cost, start)
        self._grain = math.gcd(*cost.values()) or 1
        box = ((0,) * len(self.upper), tuple(self.upper))
        trivial = safe_bound(cost, (), (), 1, box)
        if self._value <= trivial:
            return Answer(self._best, self._value, trivial)
        self._set_cost(cost)
        root = self._relax(box)
        bound = min(max(root.bound, trivial), self._value)
        if not self._content(bound, slack):
            self._propose(box, root)
        for _ in range(MAX_CUT_ROUNDS):
            if self._content(bound, slack):
                break
            root = self._relax(box)  # also for its basis
            bound = min(max(root.bound, bound), self._value)
            if not self._cut(box, root.x):
                break
        if not self._content(bound, slack):
            bound = max(bound, self._branch(box, root, slack))
        return Answer(self._best, self._value, bound)

    def _content(self, bound: int, slack: Fraction) -> bool:
        return self._value - bound <= slack * self._value

    def _offer(self, x: Sequence[int]) -> None:
        if value_of(self._cost, x) < self._value and self.holds(x):
            self._best, self._value = tuple(x), value_of(self._cost, x)

    def _cut(self, box: Box, x: Sequence[float]) -> bool:
        """Adds rounding cuts that the corner breaks; the last relaxation's basis tells which combinations to round."""
        found: list[tuple[float, int, tuple[Terms, int]]] = []
        _, basic = self._solver.getBasicVariables()
        for place, j in enumerate(basic):
            if j >= 0 and 0.01 < x[j] % 1 < 0.99:
                _, inverse = self._solver.getBasisInverseRow(place)
                for times in (1, -1):
                    terms, right = rounded(self.rows, [times * v for v in inverse], box, x)
                    broken = sum(a * x[i] for i, a in terms.items()) - right
                    if broken > 0.01:
                        found.append((-broken, len(found), (terms, right)))
        for _, _, (terms, right) in sorted(found)[:MAX_CUTS]:
            self.at_most(terms, right)
            self._cuts.add(id(self.rows[-1]))
        return bool(found)

    def _branch(self, box: Box, root: _Node, slack: Fraction) -> int:
        heap = [(root.bound, 0, box, root.x)]
        for number in range(1, min(MAX_PROOF_NODES, MAX_PROOF_COLUMNS // len(self.upper))):
            if not heap or self._content(heap[0][0], slack):
                break
            _, _, (low, high), x = heapq.heappop(heap)
            j = max(range(len(x)), key=lambda i: (low[i] < high[i], min(x[i] % 1, 1 - x[i] % 1), -i))
            if low[j] == high[j]:
                continue  # a single point, which was offered
            at = min(max(math.floor(x[j]), low[j]), high[j] - 1)
            sides = ((low, (*high[:j], at, *high[j + 1 :])), ((*low[:j], at + 1, *low[j + 1 :]), high))
            for side, part in enumerate(sides):
                node = self._relax(part)
                if node.bound < self._value:
                    heapq.heappush(heap, (node.bound, 2 * number + side, part, node.x))
        return min(heap[0][0], self._value) if heap else self._value

    # ---- the solver, of whose word nothing is kept ----------------------------------------------------------------

    def _relax(self, box: Box) -> _Node:
        """The node's relaxation: its certified bound, and its corner as a proposal."""
        import highspy

        self._set_box(box)
        self._solver.run()
        status, solution = self._solver.getModelStatus(), self._solver.getSolution()
        if status == highspy.HighsModelStatus.kOptimal:
            x, duals = list(solution.col_value), [-y for y in solution.row_dual]
            self._offer([round(v) for v in x])
            hoped = math.ceil(value_of(self._cost, x) - 1e-6)  # no dual bound is above the relaxation
            bound = safe_bound(self._cost, self.rows, [0] * len(self.rows), 1, box)
            for whole, q in _wholes(duals):
                if bound < hoped:
                    bound = max(bound, safe_bound(self._cost, self.rows, whole, q, box))
            bound = -(-bound // self._grain) * self._grain
            return _Node(bound, tuple(x), tuple(solution.col_dual))
        _, has_ray, ray = self._solver.getDualRay()
        duals = [-y for y in ray] if has_ray and ray is not None else [0.0] * len(self.rows)
        is_empty = any(safe_bound({}, self.rows, whole, q, box) > 0 for whole, q in _wholes(duals))
        bound = self._value if is_empty else safe_bound(self._cost, self.rows, [0] * len(self.rows), 1, box)
        return _Node(bound, tuple((a + b) / 2 for a, b in zip(*box, strict=True)), ())

    def _propose(self, box: Box, root: _Node) -> None:
        """Whole solutions near the relaxation's corner; where that is not enough, among all that cost no more."""
        import highspy
        import numpy as np

        count = len(self.upper)
        columns = np.arange(count, dtype=np.int32)
        self._solver.changeColsIntegrality(count, columns, np.full(count, highspy.HighsVarType.kInteger))
        self._solver.setOptionValue("presolve", "on")
        for free in (
            {j for j, v in enumerate(root.x) if v > ZERO},
            {j for j, r in enumerate(root.reduced) if abs(r) < ZERO},
            set(range(count)) if count < MAX_FREE else set[int](),
        ):
            near = [round(v) for v in root.x]
            low = tuple(max(0, near[j] - REACH) if j in free else near[j] for j in range(count))
            high = tuple(min(box[1][j], near[j] + REACH) if j in free else near[j] for j in range(count))
            if free and self._value > root.bound:
                self._set_box((low, high))
                self._solver.run()
                self._offer([round(v) for v in self._solver.getSolution().col_value])
        self._solver.setOptionValue("presolve", "off")
        self._solver.changeColsIntegrality(count, columns, np.full(count, highspy.HighsVarType.kContinuous))

    def _set_cost(self, cost: Terms) -> None:
        import numpy as np

        values = np.zeros(len(self.upper))
        for j, c in cost.items():
            values[j] = c
        self._solver.changeColsCost(len(values), np.arange(len(values), dtype=np.int32), values)

    def _set_box(self, box: Box) -> None:
        import numpy as np

        low, high = (np.array(side, dtype=float) for side in box)
        self._solver.changeColsBounds(len(low), np.arange(len(low), dtype=np.int32), low, high)


def rounded(
    rows: Sequence[tuple[Terms, int]], weights: Sequence[float], box: Box, x: Sequence[float]
) -> tuple[Terms, int]:
    """A row that every whole point of the box keeps which keeps the rows (Chvatal and Gomory): of their sum with the
    fractional parts of the weights, coefficients are rounded down, or up where ``x`` is nearer to its upper bound."""
    parts = [Fraction(w).limit_denominator(MAX_DENOMINATOR) % 1 for w in weights]
    q = math.lcm(*(part.denominator for part in parts))
    if q > MAX_COMMON:
        return {}, 0
    total, right = dict[int, int](), 0
    for part, (terms, limit) in zip(parts, rows, strict=True):
        if part:
            y = part.numerator * (q // part.denominator)
            right += y * limit
            for j, a in terms.items():
                total[j] = total.get(j, 0) + y * a
    found = {}
    for j, a in total.items():
        is_high = x[j] > (box[0][j] + box[1][j]) / 2
        found[j] = -(-a // q) if is_high else a // q
        right += (found[j] * q - a) * (box[1][j] if is_high else box[0][j])
    return {j: a for j, a in found.items() if a}, right // q


def safe_bound(cost: Terms, rows: Sequence[tuple[Terms, int]], duals: Sequence[int], q: int, box: Box) -> int:
    """No whole point of the box that keeps the rows has a smaller objective; duals: whole numbers >= 0, over q."""
    total = 0
    reduced: dict[int, int] = {j: q * c for j, c in cost.items()}
    for y, (terms, right) in zip(duals, rows, strict=True):
        if y:
            total -= y * right
            for j, a in terms.items():
                reduced[j] = reduced.get(j, 0) + y * a
    low, high = box
    total += sum(r * (high[j] if r < 0 else low[j]) for j, r in reduced.items())
    return -(-total // q)


def value_of(cost: Terms, x: Sequence[Number]) -> Number:
    return sum(c * x[j] for j, c in cost.items())


def _wholes(duals: Sequence[float]) -> Iterator[tuple[list[int], int]]:
    return (([max(0, round(y * q)) for y in duals], q) for q in DENOMINATORS)


def _load(upper: Sequence[int], rows: Sequence[tuple[Terms, int]]) -> Any:
    import numpy as np

    from migsaw.plan.solver import new_solver

    solver = new_solver()
    solver.setOptionValue("mip_max_nodes", MAX_SOLVER_NODES)
    solver.setOptionValue("presolve", "off")  # so that the next level starts where this one ended
    solver.addVars(len(upper), np.zeros(len(upper)), np.array(upper, dtype=float))
    for terms, right in rows:
        _add_row(solver, terms, right)
    return solver


def _add_row(solver: Any, terms: Terms, right: int) -> None:
    import highspy
    import numpy as np

    indices, values = np.array(list(terms), dtype=np.int32), np.array(list(terms.values()), dtype=float)
    solver.addRow(-highspy.kHighsInf, float(right), len(indices), indices, values)
