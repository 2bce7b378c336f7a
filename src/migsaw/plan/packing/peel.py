"""Instances → whole GPUs: multisets are peeled off, each as often as it can be. No solver.

Peeling is exact with a proof of integer decomposition (``designs/0003-exact-packing.md``): as long as what is left fits
the GPUs that are left by the facets, some multiset can be taken off. The number of steps is small (at most 9 were seen
on eight-slice boards, whatever the counts), because each multiset is taken as often as the facets allow.
"""

from __future__ import annotations

from collections.abc import Sequence

from migsaw.plan.packing.facets import Shape
from migsaw.plan.packing.hull import Vector

Cut = tuple[tuple[Vector, int], ...]  # (what one GPU holds, on how many GPUs)


def cut(shape: Shape, counts: Sequence[int]) -> Cut:
    """A partition into the fewest GPUs that peeling finds: ``shape.least`` of them where the shape has a proof."""
    gpus = shape.least(counts)
    while True:
        if (found := peel(shape, counts, gpus)) is not None:
            return found
        gpus += 1  # without a proof only


def peel(shape: Shape, counts: Sequence[int], gpus: int) -> Cut | None:
    """``counts`` on at most ``gpus`` GPUs; None if peeling gets stuck, which a proof excludes."""
    left, room, steps = tuple(counts), gpus, []
    while any(left):
        slack = [room * limit - _dot(weights, left) for weights, limit in shape.facets]
        if min(slack) < 0:
            return None
        times, part = max(((_times(shape, left, part, slack), part) for part in shape.fits), key=lambda best: best[0])
        if times == 0:
            return None
        steps.append((part, times))
        left, room = tuple(n - times * k for n, k in zip(left, part, strict=True)), room - times
    return tuple(steps)


def _times(shape: Shape, left: Vector, part: Vector, slack: Sequence[int]) -> int:
    """How many GPUs can be cut like ``part`` with what is left still fitting what is left of the GPUs."""
    times = min(n // k for n, k in zip(left, part, strict=True) if k)
    if times == 0:
        return 0
    for (weights, limit), spare in zip(shape.facets, slack, strict=True):
        lost = limit - _dot(weights, part)
        if lost > 0:
            times = min(times, spare // lost)
    return times


def _dot(weights: Sequence[int], counts: Sequence[int]) -> int:
    return sum(w * n for w, n in zip(weights, counts, strict=True))
