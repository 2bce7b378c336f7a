"""A GPU's layout in one line that reads without colour: ``[2g*|1g|·|3g!]``, ``[7×1g|x]``.

From left to right the instances as they lie in memory, three and more alike as a number; between them ``·`` for room
that a profile could still use and ``x`` for room that none can (stranded). ``*`` after an instance: a pod holds it;
``!``: held, but no activity was seen; ``?``: nobody says whether it is held.
Where starts are not known, one arrangement that the geometry allows is drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby

from migsaw.model.boards import Board, Profile
from migsaw.model.layouts import Layout, Placed, StateSpace, arrange, parse_placed

FREE, STRANDED, HELD, IDLE, UNSURE, OFF = "·", "x", "*", "!", "?", "off"
MANY = 2  # more alike than this are written as a number
LEGEND = {
    HELD: "* held by a pod",
    IDLE: "! held, no activity seen",
    UNSURE: "? may be held",
    FREE: "· free",
    STRANDED: "x stranded: no profile fits",
}


def glyph(
    board: Board | None,
    texts: Sequence[str],
    held: Iterable[str] = (),
    idle: Iterable[str] = (),
    unsure: Iterable[str] = (),
) -> str:
    """The glyph of a layout in a plan's words (``3g.40gb@4``, ``off``). ``held``, ``idle``, ``unsure`` are of these."""
    idle_left, held_left, unsure_left = Counter(idle), Counter(held), Counter(unsure)
    if tuple(texts) == (OFF,):
        return f"[{OFF}{IDLE if idle_left else HELD if held_left else UNSURE if unsure_left else ''}]"
    marks = {}
    for place, text in enumerate(texts):
        for left, mark in ((idle_left, IDLE), (held_left, HELD), (unsure_left, UNSURE)):
            if left[text] > 0 and place not in marks:
                marks[place] = mark
            if left[text] > 0:
                left[text] -= 1
    layout = tuple(_own_name(board, parse_placed(text)) for text in texts)
    named = [(item, marks.get(place, "")) for place, item in enumerate(layout)]
    return "[" + "|".join(_runs(_cells(board, layout, named))) + "]"


def _own_name(board: Board | None, item: Placed) -> Placed:
    """With the board's own name of the profile: ``7g.79gb`` is ``7g.80gb``."""
    found = board.find(item.profile) if board else None
    return Placed(found.name, item.start) if found else item


def legend(glyphs: Iterable[str]) -> str:
    """What the signs mean that occur in these glyphs; empty where none does."""
    signs = set("".join(glyphs))
    return "   ".join(text for sign, text in LEGEND.items() if sign in signs)


def short_name(board: Board | None, profile: str) -> str:
    """``3g`` for ``3g.40gb``; the whole name where the board has a smaller profile of the same short name."""
    found = board.find(profile) if board else None
    if found is None or board is None:
        return profile
    size, attribute = _family(found)
    smallest = min(p.memory_slices or 0 for p in board.profiles if _family(p) == (size, attribute))
    return f"{size}{attribute}" if found.memory_slices == smallest else profile


def _family(profile: Profile) -> tuple[str, str]:
    """``1g.20gb+me`` → 1g, +me."""
    size, _, memory = profile.name.partition(".")
    return size, memory.partition("gb")[2]


def _cells(board: Board | None, layout: Layout, named: list[tuple[Placed, str]]) -> list[str]:
    drawn = _drawn(board, layout)
    if board is None or drawn is None:
        ordered = sorted(named, key=lambda pair: (pair[0].start is None, pair[0].start or 0, pair[0].profile))
        return [f"{short_name(board, item.profile)}{mark}" for item, mark in ordered]
    cells, place, waiting = [], 0, list(named)
    for item in drawn:
        profile, start = board.profile(item.profile), item.start or 0
        cells += _room(board, drawn, place, start)
        alike = [p for p in waiting if p[0].profile == item.profile and p[0].start in (None, item.start)]
        mine = min(alike, key=lambda pair: pair[0].start is None)  # its own start before one that is not known
        waiting.remove(mine)
        cells.append(f"{short_name(board, item.profile)}{mine[1]}")
        place = start + (profile.memory_slices or 0)
    return cells + _room(board, drawn, place, board.memory_slices or 0)


def _runs(cells: Iterable[str]) -> Iterator[str]:
    for cell, group in groupby(cells):
        count = len(list(group))
        yield from [f"{count}×{cell}"] if count > MANY else [cell] * count


def _drawn(board: Board | None, layout: Layout) -> Layout | None:
    """The layout with every start known; None where the board's geometry cannot say."""
    if board is None or not board.placements_known or not all(board.find(item.profile) for item in layout):
        return None
    return arrange(board, layout)


def _room(board: Board, layout: Layout, start: int, end: int) -> list[str]:
    """The signs of unoccupied memory slices, one for each of the smallest profile's size."""
    step = min(p.memory_slices or 1 for p in board.profiles)
    usable = _usable(board, layout)
    signs = "".join(
        FREE if any(usable >> s & 1 for s in range(at, at + step)) else STRANDED for at in range(start, end, step)
    )
    return [signs] if signs else []


@lru_cache(maxsize=4096)
def _usable(board: Board, layout: Layout) -> int:
    """Memory slices, as bits, that some further placement could use with these instances in place."""
    space = StateSpace(board, tuple(p.name for p in board.profiles))
    bits = 0
    for bit in space.additions(space.state(layout)):
        item = space.placements[bit.bit_length() - 1]
        bits |= board.profile(item.profile).mask(item.start or 0)
    return bits
