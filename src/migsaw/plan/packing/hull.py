"""The facets of the convex hull of what fits, in exact integers: the double description method.

Why: a certified bound must not rest on floating point. The set of feasible multisets is closed downwards (a part of
what fits, fits), so its hull is {n >= 0 : f.n <= 1} with f the maximal vertices of the anti-blocker {f >= 0 : f.v <= 1
for every feasible v} (Fulkerson 1971, "Blocking and anti-blocking pairs of polyhedra"). It knows no boards or profiles.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd

Vector = tuple[int, ...]


def facets(points: Iterable[Vector]) -> tuple[tuple[Vector, int], ...]:
    """(weights, limit) of every facet ``weights.n <= limit`` of the downward hull of ``points``, coordinate ones apart.

    ``points`` span every axis. All numbers are integers; a facet is in lowest terms. Sorted.
    """
    tops = maximal(points)
    dimension = len(tops[0])
    rows = [(*(-x for x in top), 1) for top in tops]  # limit - weights.v >= 0
    rays = [ray for ray in _extreme_rays(rows, dimension + 1) if ray[-1] > 0]
    scaled = {ray: tuple(x * _common([r[-1] for r in rays]) // ray[-1] for x in ray[:-1]) for ray in rays}
    keep = set(maximal(scaled.values()))
    return tuple(sorted((ray[:-1], ray[-1]) for ray in rays if scaled[ray] in keep))


def vertices(facet_rows: Sequence[tuple[Vector, int]]) -> tuple[tuple[Vector, int], ...]:
    """The maximal vertices of {n >= 0 : weights.n <= limit}, each as (numerators, denominator); sorted."""
    dimension = len(facet_rows[0][0])
    rows = [(*(-w for w in weights), limit) for weights, limit in facet_rows]
    found = [(ray[:-1], ray[-1]) for ray in _extreme_rays(rows, dimension + 1) if ray[-1] > 0]
    common = _common([d for _, d in found])
    scaled = {(n, d): tuple(x * common // d for x in n) for n, d in found}
    keep = set(maximal(scaled.values()))
    return tuple(sorted(pair for pair in found if scaled[pair] in keep))


def maximal(points: Iterable[Vector]) -> tuple[Vector, ...]:
    """Those points that no other point reaches or exceeds in every coordinate; sorted."""
    kept: list[Vector] = []
    for point in sorted(set(points), key=lambda p: (-sum(p), p)):
        if not any(all(a <= b for a, b in zip(point, other, strict=True)) for other in kept):
            kept.append(point)
    return tuple(sorted(kept))


def _common(denominators: Iterable[int]) -> int:
    least = 1
    for d in denominators:
        least = least * d // gcd(least, d)
    return least


def _extreme_rays(rows: Sequence[Vector], dimension: int) -> list[Vector]:
    """Extreme rays of {x >= 0 : row.x >= 0 for every row}: one row after the other cuts the cone."""
    rays = {tuple(int(i == j) for j in range(dimension)): _zeros(i, dimension) for i in range(dimension)}
    for number, row in enumerate(rows, start=dimension):
        values = {ray: sum(a * x for a, x in zip(row, ray, strict=True)) for ray in rays}
        kept = {ray: tight | (int(values[ray] == 0) << number) for ray, tight in rays.items() if values[ray] >= 0}
        below = [ray for ray in rays if values[ray] < 0]
        for up in (ray for ray in rays if values[ray] > 0):
            for down in below:
                common = rays[up] & rays[down]
                if common.bit_count() >= dimension - 2 and _adjacent(up, down, common, rays):
                    kept[_between(up, values[up], down, -values[down])] = common | (1 << number)
        rays = kept
    return list(rays)


def _zeros(axis: int, dimension: int) -> int:
    return ((1 << dimension) - 1) & ~(1 << axis)


def _adjacent(up: Vector, down: Vector, common: int, rays: dict[Vector, int]) -> bool:
    """Two rays share an edge iff no third ray lies on every constraint that both lie on."""
    return not any(tight & common == common for ray, tight in rays.items() if ray is not up and ray is not down)


def _between(up: Vector, above: int, down: Vector, below: int) -> Vector:
    mixed = [below * a + above * b for a, b in zip(up, down, strict=True)]
    divisor = gcd(*mixed)
    return tuple(x // divisor for x in mixed)
