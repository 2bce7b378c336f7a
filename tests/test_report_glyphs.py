"""Glyphs say where instances lie, what is free and what is stranded, as exhaustion over the rules finds it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_plans import layouts, words
from mig_rules import is_legal, known_boards, placements, raw_boards, raw_profiles, span
from migsaw.cli.shared import load_catalogue
from migsaw.report.glyphs import glyph, legend, short_name

CATALOGUE = load_catalogue()
A100 = "a100-sxm4-80gb"


@pytest.mark.parametrize(
    ("board", "texts", "held", "idle", "shown"),
    [
        (A100, "3g.40gb@4 2g.20gb@0 1g.10gb@2 1g.10gb@3", "", "", "[2g|1g|1g|3g]"),
        (A100, "3g.40gb@4 2g.20gb@0", "3g.40gb@4", "", "[2g|··|3g*]"),
        (A100, "3g.40gb@4 2g.20gb@0", "3g.40gb@4", "3g.40gb@4", "[2g|··|3g!]"),
        (A100, "", "", "", "[········]"),
        (A100, "off", "", "", "[off]"),
        (A100, "off", "off", "", "[off*]"),
        (A100, "off", "", "off", "[off!]"),
        # seven 1g leave memory slice 7, where no 1g starts
        (
            A100,
            "1g.10gb 1g.10gb 1g.10gb 1g.10gb 1g.10gb 1g.10gb 1g.10gb",
            "1g.10gb 1g.10gb 1g.10gb",
            "",
            "[3×1g*|4×1g|x]",
        ),
        # with 3g and 4g no compute slice is left: nothing free, nothing to strand
        (A100, "4g.40gb@0 3g.40gb@4", "", "", "[4g|3g]"),
        # memory slice 7 can only be used by a double-memory 1g, which needs slice 6 too
        (A100, "1g.10gb@6", "", "", "[······|1g|x]"),
        (A100, "1g.20gb@6 1g.10gb+me@0", "", "", "[1g+me|·····|1g.20gb]"),
        (A100, "7g.79gb@0", "", "", "[7g]"),
        ("a30-24gb", "2g.12gb@0", "", "", "[2g|··]"),
        # 12 memory slices, three to a 1g: a sign for each quarter
        ("rtx-pro-6000-blackwell-server", "1g.24gb+gfx@3", "", "", "[·|1g+gfx|··]"),
        (None, "1g.10gb 3g.40gb@4", "1g.10gb", "", "[3g.40gb|1g.10gb*]"),
    ],
)
def test_glyphs_as_a_person_would_draw_them(board, texts, held, idle, shown):
    found = CATALOGUE.board(board) if board else None
    assert glyph(found, tuple(texts.split()), tuple(held.split()), tuple(idle.split())) == shown


def cells(shown: str) -> list[str]:
    """One entry for each instance or sign: runs written out."""
    found = []
    for part in shown[1:-1].split("|") if shown != "[]" else []:
        count, times, name = part.rpartition("×")
        found += [name] * int(count) if times else list(part) if set(part) <= {"·", "x"} else [part]
    return found


@given(st.sampled_from(known_boards()), st.data())
def test_every_memory_slice_is_an_instance_free_or_stranded(key, data):
    board = CATALOGUE.board(key)
    layout = data.draw(layouts(key))
    shown = glyph(board, words(layout, True))
    step = min(p["memory_slices"] for p in raw_profiles(key).values())
    by_short = {short_name(board, name): p["memory_slices"] for name, p in raw_profiles(key).items()}
    place, seen, signs = 0, [], {}
    for cell in cells(shown):
        if cell in ("·", "x"):
            signs[place] = cell
            place += step
        else:
            seen.append((cell, place))
            place += by_short[cell]
    assert place == raw_boards()[key]["memory_slices"]
    assert seen == [(short_name(board, name), start) for name, start in layout]
    usable = {
        cell
        for option in placements(key)
        if option not in layout and is_legal(key, [*layout, option])
        for cell in span(key, option)
    }
    assert signs == {at: "·" if usable & set(range(at, at + step)) else "x" for at in signs}


@given(st.sampled_from(known_boards()), st.data())
def test_where_starts_are_not_known_the_same_instances_are_drawn(key, data):
    board = CATALOGUE.board(key)
    layout = data.draw(layouts(key))
    shown = glyph(board, words(layout, False))
    drawn = sorted(cell for cell in cells(shown) if cell not in ("·", "x"))
    assert drawn == sorted(short_name(board, name) for name, _ in layout)


def test_short_names_are_distinct_on_every_board():
    for board in CATALOGUE.boards:
        names = [short_name(board, profile.name) for profile in board.profiles]
        assert len(names) == len(set(names)), board.key


def test_the_legend_explains_the_signs_that_occur():
    assert legend(["[2g|1g]"]) == ""
    assert legend(["[2g*|··]"]) == "* held by a pod   · free"
    assert re.search("no activity.*stranded", legend(["[1g!|x]"]))
