"""Clusters whose GPUs are cut before work comes: the device plugin hands out instances that exist.

``Static`` never changes. ``MigManager`` re-cuts a GPU whose instances are all idle: its node takes no pods meanwhile,
as a cordon does. The scheduler knows nothing of GPUs: it takes the least used node that has a free instance of the
profile; on the node the plugin takes the instance, ``packed`` (fullest GPU first) or ``distributed`` (emptiest first).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from migsaw.model.layouts import Layout
from migsaw.simulate.loss import Later
from migsaw.simulate.nodes import Nodes
from migsaw.simulate.static import accepted

Way = Literal["packed", "distributed"]


@dataclass(slots=True)
class Cut:
    """A GPU: free instances of each profile, and how many instances are held."""

    free: list[int]
    held: int = 0


class Static:
    """``layouts``: of each GPU; ``names``: profiles by number."""

    def __init__(self, names: Sequence[str], layouts: Sequence[Layout], gpus_per_node: int, way: Way) -> None:
        self.names, self.per_node, self.way = tuple(names), gpus_per_node, way
        self.gpus = [Cut(self._counts(layout)) for layout in layouts]
        self.nodes = Nodes(-(-len(layouts) // gpus_per_node), len(names))
        for number, gpu in enumerate(self.gpus):
            self._add(number, gpu.free)

    def start(self, later: Later) -> None:
        pass

    def arrive(self, profile: int, now: float) -> tuple[int, int] | None:
        node = self.nodes.least_used(profile)
        if node is None:
            return None
        first = node * self.per_node
        mine = [n for n in range(first, min(first + self.per_node, len(self.gpus))) if self.gpus[n].free[profile]]
        sign = -1 if self.way == "packed" else 1
        gpu = min(mine, key=lambda n: (sign * self.gpus[n].held, n))
        self._take(gpu, profile, 1)
        return gpu, profile

    def depart(self, hold: tuple[int, int], now: float) -> None:
        self._take(*hold, -1)

    def _take(self, gpu: int, profile: int, number: int) -> None:
        self.gpus[gpu].free[profile] -= number
        self.gpus[gpu].held += number
        self.nodes.able[profile, gpu // self.per_node] -= number
        self.nodes.pods[gpu // self.per_node] += number

    def _counts(self, layout: Layout) -> list[int]:
        found = Counter(placed.profile for placed in layout)
        return [found[name] for name in self.names]

    def _add(self, gpu: int, counts: Sequence[int], sign: int = 1) -> None:
        for profile, number in enumerate(counts):
            self.nodes.able[profile, gpu // self.per_node] += sign * number


@dataclass
class MigManager(Static):
    """Re-cuts idle GPUs for what will be asked for; ``recut_lives``: mean lives that a change takes.

    ``choices``: the layouts that a GPU may get, as counts by profile. What an instance more is worth, in compute
    slices, is part of two answers: whether the next ``horizon`` mean lives will need it (arrivals at the rate seen so
    far, less what the held instances give back, as a normal variable), and what it would carry in the long run
    (Erlang's loss formula, weight ``long_run``). A change must gain at least ``worth``. By
    ``benchmarks/churn.py`` the first alone gives large instances away for a moment's need, the second never moves.
    """

    names: tuple[str, ...]
    layouts: Sequence[Layout]
    gpus_per_node: int
    way: Way
    choices: Sequence[Sequence[int]]
    compute: Sequence[int]
    recut_lives: float
    horizon: float = 0.1
    long_run: float = 0.6
    worth: float = 0.3
    changes: int = 0
    away: set[int] = field(default_factory=set)  # nodes at work

    def __post_init__(self) -> None:
        Static.__init__(self, self.names, self.layouts, self.gpus_per_node, self.way)
        self._asked = [0] * len(self.names)
        self._held = [0] * len(self.names)
        self._free = [sum(gpu.free[p] for gpu in self.gpus) for p in range(len(self.names))]
        self._later: Later | None = None

    def start(self, later: Later) -> None:
        self._later = later

    def arrive(self, profile: int, now: float) -> tuple[int, int] | None:
        self._asked[profile] += 1
        done = Static.arrive(self, profile, now)
        if done is None:
            self._recut_one(now)
        return done

    def depart(self, hold: tuple[int, int], now: float) -> None:
        gpu, profile = hold
        node = gpu // self.per_node
        self._take(gpu, profile, -1)
        if node in self.away:  # freed on a cordoned node: nobody gets it yet
            self.nodes.able[profile, node] -= 1
        elif not self.gpus[gpu].held:
            self._consider(gpu, now)

    def _take(self, gpu: int, profile: int, number: int) -> None:
        Static._take(self, gpu, profile, number)
        self._held[profile] += number
        self._free[profile] -= number

    def _recut_one(self, now: float) -> None:
        """One idle GPU of each layout is looked at: alike ones would answer alike."""
        seen = set()
        for number, gpu in enumerate(self.gpus):
            if not gpu.held and number // self.per_node not in self.away and tuple(gpu.free) not in seen:
                seen.add(tuple(gpu.free))
                if self._consider(number, now):
                    return

    def _consider(self, gpu: int, now: float) -> bool:
        old = self.gpus[gpu].free
        others = [free - mine for free, mine in zip(self._free, old, strict=True)]
        most = [max(c[p] for c in self.choices) for p in range(len(self.names))]
        steps = [self._gains(p, others[p], max(most[p], old[p]), now) for p in range(len(self.names))]
        best = max(self.choices, key=lambda c: (_worth(c, steps), tuple(c)))
        if _worth(best, steps) - _worth(old, steps) < self.worth or self._later is None:
            return False
        node = gpu // self.per_node
        self.away.add(node)
        self.changes += 1
        self.nodes.able[:, node] = 0
        self._free = [free + new for free, new in zip(others, best, strict=True)]
        self.gpus[gpu].free = [0] * len(self.names)
        self._later(now + self.recut_lives, lambda _: self._done(gpu, best))
        return True

    def _done(self, gpu: int, counts: Sequence[int]) -> None:
        node = gpu // self.per_node
        self.away.discard(node)
        self.gpus[gpu].free = list(counts)
        first = node * self.per_node
        for number in range(first, min(first + self.per_node, len(self.gpus))):
            self._add(number, self.gpus[number].free)

    def _gains(self, profile: int, free: int, most: int, now: float) -> list[float]:
        """What 0 … ``most`` instances beside ``free`` others are worth, in compute slices."""
        rate, held = (self._asked[profile] + 1) / (now + 0.1), self._held[profile]
        mean = (rate - held) * self.horizon
        spread = math.sqrt(2 * (rate + held) * self.horizon) + 1e-9
        carried = accepted(rate, free + held + most)
        total, found = 0.0, [0.0]
        for more in range(1, most + 1):
            soon = 0.5 * math.erfc((free + more - 0.5 - mean) / spread)
            later = float(carried[free + held + more] - carried[free + held + more - 1])
            total += self.compute[profile] * ((1 - self.long_run) * soon + self.long_run * later)
            found.append(total)
        return found


def _worth(counts: Sequence[int], steps: Sequence[Sequence[float]]) -> float:
    return sum(step[n] for n, step in zip(counts, steps, strict=True))
