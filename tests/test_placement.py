"""Online placement against rules written from the geometry alone: nothing illegal, nothing refused that fits."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from mig_rules import is_legal, placements
from migsaw.cli.shared import load_catalogue
from migsaw.plan.placement import rules
from migsaw.plan.placement.fleet import RankedFleet, rank
from migsaw.plan.placement.graph import StateGraph

A100, H200, A30, RTX = "a100-sxm4-40gb", "h200-sxm5-141gb", "a30-24gb", "rtx-pro-6000-blackwell-server"
RULES = {
    "creatable": rules.creatable,
    "best-fit": rules.best_fit,
    "worst-fit": rules.worst_fit,
    "driver-like": rules.driver_like,
    "fgd": lambda graph: rules.fgd(dict.fromkeys(graph.names, 1 / len(graph.names)))(graph),
    "mfi": rules.mfi,
}


def graph_of(key: str, *, plain: bool = True) -> StateGraph:
    board = load_catalogue().board(key)
    return StateGraph(board, [p.name for p in board.profiles if p.is_plain or not plain])


@pytest.fixture(scope="module")
def a100() -> StateGraph:
    return graph_of(A100)


@pytest.mark.parametrize(("key", "states"), [(A100, 723), (H200, 723), (A30, 26)])
def test_states_are_as_published(key, states):
    assert len(graph_of(key).states) == states


def test_moves_and_their_way_back_agree(a100):
    for state, row in enumerate(a100.adds):
        for profile, moves in enumerate(row):
            for place, after in moves.items():
                assert a100.profile_of[place] == profile
                assert a100.drops[after][place] == state


def spans(graph: StateGraph, places: Iterable[int]) -> list[tuple[str, int]]:
    return [(graph.places[p].profile, graph.places[p].start or 0) for p in places]


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize(("key", "plain"), [(A100, True), (A30, True), (RTX, False)])
def test_nothing_illegal_is_placed_and_nothing_is_refused_that_fits(key, plain, name):
    rng = random.Random(f"{key} {name}")
    graph = graph_of(key, plain=plain)
    fleet = RankedFleet(graph, RULES[name], 3)
    held: list[list[int]] = [[], [], []]
    every = placements(key)
    refused = 0
    for _ in range(1500):
        profile = rng.randrange(len(graph.names))
        done = fleet.place(profile)
        if done is None:
            refused += 1
            mine = [(n, s) for n, s in every if n == graph.names[profile]]
            assert not any(is_legal(key, [*spans(graph, gpu), place]) for gpu in held for place in mine)
        else:
            gpu, place = done
            assert graph.profile_of[place] == profile
            held[gpu].append(place)
            assert is_legal(key, spans(graph, held[gpu]))
        if rng.random() < 0.55 and any(held):
            gpu = rng.choice([n for n, mine in enumerate(held) if mine])
            place = held[gpu].pop(rng.randrange(len(held[gpu])))
            fleet.release(gpu, place)
    assert refused > 20


def test_the_best_move_is_the_best_of_all_gpus(a100):
    """Against a scan of every GPU and placement with the same cost, on random fleets."""
    rng = random.Random(5)
    cost = rules.creatable(a100)
    fleet = RankedFleet(a100, rules.creatable, 12)
    live: list[tuple[int, int]] = []
    for _ in range(800):
        profile = rng.randrange(len(a100.names))
        found = fleet.find(profile)
        there = [m for m in a100.moves(profile) if fleet.members(m.state)]
        assert (found is None) == (not there)
        if found:
            assert cost(found) == min(map(cost, there))
        if done := fleet.place(profile):
            live.append(done)
        while live and rng.random() < 0.5:
            fleet.release(*live.pop(rng.randrange(len(live))))


def worth(graph: StateGraph, state: int) -> int:
    """Sizes of all placements that could be made beside those of the state, by the written rules."""
    held = spans(graph, graph.drops[state])
    size = {p.name: p.memory_slices or 0 for p in graph.board.profiles}
    return sum(
        size[n]
        for n, s in placements(graph.board.key)
        if n in graph.names and is_legal(graph.board.key, [*held, (n, s)])
    )


def test_creatable_placements_are_counted_as_the_rules_allow(a100):
    cost = rules.creatable(a100)
    rng = random.Random(3)
    for move in rng.sample(a100.moves(0) + a100.moves(2), 40):
        assert cost(move)[0] == worth(a100, move.state) - worth(a100, move.after)


def test_the_driver_keeps_a_half_free_for_3g(a100):
    """What NVIDIA's driver is known to do: the first 1g goes to the end, where it blocks the least."""
    for rule in (rules.driver_like, rules.creatable):
        first = rank(a100, rule)[a100.names.index("1g.5gb")]
        (move,) = [m for m in first.moves if m.state == 0]
        assert a100.places[move.place].start == 6


def test_fragmentation_of_known_states(a100):
    """FGD on an empty GPU loses nothing to 1g; a 1g in the lower half leaves 3g one half only."""
    only_3g = rules.fgd({"3g.20gb": 1.0})(a100)
    ones = {a100.places[m.place].start: m for m in a100.moves(a100.names.index("1g.5gb")) if m.state == 0}
    assert only_3g(ones[0]) == (3.0,)  # of the lower half three slices are left, which no 3g can use
    assert only_3g(ones[6]) == (3.0,)  # slices 4, 5 and 7 of the upper half
    only_7g = rules.fgd({"7g.40gb": 1.0})(a100)
    assert only_7g(ones[6]) == (7.0,)


def test_a_choice_of_others_can_be_followed(a100):
    fleet = RankedFleet(a100, rules.creatable, 2)
    place = next(n for n, p in enumerate(a100.places) if (p.profile, p.start) == ("3g.20gb", 0))
    fleet.put(1, place)
    assert a100.layout(fleet.state[1]) == (a100.places[place],)
    with pytest.raises(KeyError):
        fleet.put(1, place)
    fleet.release(1, place)
    assert fleet.state == [0, 0]
    with pytest.raises(KeyError):
        fleet.release(0, place)
