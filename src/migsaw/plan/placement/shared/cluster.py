"""What is free on every node: CPU, memory and thousandths of each GPU, as arrays; nothing else is known about nodes.

GPUs are counted in units, the largest step that divides every share asked for, so that tables over levels stay small.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from migsaw.plan.placement.shared.values import WHOLE_MILLI, Node, Request

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Cluster:
    """Empty nodes, in the order that decides between equals, and the kinds of request that may come."""

    def __init__(self, nodes: Sequence[Node], kinds: Sequence[Request]) -> None:
        self.nodes, self.kinds = tuple(nodes), tuple(kinds)
        self.unit_milli = math.gcd(WHOLE_MILLI, *(kind.milli for kind in self.kinds))
        self.whole = WHOLE_MILLI // self.unit_milli
        self.models = tuple(sorted({node.model for node in self.nodes}))
        self.model = _ints(self.models.index(node.model) for node in self.nodes)
        self.cpu = _ints(node.cpu_milli for node in self.nodes)
        self.memory = _ints(node.memory_mib for node in self.nodes)
        width = max((node.gpus for node in self.nodes), default=0)
        self.free = np.zeros((len(self.nodes), max(width, 1)), np.int64)  # units of each GPU; 0 where there is none
        for row, node in zip(self.free, self.nodes, strict=True):
            row[: node.gpus] = self.whole
        self.idle = (self.free == self.whole).sum(axis=1)
        self.kind_cpu = _ints(kind.cpu_milli for kind in self.kinds)
        self.kind_memory = _ints(kind.memory_mib for kind in self.kinds)
        self.kind_gpus = _ints(kind.gpus for kind in self.kinds)
        self.kind_units = _ints(kind.milli // self.unit_milli for kind in self.kinds)
        self.fractional = (self.kind_gpus == 1) & (self.kind_units < self.whole)
        self.admits = np.array([[k.admits(model) for k in self.kinds] for model in self.models]).reshape(-1, len(kinds))

    def fits(self, node: int) -> Bools:
        """The kinds that have room on the node."""
        widest = int(self.free[node].max())
        gpu = np.where(self.fractional, self.kind_units <= widest, self.kind_gpus <= self.idle[node])
        rest = (self.kind_cpu <= self.cpu[node]) & (self.kind_memory <= self.memory[node])
        found: Bools = gpu & rest & self.admits[self.model[node]]
        return found

    def room(self, kind: int) -> Bools:
        """The nodes that have room for the kind."""
        if self.fractional[kind]:
            gpu = (self.free >= self.kind_units[kind]).any(axis=1)
        else:
            gpu = self.idle >= self.kind_gpus[kind]
        rest = (self.cpu >= self.kind_cpu[kind]) & (self.memory >= self.kind_memory[kind])
        found: Bools = gpu & rest & self.admits[self.model, kind]
        return found

    def take(self, node: int, kind: int, gpus: Sequence[int]) -> None:
        """Raises ValueError for what does not fit: nothing illegal is ever placed, whoever chose it."""
        asked = self.kinds[kind]
        units = self.kind_units[kind]
        fits = len(set(gpus)) == len(gpus) == asked.gpus and asked.admits(self.nodes[node].model)
        fits = fits and asked.cpu_milli <= self.cpu[node] and asked.memory_mib <= self.memory[node]
        if not fits or any(not 0 <= g < self.nodes[node].gpus or self.free[node, g] < units for g in gpus):
            raise ValueError(f"{asked} does not fit on GPUs {tuple(gpus)} of {self.nodes[node].name}")
        self.cpu[node] -= asked.cpu_milli
        self.memory[node] -= asked.memory_mib
        for gpu in gpus:
            self.free[node, gpu] -= units
        self.idle[node] = int((self.free[node] == self.whole).sum())

    def first_idle(self, node: int, count: int) -> tuple[int, ...]:
        """GPUs that nobody uses, the lowest numbers first."""
        return tuple(int(g) for g in np.flatnonzero(self.free[node] == self.whole)[:count])


def _ints(numbers: Any) -> Ints:
    return np.fromiter(numbers, np.int64)
