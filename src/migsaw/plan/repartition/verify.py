"""Counts a repartition again from GPUs, demand and geometry alone; knows nothing of how it was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from migsaw.errors import MigsawError
from migsaw.model.boards import Board
from migsaw.model.layouts import Layout, Placed, fault
from migsaw.plan.repartition.values import Ask, Change, PoolGpu


@dataclass(frozen=True, slots=True)
class Counted:
    """Instances by profile where a mapping, else units as named. ``evictions``: the sum of prices."""

    unmet: Counter[str]
    headroom_unmet: Counter[str]
    evictions: int
    touched: int
    seconds: int


def count(gpus: Sequence[PoolGpu], ask: Ask, changes: Sequence[Change]) -> Counted:
    """Raises MigsawError if the changes break anything that was promised; that would be a fault of this program."""
    idle: Counter[Layout] = Counter(g.idle for g in gpus)
    idle.subtract(c.gpu.idle for c in changes)
    supply: Counter[str] = Counter()
    for layout, times in idle.items():
        for placed in layout:
            supply[placed.profile] += times
    held = {gpu.node for gpu in gpus if gpu.held}
    faults = [] if len({c.gpu.key for c in changes}) == len(changes) else ["a GPU is changed twice"]
    moved: Counter[str] = Counter()
    price = seconds = 0
    for change in changes:
        reason = _fault(change, ask, change.gpu.node in held)
        faults += [f"{change.gpu.node}/{change.gpu.index}: {reason}"] if reason else []
        supply.update(_new(change))
        moved.update(h.placed.profile for h in change.evicted)
        price += sum(ask.budgets[h.workload or ""].price for h in change.evicted)
        seconds += change.gpu.actuator.seconds + (change.gpu.actuator.mode_seconds if change.gpu.changes_mode else 0)
    left = supply - moved
    if any(supply[name] < n for name, n in moved.items()):
        faults.append("evicted work has no place to go")
    if ask.evictions is not None and moved.total() > ask.evictions:
        faults.append(f"{moved.total()} evictions, at most {ask.evictions} are allowed")
    faults += _lost(gpus, ask, changes)
    if faults:
        raise MigsawError(f"a repartition failed its own check: {faults[0]}", hint="please report this")
    unmet, spare = Counter(ask.demand) - left, left - Counter(ask.demand)
    return Counted(unmet, Counter(ask.headroom) - spare, price, len(changes), seconds)


def _new(change: Change) -> Counter[str]:
    names = Counter(p.profile for p in change.after)
    names.subtract(h.placed.profile for h in change.kept)
    return names


def _fault(change: Change, ask: Ask, node_is_held: bool) -> str | None:
    gpu = change.gpu
    kept = Counter(h.placed for h in change.kept)
    if len(change.kept) + len(change.evicted) != len(gpu.held):
        return "evicted instances are not those of the GPU"
    if any(h.workload not in ask.budgets for h in change.evicted):
        return "an instance without a budget is evicted"
    if kept - Counter(change.after):
        return "an instance that stays is not where it was"
    if gpu.actuator.reach == "none" or (gpu.actuator.reach == "gpu" and kept):
        return f"{gpu.actuator.name} cannot change it"
    if gpu.changes_mode and node_is_held:
        return "a change of mode resets GPUs of the node that are held"
    if any(p.start is None for p in kept):
        return "it is not known where what stays lies"
    return _layout_fault(gpu.board, change.after)


@lru_cache(maxsize=65536)
def _layout_fault(board: Board, layout: tuple[Placed, ...]) -> str | None:
    return fault(board, layout)


def _lost(gpus: Sequence[PoolGpu], ask: Ask, changes: Sequence[Change]) -> list[str]:
    """Kept profiles of which the last instance is gone."""
    if not ask.keep:
        return []
    before = Counter(p.profile for g in gpus for p in (*g.idle, *(h.placed for h in g.held)))
    after = Counter(before)
    for change in changes:
        after.subtract(p.profile for p in (*change.gpu.idle, *(h.placed for h in change.gpu.held)))
        after.update(p.profile for p in change.after)
    return [f"no {name} would be left" for name in sorted(ask.keep) if before[name] and after[name] < 1]
