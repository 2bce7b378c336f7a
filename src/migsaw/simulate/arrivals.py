"""Random arrivals of slices: Poisson in time, a mix of profiles, lognormal lives. Same seed, same values.

Load 1 is what exactly fills the GPUs when it is packed perfectly: the largest facet of the board's polytope of feasible
multisets decides (``designs/0003-exact-packing.md``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from migsaw.model.boards import Board
from migsaw.plan.packing.facets import FacetTable, shape


@dataclass(frozen=True)
class Arrivals:
    """In the order of time. ``profiles``: numbers into ``names``; ``lives`` in the unit of ``times``."""

    names: tuple[str, ...]
    times: NDArray[np.float64]
    profiles: NDArray[np.int64]
    lives: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.times)


def arrivals_per_life(board: Board, mix: Mapping[str, float], gpus: int, load: float, table: FacetTable) -> float:
    """Arrivals in one mean life that offer ``load`` times what ``gpus`` GPUs can hold of the mix (any weights)."""
    found, total = shape(board, mix, table), sum(mix.values())
    shares = [mix[name] / total for name in found.names]
    largest = max(sum(w * s for w, s in zip(weights, shares, strict=True)) / limit for weights, limit in found.facets)
    return load * gpus / largest


def poisson(
    names: Sequence[str],
    mix: Mapping[str, float],
    per_life: float,
    horizon: float,
    seed: int,
    sigma: float = 1.0,
) -> Arrivals:
    """``horizon`` in mean lives; lives are lognormal with mean 1 and ``sigma`` of their logarithm."""
    rng = np.random.default_rng(seed)
    number = int(rng.poisson(per_life * horizon))
    weights = np.array([mix.get(name, 0.0) for name in names])
    times = np.sort(rng.random(number) * horizon)
    profiles = rng.choice(len(names), number, p=weights / weights.sum()).astype(np.int64)
    lives = rng.lognormal(-sigma * sigma / 2, sigma, number)
    return Arrivals(tuple(names), times, profiles, lives)
