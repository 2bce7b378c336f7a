"""Class of work → default profile, as tables: of one board with its figures, or of several boards side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from migsaw.fit.estimate_classes import CLASSES, Default, default, defaults
from migsaw.model.boards import Board, Catalogue
from migsaw.report.boards import azure_sizes
from migsaw.report.table import Column, Table, na

FOOTER = (
    "By memory alone, from a static estimate of an example: what is known of the work beats its class.",
    "Training is not given a 1g with the memory of a 2g: it would have about half the SMs.",
    "sure: no smaller profile can hold the example; else the smaller one named may, and a trial tells.",
)


def guide_table(board: Board) -> Table:
    columns = (
        Column("class", whole=True),
        Column("default", whole=True),
        Column("need MiB", right=True),
        Column("confidence"),
        Column("assumes"),
        Column("migsaw.io/class", wide=True),
    )
    found = defaults(board)
    rows = tuple(
        (row.work.name, shown(row), _need(row), confidence(row), row.work.assumes, row.work.label) for row in found
    )
    evidence = f"Geometry: {board.evidence}. {len(rows)} classes."
    return Table(columns, rows, f"{board.key}: defaults by class of work", (*FOOTER, evidence))


def guide_boards(catalogue: Catalogue) -> tuple[Board, ...]:
    """Those that an Azure size has and whose memory is known."""
    return tuple(b for b in catalogue.boards if azure_sizes(b, catalogue) and b.profiles and _is_known(b))


def _is_known(board: Board) -> bool:
    return all(profile.memory_mib is not None for profile in board.profiles if profile.is_plain)


def guide_matrix(boards: Sequence[Board]) -> Table:
    """One row a class, one column a board."""
    columns = (Column("class", whole=True), *(Column(board.key) for board in boards))
    rows = tuple((work.name, *(shown(default(board, work)) for board in boards)) for work in CLASSES)
    return Table(columns, rows, "", (*FOOTER, f"{len(rows)} classes on {len(boards)} boards."))


def shown(row: Default) -> str:
    if row.profile is not None:
        return f"whole GPU ({row.profile.profile})" if row.advice == "whole GPU" else row.profile.profile
    if row.advice == "measure first" and row.perhaps is not None:
        return f"measure: {row.perhaps.profile} may hold it"
    return na("memory not known") if row.advice == "unknown" else row.advice


def confidence(row: Default) -> str:
    if row.profile is None:
        return na("no profile for sure") if row.advice == "measure first" else na("no profile")
    if row.is_sure:
        return "sure"
    assert row.perhaps is not None
    return f"{row.perhaps.profile} may do"


def _need(row: Default) -> str:
    if row.need is None:
        return na("profiles not known")
    return f"{row.need.low_mib}–{row.need.high_mib}"


def guide_data(board: Board) -> dict[str, Any]:
    return {
        "board": board.key,
        "evidence": board.evidence,
        "classes": [
            {
                "class": row.work.name,
                "label": row.work.label,
                "assumes": row.work.assumes,
                "advice": row.advice,
                "profile": row.profile and row.profile.profile,
                "may_do": row.perhaps and row.perhaps.profile,
                "need_mib": row.need and {"low": row.need.low_mib, "high": row.need.high_mib},
                "source": "estimated",
            }
            for row in defaults(board)
        ],
    }
