"""What a cluster can carry out: each actuator answers the same arrivals in its own way.

``Free``: cut at arrival, placement freely chosen, at most one migration on a block. ``Repack``: a reference, not an
actuator: everything that runs may be moved at any time, so a request fits if the multiset packs.
"""

from __future__ import annotations

from migsaw.model.boards import Board
from migsaw.plan.packing.facets import FacetTable, shape
from migsaw.plan.placement.fleet import RankedFleet
from migsaw.plan.placement.graph import StateGraph
from migsaw.plan.placement.migrate import Migrator
from migsaw.plan.placement.rules import Rule
from migsaw.simulate.loss import Later


class Free:
    """``dearest``: the most memory slices that one migration may move; 0: nothing moves."""

    def __init__(self, graph: StateGraph, rule: Rule, gpus: int, dearest: int = 0) -> None:
        self.fleet = RankedFleet(graph, rule, gpus)
        self._migrator = Migrator(self.fleet, rule, dearest) if dearest else None
        self._holds: dict[tuple[int, int], list[int]] = {}  # (GPU, placement) → the hold, which follows a migration
        self.migrations = 0
        self.moved_slices = 0

    def start(self, later: Later) -> None:
        pass

    def arrive(self, profile: int, now: float) -> list[int] | None:
        done = self.fleet.place(profile)
        if done is None and self._migrator is not None:
            done = self._make_room(profile)
        if done is None:
            return None
        self._holds[done] = hold = list(done)
        return hold

    def depart(self, hold: list[int], now: float) -> None:
        gpu, place = hold
        del self._holds[gpu, place]
        self.fleet.release(gpu, place)

    def _make_room(self, profile: int) -> tuple[int, int] | None:
        assert self._migrator is not None
        found = self._migrator.make_room(profile)
        if found is None:
            return None
        moved = self._holds.pop((found.gpu, found.place))
        moved[:] = found.to_gpu, found.to_place
        self._holds[found.to_gpu, found.to_place] = moved
        self.migrations += 1
        self.moved_slices += self.fleet.graph.memory[self.fleet.graph.profile_of[found.place]]
        return found.gpu, found.new_place


class Repack:
    """Accepts while what runs could be packed on the GPUs, every instance free to move. Exact where the facets are."""

    def __init__(self, board: Board, names: tuple[str, ...], gpus: int, table: FacetTable) -> None:
        found = shape(board, names, table)
        order = [found.names.index(name) for name in names]
        self._facets = [(tuple(weights[n] for n in order), limit * gpus) for weights, limit in found.facets]
        self._used = [0] * len(self._facets)
        self.is_exact = found.proof is not None

    def start(self, later: Later) -> None:
        pass

    def arrive(self, profile: int, now: float) -> int | None:
        used = [u + weights[profile] for u, (weights, _) in zip(self._used, self._facets, strict=True)]
        if any(u > limit for u, (_, limit) in zip(used, self._facets, strict=True)):
            return None
        self._used = used
        return profile

    def depart(self, hold: int, now: float) -> None:
        self._used = [u - weights[hold] for u, (weights, _) in zip(self._used, self._facets, strict=True)]
