"""The integer programme of a demand: blocks choose, rows link, units are paid. All numbers are integers.

A *slot* is a thing that can be had many times: instances of a profile on an entry, or whole-GPU groups there. A *block*
is a need with alternatives: it takes y of its slots so that gains.y >= need. A *unit* is paid: GPUs of an entry,
nodes of one profile, and the like. A *row* says that what is taken of slots fits the units:

    sum uses[s] * taken[s]  <=  sum units[v] * v + constant
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Counts = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Slot:
    entry: int
    profile: str | None = None  # None: groups of whole GPUs
    gpus: int = 0  # of such a group
    same_node: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """``members`` are (index of the need or group, amount); several only where all gains are 1."""

    need: int
    slots: tuple[int, ...]
    gains: Counts
    members: tuple[tuple[int, int], ...] = ()

    @property
    def most(self) -> Counts:
        """More of one slot than this is never of use."""
        return tuple(-(-self.need // gain) for gain in self.gains)


@dataclass(frozen=True, slots=True)
class Unit:
    """``gpus`` GPUs each (0: a place that is not paid)."""

    gpus: int
    cost: int
    most: int


@dataclass(frozen=True, slots=True)
class Row:
    uses: Mapping[int, int]
    units: Mapping[int, int]
    constant: int = 0


@dataclass(frozen=True, slots=True)
class Programme:
    """``costs`` of one of each slot beside the units; ``fixed`` of each slot is taken whatever the blocks choose."""

    slots: tuple[Slot, ...]
    costs: Counts
    fixed: Counts
    blocks: tuple[Block, ...]
    units: tuple[Unit, ...]
    rows: tuple[Row, ...]

    def taken(self, choices: Sequence[Counts]) -> Counts:
        """How much of each slot: the fixed part and what every block chose."""
        total = list(self.fixed)
        for block, counts in zip(self.blocks, choices, strict=True):
            for slot, n in zip(block.slots, counts, strict=True):
                total[slot] += n
        return tuple(total)
