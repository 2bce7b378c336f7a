"""The best static partition for a mix: how many instances of each profile a loss system should have.

Instances of a profile are an Erlang loss system of their own: k of them accept ``a·(1 − B(k, a))`` of ``a`` offered
erlangs, concave in k. So the best counts within the facets of the board are a linear programme over single instances,
rounded down, filled up greedily, and mended by exchanges.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from migsaw.model.boards import Board
from migsaw.model.demand import Entry, plain_demand
from migsaw.model.layouts import Layout
from migsaw.plan.packing import FacetTable, pack
from migsaw.plan.packing.facets import shape
from migsaw.plan.solver import new_solver

Gains = NDArray[np.float64]  # of the first, second … instance of a profile
Facet = tuple[list[int], int]  # weights by profile, and their limit for all GPUs

SPREAD = 6  # standard deviations of the offered load beyond which another instance is worth nothing


@dataclass(frozen=True, slots=True)
class Partition:
    """``layouts``: of each GPU."""

    counts: tuple[int, ...]  # instances of each profile
    layouts: tuple[Layout, ...]


def accepted(offered: float, most: int) -> Gains:
    """Erlangs that 0 … ``most`` instances carry: Erlang's B by its recursion."""
    blocking = np.empty(most + 1)
    blocking[0] = 1.0
    for k in range(1, most + 1):
        blocking[k] = offered * blocking[k - 1] / (k + offered * blocking[k - 1])
    return offered * (1 - blocking)


def best_counts(
    board: Board, names: Sequence[str], offered: Sequence[float], gpus: int, table: FacetTable
) -> tuple[int, ...]:
    """Instances of each profile that carry the most compute slices; ``offered`` in erlangs by profile."""
    found = shape(board, names, table)
    order = [names.index(name) for name in found.names]
    value = [board.profile(name).compute_slices for name in names]
    gains = [np.diff(accepted(a, int(a + SPREAD * a**0.5) + 2)) * v for a, v in zip(offered, value, strict=True)]
    facets = [([0] * len(names), limit * gpus) for _, limit in found.facets]
    for (weights, _), (row, _) in zip(found.facets, facets, strict=True):
        for weight, profile in zip(weights, order, strict=True):
            row[profile] = weight
    counts = _filled([int(n + 1e-6) for n in _relaxed(gains, facets)], gains, facets)
    while (better := _exchanged(counts, gains, facets)) is not None:
        counts = better
    return tuple(counts)


def _exchanged(counts: list[int], gains: Sequence[Gains], facets: Sequence[Facet]) -> list[int] | None:
    """Better counts with one or two more of a profile in place of the least worth others; None: there are none."""
    best, found = _worth(counts, gains), None
    for first, more in itertools.product(range(len(counts)), (1, 2)):
        tried = [n + more * (p == first) for p, n in enumerate(counts)]
        if tried[first] > len(gains[first]):
            continue
        while not _fits(tried, facets):
            others = [p for p, n in enumerate(tried) if n and p != first]
            if not others:
                break
            least = min(others, key=lambda p: (float(gains[p][tried[p] - 1]) / _size(p, facets), p))
            tried[least] -= 1
        else:
            filled = _filled(tried, gains, facets)
            if (worth := _worth(filled, gains)) > best + 1e-9:
                best, found = worth, filled
    return found


def _size(profile: int, facets: Sequence[Facet]) -> float:
    """Its share of the facet that it fills most."""
    return max(weights[profile] / limit for weights, limit in facets)


def _filled(counts: list[int], gains: Sequence[Gains], facets: Sequence[Facet]) -> list[int]:
    counts = list(counts)
    while (step := _best_step(counts, gains, facets)) is not None:
        counts[step] += 1
    return counts


def _worth(counts: Sequence[int], gains: Sequence[Gains]) -> float:
    return sum(float(gain[:n].sum()) for n, gain in zip(counts, gains, strict=True))


def _fits(counts: Sequence[int], facets: Sequence[Facet]) -> bool:
    return all(sum(w * n for w, n in zip(weights, counts, strict=True)) <= limit for weights, limit in facets)


def _relaxed(gains: Sequence[Gains], facets: Sequence[Facet]) -> list[float]:
    solver = new_solver()
    sizes = [len(g) for g in gains]
    cost = np.concatenate([-g for g in gains])
    solver.addVars(len(cost), np.zeros(len(cost)), np.ones(len(cost)))
    solver.changeColsCost(len(cost), np.arange(len(cost), dtype=np.int32), cost)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    for weights, limit in facets:
        row = np.array(weights, float)[owner]
        there = np.flatnonzero(row).astype(np.int32)
        solver.addRow(-np.inf, float(limit), len(there), there, row[there])
    solver.run()
    values = np.array(solver.getSolution().col_value)
    return [float(values[owner == p].sum()) for p in range(len(sizes))]


def _best_step(counts: Sequence[int], gains: Sequence[Gains], facets: Sequence[Facet]) -> int | None:
    """The profile whose next instance still fits and carries most for its memory-like share of the tightest facet."""
    best: tuple[float, int] | None = None
    for profile, gain in enumerate(gains):
        if counts[profile] >= len(gain):
            continue
        more = [n + (p == profile) for p, n in enumerate(counts)]
        if _fits(more, facets):
            key = (float(gain[counts[profile]]) / _size(profile, facets), -profile)
            best = max(best, key) if best else key
    return None if best is None else -best[1]


def partition(board: Board, names: Sequence[str], counts: Sequence[int], gpus: int, table: FacetTable) -> Partition:
    """Layouts that hold the counts; GPUs beyond them are filled like the others. ValueError if they do not fit."""
    entry = Entry("fleet", board)
    wanted = {name: n for name, n in zip(names, counts, strict=True) if n}
    packed = pack(plain_demand([entry], {"fleet": wanted}), table)
    layouts = [row.layout for row in packed.layouts for _ in range(row.count)]
    if len(layouts) > gpus:
        raise ValueError(f"{len(layouts)} GPUs for a partition of {gpus}")
    layouts += [layouts[n % len(layouts)] for n in range(gpus - len(layouts))] if layouts else []
    held = Counter(placed.profile for layout in layouts for placed in layout)
    return Partition(tuple(held[name] for name in names), tuple(layouts))
