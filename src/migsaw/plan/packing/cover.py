"""The cheapest way to serve one need in whole instances, for given prices of its options. Exact integers.

min w.y  with  g.y >= need,  0 <= y <= most,  y integer. This is what makes the bound strong where few instances serve a
need: fractions of an instance are never counted. It must not know boards, profiles or GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SHIFT = 64  # ratios of price and gain are compared and multiplied as integers with so many bits behind the point
MOST_STEPS = 2000


@dataclass(frozen=True, slots=True)
class Cover:
    """``cost`` of ``counts``; no way to serve the need costs less than ``least`` (equal, but for very hard needs)."""

    cost: int
    least: int
    counts: tuple[int, ...]


def cheapest_cover(prices: Sequence[int], gains: Sequence[int], need: int, most: Sequence[int]) -> Cover | None:
    """None if the options cannot serve the need within ``most``. Depth first, best price per gain first."""
    size = len(prices)
    if need <= 0:
        return Cover(0, 0, (0,) * size)
    ratios = [(price << SHIFT) // gain for price, gain in zip(prices, gains, strict=True)]
    order = _useful(sorted(range(size), key=lambda k: (ratios[k], -gains[k], k)), prices, gains, need, most)
    search = _Search([(prices[k], gains[k], most[k], ratios[k]) for k in order])
    if need > search.reach[0]:
        return None
    search.go(0, need, 0, ())
    assert search.best is not None
    counts = [0] * size
    for k, n in zip(order, search.counts, strict=False):
        counts[k] = n
    return Cover(search.best, search.best if search.open is None else min(search.best, search.open), tuple(counts))


def _useful(
    order: Sequence[int], prices: Sequence[int], gains: Sequence[int], need: int, most: Sequence[int]
) -> list[int]:
    """Without options that cost no less and gain no more than one that is there often enough."""
    kept: list[int] = []
    for k in order:
        if not any(prices[b] <= prices[k] and gains[b] >= gains[k] and most[b] * gains[b] >= need for b in kept):
            kept.append(k)
    return kept


class _Search:
    def __init__(self, options: Sequence[tuple[int, int, int, int]]) -> None:
        """``options`` are (price, gain, most, ratio) by rising ratio."""
        self.options = options
        self.reach = [0] * (len(options) + 1)  # what this option and all later ones can gain
        for i in reversed(range(len(options))):
            self.reach[i] = self.reach[i + 1] + options[i][1] * options[i][2]
        self.best: int | None = None
        self.counts: tuple[int, ...] = ()
        self.open: int | None = None  # the least bound among branches that were not looked at
        self.steps = 0

    def go(self, i: int, need: int, cost: int, head: tuple[int, ...]) -> None:
        """Tries option ``i`` as often as it can be of use, then less often: what that leaves, later options serve."""
        price, gain, most, _ = self.options[i]
        n = min(most, -(-need // gain))
        if n * gain >= need:
            self._keep(cost + n * price, (*head, n))
            n -= 1
        while n >= 0:
            rest, spent = need - n * gain, cost + n * price
            if rest > self.reach[i + 1]:
                return
            least = spent - (-(rest * self.options[i + 1][3]) >> SHIFT)
            if self.best is not None and least >= self.best:
                return  # less of an option that has the better ratio cannot be cheaper
            self.steps += 1
            if self.steps > MOST_STEPS and self.best is not None:
                self.open = least if self.open is None else min(self.open, least)
                return
            self.go(i + 1, rest, spent, (*head, n))
            n -= 1

    def _keep(self, cost: int, counts: tuple[int, ...]) -> None:
        if self.best is None or cost < self.best:
            self.best, self.counts = cost, counts
