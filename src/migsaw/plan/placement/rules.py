"""Rules of placement as tables: how much a move costs, the least first. A rule knows states, never how many GPUs.

Sources: FGD (Weng et al., ATC 2023) counts what a mix of requests could not use; MFI (arXiv 2511.18906) is our reading
of its abstract, so called wherever it is shown; the driver-like rule keeps the most placements, as NVIDIA's driver is
said to do; creatable placements weighted by size is migsaw's default (``designs/0009-online-placement.md``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from migsaw.plan.placement.graph import Move, StateGraph

Cost = tuple[float, ...]  # of a move: the least is taken; then the state's and the placement's number decide
Rule = Callable[[StateGraph], Callable[[Move], Cost]]


def creatable(graph: StateGraph) -> Callable[[Move], Cost]:
    """The loss of what could still be created: the sum of the sizes of all legal placements.

    Of equal losses the GPU with the most instances: it is the last that will be empty again.
    """
    worth = [sum(graph.memory[p] * len(row[p]) for p in range(len(graph.names))) for row in graph.adds]
    return lambda move: (worth[move.state] - worth[move.after], -len(graph.drops[move.state]))


def best_fit(graph: StateGraph) -> Callable[[Move], Cost]:
    """The fullest GPU by memory slices, lowest start."""
    return lambda move: (-graph.used_memory[move.state], graph.places[move.place].start or 0)


def worst_fit(graph: StateGraph) -> Callable[[Move], Cost]:
    """The emptiest GPU by memory slices, lowest start: how a scheduler that spreads behaves."""
    return lambda move: (graph.used_memory[move.state], graph.places[move.place].start or 0)


def driver_like(graph: StateGraph) -> Callable[[Move], Cost]:
    """The fullest GPU, and on it the start that leaves the most placements of any profile."""
    left = [sum(map(len, row)) for row in graph.adds]
    return lambda move: (-graph.used_memory[move.state], -left[move.after])


def fgd(mix: Mapping[str, float]) -> Rule:
    """The rise of fragmentation for a mix of requests: free memory slices that an average request cannot use.

    ``mix``: profile → share of requests.
    """

    def rule(graph: StateGraph) -> Callable[[Move], Cost]:
        shares = [mix.get(name, 0.0) for name in graph.names]
        lost = [_unusable(graph, state, shares) for state in range(len(graph.states))]
        return lambda move: (lost[move.after] - lost[move.state],)

    return rule


def _unusable(graph: StateGraph, state: int, shares: Sequence[float]) -> float:
    """Free slices that no legal placement of the request covers, on average over the mix."""
    free = _free(graph, state)
    total = 0.0
    for profile, share in enumerate(shares):
        covered = 0
        for place in graph.adds[state][profile]:
            covered |= _mask(graph, place)
        total += share * (free & ~covered).bit_count()
    return total


def mfi(graph: StateGraph) -> Callable[[Move], Cost]:
    """Our reading of MFI: each start whose span touches an occupied slice counts with its size, where it would fit."""
    score = []
    for state in range(len(graph.states)):
        free = _free(graph, state)
        spans = [(_mask(graph, place), graph.memory[graph.profile_of[place]]) for place in range(len(graph.places))]
        score.append(sum(size for mask, size in spans if size <= free.bit_count() and mask & ~free))
    return lambda move: (score[move.after] - score[move.state],)


def table(values: Mapping[int, float] | Sequence[float]) -> Rule:
    """A trained table: the worth of each state; the move that loses least of it."""
    return lambda graph: lambda move: (values[move.state] - values[move.after],)


def _free(graph: StateGraph, state: int) -> int:
    taken = 0
    for place in graph.drops[state]:
        taken |= _mask(graph, place)
    return ((1 << (graph.board.memory_slices or 0)) - 1) & ~taken


def _mask(graph: StateGraph, place: int) -> int:
    placed = graph.places[place]
    return graph.board.profile(placed.profile).mask(placed.start or 0)
