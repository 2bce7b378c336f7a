"""What finished work costs on each slot: the values of ``migsaw cost``.

cost = share of the GPU × USD per GPU-hour × hours; the share has what the slice strands, the hours have the start-up.
A price or a time that is not known is None, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from migsaw.errors import InputError
from migsaw.fit.assigned import Assigned
from migsaw.fit.evidence import WHOLE
from migsaw.fit.frequency import Frequency
from migsaw.fit.slots import SlotOption, finishing_seconds
from migsaw.model.boards import Catalogue
from migsaw.model.money import PriceTable
from migsaw.model.recommendation import HOURS_PER_MONTH

Per = Literal["run", "million units"]
Cheaper = Literal["from", "up to", "always", "never"]


@dataclass(frozen=True, slots=True)
class BoardRate:
    """What a GPU of a board costs per hour, in which VM size; None: ``source`` says why."""

    board: str
    usd_per_gpu_hour: float | None
    azure_size: str | None
    source: str


@dataclass(frozen=True, slots=True)
class BreakEven:
    """Against a smaller slot: cheaper ``from`` (or ``up to``) so many units a run, ``always`` or ``never``.

    ``usd_per_hour_sooner``: where it is dearer and faster, what an hour of earlier end costs.
    """

    against: str
    cheaper: Cheaper
    units: float | None = None
    usd_per_hour_sooner: float | None = None


@dataclass(frozen=True, slots=True)
class Saves:
    """Share of the whole GPU's cost; below 0 it costs more. ``low`` and ``high`` by the intervals of both."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class CostRow:
    """A slot that serves, or the whole GPU (profile ``off``). Times and costs are expected ones, of a predicted slot
    by the median; ``seconds_low`` and ``seconds_high`` are those of the throughput's interval."""

    board: str
    profile: str
    is_chosen: bool
    throughput_source: str | None
    seconds: float | None
    seconds_low: float | None
    seconds_high: float | None
    startup_seconds: float | None
    startup_on: str | None
    share: float | None
    strands: float | None
    usd: float | None  # per run, or per million units
    usd_per_month: float | None
    saves: Saves | None
    break_even: BreakEven | None
    reason: str


@dataclass(frozen=True, slots=True)
class WorkloadCost:
    name: str
    fingerprint: str
    unit: str
    per: Per
    units_per_run: float | None
    runs_per_month: float | None
    runs_source: str  # "declared", or what was counted; empty: not known
    rows: tuple[CostRow, ...]
    because: str
    why_no_month: str


@dataclass(frozen=True, slots=True)
class Costs:
    workloads: tuple[WorkloadCost, ...]
    rates: tuple[BoardRate, ...]
    notes: tuple[str, ...] = ()
    schema: Literal["migsaw/cost/v1"] = "migsaw/cost/v1"


def board_rates(
    boards: Sequence[str], prices: PriceTable, catalogue: Catalogue, sizes: Sequence[str] = ()
) -> tuple[BoardRate, ...]:
    """The named VM size of a board, else its cheapest per GPU. Raises :class:`InputError` for an unknown size."""
    named: dict[str, str] = {}
    for size in sizes:
        if size not in catalogue.azure_sizes:
            raise InputError(f"unknown VM size {size}", hint=f"one of {', '.join(sorted(catalogue.azure_sizes))}")
        named[catalogue.azure_sizes[size].board] = size
    return tuple(_rate(board, named.get(board), prices, catalogue) for board in dict.fromkeys(boards))


def costs(
    found: Sequence[Assigned],
    rates: Sequence[BoardRate],
    notes: Sequence[str] = (),
    observed: Mapping[str, Frequency] = MappingProxyType({}),
) -> Costs:
    """``observed``: fingerprint → how often it was seen to run; what is declared counts before it."""
    usd = {rate.board: rate.usd_per_gpu_hour for rate in rates}
    return Costs(tuple(_of_workload(row, usd, observed) for row in found), tuple(rates), tuple(notes))


def break_even(
    smaller: SlotOption, bigger: SlotOption, units: float | None, usd_per_gpu_hour: float | None
) -> BreakEven | None:
    """Where share × (start-up + units × seconds per unit) of two slots is one; None: a time or share is not known.

    Without a run there is no start-up to spread: then seconds per unit alone decide.
    """
    one, other = _rate_of(smaller), _rate_of(bigger)
    if not one or not other or smaller.share is None or bigger.share is None:
        return None
    starts = (smaller.startup_seconds, bigger.startup_seconds) if units is not None else (0.0, 0.0)
    if starts[0] is None or starts[1] is None:
        return None
    fixed = bigger.share * starts[1] - smaller.share * starts[0]  # GPU-seconds that bigger adds to a run
    each = smaller.share / one - bigger.share / other  # that it saves per unit
    cheaper, at = _crossing(fixed, each)
    sooner = None if units is None else starts[0] - starts[1] + units * (1 / one - 1 / other)
    more = None if units is None else fixed - each * units
    is_traded = usd_per_gpu_hour is not None and more is not None and sooner is not None and more > 0 and sooner > 0
    hour = (more or 0.0) * (usd_per_gpu_hour or 0.0) / (sooner or 1.0) if is_traded else None
    return BreakEven(smaller.profile, cheaper, at, hour)


def _crossing(fixed: float, each: float) -> tuple[Cheaper, float | None]:
    """Bigger costs less where fixed < each × units."""
    if each > 0:
        return ("from", fixed / each) if fixed > 0 else ("always", None)
    if each < 0:
        return ("up to", fixed / each) if fixed < 0 else ("never", None)
    return ("always", None) if fixed < 0 else ("never", None)


# ---- rows -------------------------------------------------------------------------------------------------------


def _rate(board: str, size: str | None, prices: PriceTable, catalogue: Catalogue) -> BoardRate:
    sizes = [size] if size else [name for name, known in catalogue.azure_sizes.items() if known.board == board]
    per_gpu = [(usd, s) for s in sizes if (usd := prices.usd_per_gpu_hour(s, catalogue.azure_sizes)) is not None]
    if not per_gpu:
        why = f"no price for {', '.join(sorted(sizes))}" if sizes else f"no VM size has {board}"
        return BoardRate(board, None, size, why)
    usd, cheapest = min(per_gpu)
    return BoardRate(board, usd, cheapest, prices.describe([cheapest]))


def _of_workload(found: Assigned, usd: Mapping[str, float | None], observed: Mapping[str, Frequency]) -> WorkloadCost:
    """Boards in their order; on each the whole GPU first, then the slots that serve, by size."""
    often, rows = _frequency(found, observed), []
    runs = often.runs_per_month if often else None
    for board in dict.fromkeys(o.board for o in found.options):
        mine = [o for o in found.options if o.board == board]
        whole = next(o for o in mine if o.profile == WHOLE)
        rows.append(_row(found, whole, whole, None, usd[board], runs))
        serving = sorted((o for o in mine if o.fits and o.profile != WHOLE), key=_by_share)
        for smaller, option in zip([None, *serving], serving, strict=False):
            rows.append(_row(found, option, whole, smaller, usd[board], runs))
    return WorkloadCost(
        name=found.name,
        fingerprint=found.fingerprint,
        unit=found.unit,
        per="million units" if found.asked.units_per_run is None else "run",
        units_per_run=found.asked.units_per_run,
        runs_per_month=runs,
        runs_source=often.source if often else "",
        rows=tuple(rows),
        because=found.because,
        why_no_month=_why_no_month(found, runs),
    )


def _frequency(found: Assigned, observed: Mapping[str, Frequency]) -> Frequency | None:
    """Without a run there is nothing to count."""
    if found.asked.units_per_run is None:
        return None
    declared = found.asked.runs_per_month
    return observed.get(found.fingerprint) if declared is None else Frequency(declared, "declared")


def _row(
    found: Assigned,
    option: SlotOption,
    whole: SlotOption,
    smaller: SlotOption | None,
    usd: float | None,
    runs: float | None,
) -> CostRow:
    units, figure = found.asked.units_per_run, option.throughput
    seconds, low, high = _seconds(option, units)
    cost = None if usd is None or option.share is None or seconds is None else option.share * seconds * usd / 3600
    return CostRow(
        board=option.board,
        profile=option.profile,
        is_chosen=option is found.chosen,
        throughput_source=figure.source if figure else None,
        seconds=seconds,
        seconds_low=low,
        seconds_high=high,
        startup_seconds=option.startup_seconds,
        startup_on=option.startup_on,
        share=option.share,
        strands=option.strands,
        usd=cost,
        usd_per_month=_month(found, option, cost, usd, runs),
        saves=None if option is whole else _saves(option, whole, units),
        break_even=break_even(smaller, option, units, usd) if smaller else None,
        reason=option.reason,
    )


def _rate_of(option: SlotOption) -> float | None:
    return option.throughput.value if option.throughput else None


def _seconds(option: SlotOption, units: float | None) -> tuple[float | None, float | None, float | None]:
    """(expected, low, high)."""
    figure = option.throughput
    if figure is None:
        return None, None, None
    rates = (figure.value, figure.high, figure.low)
    expected, low, high = (finishing_seconds(r, option.startup_seconds, units) if r else None for r in rates)
    return expected, low, high


def _saves(option: SlotOption, whole: SlotOption, units: float | None) -> Saves | None:
    """Of GPU time, so no price is needed. The ends take the ends of both intervals: the true saving is inside where
    both true times are."""
    mine, base = _seconds(option, units), _seconds(whole, units)
    if option.share is None or mine[0] is None or not base[0]:
        return None
    low = 1 - option.share * mine[2] / base[1] if mine[2] is not None and base[1] else None
    high = 1 - option.share * mine[1] / base[2] if mine[1] is not None and base[2] else None
    return Saves(1 - option.share * mine[0] / base[0], low, high)


def _by_share(option: SlotOption) -> tuple[float, str]:
    return option.share or 0.0, option.profile


def _month(
    found: Assigned, option: SlotOption, cost: float | None, usd: float | None, runs: float | None
) -> float | None:
    """Runs × their cost; a service, which has a latency or a rate to keep and no runs, holds its slot all month."""
    if found.asked.units_per_run is not None:
        return None if runs is None or cost is None else runs * cost
    if not _is_service(found) or usd is None or option.share is None:
        return None
    return option.share * usd * HOURS_PER_MONTH


def _is_service(found: Assigned) -> bool:
    return found.asked.latency_slo_ms is not None or found.asked.throughput_per_second is not None


def _why_no_month(found: Assigned, runs: float | None) -> str:
    if found.asked.units_per_run is None:
        return "" if _is_service(found) else "no units per run and no limit of a service"
    return "" if runs is not None else "no runs per month"
