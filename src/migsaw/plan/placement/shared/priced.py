"""migsaw's own policy for shared GPUs: what a placement costs the future, in GPUs.

A node's worth is the sum of what its GPUs are worth at the prices of the fluid programme (solved anew as requests
come), less what it is likely to strand for want of CPU, plus a bonus for idle GPUs and for blocks of them, which
requests for many GPUs need. All comes from the mix of requests; when they end is not known: as many are expected as
would fill what is free and a tenth of the cluster more. The constants are the same for every mix
(``designs/0010-shared-gpus.md``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from migsaw.plan.placement.shared.cluster import Cluster, Ints
from migsaw.plan.placement.shared.placer import Floats
from migsaw.plan.placement.shared.prices import LevelPrices, model_prices
from migsaw.plan.placement.shared.rules import Summed
from migsaw.plan.placement.shared.stranded import stranded
from migsaw.plan.placement.shared.values import Request
from migsaw.plan.placement.shared.worth import Worth

BEYOND = 0.10  # of the cluster's GPUs: what is expected to come beyond what fits
ENDS = (-0.10, -0.05, 0.0)  # the same for the prices of models, which are the mean over these ends
EVERY = 0.04  # of the cluster's GPUs asked for: then prices are found anew
CPU_STEP_MILLI = 1000


@dataclass(frozen=True, slots=True)
class Block:
    """A bonus for that many idle GPUs of one node: the more, the more of all demand asks for several GPUs at once."""

    gpus: int
    least: float
    rise: float  # at a share of 1

    def bonus(self, share: float) -> float:
        return self.least + self.rise * share


@dataclass(frozen=True, slots=True)
class Weights:
    """What counts for how much; GPUs where it is an amount. Zero leaves a part out."""

    prices: float = 0.8  # of the programme's worth of a level, the rest is its plain size: a hedge
    stranding: float = 1.0
    idle: float = 0.05  # for each idle GPU
    blocks: tuple[Block, ...] = (Block(4, 0.03, 0.06), Block(8, 0.055, 0.015))
    models: float = 0.3  # of the price of a scarce model
    renewed: bool = True  # whether prices follow what happens


class Priced(Summed):
    """``mix``: request → how often it comes."""

    def __init__(self, cluster: Cluster, mix: Mapping[Request, int], weights: Weights = Weights()) -> None:
        self._weights, self._due = weights, 0.0
        self._share = np.array([mix.get(kind, 0) for kind in cluster.kinds]) / max(1, sum(mix.values()))
        self._units = cluster.kind_gpus * cluster.kind_units
        self._sizes = sorted({int(u) for u in cluster.kind_units[cluster.kind_gpus > 0]})
        self._levels = LevelPrices(self._sizes, cluster.whole)
        self._by_size = np.array(
            [(self._share * cluster.kind_gpus)[cluster.kind_units == s].sum() for s in self._sizes]
        )
        self._steps = np.arange(1, int(cluster.cpu.max()) // CPU_STEP_MILLI + 1) * CPU_STEP_MILLI
        self._pool = -weights.stranding / cluster.whole * self._stranded(cluster)
        self._idle = self._bonus(cluster)
        gpu = cluster.kind_gpus > 0
        self._groups, group = np.unique(cluster.admits[:, gpu].T, axis=0, return_inverse=True)
        demand = (self._share * self._units)[gpu]
        self._by_group = np.bincount(group.ravel(), demand, len(self._groups)) / max(demand.sum(), 1e-9)

    def arrived(self, cluster: Cluster, kind: int) -> bool:
        due = self._due <= 0 and (self._weights.renewed or not hasattr(self, "worth"))
        if due:
            self.worth = self._price(cluster)
            self._due += EVERY * self._capacity(cluster)
        self._due -= float(self._units[kind])
        return due

    def _score(self, gain: Floats) -> Floats:
        return np.round(gain, 9)  # equals stay equal however they were added up

    def _price(self, cluster: Cluster) -> Worth:
        there = np.arange(cluster.free.shape[1]) < np.array([node.gpus for node in cluster.nodes])[:, None]
        counts = np.bincount(cluster.free[there], minlength=cluster.whole + 1)
        expected = cluster.free.sum() + BEYOND * self._capacity(cluster)  # units
        requests = expected / max(float((self._share * self._units).sum()), 1e-9)
        levels, _, _ = self._levels.solve(counts, self._by_size * requests)
        plain = np.arange(cluster.whole + 1)
        worth = self._weights.prices * levels + (1 - self._weights.prices) * plain
        free = np.bincount(cluster.model, cluster.free.sum(axis=1), len(cluster.models))
        model = self._weights.models * self._scarcity(free, self._capacity(cluster))
        gpu = (worth + model[:, None] * plain) / cluster.whole
        counted = np.round(worth * (cluster.whole / max(worth[-1], 1e-9))).astype(np.int64)
        shape = (len(cluster.models), len(self._steps) + 1)
        gpu = np.broadcast_to(gpu[:, None, :], (*shape, cluster.whole + 1))
        return Worth(self._steps, gpu, np.broadcast_to(self._idle, (*shape, len(self._idle))), self._pool, counted)

    def _scarcity(self, free: Floats | Ints, capacity: float) -> Floats:
        if len(self._groups) < 2:
            return np.zeros(len(free))
        ends = [max(0.0, float(free.sum() + end * capacity)) for end in ENDS]
        prices = [model_prices(free, self._by_group * end, self._groups) for end in ends]
        return np.asarray(np.mean(prices, axis=0))

    def _stranded(self, cluster: Cluster) -> Floats:
        """[model, CPU step, free units of the node]; models that admit the same requests share a table."""
        cpu = -(-cluster.kind_cpu // CPU_STEP_MILLI)
        tables: dict[bytes, Floats] = {}
        for admits in cluster.admits:
            if admits.tobytes() not in tables:
                mix: dict[tuple[int, int], float] = {}
                for kind in np.flatnonzero(admits):
                    key = int(self._units[kind]), int(cpu[kind])
                    mix[key] = mix.get(key, 0.0) + float(self._share[kind])
                units = cluster.whole * cluster.free.shape[1]
                tables[admits.tobytes()] = stranded(mix, units, len(self._steps))
        return np.stack([tables[admits.tobytes()] for admits in cluster.admits])

    def _bonus(self, cluster: Cluster) -> Floats:
        """[idle GPUs of a node]."""
        idle, asked = np.arange(cluster.free.shape[1] + 1), self._share * self._units
        several = float(asked[cluster.kind_gpus > 1].sum()) / max(float(asked.sum()), 1e-9)
        blocks = (block.bonus(several) * (idle >= block.gpus) for block in self._weights.blocks)
        return self._weights.idle * idle + sum(blocks, np.zeros(len(idle)))

    def _capacity(self, cluster: Cluster) -> float:
        return float(cluster.whole * sum(node.gpus for node in cluster.nodes))
