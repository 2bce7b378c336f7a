"""GPU share that a node is likely to strand for want of CPU, were it filled by random requests of the mix.

The node is a pool of free units and free CPU. One request after another is drawn among those that fit; where no GPU
request finds CPU any more, the free units are stranded.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from migsaw.plan.placement.shared.prices import Floats

STOP = 0.03  # chance that no further request comes, at each step
WITHOUT_GPU = 0.06  # weight of requests that need no GPU: they go where CPU is left over


def stranded(mix: Mapping[tuple[int, int], float], units: int, steps: int) -> Floats:
    """[free CPU steps, free units] → units stranded. ``mix``: (units, CPU steps, rounded up) → how often.

    A request takes at least one step of CPU, so that each row needs only rows above it.
    """
    asked = np.array([u for u, _ in mix])
    cpu = np.array([max(1, c) for _, c in mix])
    weight = np.array(list(mix.values())) * np.where(asked > 0, 1.0, WITHOUT_GPU)
    levels = np.arange(units + 1)
    found = np.zeros((steps + 1, units + 1))
    smallest = min(asked[asked > 0], default=units + 1)
    for step in range(steps + 1):
        open_ = np.flatnonzero(cpu <= step)
        with_gpu = asked[open_][asked[open_] > 0]
        starved = (levels >= smallest) & (levels < (with_gpu.min() if len(with_gpu) else units + 1))
        left = levels[None, :] - asked[open_][:, None]
        chance = weight[open_][:, None] * (left >= 0)
        total = chance.sum(axis=0)
        later = (chance * found[(step - cpu[open_])[:, None], np.maximum(left, 0)]).sum(axis=0)
        going = np.divide((1 - STOP) * later, total, out=np.zeros(units + 1), where=total > 0)
        found[step] = np.where(levels < smallest, 0.0, np.where(starved, levels, going))
    return found
