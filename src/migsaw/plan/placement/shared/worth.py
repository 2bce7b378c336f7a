"""What nodes are worth as a sum over their GPUs, and what a placement changes about it.

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

    def of_kind(self, cluster: Cluster, nodes: Ints, kind: int) -> Numbers:
        """[node, GPU]: what each node gains by a request; of what needs no part of a GPU one column.

        Minus infinity for a GPU without room; every node must have room.
        """
        model, cpu = cluster.model[nodes], cluster.cpu[nodes]
        now = self._whole(cluster, nodes, model, np.searchsorted(self.steps, cpu, "right"), 0)[:, None]
        step = np.searchsorted(self.steps, cpu - cluster.kind_cpu[kind], "right")
        if not cluster.fractional[kind]:
            return self._whole(cluster, nodes, model, step, int(cluster.kind_gpus[kind]))[:, None] - now
        free, asked, idle = cluster.free[nodes], int(cluster.kind_units[kind]), cluster.idle[nodes][:, None]
        model, step, left = model[:, None], step[:, None], np.maximum(free - asked, 0)
        by_level = self.gpu[model, step, free]
        total = by_level.sum(axis=1, keepdims=True) - by_level + self.gpu[model, step, left]
        total = total + self.idle[model, step, np.where(free == cluster.whole, np.maximum(idle - 1, 0), idle)]
        if self.pool is not None and self.counted is not None:
            units = self.counted[free]
            after = units.sum(axis=1, keepdims=True) - units + self.counted[left]
            total = total + self.pool[model, step, after]
        return np.where(free >= asked, total - now, -np.inf)

    def on_node(self, cluster: Cluster, node: int, kinds: Ints) -> Numbers:
        """What one node gains by each of the kinds, on the best GPU; it must have room for each."""
        cpu, model, idle = cluster.cpu[node], cluster.model[node], int(cluster.idle[node])
        step, still = (
            np.searchsorted(self.steps, cpu - cluster.kind_cpu[kinds], "right"),
            self.steps.searchsorted(cpu, "right"),
        )
        levels, numbers = np.unique(cluster.free[node], return_counts=True)
        gpu, extra = self.gpu[model], self.idle[model]
        whole, asked = gpu[:, levels] @ numbers, cluster.kind_units[kinds]
        gone = np.where(cluster.fractional[kinds], 0, cluster.kind_gpus[kinds])
        gain: Numbers = whole[step] - whole[still] - gone * (gpu[step, cluster.whole] - gpu[step, 0])
        gain = gain + extra[step, idle - gone] - extra[still, idle]
        shared = np.flatnonzero(cluster.fractional[kinds])
        at, left = step[shared][:, None], np.maximum(levels - asked[shared][:, None], 0)
        change = gpu[at, left] - gpu[at, levels]
        if levels[-1] == cluster.whole:
            change[:, -1:] += extra[at, max(idle - 1, 0)] - extra[at, idle]
        if self.pool is not None and self.counted is not None:
            pool, units = self.pool[model], self.counted[levels] @ numbers
            gain = gain + pool[step, units - gone * self.counted[cluster.whole]] - pool[still, units]
            change = change + pool[at, units - self.counted[levels] + self.counted[left]] - pool[at, units]
        if len(shared):
            room = levels >= asked[shared][:, None]
            gain[shared] = gain[shared] + np.where(room, change, NOTHING).max(axis=1)
        return gain

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
