"""Arrivals through a policy, one after the other: who got in, and how much of the GPUs is allocated at each point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from migsaw.plan.placement.shared.cluster import Cluster
from migsaw.plan.placement.shared.placer import Placer, Policy
from migsaw.plan.placement.shared.values import WHOLE_MILLI, Request
from migsaw.simulate.openb import Arrivals


@dataclass(frozen=True, slots=True)
class Placement:
    """``node`` is a position in the run's nodes; without one the request was refused for good."""

    request: Request
    node: int | None
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Replay:
    placements: tuple[Placement, ...]
    capacity_milli: int  # of all GPUs

    def allocated(self, percent: int) -> float:
        """% of GPU capacity allocated when ``percent`` % of it has been asked for: the mean over the arrivals there.

        As the published results count: arrivals whose share, rounded, is ``percent``, and each value rounded to 0.01.
        """
        found = [value for asked, value in self.curve() if round(asked) == percent]
        if not found:
            raise ValueError(f"nobody arrived at {percent} %")
        return sum(found) / len(found)

    def curve(self) -> list[tuple[float, float]]:
        """(% of capacity asked for, % allocated) after each arrival."""
        asked = held = 0
        points = []
        for placement in self.placements:
            asked += placement.request.total_milli
            held += placement.request.total_milli if placement.node is not None else 0
            points.append((100 * asked / self.capacity_milli, round(100 * held / self.capacity_milli, 2)))
        return points

    def accepted(self) -> dict[str, float]:
        """Class of request → % of its arrivals that were placed."""
        came: dict[str, list[bool]] = {}
        for placement in self.placements:
            came.setdefault(placement.request.kind, []).append(placement.node is not None)
        return {kind: 100 * sum(came[kind]) / len(came[kind]) for kind in sorted(came)}


def replay(arrivals: Arrivals, kinds: Sequence[Request], policy: Callable[[Cluster], Policy]) -> Replay:
    """``kinds``: every request that may come; ``policy``: made for the empty cluster."""
    cluster = Cluster(arrivals.nodes, kinds)
    placer = Placer(cluster, policy(cluster))
    number = {kind: n for n, kind in enumerate(kinds)}
    placements = []
    for request in arrivals.requests:
        done = placer.place(number[request])
        placements.append(Placement(request, *done) if done else Placement(request, None))
    return Replay(tuple(placements), WHOLE_MILLI * sum(node.gpus for node in arrivals.nodes))
