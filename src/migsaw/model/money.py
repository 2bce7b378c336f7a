"""Prices of VM sizes, and what one slice costs: its share of the GPU, including what it strands.

US dollars per hour. A price that is not known is None, never 0; every price carries its date and source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from migsaw.model.boards import AzureSize, Board, Profile
from migsaw.model.layouts import Placed, arrange, by_start, stranded

FORBID = {"extra": "forbid"}


@dataclass(frozen=True, slots=True)
class Price:
    __pydantic_config__ = FORBID

    azure_size: str
    usd_per_hour: float  # of the whole VM
    date: str | None = None


@dataclass(frozen=True, slots=True)
class PriceTable:
    __pydantic_config__ = FORBID

    prices: tuple[Price, ...] = ()
    source: str = "n/a (not stated)"
    region: str = "n/a (not stated)"
    kind: str = "n/a (not stated)"
    currency: Literal["USD"] = "USD"
    schema: Literal["migsaw/prices/v1"] = "migsaw/prices/v1"

    def of(self, azure_size: str | None) -> Price | None:
        return next((p for p in self.prices if p.azure_size == azure_size), None)

    def usd_per_gpu_hour(self, azure_size: str | None, sizes: Mapping[str, AzureSize]) -> float | None:
        """The VM's price over its GPUs; None where the price or the size is not known."""
        price, size = self.of(azure_size), sizes.get(azure_size or "")
        return price.usd_per_hour / size.gpus if price and size else None

    def describe(self, sizes: Sequence[str]) -> str:
        """Where the prices of these sizes come from."""
        dates = sorted({p.date for p in self.prices if p.azure_size in sizes and p.date})
        when = f", {dates[0]}" if len(dates) == 1 else f", {dates[0]} to {dates[-1]}" if dates else ""
        return f"{self.kind}, {self.region}{when}; {self.source}"


@dataclass(frozen=True, slots=True)
class SliceShare:
    """The part of a GPU's price that one instance of a layout carries."""

    placed: Placed
    share: float = field()


def slice_shares(board: Board, layout: Sequence[Placed]) -> tuple[SliceShare, ...]:
    """Each instance's share of the GPU's price, what the layout strands included.

    What further placements could still use is nobody's cost yet; all the rest is spread over the instances by their
    dominant share (the larger of compute and memory), so that the shares of a full GPU add up to 1 and k equal
    slices of a GPU that holds no more carry 1/k each.
    """
    held = arrange(board, layout) or by_start(layout)
    if not held or not board.compute_slices or not board.memory_slices:
        return ()
    weights = [dominant_share(board, board.profile(p.profile)) or 1.0 for p in held]
    lost_compute, lost_memory = stranded(board, held)
    used_compute = sum(board.profile(p.profile).compute_slices for p in held) + lost_compute
    used_memory = sum(board.profile(p.profile).memory_slices or 0 for p in held) + lost_memory
    used = max(used_compute / board.compute_slices, used_memory / board.memory_slices)
    total = sum(weights)
    return tuple(SliceShare(p, used * w / total) for p, w in zip(held, weights, strict=True))


def dominant_share(board: Board, profile: Profile | None) -> float | None:
    """Of a GPU: the larger of a slice's parts of compute and of memory slices; 1 for a whole GPU (no profile).

    None where the slices of the board are not known.
    """
    if profile is None:
        return 1.0
    if not board.compute_slices or not board.memory_slices:
        return None
    return max(profile.compute_slices / board.compute_slices, (profile.memory_slices or 0) / board.memory_slices)
