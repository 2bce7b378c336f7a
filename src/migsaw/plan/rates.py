"""What slots cost per month: now by the layouts that are there, then by the layouts that they were packed into.

A slice carries its share of the GPU with what its layout strands (model/money.py). Everything is as if it were held all
month; a price that is not known makes the figure None with its reason, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from migsaw.model.boards import Board, Catalogue
from migsaw.model.demand import Entry, Option
from migsaw.model.layouts import Layout
from migsaw.model.money import PriceTable, slice_shares
from migsaw.model.recommendation import HOURS_PER_MONTH, RowCost
from migsaw.plan.fleet import FleetGpu
from migsaw.plan.items import WHOLE
from migsaw.plan.packing import Packing


@dataclass(frozen=True, slots=True)
class Rates:
    """``sizes``: entry → Azure VM size, empty where not known. ``packing`` None: nothing was packed."""

    prices: PriceTable
    catalogue: Catalogue
    entries: Mapping[str, Entry]
    sizes: Mapping[str, str]
    packing: Packing | None

    def of(self, gpus: Sequence[FleetGpu], current: str, slot: Option | None, released: bool) -> RowCost:
        """Of all instances of a row: ``gpus`` are those that they lie on, one per instance."""
        usd = [self._per_hour(gpu.node.azure_size) for gpu in gpus]
        shares = [self._share_now(gpu, current) for gpu in gpus]
        now = None
        if all(u is not None for u in usd) and all(s is not None for s in shares):
            now = sum((u or 0.0) * (s or 0.0) for u, s in zip(usd, shares, strict=True)) * HOURS_PER_MONTH
        then = 0.0 if released else now if slot is None else self._then(slot, len(gpus))
        return RowCost(now, then, self._source({gpu.node.azure_size or "" for gpu in gpus}))

    def of_gpus(self, gpus: Mapping[str, int]) -> tuple[float | None, str]:
        """Of whole GPUs per entry."""
        used = [name for name, n in gpus.items() if n]
        usd = [self._per_hour(self.sizes[name]) for name in used]
        source = self._source({self.sizes[name] for name in used})
        if any(value is None for value in usd):
            return None, source
        return sum(gpus[n] * (u or 0.0) for n, u in zip(used, usd, strict=True)) * HOURS_PER_MONTH, source

    def of_slices(self, kinds: Sequence[Mapping[str, int]]) -> tuple[tuple[float, float, float] | None, str]:
        """Of compute slices per entry, for three kinds of waste."""
        used = sorted({name for kind in kinds for name, n in kind.items() if n})
        usd = {name: self._per_hour(self.sizes[name]) for name in used}
        source = self._source({self.sizes[name] for name in used})
        if any(value is None for value in usd.values()):
            return None, source
        idle, free, stranded = (
            sum(n * (usd[name] or 0.0) / _slices(self.entries[name].board) for name, n in kind.items() if n)
            * HOURS_PER_MONTH
            for kind in kinds
        )
        return (idle, free, stranded), source

    def _then(self, slot: Option, count: int) -> float | None:
        usd = self._per_hour(self.sizes[slot.entry])
        share = self._share_then(slot)
        return None if usd is None or share is None else usd * share * count * HOURS_PER_MONTH

    def _share_now(self, gpu: FleetGpu, current: str) -> float | None:
        if current == WHOLE:
            return 1.0
        return _mean_share(gpu.board, gpu.layout, current) if gpu.board else None

    def _share_then(self, slot: Option) -> float | None:
        """The mean share of such instances over the layouts of the packing."""
        total, number = 0.0, 0
        for row in self.packing.layouts if self.packing else ():
            held = sum(placed.profile == slot.profile for placed in row.layout)
            if row.entry == slot.entry and held:
                share = _mean_share(self.entries[row.entry].board, row.layout, slot.profile)
                if share is None:
                    return None
                total, number = total + share * held * row.count, number + held * row.count
        return total / number if number else None

    def _per_hour(self, size: str | None) -> float | None:
        return self.prices.usd_per_gpu_hour(size or None, self.catalogue.azure_sizes)

    def _source(self, sizes: set[str]) -> str:
        unpriced = sorted(size for size in sizes if self._per_hour(size) is None)
        if unpriced:
            named = [size for size in unpriced if size]
            return f"no price for {', '.join(named)}" if named else "the VM size is not known"
        return f"held all month (730 h); {self.prices.describe(sorted(sizes))}"


def _mean_share(board: Board, layout: Layout, profile: str) -> float | None:
    shares = [share.share for share in slice_shares(board, layout) if share.placed.profile == profile]
    return sum(shares) / len(shares) if shares else None


def _slices(board: Board) -> int:
    assert board.compute_slices, "boards without geometry are in no entry"
    return board.compute_slices
