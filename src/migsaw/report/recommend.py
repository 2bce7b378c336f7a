"""A recommendation as tables: what each workload should hold, what to mend first, what fits together, what is wasted.

Pure: a value in, tables out. CSV has the raw numbers in columns of their own; the tables join them for reading.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby

from migsaw.model.boards import Catalogue
from migsaw.model.recommendation import Recommendation, Together, Waste, WorkloadRow
from migsaw.model.telemetry import Window
from migsaw.plan.items import WHOLE
from migsaw.report.glyphs import glyph
from migsaw.report.money import number, percent, usd
from migsaw.report.table import Column, Table, na

MOST_PARTIAL = 8


def recommend_tables(found: Recommendation, catalogue: Catalogue) -> tuple[Table, ...]:
    """Workloads, layouts that hold them together, and the sums below."""
    tables = [workloads_table(found)]
    if found.together and found.together.rows:
        tables.append(_layouts_table(found.together, catalogue))
    last = tables[-1]
    closing = (*last.footer, "", *_sums(found))
    return (*tables[:-1], Table(last.columns, last.rows, last.title, closing))


def workloads_table(found: Recommendation) -> Table:
    columns = (
        Column("workload", whole=True),
        Column("board", wide=len({row.board for row in found.rows}) < 2),
        Column("kind of GPU", wide=True),
        Column("holds", right=True),
        Column("now → recommended"),
        Column("verdict"),
        Column("why"),
        Column("confidence", wide=True),
        Column("measured by", wide=True),
        Column("peak MiB", right=True, wide=True),
        Column("USD/month", right=True, whole=True),
    )
    rows = tuple(_cells(row) for row in found.rows)
    first = [f"{_name(row)}: {row.next_step}" for row in found.rows if row.next_step]
    title = f"Right sizes, {_window(found.window)}, at most {percent(found.tolerance)} of throughput given up"
    return Table(columns, rows, title, ("To do first:", *(f"- {line}" for line in first)) if first else ())


Cell = str | float | None

RAW: Mapping[str, Callable[[WorkloadRow], Cell]] = {
    "namespace": lambda row: row.namespace,
    "kind": lambda row: row.kind,
    "name": lambda row: row.name,
    "kind_of_gpu": lambda row: row.entry,
    "board": lambda row: row.board,
    "count": lambda row: row.count,
    "gpus_each": lambda row: row.gpus_each,
    "current": lambda row: row.current,
    "change": lambda row: row.change,
    "recommended": lambda row: row.recommended,
    "recommended_kind_of_gpu": lambda row: row.recommended_entry,
    "best_alone": lambda row: row.alone,
    "verdict": lambda row: row.verdict,
    "points": lambda row: row.points,
    "memory_peak_mib": lambda row: row.memory_mib.peak,
    "memory_margin_mib": lambda row: row.memory_mib.margin,
    "memory_limit_mib": lambda row: row.memory_mib.limit,
    "usd_per_month_now": lambda row: row.cost.usd_per_month_now,
    "usd_per_month_then": lambda row: row.cost.usd_per_month_then,
    "money_source": lambda row: row.cost.source,
    "confidence": lambda row: row.confidence,
    "reason": lambda row: row.reason,
    "measured_by": lambda row: row.measured_by,
    "next_step": lambda row: row.next_step,
}


def raw_table(found: Recommendation) -> Table:
    """One value per cell, empty where it is not known: for CSV."""
    rows = tuple(tuple(_text(read(row)) for read in RAW.values()) for row in found.rows)
    return Table(tuple(map(Column, RAW)), rows)


def _text(value: Cell) -> str:
    return "" if value is None else str(value)


def _cells(row: WorkloadRow) -> tuple[str, ...]:
    peak = row.memory_mib.peak
    return (
        _name(row),
        row.board,
        row.entry,
        str(row.count),
        _move(row),
        row.verdict.replace("_", " "),
        row.reason,
        row.confidence,
        row.measured_by or na("nothing"),
        na("not measured") if peak is None else f"{peak:,}",
        _money(row),
    )


def _name(row: WorkloadRow) -> str:
    return f"{row.namespace}/{row.name}" if row.kind == "Pod" else f"{row.namespace}/{row.kind}/{row.name}"


def _move(row: WorkloadRow) -> str:
    now = _slot(row.current, row.gpus_each)
    if row.change == "unknown":
        return f"{now} → {na('see why')}"
    if row.change == "release":
        return f"{now} → none"
    then = _slot(row.recommended or row.current, row.gpus_each)
    other = f" on {_elsewhere(row)}" if row.recommended_entry not in (None, row.entry) else ""
    if row.change == "stay":
        return now
    return f"{now} → {then}{other}"


def _elsewhere(row: WorkloadRow) -> str:
    """Another kind of GPU (board, size, scope): what tells it from the present one."""
    board, _, rest = (row.recommended_entry or "").partition(" ")
    size = rest.rpartition(" ")[0]
    return size if board == row.board else f"{board} {size}"


def _slot(profile: str, gpus: int) -> str:
    return profile if profile != WHOLE else "whole GPU" if gpus == 1 else f"{gpus} whole GPUs"


def _money(row: WorkloadRow) -> str:
    now, then = row.cost.usd_per_month_now, row.cost.usd_per_month_then
    if now is None:
        return na(row.cost.source)
    if row.change in ("stay", "unknown"):
        return f"{now:,.0f}"
    return f"{now:,.0f} → {na(row.cost.source) if then is None else f'{then:,.0f}'}"


def _window(window: Window | None) -> str:
    if window is None:
        return "from one scrape"
    hours = (window.end - window.start) / 3600
    length = f"{number(hours / 24, '')} d" if hours >= 48 else f"{number(hours, '')} h"
    return f"over {length} in steps of {number(window.step, '')} s"


def _layouts_table(together: Together, catalogue: Catalogue) -> Table:
    boards: Mapping[str, str] = {row.entry: row.entry.split(" ", 1)[0] for row in together.rows}
    rows = []
    for entry, group in groupby(together.rows, key=lambda row: row.entry):
        for row in group:
            rows.append((entry, glyph(catalogue.find(boards[entry]), row.layout), str(row.count)))
    columns = (Column("board", whole=True), Column("layout", whole=True), Column("GPUs", right=True))
    return Table(columns, tuple(rows), "What fits together: the recommended slots on empty GPUs")


# ---- sums -------------------------------------------------------------------------------------------------------


def _sums(found: Recommendation) -> list[str]:
    lines = [_together_line(found.together) if found.together else f"Together: {na(found.why_not_together)}"]
    lines.append(_waste_line(found.waste))
    lines += [f"partial: {text}" for text in found.partial[:MOST_PARTIAL]]
    if len(found.partial) > MOST_PARTIAL:
        lines.append(f"partial: … and {len(found.partial) - MOST_PARTIAL} more")
    return [*lines, *found.notes]


def _together_line(together: Together) -> str:
    alone = together.gpus_alone
    apart = f" ({alone} if each took what is best for it alone)" if alone is not None and alone != together.gpus else ""
    bound = (
        f"no acceptable choice of slots needs less than {number(together.lower_bound, '')} {together.unit}, "
        f"gap {percent(together.gap)} (certified)"
    )
    money = f"{usd(together.usd_per_month_now, together.source)} → {usd(together.usd_per_month, together.source)}"
    return (
        f"Together: {together.gpus_now} → {together.gpus} GPUs{apart}; {bound}. Per month: {money}; {together.source}."
    )


def _waste_line(waste: Waste) -> str:
    """The three kinds of waste apart; what a month of each costs where prices are known."""
    slices = {"idle in use": waste.idle_in_use, "free": waste.free, "stranded": waste.stranded}
    money = waste.usd_per_month
    costs = [f" ({usd(value, '')} per month)" for value in money] if money else ["", "", ""]
    parts = [f"{n} {kind}{cost}" for (kind, n), cost in zip(slices.items(), costs, strict=True)]
    unknown = f", {waste.unknown} not known" if waste.unknown else ""
    return f"Of {waste.slices} compute slices: {waste.used} used, {', '.join(parts)}{unknown}."
