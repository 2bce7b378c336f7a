"""The best node for a request, from one score for each (kind, node) that is computed anew only where something changed.

A decision reads one row of numbers; a placement writes one column. What a score means is up to the policy.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from migsaw.plan.placement.shared.cluster import Cluster, Ints

Floats = npt.NDArray[np.float64]
NO_ROOM = -np.inf


class Policy(Protocol):
    """Scores of pairs that fit; the node with the highest is taken, of equals the first."""

    def of_kind(self, cluster: Cluster, nodes: Ints, kind: int) -> Floats:
        """Of one kind on many nodes."""
        ...

    def on_node(self, cluster: Cluster, node: int, kinds: Ints) -> Floats:
        """Of many kinds on one node."""
        ...

    def pick(self, row: Floats) -> int:
        """The node to take, from its scores for one kind."""
        ...

    def gpus(self, cluster: Cluster, node: int, kind: int) -> tuple[int, ...]:
        """Where on the node."""
        ...

    def arrived(self, cluster: Cluster, kind: int) -> bool:
        """Told of every arrival before it is placed; true where every score is out of date."""
        ...


class Placer:
    def __init__(self, cluster: Cluster, policy: Policy) -> None:
        self.cluster, self.policy = cluster, policy
        self.table = np.full((len(cluster.kinds), len(cluster.nodes)), NO_ROOM)
        self._stale = np.ones(len(cluster.kinds), dtype=bool)

    def place(self, kind: int) -> tuple[int, tuple[int, ...]] | None:
        """(node, its GPUs) of an arrival that is placed at once; None where no node has room."""
        if self.policy.arrived(self.cluster, kind):
            self._stale[:] = True
        if self._stale[kind]:
            self._row(kind)
        row = self.table[kind]
        node = self.policy.pick(row)
        if row[node] == NO_ROOM:
            return None
        gpus = self.policy.gpus(self.cluster, node, kind)
        self.cluster.take(node, kind, gpus)
        self._column(node)
        return node, gpus

    def _row(self, kind: int) -> None:
        nodes = np.flatnonzero(self.cluster.room(kind))
        self.table[kind] = NO_ROOM
        if len(nodes):
            self.table[kind, nodes] = self.policy.of_kind(self.cluster, nodes, kind)
        self._stale[kind] = False

    def _column(self, node: int) -> None:
        """Kinds whose row is out of date are left: they are computed when one of them comes."""
        kinds = np.flatnonzero(self.cluster.fits(node) & ~self._stale)
        self.table[:, node] = NO_ROOM
        if len(kinds):
            self.table[kinds, node] = self.policy.on_node(self.cluster, node, kinds)
