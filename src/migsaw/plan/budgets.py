"""How much may be disturbed at one time: budgets per pool, per reason and per schedule, as data.

As Karpenter's disruption budgets: every budget that matches and is in force limits, the smallest counts, a share of
nodes is rounded up. Time comes in as an argument: the minute of the week in UTC, 0 is Monday 00:00.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from migsaw.errors import InputError

WEEK_MINUTES = 7 * 24 * 60


class Purpose(StrEnum):
    """Why a plan changes something: the reasons that a budget can name."""

    SERVE_PENDING = "ServePending"
    HEADROOM = "Headroom"
    DEFRAGMENT = "Defragment"
    RIGHT_SIZE = "RightSize"


@dataclass(frozen=True, slots=True)
class Window:
    """From ``start`` (minute of the week) for ``minutes``; it may run over the end of the week."""

    start: int
    minutes: int

    def __post_init__(self) -> None:
        if not (0 <= self.start < WEEK_MINUTES and 0 < self.minutes <= WEEK_MINUTES):
            raise InputError(
                f"a window from minute {self.start} for {self.minutes} minutes is not in a week",
                hint=f"start 0 … {WEEK_MINUTES - 1}, 1 … {WEEK_MINUTES} minutes",
            )

    def holds(self, minute_of_week: int) -> bool:
        return (minute_of_week - self.start) % WEEK_MINUTES < self.minutes


@dataclass(frozen=True, slots=True)
class Budget:
    """At most ``nodes`` or ``share`` of the pool's nodes at one time (the smaller where both are given). ``pool`` and
    ``purposes`` None: all. ``windows`` empty: always in force."""

    nodes: int | None = None
    share: Fraction | None = None
    pool: str | None = None
    purposes: frozenset[Purpose] | None = None
    windows: tuple[Window, ...] = ()

    def limit(self, pool_nodes: int) -> int | None:
        of_share = None if self.share is None else -(-pool_nodes * self.share.numerator // self.share.denominator)
        return min((n for n in (self.nodes, of_share) if n is not None), default=None)

    def matches(self, pool: str, purpose: Purpose, minute_of_week: int) -> bool:
        if self.pool not in (None, pool) or (self.purposes is not None and purpose not in self.purposes):
            return False
        return not self.windows or any(window.holds(minute_of_week) for window in self.windows)


def nodes_left(
    budgets: Iterable[Budget],
    pool: str,
    purpose: Purpose,
    minute_of_week: int,
    pool_nodes: int,
    disturbed: Mapping[Purpose, int],
) -> int:
    """How many more nodes of the pool may be disturbed now. ``disturbed``: nodes that are now, by what they are for; a
    budget counts those that its purposes name."""
    left = pool_nodes - sum(disturbed.values())
    for budget in budgets:
        limit = budget.limit(pool_nodes)
        if limit is not None and budget.matches(pool, purpose, minute_of_week):
            busy = sum(n for p, n in disturbed.items() if budget.purposes is None or p in budget.purposes)
            left = min(left, limit - busy)
    return max(0, left)
