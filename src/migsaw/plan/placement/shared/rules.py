"""Policies for shared GPUs that others published: random, best fit, and FGD (Weng et al., USENIX ATC 2023).

FGD is reproduced as its artefact computes it: scores are whole numbers 0 … 100, which is part of the algorithm (exact
scores make it worse by three points), GPUs of equal score go by the lower number, nodes by their order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from migsaw.plan.placement.shared.cluster import Cluster, Ints
from migsaw.plan.placement.shared.placer import NO_ROOM, Floats
from migsaw.plan.placement.shared.values import WHOLE_MILLI, Request
from migsaw.plan.placement.shared.worth import Worth

TYPICAL_SHARE = 0.95  # of requests; rarer kinds are no part of FGD's target
WIDEST_CPU_MILLI, WIDEST_GPU_MILLI = 128_000, 8_000  # what best fit divides by


class Generator(Protocol):
    """What is asked of a source of chance: ``random.Random`` is one."""

    def randrange(self, stop: int, /) -> int: ...


class Greedy:
    """Scores that only change where the node changes; the highest is taken."""

    def pick(self, row: Floats) -> int:
        return int(row.argmax())

    def arrived(self, cluster: Cluster, kind: int) -> bool:
        return False


class Summed(Greedy, ABC):
    """Policies whose score is what a placement makes of the worth of its node. ``worth`` may be replaced."""

    worth: Worth

    def of_kind(self, cluster: Cluster, nodes: Ints, kind: int) -> Floats:
        found: Floats = self._score(self.worth.of_kind(cluster, nodes, kind)).max(axis=1)
        return found

    def on_node(self, cluster: Cluster, node: int, kinds: Ints) -> Floats:
        return self._score(self.worth.on_node(cluster, node, kinds))

    def gpus(self, cluster: Cluster, node: int, kind: int) -> tuple[int, ...]:
        if not cluster.fractional[kind]:
            return cluster.first_idle(node, cluster.kinds[kind].gpus)
        return (int(self._score(self.worth.of_kind(cluster, np.array([node]), kind)).argmax()),)

    @abstractmethod
    def _score(self, gain: Floats) -> Floats:
        """What is compared. ``gain``: minus infinity where there is no room."""


class RandomFit(Greedy):
    """Any node that has room, and any of its GPUs that has."""

    def __init__(self, generator: Generator) -> None:
        self._generator = generator

    def of_kind(self, cluster: Cluster, nodes: Ints, kind: int) -> Floats:
        return np.zeros(len(nodes))

    def on_node(self, cluster: Cluster, node: int, kinds: Ints) -> Floats:
        return np.zeros(len(kinds))

    def pick(self, row: Floats) -> int:
        open_ = np.flatnonzero(row != NO_ROOM)
        return int(open_[self._generator.randrange(len(open_))]) if len(open_) else 0

    def gpus(self, cluster: Cluster, node: int, kind: int) -> tuple[int, ...]:
        if not cluster.fractional[kind]:
            return cluster.first_idle(node, cluster.kinds[kind].gpus)
        open_ = np.flatnonzero(cluster.free[node] >= cluster.kind_units[kind])
        return (int(open_[self._generator.randrange(len(open_))]),)


class BestFit(Greedy):
    """The least CPU and GPU left, each as a part of the widest node, in whole hundredths; the tightest GPU."""

    def of_kind(self, cluster: Cluster, nodes: Ints, kind: int) -> Floats:
        return self._fullness(cluster, cluster.cpu[nodes], cluster.free[nodes].sum(axis=1), kind)

    def on_node(self, cluster: Cluster, node: int, kinds: Ints) -> Floats:
        return self._fullness(cluster, cluster.cpu[node], cluster.free[node].sum(), kinds)

    def gpus(self, cluster: Cluster, node: int, kind: int) -> tuple[int, ...]:
        if not cluster.fractional[kind]:
            return cluster.first_idle(node, cluster.kinds[kind].gpus)
        free = cluster.free[node]
        return (int(np.where(free >= cluster.kind_units[kind], free, cluster.whole + 1).argmin()),)

    def _fullness(self, cluster: Cluster, cpu: Ints, units: Ints, kinds: Ints | int) -> Floats:
        cpu_left = (cpu - cluster.kind_cpu[kinds]) / WIDEST_CPU_MILLI
        left = units - cluster.kind_gpus[kinds] * cluster.kind_units[kinds]
        gpu_left = left * cluster.unit_milli / WIDEST_GPU_MILLI
        found: Floats = np.trunc((1.0 - (cpu_left * 0.5 + gpu_left * 0.5)) * 100)
        return found


class Fgd(Summed):
    """The least rise of fragmentation for the mix that is known. ``mix``: request → how often it comes."""

    def __init__(self, cluster: Cluster, mix: Mapping[Request, int]) -> None:
        typical = typical_requests(mix)
        self._gpus_per_unit = cluster.unit_milli / WHOLE_MILLI / max(1, sum(count for _, count in typical))
        self.worth = usable(cluster, typical)

    def _score(self, gain: Floats) -> Floats:
        with np.errstate(over="ignore"):
            found: Floats = np.trunc(100 / (1 + np.exp(-self._gpus_per_unit * gain)))
        return np.where(gain == NO_ROOM, NO_ROOM, found)


def typical_requests(mix: Mapping[Request, int]) -> tuple[tuple[Request, int], ...]:
    """The most frequent requests, memory aside, until 95 % are counted; equals: the larger first (CPU, milli, GPUs)."""
    counts: dict[Request, int] = {}
    for request, count in mix.items():
        plain = Request(request.cpu_milli, 0, request.gpus, request.milli, request.models if request.gpus else ())
        counts[plain] = counts.get(plain, 0) + count

    def key(item: tuple[Request, int]) -> tuple[int, int, int, int, str]:
        request, count = item
        return count, request.cpu_milli, request.milli, request.gpus, "|".join(request.models)

    ordered, total, chosen, seen = sorted(counts.items(), key=key, reverse=True), sum(counts.values()), [], 0
    for request, count in ordered:
        if seen >= TYPICAL_SHARE * total:
            break
        chosen.append((request, count))
        seen += count
    return tuple(chosen)


def usable(cluster: Cluster, typical: Sequence[tuple[Request, int]]) -> Worth:
    """Units that the average request cannot use, times the number of requests, with a minus: exact whole numbers.

    A request that finds its CPU, its GPUs and its model on the node uses every GPU that has its share free; any other
    uses nothing. So a GPU with r units free loses r for every request that does not use it.
    """
    steps = np.array(sorted({request.cpu_milli for request, _ in typical}), np.int64)
    width = cluster.free.shape[1]
    gpu = np.zeros((len(cluster.models), len(steps) + 1, cluster.whole + 1), np.int64)
    idle = np.zeros((len(cluster.models), len(steps) + 1, width + 1), np.int64)
    levels = np.arange(cluster.whole + 1)
    for number, model in enumerate(cluster.models):
        for request, count in typical:
            first = int(np.searchsorted(steps, request.cpu_milli, "left")) + 1
            gpu[number] -= count * levels
            if request.gpus == 1 and request.admits(model):
                gpu[number, first:] += count * levels * (levels >= request.milli // cluster.unit_milli)
            elif request.gpus and request.admits(model):
                room = np.arange(width + 1)
                idle[number, first:] += count * cluster.whole * room * (room >= request.gpus)
    return Worth(steps, gpu, idle)
