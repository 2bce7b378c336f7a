"""Counts a repartition again from GPUs, demand and geometry alone; knows nothing of how it was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from migsaw.errors import MigsawError
from migsaw.model.boards import Board
from migsaw.model.layouts import Layout, fault
from migsaw.plan.repartition.values import Actuator, Ask, Change, Held, PoolGpu


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
    _add(supply, idle)
    held = {gpu.node for gpu in gpus if gpu.held}
    faults = [] if len({c.gpu.key for c in changes}) == len(changes) else ["a GPU is changed twice"]
    contents: dict[object, list[Change]] = {}
    gone: list[Held] = []
    seconds = 0
    for change in changes:
        gpu, kept = change.gpu, tuple([h.placed for h in change.kept])
        contents.setdefault((id(gpu.board), id(gpu.actuator), kept, change.after), []).append(change)
        if len(kept) + len(change.evicted) != len(gpu.held):
            faults.append(f"{gpu.node}/{gpu.index}: evicted instances are not those of the GPU")
        if gpu.changes_mode and gpu.node in held:
            faults.append(f"{gpu.node}/{gpu.index}: a change of mode resets GPUs of the node that are held")
        gone += change.evicted
        seconds += gpu.actuator.seconds + (gpu.actuator.mode_seconds if gpu.changes_mode else 0)
    for alike in contents.values():
        gpu, kept, after = alike[0].gpu, tuple(h.placed for h in alike[0].kept), alike[0].after
        reason = _fault(gpu.board, gpu.actuator, kept, after)
        faults += [f"{gpu.node}/{gpu.index}: {reason}"] if reason else []
        _add(supply, {after: len(alike)})
        _add(supply, {kept: -len(alike)})
    moved = Counter(h.placed.profile for h in gone)
    faults += [f"{h.pod or h.placed} has no budget" for h in gone if h.workload not in ask.budgets]
    left = supply - moved
    if any(supply[name] < n for name, n in moved.items()):
        faults.append("evicted work has no place to go")
    if ask.evictions is not None and moved.total() > ask.evictions:
        faults.append(f"{moved.total()} evictions, at most {ask.evictions} are allowed")
    faults += _lost(gpus, ask, changes)
    if faults:
        raise MigsawError(f"a repartition failed its own check: {faults[0]}", hint="please report this")
    price = sum(ask.budgets[h.workload or ""].price for h in gone)
    unmet, spare = Counter(ask.demand) - left, left - Counter(ask.demand)
    return Counted(unmet, Counter(ask.headroom) - spare, price, len(changes), seconds)


def _add(supply: Counter[str], layouts: Mapping[Layout, int]) -> None:
    for layout, times in layouts.items():
        for placed in layout:
            supply[placed.profile] += times


def _fault(board: Board, actuator: Actuator, kept: Layout, after: Layout) -> str | None:
    if Counter(kept) - Counter(after):
        return "an instance that stays is not where it was"
    if actuator.reach == "none" or (actuator.reach == "gpu" and kept):
        return f"{actuator.name} cannot change it"
    if any(p.start is None for p in kept):
        return "it is not known where what stays lies"
    return fault(board, after)


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
