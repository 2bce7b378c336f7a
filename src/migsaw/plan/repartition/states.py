"""What can still be made beside instances that stay: the maximal fills of a state. States with equal fills are one.

Of an A100's 723 states 27 differ in their futures over the plain profiles, and fewer where less is wanted, so the size
of a repartition follows them and not the number of GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable

from migsaw.model.boards import Board
from migsaw.model.layouts import StateSpace

Fill = tuple[int, ...]  # instances per item
Fills = tuple[Fill, ...]  # none inside another, sorted


class Futures:
    """Of one board: what of ``items`` can be made beside held instances of the profiles ``beside``."""

    def __init__(self, board: Board, items: tuple[str, ...], beside: Iterable[str]) -> None:
        self.items = items
        names = {*items, *beside}
        self.space = StateSpace(board, tuple(p.name for p in board.profiles if p.name in names))
        column = {name: n for n, name in enumerate(items)}
        self._column = [column.get(p.profile) for p in self.space.placements]
        self._bits = {(p.profile, p.start): 1 << n for n, p in enumerate(self.space.placements)}
        self._wanted = sum(1 << n for n, c in enumerate(self._column) if c is not None)
        self._fills: dict[int, Fills] = {}

    def bit(self, name: str, start: int) -> int:
        """The state with only this instance; states are sums of such bits. KeyError for what is no placement."""
        return self._bits[name, start]

    def fills(self, state: int) -> Fills:
        if state not in self._fills:
            found: set[Fill] = set()
            for bit in self.space.additions(state):
                if bit & self._wanted:
                    column = self._column[bit.bit_length() - 1]
                    found.update(_plus_one(fill, column or 0) for fill in self.fills(state | bit))
            self._fills[state] = undominated(found) if found else ((0,) * len(self.items),)
        return self._fills[state]


def _plus_one(fill: Fill, column: int) -> Fill:
    return (*fill[:column], fill[column] + 1, *fill[column + 1 :])


def undominated(fills: Iterable[Fill]) -> Fills:
    """Those that are inside no other one."""
    kept: list[Fill] = []
    for fill in sorted(set(fills), key=lambda f: (-sum(f), f)):
        if not any(inside(fill, other) for other in kept):
            kept.append(fill)
    return tuple(sorted(kept))


def inside(few: Fill, many: Fill) -> bool:
    return all(a <= b for a, b in zip(few, many, strict=True))
