"""What each workload holds, what it should hold, and what fits together. Field names are those of `recommend -o json`.

Money is US dollars per month of 730 hours; None is not known, and ``money_source`` says why. Slices are the board's
compute slices.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from migsaw.model.fits import MemoryNeed, Verdict
from migsaw.model.telemetry import Window

HOURS_PER_MONTH = 730.0  # 365 days × 24 h ÷ 12

Change = Literal["shrink", "grow", "stay", "release", "unknown"]


@dataclass(frozen=True, slots=True)
class RowCost:
    """Shares of GPUs with what they strand (model/money.py), as held now and as packed together."""

    usd_per_month_now: float | None = None
    usd_per_month_then: float | None = None
    source: str = ""  # prices and presence, or why nothing is known


@dataclass(frozen=True, slots=True)
class WorkloadRow:
    """The instances of one workload that hold the same thing on the same kind of GPU."""

    namespace: str
    kind: str
    name: str
    entry: str  # kind of GPU: board, VM size or GPUs per node, scope
    board: str
    count: int  # instances (or pods with whole GPUs) held
    current: str  # profile, or "off" for a whole GPU
    gpus_each: int  # GPUs that one pod holds together; 1 for a slice
    change: Change
    recommended: str | None  # profile, "off"; None where nothing can be said or it should be released
    recommended_entry: str | None
    alone: str | None  # what it would be if nothing had to fit together
    verdict: Verdict
    reason: str  # one sentence
    measured_by: str  # how activity was read: signal, ceiling, rule, source
    next_step: str | None
    confidence: str
    points: int | None  # samples behind it
    memory_mib: MemoryNeed = field(default_factory=MemoryNeed)
    cost: RowCost = field(default_factory=RowCost)


@dataclass(frozen=True, slots=True)
class Waste:
    """Of all GPUs with a known geometry. The kinds add up to ``slices``."""

    slices: int
    used: int  # held, and needed as far as is known
    idle_in_use: int  # held and not needed: nobody works there, or a smaller slice would do
    free: int
    stranded: int
    unknown: int
    usd_per_month: tuple[float, float, float] | None = None  # of idle in use, free, stranded
    source: str = ""


@dataclass(frozen=True, slots=True)
class TogetherRow:
    entry: str
    layout: tuple[str, ...]  # ("off",) for MIG off
    count: int


@dataclass(frozen=True, slots=True)
class Together:
    """The recommended slots packed onto empty GPUs of the same kinds, with the certified bound.

    ``lower_bound`` holds for every acceptable choice of slots, not only for the one shown.
    """

    gpus_now: int
    gpus: int
    objective: float
    lower_bound: float
    gap: float
    unit: str  # "GPUs" or "USD per hour"
    gpus_alone: int | None  # the same when every workload takes what would be best for it alone
    usd_per_month_now: float | None
    usd_per_month: float | None
    rows: tuple[TogetherRow, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Recommendation:
    rows: tuple[WorkloadRow, ...]
    waste: Waste
    together: Together | None  # None: nothing is held, or it cannot be packed; ``why_not_together`` says why
    window: Window | None  # None: one scrape
    tolerance: float  # share of throughput that may be lost
    why_not_together: str = ""
    partial: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    schema: Literal["migsaw/recommendation/v1"] = "migsaw/recommendation/v1"
