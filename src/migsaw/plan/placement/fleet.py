"""GPUs of one board by their state, and the best move of a rule among them.

A decision reads one number of as many bits as the board has states: bit r of a profile's ``open`` is set where GPUs
are in the state whose move is the r-th best. The lowest bit is the answer, for 100 GPUs as for 1,000,000.
"""

from __future__ import annotations

from dataclasses import dataclass

from migsaw.plan.placement.graph import Move, StateGraph
from migsaw.plan.placement.rules import Rule


@dataclass(frozen=True, slots=True)
class Ranking:
    """Of one profile. ``moves``: the best of each state that has one, the best state first."""

    moves: tuple[Move, ...]
    rank: tuple[int, ...]  # state → bit (1 << position in ``moves``); 0: it cannot be made there


def rank(graph: StateGraph, rule: Rule) -> tuple[Ranking, ...]:
    """One ranking for each profile. Ties: lower state, lower placement."""
    cost = rule(graph)
    found = []
    for profile in range(len(graph.names)):
        best: dict[int, Move] = {}
        for move in sorted(graph.moves(profile), key=lambda m: (cost(m), m.state, m.place)):
            best.setdefault(move.state, move)
        moves = tuple(best.values())
        bits = [0] * len(graph.states)
        for position, move in enumerate(moves):
            bits[move.state] = 1 << position
        found.append(Ranking(moves, tuple(bits)))
    return tuple(found)


class RankedFleet:
    """``count`` empty GPUs, numbered from 0. Of the GPUs in one state the one that came into it last is taken."""

    def __init__(self, graph: StateGraph, rule: Rule, count: int) -> None:
        self.graph, self.rankings = graph, rank(graph, rule)
        self.state = [0] * count  # of each GPU
        self._members: list[list[int]] = [[] for _ in graph.states]
        self._where = list(range(count - 1, -1, -1))  # of each GPU in the list of its state
        self._members[0] = list(range(count - 1, -1, -1))
        self._bits = tuple(
            tuple(ranking.rank[state] for ranking in self.rankings) for state in range(len(graph.states))
        )
        self.open = [ranking.rank[0] if count else 0 for ranking in self.rankings]
        self._rank = range(len(self.rankings))

    def find(self, profile: int) -> Move | None:
        """The best move that some GPU allows."""
        there = self.open[profile]
        return self.rankings[profile].moves[(there & -there).bit_length() - 1] if there else None

    def best(self, profile: int, number: int) -> list[tuple[int, int]]:
        """The best (GPU, placement) pairs, each of another GPU."""
        found: list[tuple[int, int]] = []
        there = self.open[profile]
        while there and len(found) < number:
            low = there & -there
            move = self.rankings[profile].moves[low.bit_length() - 1]
            members = self._members[move.state]
            found += [(gpu, move.place) for gpu in members[: -number - 1 : -1]]
            there ^= low
        return found[:number]

    def place(self, profile: int) -> tuple[int, int] | None:
        """(GPU, placement) of a new instance; None where no GPU can hold it."""
        there = self.open[profile]
        if not there:
            return None
        move = self.rankings[profile].moves[(there & -there).bit_length() - 1]
        gpu = self._members[move.state][-1]
        self._shift(gpu, move.state, move.after)
        return gpu, move.place

    def put(self, gpu: int, place: int) -> None:
        """An instance at a placement that somebody else chose. Raises KeyError where it is not free."""
        before = self.state[gpu]
        self._shift(gpu, before, self.graph.adds[before][self.graph.profile_of[place]][place])

    def release(self, gpu: int, place: int) -> None:
        """Raises KeyError where there is no such instance."""
        before = self.state[gpu]
        self._shift(gpu, before, self.graph.drops[before][place])

    def members(self, state: int) -> list[int]:
        """GPUs in a state; do not change it."""
        return self._members[state]

    def _shift(self, gpu: int, before: int, after: int) -> None:
        old, new, where, open_ = self._members[before], self._members[after], self._where, self.open
        last = old.pop()
        if last != gpu:
            at = where[gpu]
            old[at] = last
            where[last] = at
        if not old:
            bits = self._bits[before]
            for profile in self._rank:
                open_[profile] &= ~bits[profile]
        if not new:
            bits = self._bits[after]
            for profile in self._rank:
                open_[profile] |= bits[profile]
        where[gpu] = len(new)
        new.append(gpu)
        self.state[gpu] = after
