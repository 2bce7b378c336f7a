"""Where the compute slices of a GPU go: busy, idle in use, free, stranded, not known. They add up to all of them.

What cannot be known (a board without geometry, a layout that nobody showed) is never counted as free.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass

from migsaw.fit.rules import is_idle
from migsaw.model.boards import Board
from migsaw.model.layouts import Layout, Placed, seen_fault, stranded
from migsaw.model.snapshot import Gpu


@dataclass(frozen=True, slots=True)
class Shares:
    """Compute slices of a GPU, or of several. They add up to all of its slices."""

    busy: int = 0
    idle_in_use: int = 0  # held, and the sample shows no work
    free: int = 0  # instances that nobody holds, and room where one could be cut
    stranded: int = 0  # room that no legal placement can use
    unknown: int = 0  # who holds it, or what is there, is not known

    def __add__(self, other: Shares) -> Shares:
        return Shares(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


def shares_of(gpu: Gpu, board: Board | None) -> Shares | None:
    """None where the board's geometry is not known."""
    if board is None or not board.compute_slices:
        return None
    whole = board.compute_slices
    if not gpu.instances:
        if gpu.mig == "on" and gpu.state == "idle":
            return Shares(free=whole)
        state = "unknown" if gpu.mig == "unknown" and gpu.state == "idle" else gpu.state
        return _share(whole, state, is_idle(gpu.activity))
    layout = tuple(Placed(i.profile, i.start) for i in gpu.instances)
    if seen_fault(board, layout):
        return Shares(unknown=whole)
    found, used = Shares(), 0
    for item in gpu.instances:
        profile = board.find(item.profile)
        size = profile.compute_slices if profile else 0
        found, used = found + _share(size, item.state, is_idle(item.activity)), used + size
    return found + _rest(layout, board, max(whole - used, 0))


def _share(slices: int, state: str, is_idle_now: bool | None) -> Shares:
    if state == "busy":
        return Shares(idle_in_use=slices) if is_idle_now else Shares(busy=slices)
    return Shares(free=slices) if state == "idle" else Shares(unknown=slices)


def _rest(layout: Layout, board: Board, rest: int) -> Shares:
    """What no instance covers: stranded, or free to be cut."""
    if not rest:
        return Shares()
    if not board.placements_known or any(board.find(p.profile) is None for p in layout):
        return Shares(unknown=rest)
    lost = min(stranded(board, layout)[0], rest)
    return Shares(free=rest - lost, stranded=lost)
