"""A packing as JSON and as tables: layouts with their glyphs, who gets what, and the proof in the last line."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import inf, nextafter
from typing import Any

from migsaw.model.boards import EVIDENCE
from migsaw.model.demand import Demand
from migsaw.plan.packing import Packing
from migsaw.report.glyphs import glyph
from migsaw.report.table import Column, Table


def packing_document(demand: Demand, found: Packing) -> dict[str, Any]:
    """The document of ``pack -o json``. A lower bound that is no float is rounded down, so that it stays true."""
    return {
        "status": "optimal" if found.optimal else "feasible",
        "gpus": {"total": found.total, **found.gpus},
        "cost_per_hour": _number(found.usd_per_hour),
        "lower_bound": _bound(found),
        "gap": float(found.gap),
        "layouts": [
            {
                "board": row.entry,
                "mig": "on" if row.mig_on else "off",
                "layout": [placed.profile for placed in row.layout],
                "placements": [str(placed) for placed in row.layout],
                "count": row.count,
            }
            for row in found.layouts
        ],
        "assignment": [
            {
                "workload": row.workload,
                "board": row.option.entry,
                "profile": row.option.profile,
                "batch": row.option.batch,
                "processes": row.option.processes,
                "instances": row.instances,
            }
            for row in found.assignment
        ],
        "scope_cost": None
        if found.scope_cost is None
        else {"gpus": found.scope_cost.gpus, "cost_per_hour": _number(found.scope_cost.usd_per_hour)},
        "evidence": {entry.name: entry.board.evidence for entry in demand.entries},
    }


def _number(value: Fraction | None) -> int | float | None:
    if value is None:
        return None
    return int(value) if value.denominator == 1 else float(value)


def _bound(found: Packing) -> int | float:
    if found.optimal or found.lower_bound.denominator == 1:
        return _number(found.lower_bound) or 0
    shown = float(found.lower_bound)
    while Fraction(shown) > found.lower_bound or shown >= float(found.objective):
        shown = nextafter(shown, -inf)
    return shown


def packing_tables(demand: Demand, found: Packing, by_rule: Packing | None = None) -> list[Table]:
    """``by_rule``: the same demand with the recommended slots, for comparison."""
    assigned = [_assignment_table(found)] if found.assignment else []
    footer = (*_evidence(demand), *_scope(found), *_rule(found, by_rule), _summary(found))
    return _with_footer([_layout_table(demand, found), *assigned], footer)


def _with_footer(tables: list[Table], footer: tuple[str, ...]) -> list[Table]:
    return [*tables[:-1], replace(tables[-1], footer=footer)]


def _layout_table(demand: Demand, found: Packing) -> Table:
    boards = {entry.name: entry.board for entry in demand.entries}
    names = {name: name if name == board.key else f"{name} ({board.key})" for name, board in boards.items()}
    rows = []
    for row in found.layouts:
        texts = [str(placed) for placed in row.layout] if row.mig_on else ["off"]
        rows.append((names[row.entry], f"{row.count:,}", glyph(boards[row.entry], texts), " ".join(texts)))
    columns = (Column("Board"), Column("GPUs", right=True), Column("Layout"), Column("Placements", wide=True))
    return Table(columns, tuple(rows), footer=())


def _assignment_table(found: Packing) -> Table:
    with_points = any(row.option.batch is not None or row.option.processes is not None for row in found.assignment)
    columns = (
        Column("Workload"),
        Column("Instances", right=True),
        Column("Profile"),
        Column("Board"),
        *((Column("Batch", right=True), Column("Processes", right=True)) if with_points else ()),
    )
    rows = []
    for row in found.assignment:
        option = row.option
        points = ["" if n is None else str(n) for n in (option.batch, option.processes)] if with_points else []
        rows.append((row.workload, f"{row.instances:,}", option.profile, option.entry, *points))
    return Table(columns, tuple(rows))


# ---- sentences ------------------------------------------------------------------------------------------------------


def _evidence(demand: Demand) -> list[str]:
    """Boards whose geometry nobody has seen on a real board."""
    return [
        f"{entry.name}: {EVIDENCE[entry.board.evidence]} ({entry.board.evidence})"
        for entry in demand.entries
        if entry.board.evidence in ("family-assumed", "captured-partial", "inherited")
    ]


def _scope(found: Packing) -> list[str]:
    if found.scope_cost is None:
        return []
    gpus, money = found.scope_cost.gpus, found.scope_cost.usd_per_hour
    price = "" if money is None else f" and {float(money):+,.2f} USD per hour"
    return [f"The layout_scope costs {gpus:+,} GPUs{price} beyond a plan that cuts every GPU freely."]


def _rule(found: Packing, by_rule: Packing | None) -> list[str]:
    if by_rule is None:
        return []
    more = by_rule.objective - found.objective
    share = f" ({float(more / found.objective):+.1%})" if found.objective else ""
    return [f"The simple rule, 2g and 3g slices first, would take {_money(by_rule, by_rule.objective)}{share}."]


def _summary(found: Packing) -> str:
    parts = ", ".join(f"{name} {n:,}" for name, n in found.gpus.items())
    price = "" if found.usd_per_hour is None else f", {float(found.usd_per_hour):,.2f} USD per hour"
    if found.optimal:
        proof = "proved optimal"
    else:
        proof = f"at least {_money(found, found.lower_bound)} is needed: gap {float(found.gap):.2g}"
    noun = "GPU" if found.total == 1 else "GPUs"
    return f"{found.total:,} {noun} ({parts}){price}; {proof}."


def _money(found: Packing, value: Fraction) -> str:
    return f"{float(value):,.2f} USD per hour" if found.usd_per_hour is not None else f"{-(-value // 1):,} GPUs"
