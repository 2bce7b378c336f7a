"""What nodes are worth as a sum over their GPUs, and what a placement makes of it.

Both fragmentation (FGD) and migsaw's own policy are such sums: a number for each GPU by its free units, one for the
idle GPUs of the node together, one for the node's free CPU beside its free units. CPU is told by steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from migsaw.plan.placement.shared.cluster import Cluster, Ints

Numbers = npt.NDArray[Any]  # whole numbers where sums must be exact


@dataclass(frozen=True)
class Worth:
    """``steps``: ascending CPU in milli; a node's step is the number of them that it still has."""

    steps: Ints
    gpu: Numbers  # [model, step, free units of one GPU]
    idle: Numbers  # [model, step, idle GPUs of the node]
    pool: Numbers | None = None  # [model, step, free units of the node, each GPU's counted by ``counted``]
    counted: Ints | None = None  # [free units of one GPU]

    def now(self, cluster: Cluster, nodes: Ints) -> Numbers:
        """The worth of each node as it is."""
        model, step = cluster.model[nodes], np.searchsorted(self.steps, cluster.cpu[nodes], "right")
        return self._whole(cluster, nodes, model, step, 0)

    def of_kind(self, cluster: Cluster, nodes: Ints, kind: int) -> Numbers:
        """[node, GPU]: the worth of each node after the kind came to it; of what needs no part of a GPU one column.

        Minus infinity for a GPU without room; a node must have room.
        """
        cpu = cluster.cpu[nodes] - cluster.kind_cpu[kind]
        model, step = cluster.model[nodes], np.searchsorted(self.steps, cpu, "right")
        if not cluster.fractional[kind]:
            return self._whole(cluster, nodes, model, step, int(cluster.kind_gpus[kind]))[:, None]
        free, asked, idle = cluster.free[nodes], int(cluster.kind_units[kind]), cluster.idle[nodes]
        by_level = self.gpu[model[:, None], step[:, None], free]
        total = by_level.sum(axis=1, keepdims=True) - by_level
        total = total + self.gpu[model[:, None], step[:, None], np.maximum(free - asked, 0)]
        left = np.where(free == cluster.whole, np.maximum(idle - 1, 0)[:, None], idle[:, None])
        total = total + self.idle[model[:, None], step[:, None], left]
        if self.pool is not None and self.counted is not None:
            units = self.counted[free]
            after = units.sum(axis=1, keepdims=True) - units + self.counted[np.maximum(free - asked, 0)]
            total = total + self.pool[model[:, None], step[:, None], after]
        return np.where(free >= asked, total, -np.inf)

    def on_node(self, cluster: Cluster, node: int, kinds: Ints) -> Numbers:
        """The worth of one node after each of the kinds, on the best GPU; the node must have room for each."""
        step = np.searchsorted(self.steps, cluster.cpu[node] - cluster.kind_cpu[kinds], "right")
        gpu, model, idle = self.gpu[cluster.model[node]], cluster.model[node], int(cluster.idle[node])
        levels, numbers = np.unique(cluster.free[node], return_counts=True)
        asked = cluster.kind_units[kinds]
        gone = np.where(cluster.fractional[kinds], 0, cluster.kind_gpus[kinds])
        total: Numbers = (gpu[:, levels] @ numbers)[step] - gone * (gpu[step, cluster.whole] - gpu[step, 0])
        total = total + self.idle[model, step, idle - gone]
        shared = np.flatnonzero(cluster.fractional[kinds])
        at, part = step[shared][:, None], asked[shared][:, None]
        left = np.maximum(levels - part, 0)
        change = gpu[at, left] - gpu[at, levels]
        if levels[-1] == cluster.whole:
            change[:, -1:] += self.idle[model, at, max(idle - 1, 0)] - self.idle[model, at, idle]
        if self.pool is not None and self.counted is not None:
            units = self.counted[levels] @ numbers
            total = total + self.pool[model, step, units - gone * self.counted[cluster.whole]]
            after = units - self.counted[levels] + self.counted[left]
            change = change + self.pool[model, at, after] - self.pool[model, at, units]
        if len(shared):
            total[shared] = total[shared] + np.where(levels >= part, change, NOTHING).max(axis=1)
        return total

    def _whole(self, cluster: Cluster, nodes: Ints, model: Ints, step: Ints, gone: int) -> Numbers:
        """``gone``: idle GPUs that are taken."""
        free = cluster.free[nodes]
        total: Numbers = self.gpu[model[:, None], step[:, None], free].sum(axis=1)
        if gone:
            total = total - gone * (self.gpu[model, step, cluster.whole] - self.gpu[model, step, 0])
        total = total + self.idle[model, step, cluster.idle[nodes] - gone]
        if self.pool is not None and self.counted is not None:
            total = total + self.pool[model, step, self.counted[free].sum(axis=1) - gone * self.counted[cluster.whole]]
        return total


NOTHING = -(1 << 60)  # below every worth
