"""Slots of workloads as tables: what each profile gives, where each number comes from, which one was chosen and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from migsaw.fit.assigned import Assigned
from migsaw.fit.evidence import WHOLE
from migsaw.fit.slots import SlotOption
from migsaw.model.fits import Figure
from migsaw.report.table import Column, Table, na


def assign_tables(found: Sequence[Assigned], notes: Sequence[str]) -> tuple[Table, ...]:
    """One per workload; notes stand below the last."""
    tables = [_table(row) for row in found]
    if tables and notes:
        last = tables[-1]
        tables[-1] = Table(last.columns, last.rows, last.title, (*notes, *last.footer))
    return tuple(tables)


def _table(found: Assigned) -> Table:
    is_run = found.asked.units_per_run is not None
    columns = (
        Column("", whole=True),
        Column("board", wide=len(found.evidence) < 2, whole=True),
        Column("profile", whole=True),
        Column(f"{found.unit}/s", right=True),
        Column("interval", right=True),
        Column("from"),
        Column("latency ms", right=True, wide=True),
        Column("run s" if is_run else "s per million", right=True),
        Column("share", right=True),
        Column("GPU-s per run" if is_run else "GPU-s per million", right=True),
        Column("memory MiB", right=True, whole=True),
        Column("start-up s", right=True, wide=True),
        Column("why"),
    )
    rows = tuple(_cells(o, o is found.chosen) for o in found.options if o.profile != WHOLE)
    is_guessed = any(o.throughput and not o.is_measured for o in found.options if o.profile != WHOLE)
    guess = ("Predicted slots count with the low end of their interval.",) if is_guessed else ()
    return Table(columns, rows, _title(found), (*guess, _last(found)))


def _title(found: Assigned) -> str:
    boards = sorted({e.board for e in found.evidence})
    return f"{found.name} on {', '.join(boards)}"


def _last(found: Assigned) -> str:
    chosen = found.chosen
    if chosen is None:
        return f"Slot: none: {found.because}."
    predicted = "" if chosen.is_measured else f" It is only predicted: measure {chosen.profile} before relying on it."
    unnamed = "" if found.ref else " No fact names the workload to a plan: it is in no fits file."
    return f"Slot: {chosen.profile} on {chosen.board}: {found.because}.{predicted}{unnamed}"


def _cells(o: SlotOption, is_chosen: bool) -> tuple[str, ...]:
    figure = o.throughput
    return (
        "*" if is_chosen else "",
        o.board,
        o.profile,
        na("see why") if figure is None else f"{figure.value:.4g}",
        interval(figure),
        "n/a" if figure is None else _source(figure),
        "n/a" if o.latency_ms is None else f"{o.latency_ms.value:.4g}",
        "n/a" if o.seconds is None else f"{o.seconds:,.0f}",
        na("placements not known") if o.share is None else f"{o.share:.1%}",
        "n/a" if o.gpu_seconds is None else f"{o.gpu_seconds:,.0f}",
        _memory(o),
        startup(o.startup_seconds, o.startup_on, o.profile),
        o.reason,
    )


def interval(figure: Figure | None) -> str:
    if figure is None or figure.low is None or figure.high is None:
        return "n/a"
    return f"{figure.low:.4g} – {figure.high:.4g}"


def startup(seconds: float | None, on: str | None, profile: str) -> str:
    if seconds is None:
        return na("not measured")
    return f"{seconds:,.1f}" if on == profile else f"{seconds:,.1f} (of {on})"


def _source(figure: Figure) -> str:
    return {"predicted": "predicted (90 %)", "estimated": "simulated"}.get(figure.source, figure.source)


def _memory(o: SlotOption) -> str:
    """Peak + margin of what there is."""
    peak, limit = o.memory.peak, o.memory.limit
    used = "n/a" if peak is None else f"{peak:,} + {o.memory.margin or 0:,}"
    return f"{used} of {'n/a' if limit is None else f'{limit:,}'}"


# ---- CSV --------------------------------------------------------------------------------------------------------

RAW: Mapping[str, Callable[[Assigned, SlotOption], object]] = {
    "workload": lambda row, o: row.name,
    "fingerprint": lambda row, o: row.fingerprint,
    "unit": lambda row, o: row.unit,
    "board": lambda row, o: o.board,
    "profile": lambda row, o: o.profile,
    "chosen": lambda row, o: o is row.chosen,
    "fits": lambda row, o: o.fits,
    "reason": lambda row, o: o.reason,
    "throughput_per_second": lambda row, o: o.throughput and o.throughput.value,
    "throughput_low": lambda row, o: o.throughput and o.throughput.low,
    "throughput_high": lambda row, o: o.throughput and o.throughput.high,
    "throughput_source": lambda row, o: o.throughput and o.throughput.source,
    "latency_ms": lambda row, o: o.latency_ms and o.latency_ms.value,
    "startup_seconds": lambda row, o: o.startup_seconds,
    "startup_on": lambda row, o: o.startup_on,
    "units_per_run": lambda row, o: row.asked.units_per_run,
    "seconds": lambda row, o: o.seconds,
    "share": lambda row, o: o.share,
    "gpu_seconds": lambda row, o: o.gpu_seconds,
    "memory_peak_mib": lambda row, o: o.memory.peak,
    "memory_margin_mib": lambda row, o: o.memory.margin,
    "memory_limit_mib": lambda row, o: o.memory.limit,
}


def raw_table(found: Sequence[Assigned]) -> Table:
    """One value per cell, empty where it is not known; ``seconds`` are per run, or per million units without one."""
    rows = [tuple(_text(read(row, o)) for read in RAW.values()) for row in found for o in row.options]
    return Table(tuple(map(Column, RAW)), tuple(rows))


def _text(value: object) -> str:
    return "" if value is None else str(value)
