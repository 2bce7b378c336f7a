"""One migration for a request that is blocked: which instance moves, and where everything goes then.

The price of moving an instance is its memory slices. Candidates are (state, instance) pairs in the order of their
price, then of what the request costs afterwards; the first that works is taken, so that a search ends early.
"""

from __future__ import annotations

from dataclasses import dataclass

from migsaw.plan.placement.fleet import RankedFleet
from migsaw.plan.placement.graph import StateGraph
from migsaw.plan.placement.rules import Rule


@dataclass(frozen=True, slots=True)
class Migration:
    """The instance at ``(gpu, place)`` goes to ``(to_gpu, to_place)``; the request gets ``new_place`` on ``gpu``."""

    gpu: int
    place: int
    to_gpu: int
    to_place: int
    new_place: int


@dataclass(frozen=True, slots=True)
class Candidate:
    state: int
    place: int  # of the instance that moves
    without: int  # the state once it is gone
    new_place: int  # of the request, the best in ``without``


def candidates(graph: StateGraph, rule: Rule) -> tuple[tuple[Candidate, ...], ...]:
    """For each profile that may be blocked: full states from which one instance away makes room, cheapest first."""
    cost = rule(graph)
    found: list[list[tuple[tuple[float, ...], Candidate]]] = [[] for _ in graph.names]
    best = [
        {move.state: move for move in sorted(graph.moves(p), key=lambda m: (cost(m), m.place), reverse=True)}
        for p in range(len(graph.names))
    ]
    for state, drops in enumerate(graph.drops):
        for place, without in sorted(drops.items()):
            price = graph.memory[graph.profile_of[place]]
            for profile in range(len(graph.names)):
                move = best[profile].get(without)
                if move is not None and not graph.adds[state][profile]:
                    order = (price, *cost(move), state, place)
                    found[profile].append((order, Candidate(state, place, without, move.place)))
    return tuple(tuple(c for _, c in sorted(rows, key=lambda row: row[0])) for rows in found)


class Migrator:
    """Finds and makes migrations on a fleet. ``dearest``: the most memory slices that may move; 0: none."""

    def __init__(self, fleet: RankedFleet, rule: Rule, dearest: int) -> None:
        self.fleet, self.dearest = fleet, dearest
        self._candidates = candidates(fleet.graph, rule)

    def make_room(self, profile: int) -> Migration | None:
        """Carries it out on the fleet, the new instance included; None where one migration is not enough."""
        fleet, graph = self.fleet, self.fleet.graph
        for candidate in self._candidates[profile]:
            moved = graph.profile_of[candidate.place]
            if graph.memory[moved] > self.dearest:
                return None
            members = fleet.members(candidate.state)
            if not members:
                continue
            gpu = members[-1]
            fleet.release(gpu, candidate.place)
            fleet.put(gpu, candidate.new_place)
            there = fleet.place(moved)
            if there is not None:
                return Migration(gpu, candidate.place, *there, candidate.new_place)
            fleet.release(gpu, candidate.new_place)
            fleet.put(gpu, candidate.place)
        return None
