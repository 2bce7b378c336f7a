"""The states that one GPU of a board can be in, and the moves between them, as tables of numbers.

Built once for each board and choice of profiles from :class:`migsaw.model.layouts.StateSpace`; nothing here assumes the
numbers of any one board. It must not know how many GPUs there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from migsaw.model.boards import Board
from migsaw.model.layouts import Layout, Placed, StateSpace


@dataclass(frozen=True, slots=True)
class Move:
    """An instance of a profile made in a state. ``place``: number of the placement; ``after``: state it leads to."""

    state: int
    place: int
    after: int


class StateGraph:
    """States, placements and profiles are numbers: positions in ``states``, ``places`` and ``names``."""

    def __init__(self, board: Board, names: Sequence[str]) -> None:
        space = StateSpace(board, tuple(names))
        number = {bits: n for n, bits in enumerate(space.states)}
        profiles = [board.profile(name) for name in space.names]
        position = {name: n for n, name in enumerate(space.names)}
        self.board, self.names = board, space.names
        self.states = space.states  # sets of placements as bits; state 0 is the empty GPU
        self.places: tuple[Placed, ...] = space.placements
        self.profile_of = tuple(position[place.profile] for place in self.places)
        self.memory = tuple(profile.memory_slices or 0 for profile in profiles)
        self.compute = tuple(profile.compute_slices for profile in profiles)
        adds: list[list[dict[int, int]]] = []
        drops: list[dict[int, int]] = []
        for bits in self.states:
            mine: list[dict[int, int]] = [{} for _ in self.names]
            for bit in space.futures[bits]:
                place = bit.bit_length() - 1
                mine[self.profile_of[place]][place] = number[bits | bit]
            adds.append(mine)
            drops.append({place: number[bits ^ (1 << place)] for place in _bits(bits)})
        self.adds = tuple(tuple(row) for row in adds)  # [state][profile] → placement → state after
        self.drops = tuple(drops)  # [state] → placement → state after
        self._space = space

    def moves(self, profile: int) -> list[Move]:
        """Every way to make an instance of the profile, by state and placement."""
        rows = ((state, row[profile]) for state, row in enumerate(self.adds))
        return [Move(state, place, after) for state, row in rows for place, after in sorted(row.items())]

    def layout(self, state: int) -> Layout:
        return self._space.layout(self.states[state])

    def state(self, layout: Layout) -> int:
        """Raises InputError for what is no placement, KeyError for placements that cannot stand together."""
        return {bits: n for n, bits in enumerate(self.states)}[self._space.state(layout)]

    @cached_property
    def used_memory(self) -> tuple[int, ...]:
        """Memory slices that the instances of a state hold."""
        return tuple(sum(self.memory[self.profile_of[p]] for p in drops) for drops in self.drops)

    @cached_property
    def used_compute(self) -> tuple[int, ...]:
        return tuple(sum(self.compute[self.profile_of[p]] for p in drops) for drops in self.drops)


def _bits(number: int) -> list[int]:
    return [n for n in range(number.bit_length()) if number >> n & 1]
