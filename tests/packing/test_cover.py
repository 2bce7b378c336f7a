"""Covers and bounds against brute force over every choice."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import product

from packing_draw import TABLE, draw

from migsaw.plan.packing import pack
from migsaw.plan.packing.bound import SCALE, Region, certify
from migsaw.plan.packing.build import build
from migsaw.plan.packing.cover import cheapest_cover


def test_cheapest_cover_is_the_cheapest() -> None:
    rng = random.Random(1)
    for _ in range(4000):
        size, need = rng.randint(1, 4), rng.randint(0, 40)
        prices, gains = [rng.randint(0, 20) for _ in range(size)], [rng.randint(1, 12) for _ in range(size)]
        most = [rng.randint(0, 5) for _ in range(size)]
        ways = product(*(range(m + 1) for m in most))
        costs = [dot(prices, way) for way in ways if dot(gains, way) >= need]
        found = cheapest_cover(prices, gains, need, most)
        assert (found is None) == (not costs)
        if found is not None:
            assert found.cost == found.least == min(costs) == dot(prices, found.counts)
            assert dot(gains, found.counts) >= need
            assert all(n <= m for n, m in zip(found.counts, most, strict=True))


def test_cheapest_cover_of_large_needs_is_bounded() -> None:
    """Too many ways to try: the bound lies between the linear bound and the cost of the cover."""
    rng = random.Random(2)
    for _ in range(300):
        size = rng.randint(2, 8)
        prices, gains = ([rng.randint(10**5, 10**6) for _ in range(size)] for _ in range(2))
        need = rng.randint(10**8, 10**12)
        found = cheapest_cover(prices, gains, need, [-(-need // g) for g in gains])
        linear = min(Fraction(p, g) for p, g in zip(prices, gains, strict=True)) * need
        assert found is not None
        assert linear <= found.least <= found.cost == dot(prices, found.counts) <= linear + max(prices)
        assert dot(gains, found.counts) >= need


def test_no_prices_make_a_false_bound() -> None:
    """Whatever a solver says, the certificate stays below the optimum (here proved by the search and by CP-SAT)."""
    rng = random.Random(3)
    for number in range(150):
        demand = draw(f"several gpu {number}", "gpu", 3)
        if any(entry.at_most is not None for entry in demand.entries):
            continue
        task, best = build(demand, TABLE), pack(demand, TABLE)
        region = Region(tuple((0, unit.most) for unit in task.programme.units))
        dearest = max((unit.cost for unit in task.programme.units), default=1)
        for _ in range(10):
            prices = [int(rng.expovariate(4) * dearest * SCALE) * rng.randint(0, 1) for _ in task.programme.rows]
            found = certify(task.programme, region, prices)
            assert found is not None
            assert found.least * task.grain <= best.objective


def dot(weights, counts) -> int:
    return sum(w * n for w, n in zip(weights, counts, strict=True))
