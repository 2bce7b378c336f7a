"""What GPUs can be cut into, counted by exhaustion and compared with what was published and printed by real boards."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mig_rules import (
    all_layouts,
    is_legal,
    known_boards,
    maximal_layouts,
    multiset,
    placements,
    raw_boards,
    raw_profiles,
)
from migsaw.cli.shared import load_catalogue
from migsaw.model.boards import ENGINES, EVIDENCE
from migsaw.model.layouts import Placed, StateSpace, arrange, fault, stranded

CATALOGUE = load_catalogue()
BASE = ("1g", "2g", "3g", "4g", "7g")
SEVEN = ("a100-sxm4-40gb", "a100-sxm4-80gb", "h100-sxm5-80gb", "h100-nvl-94gb", "h200-sxm5-141gb", "b200-180gb")


def by_role(key: str, roles: tuple[str, ...]) -> list[str]:
    return [name for name, profile in raw_profiles(key).items() if profile["role"] in roles]


def counted(key: str, names: list[str]) -> tuple[int, int, int]:
    space = StateSpace(CATALOGUE.board(key), tuple(names))
    return len(space.states), len(space.maximal), len({space.counts(state) for state in space.maximal})


# Published: 19 rows and 14 distinct multisets (Clover, SC'23; NVIDIA's table); 298 and 723 states by exhaustion.
@pytest.mark.parametrize("key", SEVEN)
@pytest.mark.parametrize(
    ("roles", "expected"), [(BASE, (298, 19, 14)), ((*BASE, "1g2m"), (723, 78, 38))], ids=["base", "double memory"]
)
def test_counts_of_the_seven_slice_boards(key, roles, expected):
    assert counted(key, by_role(key, roles)) == expected


def test_counts_of_all_profiles():
    assert counted("a30-24gb", by_role("a30-24gb", ("1g", "2g", "4g"))) == (26, 5, 4)
    rtx = "rtx-pro-6000-blackwell-server"
    assert counted(rtx, list(raw_profiles(rtx)))[0] == 717
    assert counted("a100-sxm4-80gb", list(raw_profiles("a100-sxm4-80gb"))) == (2319, 239, 64)


@pytest.mark.parametrize(
    ("key", "roles"),
    [
        ("a100-sxm4-40gb", BASE),
        ("h100-nvl-94gb", (*BASE, "1g2m")),
        ("a30-24gb", ("1g", "1g+me", "2g", "2g+me", "4g")),
        ("rtx-pro-6000-blackwell-server", None),
    ],
)
def test_states_are_those_of_exhaustion(key, roles):
    names = by_role(key, roles) if roles else list(raw_profiles(key))
    space = StateSpace(CATALOGUE.board(key), tuple(names))
    mine = {frozenset((p.profile, p.start) for p in space.layout(state)) for state in space.states}
    assert mine == set(all_layouts(key, names))
    maximal = {frozenset((p.profile, p.start) for p in space.layout(state)) for state in space.maximal}
    assert maximal == set(maximal_layouts(key, names))


# NVIDIA's table of A100 layouts, by slices from left to right.
ROWS = (
    "7|4 3|4 2 1|4 1 1 1|3 3|3 2 1|3 1 1 1|2 2 3|2 2 2 1|2 2 1 1 1|2 1 1 3|2 1 1 2 1|2 1 1 1 1 1|1 1 2 3|1 1 2 2 1"
    "|1 1 2 1 1 1|1 1 1 1 3|1 1 1 1 2 1|1 1 1 1 1 1 1"
)


def test_maximal_layouts_of_the_a100_are_the_documented_rows():
    key = "a100-sxm4-40gb"
    space = StateSpace(CATALOGUE.board(key), tuple(by_role(key, BASE)))
    rows = {" ".join(p.profile[0] for p in space.layout(state)) for state in space.maximal}
    assert rows == set(ROWS.split("|"))


@pytest.mark.parametrize("key", known_boards())
def test_every_profile_lies_within_its_board(key):
    board = raw_boards()[key]
    for name, profile in raw_profiles(key).items():
        ends = [start + profile["memory_slices"] for start in profile["starts"]]
        assert max(ends) <= board["memory_slices"], name
        most = max(len(one) for one in all_layouts(key, [name]))
        assert most == profile["max_instances"], name  # as many as the board says, and no more, can stand side by side
        assert profile["compute_slices"] <= board["compute_slices"]
        assert len(profile["engines"]) == len(ENGINES)
    whole = [p for p in raw_profiles(key).values() if p["memory_slices"] == board["memory_slices"]]
    assert all(p["compute_slices"] == board["compute_slices"] for p in whole)


@pytest.mark.parametrize(
    ("names", "legal"),
    [
        ("4g.40gb 3g.40gb", True),
        ("3g.40gb 3g.40gb 1g.10gb", False),
        ("2g.20gb 2g.20gb 2g.20gb 1g.10gb", True),
        ("2g.20gb 2g.20gb 1g.10gb 1g.10gb 1g.10gb 1g.10gb", False),
        ("1g.10gb+me 1g.10gb 3g.40gb", True),
        ("1g.10gb+me 1g.10gb+me", False),
        ("1g.20gb 1g.20gb 1g.20gb 1g.20gb", True),
        ("4g.40gb 4g.40gb", False),
        ("7g.80gb 1g.10gb", False),
    ],
)
def test_what_can_stand_together_on_an_a100(names, legal):
    board = CATALOGUE.board("a100-sxm4-80gb")
    assert (fault(board, [Placed(name) for name in names.split()]) is None) == legal


def test_me_all_stands_only_beside_profiles_without_media():
    board = CATALOGUE.board("rtx-pro-6000-blackwell-server")
    assert fault(board, [Placed("2g.48gb+me.all"), Placed("1g.24gb-me"), Placed("1g.24gb-me")]) is None
    for names in (["1g.24gb+me.all", "1g.24gb"], ["2g.48gb+me.all", "1g.24gb+me"], ["1g.24gb+me.all"] * 2):
        assert fault(board, [Placed(name) for name in names]) is not None


def test_no_two_slice_profile_of_a_seven_slice_board_starts_at_6():
    for key in known_boards():
        if raw_boards()[key]["compute_slices"] == 7:
            assert all(6 not in p["starts"] for name, p in raw_profiles(key).items() if name.startswith("2g."))


@given(st.sampled_from(known_boards()), st.data())
def test_legality_and_arrangement_agree_with_exhaustion(key, data):
    board = CATALOGUE.board(key)
    layout = data.draw(st.lists(st.sampled_from(placements(key)), max_size=5))
    assert (fault(board, [Placed(*one) for one in layout]) is None) == is_legal(key, layout)
    if is_legal(key, layout):
        placed = arrange(board, [Placed(name) for name, _ in layout])
        assert placed is not None
        assert is_legal(key, [(p.profile, p.start) for p in placed])
        assert multiset(frozenset((p.profile, p.start) for p in placed)) == multiset(frozenset(layout))


@given(st.sampled_from(["a100-sxm4-80gb", "a30-24gb", "h100-nvl-94gb"]), st.data())
def test_stranded_slices_are_what_the_best_fill_leaves(key, data):
    plain = [name for name in raw_profiles(key) if "+" not in name]
    layout = data.draw(st.sampled_from(sorted(all_layouts(key, plain), key=sorted)))
    board, profiles = CATALOGUE.board(key), raw_profiles(key)
    fills = [one for one in all_layouts(key, plain) if one >= layout]
    compute = max(sum(profiles[name]["compute_slices"] for name, _ in one) for one in fills)
    memory = max(sum(profiles[name]["memory_slices"] for name, _ in one) for one in fills)
    expected = board.compute_slices - compute, board.memory_slices - memory
    assert stranded(board, [Placed(*one) for one in layout]) == expected


def test_a_driver_s_own_placements_win_over_the_table():
    board = CATALOGUE.board("a100-sxm4-80gb").with_reported({19: (0, 1), 9: (4,)})
    assert [p.name for p in board.profiles] == ["1g.10gb", "3g.40gb"]
    assert board.evidence == "reported"
    assert fault(board, [Placed("3g.40gb", 0)]) == "3g.40gb cannot start at 0 on a100-sxm4-80gb"


def test_evidence_is_stated_and_unknown_geometry_is_refused():
    assert {board.evidence for board in CATALOGUE.boards} <= set(EVIDENCE)
    for board in CATALOGUE.boards:
        known = board.key in known_boards()
        assert board.placements_known == known
        if not known and board.profiles:
            with pytest.raises(Exception, match="are not known"):
                StateSpace(board, tuple(p.name for p in board.profiles))
