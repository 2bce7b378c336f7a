"""Nodes as the stock scheduler sees them: it chooses the node, something else chooses the slice.

Among the nodes that can serve a request the one with the fewest pods is taken (NodeResourcesFit spreads CPU and memory
requests, which are alike here), the lowest number where several are. Source: kube-scheduler v1.37, `facts` of the
DynamicResources plugin: with alternatives, a node that satisfies an earlier one is preferred.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from migsaw.plan.placement.fleet import RankedFleet
from migsaw.plan.placement.graph import StateGraph
from migsaw.plan.placement.rules import Rule
from migsaw.simulate.loss import Later

FULL = np.iinfo(np.int64).max
OPEN = 2  # placements of each profile that steering keeps open


class Nodes:
    """``pods`` on each node, and how many of its units (GPUs, instances) can serve each profile."""

    def __init__(self, count: int, profiles: int) -> None:
        self.pods: NDArray[np.int64] = np.zeros(count, np.int64)
        self.able: NDArray[np.int64] = np.zeros((profiles, count), np.int64)

    def least_used(self, profile: int) -> int | None:
        load = np.where(self.able[profile] > 0, self.pods, FULL)
        node = int(load.argmin())
        return None if load[node] == FULL else node


class Stock:
    """DRA with the stock scheduler: cut at arrival, first matching device of the least used node."""

    def __init__(self, graph: StateGraph, rule: Rule, gpus: int, gpus_per_node: int) -> None:
        self.graph, self.per_node = graph, gpus_per_node
        self.fleet = RankedFleet(graph, rule, gpus)
        self.nodes = Nodes(-(-gpus // gpus_per_node), len(graph.names))
        self._fits = np.array([[bool(row) for row in rows] for rows in graph.adds], np.int64)  # state × profile
        self._first = [
            [min(row, default=-1) for row in rows] for rows in graph.adds
        ]  # places are by start in a profile
        for gpu in range(gpus):
            self.nodes.able[:, gpu // gpus_per_node] += self._fits[0]

    def start(self, later: Later) -> None:
        pass

    def arrive(self, profile: int, now: float) -> tuple[int, int] | None:
        chosen = self._choose(profile)
        if chosen is None:
            return None
        self._change(*chosen, is_new=True)
        return chosen

    def depart(self, hold: tuple[int, int], now: float) -> None:
        self._change(*hold, is_new=False)

    def _choose(self, profile: int) -> tuple[int, int] | None:
        node = self.nodes.least_used(profile)
        if node is None:
            return None
        first = node * self.per_node
        states = self.fleet.state[first : first + self.per_node]
        gpu = next(first + n for n, state in enumerate(states) if self._first[state][profile] >= 0)
        return gpu, self._first[self.fleet.state[gpu]][profile]

    def _change(self, gpu: int, place: int, *, is_new: bool) -> None:
        node, before = gpu // self.per_node, self.fleet.state[gpu]
        if is_new:
            self.fleet.put(gpu, place)
        else:
            self.fleet.release(gpu, place)
        self.nodes.able[:, node] += self._fits[self.fleet.state[gpu]] - self._fits[before]
        self.nodes.pods[node] += 1 if is_new else -1


class Steered(Stock):
    """The same, with taints on all placements but the best two of each profile; without one of these it fails open."""

    def _choose(self, profile: int) -> tuple[int, int] | None:
        best = self.fleet.best(profile, OPEN)
        return min(best, key=lambda one: (self.nodes.pods[one[0] // self.per_node], one)) if best else None
