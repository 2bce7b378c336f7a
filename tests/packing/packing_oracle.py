"""An independent judge of packing: what fits is enumerated here from the boards' numbers, CP-SAT finds the optimum.

Nothing of ``migsaw.plan`` is used. For the plain profiles of eight-slice boards the published closed form serves as
cuts: it speeds the proof up, the patterns alone decide what is feasible.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import product
from math import lcm

from ortools.sat.python import cp_model

from migsaw.model.boards import Board
from migsaw.model.demand import AKS_PROFILES, Demand, Entry

Vector = tuple[int, ...]

# role → (largest instances, thirds, eighths, sevenths): N >= sum n*w / d for each column
CLOSED_FORM = {
    "1g": (0, 0, 1, 1),
    "1g2m": (0, 0, 2, 1),
    "2g": (0, 1, 2, 2),
    "3g": (0, 1, 4, 3),
    "4g": (1, 2, 4, 4),
    "7g": (1, 3, 8, 7),
}
DIVISORS = (1, 3, 8, 7)


def fits_together(board: Board, placed: tuple[tuple[str, int], ...]) -> bool:
    """The driver's rules, written down again: spans, counts, compute slices, engines, all media engines at once."""
    profiles = {p.name: p for p in board.profiles}
    cells = [s + k for name, s in placed for k in range(profiles[name].memory_slices or 0)]
    if len(cells) != len(set(cells)):
        return False
    counts = Counter(name for name, _ in placed)
    if any(n > profiles[name].max_instances for name, n in counts.items()):
        return False
    if sum(profiles[name].compute_slices for name, _ in placed) > (board.compute_slices or 0):
        return False
    for engine, total in enumerate(board.engine_totals):
        if total is not None and sum(profiles[name].engines[engine] or 0 for name, _ in placed) > total:
            return False
    takes_all = any(name.endswith("+me.all") for name in counts)
    return not takes_all or sum(n for name, n in counts.items() if not name.endswith("-me")) == 1


@cache
def multisets(board: Board, names: tuple[str, ...]) -> frozenset[Vector]:
    """Every multiset of these profiles that fits one GPU."""
    places = [(p.name, s) for p in board.profiles if p.name in names for s in p.starts or ()]
    found: set[Vector] = set()

    def grow(placed: tuple[tuple[str, int], ...], rest: list[tuple[str, int]]) -> None:
        counts = Counter(name for name, _ in placed)
        found.add(tuple(counts[name] for name in names))
        for i, place in enumerate(rest):
            if fits_together(board, (*placed, place)):
                grow((*placed, place), rest[i + 1 :])

    grow((), places)
    return frozenset(found)


@cache
def tops(board: Board, names: tuple[str, ...]) -> tuple[Vector, ...]:
    """Multisets that no other one contains."""
    every = multisets(board, names)
    grown = {v: [tuple(n + (i == k) for i, n in enumerate(v)) for k in range(len(v))] for v in every}
    return tuple(sorted(v for v in every if not any(w in every for w in grown[v])))


def node_fillings(sizes: tuple[int, ...], node: int) -> list[Vector]:
    ranges = (range(node // size + 1) for size in sizes)
    return [v for v in product(*ranges) if sum(n * s for n, s in zip(v, sizes, strict=True)) <= node]


class Oracle:
    def __init__(self, demand: Demand) -> None:
        self.demand, self.model = demand, cp_model.CpModel()
        self.taken: dict[tuple[str, str], list[cp_model.IntVar]] = {}
        self.groups: dict[tuple[str, int], cp_model.IntVar] = {}
        self.entries = {entry.name: entry for entry in demand.entries}

    def optimum(self, seconds: float = 60) -> Fraction | None:
        """The least cost (or number of GPUs); None if nothing is feasible. Raises if CP-SAT proves neither."""
        for need in self.demand.needs:
            self._serve(need)
        for index, group in enumerate(self.demand.groups):
            homes = [e for e in self.demand.entries if not group.same_node or group.gpus <= e.gpus_per_node]
            copies = [self.model.new_int_var(0, group.count, "") for _ in homes]
            self.model.add(sum(copies) == group.count)
            self.groups.update({(e.name, index): copy for e, copy in zip(homes, copies, strict=True)})
        gpus = {entry.name: self._gpus(entry) for entry in self.demand.entries}
        prices = {e.name: Fraction(1) if e.usd_per_hour is None else e.usd_per_hour for e in self.demand.entries}
        scale = lcm(*(price.denominator for price in prices.values()))
        self.model.minimize(sum(int(prices[name] * scale) * n for name, n in gpus.items()))
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.max_time_in_seconds = seconds
        status = solver.solve(self.model)
        if status == cp_model.INFEASIBLE:
            return None
        assert status == cp_model.OPTIMAL, "CP-SAT proved nothing in time"
        return Fraction(round(solver.objective_value), scale)

    def _serve(self, need) -> None:
        scale = lcm(need.amount.denominator, *(o.gain.denominator for o in need.options))
        terms = []
        for option in need.options:
            entry = self.entries[option.entry]
            profile = entry.board.profile(option.profile)
            if entry.scope == "pool" and (profile.role, profile.profile_id) not in AKS_PROFILES:
                continue
            count = self.model.new_int_var(0, int(-(-need.amount // option.gain)), "")
            self.taken.setdefault((option.entry, option.profile), []).append(count)
            terms.append(int(option.gain * scale) * count)
        self.model.add(sum(terms) >= int(need.amount * scale))

    def _gpus(self, entry: Entry):
        names = tuple(name for e, name in self.taken if e == entry.name)
        used = {name: sum(self.taken[entry.name, name]) for name in names}
        node = entry.gpus_per_node
        bare = sum(self.demand.groups[i].gpus * z for (e, i), z in self.groups.items() if e == entry.name)
        if entry.scope == "gpu":
            total = self._patterns(entry, names, used, 1) + bare
        else:
            total = node * self._bare_nodes(entry, bare)
            if entry.scope == "pool_layout":
                total += node * self._patterns(entry, names, used, node)
            for name in names if entry.scope != "pool_layout" else ():
                most = max(v[0] for v in multisets(entry.board, (name,)))
                nodes = self.model.new_int_var(0, 10**6, "")
                self.model.add(nodes * most * node >= used[name])
                total += node * nodes
        if entry.at_most is not None:
            self.model.add(total <= entry.at_most)
        return total

    def _patterns(self, entry: Entry, names, used, times: int):
        """Layouts, each ``times`` GPUs at once, that hold what is used."""
        if not names:
            return 0
        patterns = tops(entry.board, names)
        counts = [self.model.new_int_var(0, 10**6, "") for _ in patterns]
        for k, name in enumerate(names):
            self.model.add(sum(times * v[k] * n for v, n in zip(patterns, counts, strict=True)) >= used[name])
        roles = [entry.board.profile(name).role for name in names]
        if entry.board.memory_slices == 8 and set(roles) <= set(CLOSED_FORM):
            for column, divisor in enumerate(DIVISORS):
                load = sum(CLOSED_FORM[role][column] * used[name] for role, name in zip(roles, names, strict=True))
                self.model.add(times * divisor * sum(counts) >= load)
        return sum(counts)

    def _bare_nodes(self, entry: Entry, bare):
        groups = {i: z for (e, i), z in self.groups.items() if e == entry.name}
        if not groups:
            return 0
        nodes = self.model.new_int_var(0, 10**6, "")
        self.model.add(nodes * entry.gpus_per_node >= bare)
        tied = [i for i in groups if self.demand.groups[i].same_node]
        fillings = node_fillings(tuple(self.demand.groups[i].gpus for i in tied), entry.gpus_per_node)
        counts = [self.model.new_int_var(0, 10**6, "") for _ in fillings]
        for k, i in enumerate(tied):
            self.model.add(sum(v[k] * n for v, n in zip(fillings, counts, strict=True)) >= groups[i])
        self.model.add(nodes >= sum(counts))
        return nodes
