"""What finished work costs, as tables: the whole GPU first, then each slice that serves. n/a says why."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from migsaw.fit.evidence import WHOLE
from migsaw.plan.run_cost import BreakEven, CostRow, Costs, WorkloadCost
from migsaw.report.money import usd
from migsaw.report.table import Column, Table, na

NARROW = 0.1  # a saving whose range is within ten points is shown without it


def cost_tables(found: Costs) -> tuple[Table, ...]:
    """One per workload; prices and notes stand below the last."""
    tables = [_table(row) for row in found.workloads]
    if tables:
        last = tables[-1]
        tables[-1] = Table(last.columns, last.rows, last.title, (*last.footer, *_prices(found), *found.notes))
    return tuple(tables)


def _table(row: WorkloadCost) -> Table:
    columns = (
        Column("", whole=True),
        Column("board", wide=len({r.board for r in row.rows}) < 2, whole=True),
        Column("slot", whole=True),
        Column("throughput", whole=True),
        Column(f"duration of a {row.per}" if row.per == "run" else "time per million", right=True, whole=True),
        Column("interval", right=True, wide=True),
        Column("start-up s", right=True),
        Column("start-up of", wide=True),
        Column("share held", right=True, whole=True),
        Column(f"USD per {row.per}", right=True),
        Column("USD per month", right=True),
        Column("against whole GPU", right=True, whole=True),
        Column("break-even"),
    )
    rows = tuple(_cells(r, row) for r in row.rows)
    return Table(columns, rows, _title(row), tuple(_footer(row)))


def _title(row: WorkloadCost) -> str:
    run = "" if row.units_per_run is None else f", {row.units_per_run:,.6g} {row.unit} a run"
    often = "" if row.runs_per_month is None else f", {row.runs_per_month:,.4g} runs a month ({row.runs_source})"
    return f"{row.name}{run}{often}"


def _footer(row: WorkloadCost) -> list[str]:
    lines = []
    if row.per == "run" and all(r.startup_seconds is None for r in row.rows):
        lines.append("Start-up was not measured: durations and costs are without it.")
    if any(r.throughput_source == "predicted" and r.profile != WHOLE for r in row.rows):
        lines.append("Predicted: the median, 90 % lie in the range; it is chosen only where its low end would do.")
    if any(r.is_chosen for r in row.rows):
        chosen = next(r for r in row.rows if r.is_chosen)
        lines.append(f"Slot: {chosen.profile} on {chosen.board}: {row.because}.")
    else:
        lines.append(f"Slot: none: {row.because}.")
    return lines


def _prices(found: Costs) -> list[str]:
    lines = []
    for rate in found.rates:
        if rate.usd_per_gpu_hour is None:
            lines.append(f"{rate.board}: {na(rate.source)}")
        else:
            lines.append(
                f"{rate.board}: {usd(rate.usd_per_gpu_hour, '')} per GPU-hour, {rate.azure_size}: {rate.source}"
            )
    return lines


def _cells(r: CostRow, row: WorkloadCost) -> tuple[str, ...]:
    why = _why(r)
    return (
        "*" if r.is_chosen else "",
        r.board,
        "whole GPU" if r.profile == WHOLE else r.profile,
        na(r.reason.removeprefix("n/a (").removesuffix(")")) if r.throughput_source is None else _source(r),
        "n/a" if r.seconds is None else duration(r.seconds),
        _interval(r),
        na("not measured") if r.startup_seconds is None else f"{r.startup_seconds:,.1f}",
        r.startup_on or "",
        _share(r),
        na(why) if r.usd is None else money(r.usd),
        na(row.why_no_month or why) if r.usd_per_month is None else money(r.usd_per_month),
        _saved(r),
        _even(r.break_even, row) if r.break_even else "",
    )


def _why(r: CostRow) -> str:
    if r.seconds is None:
        return "throughput is not known"
    return "share is not known" if r.share is None else "no price"


def _source(r: CostRow) -> str:
    return {"estimated": "simulated"}.get(r.throughput_source or "", r.throughput_source or "")


def _interval(r: CostRow) -> str:
    low, high = r.seconds_low, r.seconds_high
    return "n/a" if low is None or high is None else f"{duration(low)} – {duration(high)}"


def _share(r: CostRow) -> str:
    if r.share is None:
        return na("placements not known")
    return f"{r.share:.1%}" + (f" ({r.strands:.1%} stranded)" if r.strands and r.strands >= 0.0005 else "")


def _saved(r: CostRow) -> str:
    """The range only where something is predicted: a measured one is narrow."""
    if r.profile == WHOLE:
        return ""
    if r.saves is None:
        return na("not known of the whole GPU")
    said, (low, high) = f"{-r.saves.value:+.0%}", (r.saves.low, r.saves.high)
    if low is None or high is None or high - low < NARROW:
        return said
    return f"{said} ({-high:+.0%} to {-low:+.0%})"


def _even(even: BreakEven, row: WorkloadCost) -> str:
    said = {
        "always": f"cheaper than {even.against}",
        "never": f"dearer than {even.against}",
        "from": f"cheaper than {even.against} from {even.units or 0:,.4g} {row.unit} a run on",
        "up to": f"cheaper than {even.against} up to {even.units or 0:,.4g} {row.unit} a run",
    }[even.cheaper]
    if even.usd_per_hour_sooner is not None:
        said += f"; an hour sooner costs {money(even.usd_per_hour_sooner)} USD"
    return said


def duration(seconds: float) -> str:
    """Three digits that count: ``41.2 s``, ``12.5 min``, ``3.25 h``, ``12.1 d``."""
    for limit, size, unit in ((120, 1, "s"), (7200, 60, "min"), (172800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 86400:,.1f} d"


def money(value: float) -> str:
    """Cents, and four decimals under a dollar: a run may cost less than a cent."""
    return f"{value:,.2f}" if value >= 1 else f"{value:.4f}"


# ---- CSV --------------------------------------------------------------------------------------------------------

RAW: Mapping[str, Callable[[WorkloadCost, CostRow], object]] = {
    "workload": lambda row, r: row.name,
    "fingerprint": lambda row, r: row.fingerprint,
    "board": lambda row, r: r.board,
    "profile": lambda row, r: r.profile,
    "chosen": lambda row, r: r.is_chosen,
    "throughput_source": lambda row, r: r.throughput_source,
    "per": lambda row, r: row.per,
    "unit": lambda row, r: row.unit,
    "units_per_run": lambda row, r: row.units_per_run,
    "runs_per_month": lambda row, r: row.runs_per_month,
    "runs_source": lambda row, r: row.runs_source,
    "seconds": lambda row, r: r.seconds,
    "seconds_low": lambda row, r: r.seconds_low,
    "seconds_high": lambda row, r: r.seconds_high,
    "startup_seconds": lambda row, r: r.startup_seconds,
    "startup_on": lambda row, r: r.startup_on,
    "share": lambda row, r: r.share,
    "stranded_share": lambda row, r: r.strands,
    "usd": lambda row, r: r.usd,
    "usd_per_month": lambda row, r: r.usd_per_month,
    "saves": lambda row, r: r.saves and r.saves.value,
    "saves_low": lambda row, r: r.saves and r.saves.low,
    "saves_high": lambda row, r: r.saves and r.saves.high,
    "break_even_against": lambda row, r: r.break_even and r.break_even.against,
    "break_even": lambda row, r: r.break_even and r.break_even.cheaper,
    "break_even_units": lambda row, r: r.break_even and r.break_even.units,
    "usd_per_hour_sooner": lambda row, r: r.break_even and r.break_even.usd_per_hour_sooner,
    "reason": lambda row, r: r.reason,
}


def raw_table(found: Costs) -> Table:
    """One value per cell, empty where it is not known. ``usd`` is per what ``per`` says."""
    price = {rate.board: rate for rate in found.rates}
    columns = (*RAW, "usd_per_gpu_hour", "azure_size", "price_source")
    rows = []
    for row in found.workloads:
        for r in row.rows:
            rate = price[r.board]
            values = [*(read(row, r) for read in RAW.values()), rate.usd_per_gpu_hour, rate.azure_size, rate.source]
            rows.append(tuple("" if value is None else str(value) for value in values))
    return Table(tuple(map(Column, columns)), tuple(rows))
