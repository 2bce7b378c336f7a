"""Branch and bound over the programme: the best plan found, and a bound that was proved in exact arithmetic.

Regions are taken by least bound. Column generation bounds each (:mod:`master` gives prices, :mod:`bound` proves),
each fractional plan is rounded in several ways and counted exactly. The work is limited by counts that depend on the
input alone, never by time, so the same demand gives the same plan on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from math import ceil, floor

from migsaw.plan.packing.bound import Region, certify, priced
from migsaw.plan.packing.cover import cheapest_cover
from migsaw.plan.packing.master import Master, Relaxed, averaged
from migsaw.plan.packing.programme import Counts, Programme

NEAR = 1e-6
WHOLE = 1e-5  # a solver's number so near to a whole one is whole
MOST_ROUNDS = 60  # of column generation in one region
MOST_WORK = 20_000  # one unit: a need covered once at some prices, or ten pivots; some seconds in all
MANY_NEEDS = 40
GOOD_GAPS = (10**6, 10**4)  # with few, with many needs the search stops where the gap is below 1 in so much
MARGINS = (1, 2, 4, 8, 16, 32)  # GPUs or nodes of each at_most that rounding up may need

Choices = tuple[Counts, ...]
Count = Callable[[Counts], tuple[int | None, int | None]]  # taken → (cost, certified least); None: beyond at_most


@dataclass(frozen=True, slots=True)
class Found:
    """``choices`` None: no plan was found; it is proved that there is none if ``least`` is None too."""

    choices: Choices | None
    least: int | None


class Search:
    def __init__(self, programme: Programme, count: Count, ceiling: int) -> None:
        """``ceiling``: more than any plan costs."""
        self.programme, self.count = programme, count
        self.best: Choices | None = None
        self.cutoff = ceiling
        self.master = Master(programme)
        self.penalty = self.master.penalty
        self.work = 0
        self.tried: set[Choices] = set()
        self.settled: int | None = None  # least bound among single plans that cost more than their bound

    # ---- plans ------------------------------------------------------------------------------------------------

    def offer(self, choices: Choices) -> None:
        """Counts a plan exactly and keeps it if it is the best so far."""
        if choices in self.tried:
            return
        self.tried.add(choices)
        cost, _ = self.count(self.programme.taken(choices))
        if cost is not None and cost < self.cutoff:
            self.best, self.cutoff = choices, cost

    def start(self) -> None:
        """The first columns: each block on one slot alone."""
        for index, block in enumerate(self.programme.blocks):
            for k in range(len(block.slots)):
                self.master.add(index, tuple(n if i == k else 0 for i, n in enumerate(block.most)))

    def round_up(self, relaxed: Relaxed, region: Region) -> None:
        """Two whole plans: the choice with the largest share of each block, and the average with its rest covered."""
        weights = priced(self.programme, relaxed.prices)
        mean = averaged(self.programme, relaxed.shares)
        heaviest: dict[int, tuple[float, Counts]] = {}
        for index, choice, share in relaxed.shares:
            if index not in heaviest or share > heaviest[index][0] + NEAR:
                heaviest[index] = share, choice
        if len(heaviest) < len(mean):
            return  # the solver gave no plan
        self.offer(tuple(heaviest[index][1] for index in range(len(mean))))
        self.offer(tuple(self._completed(index, mean[index], weights, region) for index in range(len(mean))))

    def _completed(self, index: int, mean: Sequence[float], weights: Sequence[int], region: Region) -> Counts:
        """What is whole of a fractional choice, and the cheapest cover of the rest."""
        block = self.programme.blocks[index]
        low = [floor(n + NEAR) for n in mean]
        rest = block.need - sum(n * gain for n, gain in zip(low, block.gains, strict=True))
        most = [high - n for n, (_, high) in zip(low, region.limits(index, block), strict=True)]
        found = cheapest_cover([weights[slot] for slot in block.slots], block.gains, rest, [max(0, m) for m in most])
        more = found.counts if found else (0,) * len(low)
        return tuple(a + b for a, b in zip(low, more, strict=True))

    # ---- bounds -----------------------------------------------------------------------------------------------

    def bound(self, region: Region) -> tuple[int | None, Relaxed | None]:
        """(certified bound, fractional plan); (None, None): the region is empty."""
        first = certify(self.programme, region, [0] * len(self.programme.rows))
        if first is None:
            return None, None
        self._add(first.choices)
        self.master.enter(region)
        self.master.set_penalty(self.penalty)
        least, relaxed = first.least, None
        for _ in range(MOST_ROUNDS):
            relaxed = self.master.solve()
            self.work += 5 + len(self.programme.blocks)
            found = certify(self.programme, region, relaxed.prices)
            assert found is not None
            least = max(least, found.least)
            if least >= self.cutoff:
                break
            if not self._add(found.choices) or ceil(relaxed.value - NEAR) <= least:
                if not relaxed.broken or self.master.penalty > 100 * self.cutoff:
                    break
                self.master.set_penalty(100 * self.master.penalty)
        return least, relaxed

    def _add(self, choices: Iterable[Counts]) -> bool:
        before = len(self.master.columns)
        for index, choice in enumerate(choices):
            self.master.add(index, choice)
        return len(self.master.columns) > before

    # ---- branch and bound -------------------------------------------------------------------------------------

    def run(self) -> Found:
        self.start()
        whole = Region(tuple((0, unit.most) for unit in self.programme.units))
        heap: list[tuple[int, int, Region]] = [(0, 0, whole)]
        number = 0
        while heap:
            known, _, region = heappop(heap)
            if known >= self.cutoff:
                break
            if self._is_enough(known):
                return Found(self.best, self._least(known))
            least, relaxed = self.bound(self._tightened(region))
            if least is None or relaxed is None or least >= self.cutoff:
                continue
            self.round_up(relaxed, region)
            if self.best is None:
                self._make_room(region)
            parts = self.split(region, relaxed) if least < self.cutoff else []
            for part in parts:
                number += 1
                heappush(heap, (max(least, known), -number, part))
            if not parts and least < self.cutoff:
                self._settle(region)
        return Found(self.best, self.settled if self.best is None else self._least(self.cutoff))

    def _least(self, known: int) -> int:
        return known if self.settled is None else min(known, self.settled)

    def _settle(self, region: Region) -> None:
        """One plan is left in the region: its own certified bound counts (lower than its cost without a proof only)."""
        choices = tuple(tuple(low for low, _ in region.limits(i, b)) for i, b in enumerate(self.programme.blocks))
        self.offer(choices)
        _, least = self.count(self.programme.taken(choices))
        if least is not None and least < self.cutoff:
            self.settled = least if self.settled is None else min(self.settled, least)

    def _make_room(self, region: Region) -> None:
        """Rounding up broke at_most: plan for a little less than it, then for less still."""
        for margin in MARGINS:
            self.master.set_margin(margin)
            _, relaxed = self.bound(region)
            if relaxed is not None and not relaxed.broken:
                self.round_up(relaxed, region)
            if self.best is not None or relaxed is None or relaxed.broken:
                break
        self.master.set_margin(0)

    def _is_enough(self, least: int) -> bool:
        """Whether to stop with a gap: by the work done, never by time."""
        if self.work + self.master.pivots // 10 > MOST_WORK:
            return True
        good = GOOD_GAPS[len(self.programme.blocks) > MANY_NEEDS]
        return self.best is not None and (self.cutoff - least) * good <= self.cutoff

    def _tightened(self, region: Region) -> Region:
        """No unit alone may cost as much as the best plan."""
        pairs = zip(region.units, self.programme.units, strict=True)
        return replace(
            region,
            units=tuple((low, min(high, (self.cutoff - 1) // u.cost) if u.cost else high) for (low, high), u in pairs),
        )

    def split(self, region: Region, relaxed: Relaxed) -> list[Region]:
        """In two at a fraction, units before choices; without fractions see :meth:`_split_whole`."""
        units = [
            (_fraction(clamped := _clamped(x, limits)) * max(1, unit.cost), -v, clamped)
            for v, (x, limits, unit) in enumerate(zip(relaxed.units, region.units, self.programme.units, strict=True))
        ]
        broken = [found for found in units if found[0] > 0]
        if broken:
            _, v, x = max(broken)
            low, high = region.units[-v]
            return [self._with_unit(region, -v, floor(x) + 1, high), self._with_unit(region, -v, low, floor(x))]
        mean = averaged(self.programme, relaxed.shares)
        parts = [
            (_fraction(clamped := _clamped(x, limits)), -index, -k, clamped)
            for index, block in enumerate(self.programme.blocks)
            for k, (x, limits) in enumerate(zip(mean[index], region.limits(index, block), strict=True))
        ]
        fraction, index, k, x = max(parts)
        if fraction > 0:
            return self._cut_at(region, -index, -k, [(None, floor(x)), (floor(x) + 1, None)])
        return self._split_whole(region, mean)

    def _split_whole(self, region: Region, mean: Sequence[Sequence[float]]) -> list[Region]:
        """A plan without fractions that costs more than its bound: fix one more count."""
        for index, block in enumerate(self.programme.blocks):
            for k, (low, high) in enumerate(region.limits(index, block)):
                if low < high:
                    at = round(_clamped(mean[index][k], (low, high)))
                    return self._cut_at(region, index, k, [(at, at), (None, at - 1), (at + 1, None)])
        return []

    def _with_unit(self, region: Region, unit: int, low: int, high: int) -> Region:
        units = list(region.units)
        units[unit] = (low, high)
        return replace(region, units=tuple(units))

    def _cut_at(
        self, region: Region, index: int, k: int, parts: Sequence[tuple[int | None, int | None]]
    ) -> list[Region]:
        limits = region.limits(index, self.programme.blocks[index])
        found = []
        for least, most in parts:
            low = limits[k][0] if least is None else max(least, limits[k][0])
            high = limits[k][1] if most is None else min(most, limits[k][1])
            if low <= high:
                changed = (*limits[:k], (low, high), *limits[k + 1 :])
                found.append(replace(region, blocks={**region.blocks, index: changed}))
        return found


def _clamped(x: float, limits: tuple[int, int]) -> float:
    return min(max(x, limits[0]), limits[1])


def _fraction(x: float) -> float:
    """Distance to the nearest whole number; 0 where a solver's number means a whole one."""
    away = abs(x - round(x))
    return away if away > WHOLE else 0.0
