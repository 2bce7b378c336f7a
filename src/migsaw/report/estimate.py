"""A static estimate as tables and as plain data: the parts, and the profiles that hold them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from migsaw.fit.estimate import context_row, profiles, smallest, total
from migsaw.fit.estimate_weights import plain_precision, quantization_of
from migsaw.fit.shapes import parameters
from migsaw.model.boards import Board
from migsaw.model.workload_shape import Estimate, ProfileNeed, Row
from migsaw.report.table import Column, Table, na


def estimate_tables(found: Estimate, boards: Sequence[Board], *, is_listed: bool) -> list[Table]:
    """``is_listed``: every profile of the boards rather than one line per board."""
    tables = [_parts(found)]
    tables += [_listed(found, board) for board in boards] if is_listed else [_boards(found, boards)]
    return tables


def _parts(found: Estimate) -> Table:
    columns = (
        Column("part", whole=True),
        Column("low MiB", right=True),
        Column("high MiB", right=True),
        Column("formula"),
        Column("source", wide=True),
    )
    rows = [_part(row) for row in (*found.rows, context_row(None))]
    need = total(found)
    high = na("see below") if found.unknown else str(need.high_mib)
    rows.append(("total", str(need.low_mib), high, "", ""))
    return Table(columns, tuple(rows), f"{found.model.name}: {asked_words(found)}", _said(found))


def _part(row: Row) -> tuple[str, ...]:
    return row.what, str(math.floor(row.low_mib)), str(math.ceil(row.high_mib)), row.formula, row.source


def asked_words(found: Estimate) -> str:
    """The set-up in one line."""
    setup = found.setup
    words = [setup.task, _precision(found), f"{setup.batch} × {setup.seq} tokens"]
    if setup.task != "inference":
        words.append(setup.optimizer)
        words.append(f"gradient checkpointing {'on' if setup.checkpointing else 'off'}")
    if setup.task in ("lora", "qlora"):
        words.append(f"rank {setup.rank}")
    return ", ".join([*words, *([f"{setup.attention} attention"] if setup.attention else [])])


def _precision(found: Estimate) -> str:
    how = quantization_of(found.model, found.setup)
    return plain_precision(found.model, found.setup) if how is None else how.method


def _said(found: Estimate) -> tuple[str, ...]:
    lines = [f"n/a beyond these parts: {found.unknown}."] if found.unknown else []
    lines += found.notes
    lines.append("Estimated, not measured: ranges hold what a configuration cannot tell; -o wide names the sources.")
    return tuple(lines)


def _boards(found: Estimate, boards: Sequence[Board]) -> Table:
    columns = (
        Column("board", whole=True),
        Column("holds", whole=True),
        Column("its MiB", right=True),
        Column("need there, MiB", right=True),
        Column("margin MiB", right=True),
        Column("may hold"),
        Column("evidence"),
    )
    rows = tuple(_board(found, board) for board in boards)
    footer = (
        "holds: the smallest profile with room for the high end; may hold: a smaller one with room for the low end.",
        f"{len(rows)} boards.",
    )
    return Table(columns, rows, "", footer)


def _board(found: Estimate, board: Board) -> tuple[str, ...]:
    judged = profiles(found, board)
    held, perhaps = smallest(judged, "holds"), smallest(judged, "may hold")
    smaller = perhaps.profile if perhaps and perhaps is not held else "none smaller" if held else "none"
    if held is None:
        return board.key, _why(judged), "", "", "", smaller, board.evidence
    margin = str((held.memory_mib or 0) - held.need.high_mib)
    return board.key, held.profile, str(held.memory_mib), _range(held), margin, smaller, board.evidence


def _why(judged: tuple[ProfileNeed, ...]) -> str:
    if not judged or any(row.verdict == "unknown" and row.memory_mib is None for row in judged):
        return na("memory of its profiles not known")
    if any(row.verdict == "unknown" for row in judged):
        return na("only a lower bound is known")
    return "none for sure"


def _range(row: ProfileNeed) -> str:
    return f"{row.need.low_mib}–{row.need.high_mib}"


def _listed(found: Estimate, board: Board) -> Table:
    columns = (
        Column("profile", whole=True),
        Column("MiB", right=True),
        Column("need there, MiB", right=True),
        Column("margin MiB", right=True),
        Column("verdict"),
    )
    rows = tuple(
        (
            row.profile,
            na("not known") if row.memory_mib is None else str(row.memory_mib),
            f"at least {row.need.low_mib}" if found.unknown else _range(row),
            na("not known") if row.memory_mib is None or found.unknown else str(row.memory_mib - row.need.high_mib),
            na("only a lower bound is known") if row.verdict == "unknown" else row.verdict,
        )
        for row in profiles(found, board)
    )
    held = sum(row.verdict == "holds" for row in profiles(found, board))
    return Table(columns, rows, board.key, (f"Evidence: {board.evidence}.", f"{held} of {len(rows)} profiles hold it."))


def estimate_document(found: Estimate, boards: Sequence[Board]) -> dict[str, Any]:
    """Plain data; what is not known is null."""
    need, setup, shape = total(found), found.setup, found.model.architecture
    return {
        "model": found.model.name,
        "parameters": None if shape is None else parameters(shape).total,
        "setup": {
            "task": setup.task,
            "precision": _precision(found),
            "seq": setup.seq,
            "batch": setup.batch,
            "optimizer": setup.optimizer,
            "checkpointing": setup.checkpointing,
            "attention": setup.attention,
            "rank": setup.rank,
        },
        "source": "estimated",
        "parts": [_part_data(row) for row in (*found.rows, context_row(None))],
        "need_mib": {"low": need.low_mib, "high": None if found.unknown else need.high_mib},
        "unknown": found.unknown or None,
        "notes": list(found.notes),
        "boards": [_board_data(found, board) for board in boards],
    }


def _part_data(row: Row) -> dict[str, Any]:
    return {
        "part": row.what,
        "low_mib": round(row.low_mib, 3),
        "high_mib": round(row.high_mib, 3),
        "formula": row.formula,
        "source": row.source,
    }


def _board_data(found: Estimate, board: Board) -> dict[str, Any]:
    judged = profiles(found, board)
    held, perhaps = smallest(judged, "holds"), smallest(judged, "may hold")
    return {
        "board": board.key,
        "evidence": board.evidence,
        "holds": held and held.profile,
        "may_hold": perhaps and perhaps.profile,
        "profiles": [
            {
                "profile": row.profile,
                "memory_mib": row.memory_mib,
                "need_mib": {"low": row.need.low_mib, "high": None if found.unknown else row.need.high_mib},
                "verdict": row.verdict,
            }
            for row in judged
        ],
    }
