"""A certified lower bound from any prices whatever: Lagrangian relaxation in exact integers.

Rows get prices >= 0. Then every unit and every block decides alone, and what they pay together is no more than the
optimum. Blocks pay for whole instances (:mod:`cover`), so the bound is stronger than that of the linear programme.
The prices come from a solver in floating point; whatever it returned, the bound is true, good prices only make it high.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from migsaw.plan.packing.cover import cheapest_cover
from migsaw.plan.packing.programme import Block, Counts, Programme

SCALE = 840 << 24  # prices are multiples of 1/SCALE: facets have denominators up to 8


@dataclass(frozen=True, slots=True)
class Region:
    """A part of the solutions: least and most of each unit, and of each slot for some blocks."""

    units: tuple[tuple[int, int], ...]
    blocks: Mapping[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)

    def limits(self, index: int, block: Block) -> tuple[tuple[int, int], ...]:
        return self.blocks.get(index) or tuple((0, most) for most in block.most)


@dataclass(frozen=True, slots=True)
class Certificate:
    """``least``: no solution of the region costs less. ``choices``: what the blocks took at these prices."""

    least: int
    exact: float  # the bound before it was rounded up
    choices: tuple[Counts, ...]


def certify(programme: Programme, region: Region, prices: Sequence[int]) -> Certificate | None:
    """None: some block cannot be served within its limits, so the region is empty. ``prices`` in 1/SCALE."""
    weights = priced(programme, prices)
    total = 0
    rates = [SCALE * unit.cost for unit in programme.units]
    for row, price in zip(programme.rows, prices, strict=True):
        if price:
            for unit, n in row.units.items():
                rates[unit] -= price * n
            total -= price * row.constant
    total += sum(w * n for w, n in zip(weights, programme.fixed, strict=True))
    total += sum(rate * (low if rate >= 0 else high) for rate, (low, high) in zip(rates, region.units, strict=True))
    choices = []
    for index, block in enumerate(programme.blocks):
        found = _cover(block, region.limits(index, block), weights)
        if found is None:
            return None
        total += found[0]
        choices.append(found[1])
    return Certificate(-(-total // SCALE), total / SCALE, tuple(choices))


def priced(programme: Programme, prices: Sequence[int]) -> list[int]:
    """What one of each slot costs at these prices of the rows, in 1/SCALE."""
    weights = [SCALE * cost for cost in programme.costs]
    for row, price in zip(programme.rows, prices, strict=True):
        if price:
            for slot, n in row.uses.items():
                weights[slot] += price * n
    return weights


def _cover(block: Block, limits: Sequence[tuple[int, int]], weights: Sequence[int]) -> tuple[int, Counts] | None:
    prices = [weights[slot] for slot in block.slots]
    low = [least for least, _ in limits]
    rest = block.need - sum(n * gain for n, gain in zip(low, block.gains, strict=True))
    found = cheapest_cover(prices, block.gains, rest, [high - least for least, high in limits])
    if found is None:
        return None
    paid = sum(price * n for price, n in zip(prices, low, strict=True))
    return paid + found.least, tuple(a + b for a, b in zip(low, found.counts, strict=True))
