"""A packing as JSON and as tables: layouts with their glyphs, who gets what, and the proof in the last line."""

from __future__ import annotations

from fractions import Fraction
from math import inf, nextafter
from typing import Any

from migsaw.model.demand import Demand
from migsaw.plan.packing import Packing


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


def packing_tables(demand: Demand, found: Packing) -> list[Any]:
    return []
