"""The layouts that one GPU can have, as a table with glyphs and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from migsaw.model.boards import Board
from migsaw.model.layouts import StateSpace
from migsaw.report.glyphs import glyph, legend
from migsaw.report.table import Column, Table


def layouts_table(board: Board, space: StateSpace, states: Sequence[int]) -> Table:
    columns = (
        Column("layout", whole=True),
        Column("instances", right=True),
        Column("compute", right=True),
        Column("memory", right=True),
        Column("maximal"),
        Column("placements", wide=True),
    )
    maximal = frozenset(space.maximal)
    rows = tuple(_row(board, space, state, state in maximal) for state in states)
    signs = legend(row[0] for row in rows)
    footer = (
        "compute and memory: slices in use. maximal: nothing can be added.",
        *([signs] if signs else []),
        counts(space),
    )
    return Table(columns, rows, f"{board.key} ({board.evidence})", footer)


def _row(board: Board, space: StateSpace, state: int, is_maximal: bool) -> tuple[str, ...]:
    layout = space.layout(state)
    texts = tuple(str(item) for item in layout)
    profiles = [board.profile(item.profile) for item in layout]
    return (
        glyph(board, texts),
        str(len(layout)),
        str(sum(profile.compute_slices for profile in profiles)),
        str(sum(profile.memory_slices or 0 for profile in profiles)),
        "yes" if is_maximal else "",
        " ".join(texts),
    )


def counts(space: StateSpace) -> str:
    """The last line: all states with the empty one, and of the maximal ones the sets and the multisets."""
    multisets = {space.counts(state) for state in space.maximal}
    return (
        f"{len(space.states)} states (the empty GPU included), {len(space.maximal)} maximal placement sets, "
        f"{len(multisets)} distinct maximal multisets."
    )


def layouts_data(board: Board, space: StateSpace, states: Sequence[int]) -> dict[str, Any]:
    maximal = frozenset(space.maximal)
    return {
        "board": board.key,
        "evidence": board.evidence,
        "profiles": list(space.names),
        "states": len(space.states),
        "maximal": len(maximal),
        "maximal_multisets": len({space.counts(state) for state in maximal}),
        "layouts": [
            {"placements": [str(item) for item in space.layout(state)], "maximal": state in maximal} for state in states
        ],
    }
