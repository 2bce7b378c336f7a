"""A system without a queue: what cannot be placed at once is refused. Events in time over an actuator.

An actuator is what stands between a request and a GPU: a free choice, a scheduler, a partition that must be re-cut.
It is told of arrivals and departures, may ask to be woken later, and answers with a hold or a refusal.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from migsaw.simulate.arrivals import Arrivals

Later = Callable[[float, Callable[[float], None]], None]  # (time, what to do then)


class Actuator(Protocol):
    def start(self, later: Later) -> None:
        """Before the first event; ``later`` may be kept."""

    def arrive(self, profile: int, now: float) -> Any | None:
        """A hold that ``depart`` is given back, or None: refused."""

    def depart(self, hold: Any, now: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """After the warm-up. ``compute``: compute slices held, on average over time; counts by profile."""

    compute: float
    offered: tuple[int, ...]
    accepted: tuple[int, ...]

    @property
    def acceptance(self) -> float:
        return sum(self.accepted) / max(sum(self.offered), 1)


def run(
    arrivals: Arrivals, actuator: Actuator, compute_slices: tuple[int, ...], warm_up: float, until: float
) -> Outcome:
    """Deterministic: events at one time in the order in which they were asked for. Nothing arrives after ``until``."""
    events: list[tuple[float, int, Callable[[float], None]]] = []
    asked = 0

    def later(time: float, what: Callable[[float], None]) -> None:
        nonlocal asked
        asked += 1
        heapq.heappush(events, (time, asked, what))

    actuator.start(later)
    offered, accepted = [0] * len(arrivals.names), [0] * len(arrivals.names)
    area = 0.0
    last = int(np.searchsorted(arrivals.times, until))
    rows = zip(
        arrivals.times[:last].tolist(), arrivals.profiles[:last].tolist(), arrivals.lives[:last].tolist(), strict=True
    )
    for now, profile, life in rows:
        while events and events[0][0] <= now:
            time, _, what = heapq.heappop(events)
            what(time)
        is_counted = now >= warm_up
        offered[profile] += is_counted
        hold = actuator.arrive(profile, now)
        if hold is None:
            continue
        accepted[profile] += is_counted
        end = now + life
        area += compute_slices[profile] * max(0.0, min(end, until) - max(now, warm_up))
        later(end, lambda time, hold=hold: actuator.depart(hold, time))  # type: ignore[misc]
    return Outcome(area / (until - warm_up), tuple(offered), tuple(accepted))
