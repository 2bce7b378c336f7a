"""What must run, and on which boards it may: the question that packing answers.

Counts are whole numbers; prices, rates and throughputs are exact fractions of the decimals that were written. Names are
resolved before: an option is an entry of the demand and the catalogue's name of a profile of its board.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from migsaw.model.boards import Board

Scope = Literal["gpu", "node", "pool", "pool_layout"]

# (role, GI profile id) of the profiles that AKS makes from its values MIG1g … MIG7g, whatever the board
AKS_PROFILES = frozenset({("1g", 19), ("2g", 14), ("3g", 9), ("4g", 5), ("7g", 0)})


@dataclass(frozen=True, slots=True)
class Entry:
    """A supply of GPUs of one board, under one name."""

    name: str
    board: Board
    usd_per_hour: Fraction | None = None  # per GPU
    at_most: int | None = None  # GPUs
    gpus_per_node: int = 1
    scope: Scope = "gpu"

    def can_make(self, profile: str) -> bool:
        """Whether the scope can express the profile at all."""
        found = self.board.profile(profile)
        return self.scope != "pool" or (found.role, found.profile_id) in AKS_PROFILES


@dataclass(frozen=True, slots=True)
class Option:
    """One way to serve: an instance of ``profile`` on ``entry`` serves ``gain`` (instances, or per second)."""

    entry: str
    profile: str
    gain: Fraction = Fraction(1)
    batch: int | None = None
    processes: int | None = None


@dataclass(frozen=True, slots=True)
class Need:
    """Something that instances must serve: the sum of the gains given to it reaches ``amount``.

    ``kind`` says what it is to the one who asked; ``why_none`` says, for a need without options, why it has none.
    """

    name: str
    kind: Literal["workload", "instances", "headroom"]
    amount: Fraction
    options: tuple[Option, ...]
    why_none: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """``count`` groups of ``gpus`` whole GPUs each, MIG off. Each lies on one entry, with ``same_node`` in one node.

    ``entry``: the only one that will do; None: any.
    """

    name: str
    gpus: int
    count: int
    same_node: bool = False
    entry: str | None = None

    def fits(self, entry: Entry) -> bool:
        if self.entry not in (None, entry.name):
            return False
        return not self.same_node or self.gpus <= entry.gpus_per_node


@dataclass(frozen=True, slots=True)
class Demand:
    """Prices stand on every entry or on none. ``strict``: no GPU is left whole but for a group."""

    entries: tuple[Entry, ...]
    needs: tuple[Need, ...] = ()
    groups: tuple[Group, ...] = ()
    strict: bool = False

    @property
    def priced(self) -> bool:
        return any(entry.usd_per_hour is not None for entry in self.entries)


def plain_demand(entries: Iterable[Entry], counts: Mapping[str, Mapping[str, int]]) -> Demand:
    """So many instances per entry and profile: ``{"pool-a": {"1g.10gb": 5}}``. The simplest question."""
    needs = tuple(
        Need(f"{entry}/{profile}", "instances", Fraction(n), (Option(entry, profile),))
        for entry, profiles in counts.items()
        for profile, n in sorted(profiles.items())
    )
    return Demand(tuple(entries), needs)
