"""The order of the changes: waves of steps that run side by side, with capacity above a floor at every moment.

Capacity is every instance that runs or can take work. A step that cordons takes every free slice of its node out of it,
of GPUs that do not change too; that is its *dip*, and it is shown. One dip after the other, the order is the best there
is: gains by rising dip, then losses by falling dip + gain (Abdel-Wahab and Kameda 1978). What no order allows is
withheld with a reason, never squeezed in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from migsaw.model.boards import Board
from migsaw.model.layouts import Placed
from migsaw.plan.repartition.values import Ask, Change, Held, PoolGpu, Repartition

LOOK_AHEAD = 500  # steps that do not fit beside the others before a wave is left as it is


class Withheld(StrEnum):
    """Why a step is not taken."""

    FLOOR = "CapacityFloor"  # capacity would dip below the floor
    KEPT_PROFILE = "KeptProfileGone"  # a profile that queued jobs name would not be there for a while


@dataclass(frozen=True, slots=True)
class Floor:
    """What must be there at every moment: memory slices in all, instances by profile."""

    memory_slices: int = 0
    instances: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeStep:
    """Changes made together. ``dip``: instances out of service while it runs; ``hidden``: instances that the node does
    not advertise meanwhile, running ones too; ``gain``: instances after it less those before; ``room``: free instances
    of the node that stay as they are. Slices are memory slices."""

    node: str
    changes: tuple[Change, ...]
    dip: Mapping[str, int]
    dip_slices: int
    hidden: Mapping[str, int]
    gain: Mapping[str, int]
    gain_slices: int
    room: Mapping[str, int]
    seconds: int
    cordons: bool
    evicted: tuple[Held, ...]


@dataclass(frozen=True, slots=True)
class Wave:
    """Steps that run at the same time; the next wave begins when all are done. Capacities in memory slices.
    ``waiting``: evicted instances for which no place is free before the wave is over."""

    steps: tuple[NodeStep, ...]
    seconds: int
    before: int
    lowest: int
    after: int
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class Schedule:
    waves: tuple[Wave, ...]
    withheld: tuple[tuple[NodeStep, Withheld], ...]

    @property
    def seconds(self) -> int:
        return sum(wave.seconds for wave in self.waves)

    @property
    def lowest(self) -> int | None:
        """The deepest capacity on the way; None: nothing changes."""
        return min((wave.lowest for wave in self.waves), default=None)


def schedule(
    gpus: Sequence[PoolGpu], found: Repartition, ask: Ask, floor: Floor | None = None, nodes_at_once: int = 1
) -> Schedule:
    """``nodes_at_once``: most nodes that are worked on at one time, such as what a disruption budget leaves."""
    steps = node_steps(gpus, found, ask)
    rising = sorted((s for s in steps if s.gain_slices >= 0), key=lambda s: (s.dip_slices, s.node, _first(s)))
    falling = sorted(
        (s for s in steps if s.gain_slices < 0), key=lambda s: (-s.dip_slices - s.gain_slices, s.node, _first(s))
    )
    gains, losses = ({id(step): step for step in part} for part in (rising, falling))
    state = _State(gpus, found, ask, floor or Floor(), nodes_at_once)
    waves: list[Wave] = []
    while gains or losses:
        wave = state.wave(gains.values()) or state.wave(losses.values())
        if wave is None:
            break
        for step in wave.steps:
            (gains if id(step) in gains else losses).pop(id(step))
        waves.append(wave)
    left = [(step, state.blocked(step) or Withheld.FLOOR) for step in (*gains.values(), *losses.values())]
    return Schedule(tuple(waves), tuple(left))


def _first(step: NodeStep) -> int:
    return step.changes[0].gpu.index


# ---- what a step does ------------------------------------------------------------------------------------------------


def node_steps(gpus: Sequence[PoolGpu], found: Repartition, ask: Ask) -> list[NodeStep]:
    """One step for a node that must be cordoned or whose mode changes, else one for each GPU."""
    on_node: dict[str, list[PoolGpu]] = {}
    for gpu in gpus:
        on_node.setdefault(gpu.node, []).append(gpu)
    changes: dict[str, list[Change]] = {}
    for change in found.changes:
        changes.setdefault(change.gpu.node, []).append(change)
    steps = []
    for node, mine in sorted(changes.items()):
        whole = any(c.gpu.actuator.cordons or c.gpu.changes_mode for c in mine)
        for part in [mine] if whole else [[c] for c in mine]:
            steps.append(_step(node, part, on_node[node] if whole else [c.gpu for c in part], ask, cordons=whole))
    return steps


def _step(node: str, changes: list[Change], touched: list[PoolGpu], ask: Ask, *, cordons: bool) -> NodeStep:
    """``touched``: GPUs that are out of reach for new work while it runs."""
    changed = {c.gpu.key for c in changes}
    dip, hidden, gain, room = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    dip_slices = gain_slices = 0
    for gpu in touched:
        dip.update(p.profile for p in gpu.idle)
        dip_slices += _slices(gpu.board, gpu.idle)
        hidden.update(p.profile for p in (*gpu.idle, *(h.placed for h in gpu.held if cordons)))
        room.update(p.profile for p in gpu.idle if gpu.key not in changed)
    for change in changes:
        board, gone = change.gpu.board, [h.placed for h in change.evicted]
        before = [*change.gpu.idle, *(h.placed for h in change.gpu.held)]
        dip.update(p.profile for p in gone)
        dip_slices += _slices(board, gone)
        hidden.update(p.profile for p in gone if not cordons)
        gain.update(p.profile for p in change.after)
        gain.subtract(p.profile for p in before)
        gain_slices += _slices(board, change.after) - _slices(board, before)
    seconds = max(c.gpu.actuator.seconds for c in changes) + max(
        (c.gpu.actuator.mode_seconds for c in changes if c.gpu.changes_mode), default=0
    )
    evicted = tuple(h for c in changes for h in c.evicted)
    seconds += _drain_seconds(evicted, ask)
    return NodeStep(node, tuple(changes), dip, dip_slices, hidden, gain, gain_slices, room, seconds, cordons, evicted)


def _drain_seconds(evicted: Iterable[Held], ask: Ask) -> int:
    """Workloads drain beside each other, the instances of one in rounds of ``at_once``."""
    counts = Counter(h.workload or "" for h in evicted)
    return max((-(-n // ask.budgets[w].at_once) * ask.budgets[w].seconds for w, n in counts.items()), default=0)


def _slices(board: Board, layout: Iterable[Placed]) -> int:
    return sum(profile.memory_slices or 0 for p in layout if (profile := board.find(p.profile)))


# ---- the order -------------------------------------------------------------------------------------------------------


class _Side:
    """Steps that are chosen to run side by side, and what they take together."""

    def __init__(self, state: _State) -> None:
        self.state = state
        self.steps: list[NodeStep] = []
        self.nodes: set[str] = set()
        self.dip_slices = 0
        self.dip, self.hidden, self.room = Counter[str](), Counter[str](), Counter[str]()
        self.workloads: Counter[str | None] = Counter()
        self.moved: Counter[str] = Counter()

    def add(self, step: NodeStep) -> None:
        self.steps.append(step)
        self.nodes.add(step.node)
        self.dip_slices += step.dip_slices
        self.dip.update(step.dip)
        self.hidden.update(step.hidden)
        self.room.update(step.room)
        self.workloads.update(h.workload for h in step.evicted)
        self.moved.update(h.placed.profile for h in step.evicted)

    def too_deep(self, step: NodeStep) -> bool:
        return self.state.capacity - self.dip_slices - step.dip_slices < self.state.floor.memory_slices

    def blocked(self, step: NodeStep) -> Withheld | None:
        """Why the step may not run beside the others; None: it may."""
        if self.too_deep(step):
            return Withheld.FLOOR
        there = self.state.there
        for name, least in self.state.floor.instances.items():
            if step.dip.get(name) and there[name] - self.dip[name] - step.dip[name] < least:
                return Withheld.FLOOR
        for name in self.state.keep:
            if step.hidden.get(name) and there[name] - self.hidden[name] - step.hidden[name] < 1:
                return Withheld.KEPT_PROFILE
        return None

    def within_budgets(self, step: NodeStep) -> bool:
        """One step drains a workload in rounds; two steps together must stay within ``at_once``."""
        if not step.evicted:
            return True
        counts = Counter(h.workload for h in step.evicted)
        shared = (w for w in counts if self.workloads[w])
        return all(self.workloads[w] + counts[w] <= self.state.ask.budgets[w or ""].at_once for w in shared)

    def waiting(self, step: NodeStep | None = None) -> int:
        """Evicted instances that find no free place of their profile outside of the steps' nodes."""
        if not self.moved and not (step and step.evicted):
            return 0
        moved, room = Counter(self.moved), Counter(self.room)
        if step:
            moved.update(h.placed.profile for h in step.evicted)
            room.update(step.room)
        return sum(max(0, n - max(0, self.state.room[p] - room[p])) for p, n in moved.items())


class _State:
    """What is there between two waves."""

    def __init__(self, gpus: Sequence[PoolGpu], found: Repartition, ask: Ask, floor: Floor, nodes_at_once: int) -> None:
        self.ask, self.floor, self.nodes_at_once = ask, floor, nodes_at_once
        changed = {c.gpu.key for c in found.changes}
        self.there, self.room, self.capacity = Counter[str](), Counter[str](), 0
        for gpu in gpus:
            placed = [*gpu.idle, *(h.placed for h in gpu.held)]
            self.there.update([p.profile for p in placed])
            self.capacity += _slices(gpu.board, placed)
            if gpu.key not in changed:
                self.room.update([p.profile for p in gpu.idle])
        self.keep = [name for name in sorted(ask.keep) if self.there[name]]

    def wave(self, pending: Iterable[NodeStep]) -> Wave | None:
        """The first steps in order that fit beside each other; evicted work has a place where that is possible."""
        for may_wait in (False, True):
            side = self._fitting(pending, may_wait=may_wait)
            if side.steps:
                return self._take(side)
        return None

    def _fitting(self, pending: Iterable[NodeStep], *, may_wait: bool) -> _Side:
        side, missed = _Side(self), 0
        for step in pending:
            if step.node not in side.nodes and len(side.nodes) == self.nodes_at_once:
                break
            if side.too_deep(step) and (side.steps or step.gain_slices >= 0):
                break  # later ones dip deeper, or must not come before this one
            fits = side.within_budgets(step) and not side.blocked(step) and (may_wait or not side.waiting(step))
            if fits:
                side.add(step)
            else:
                missed += 1
            if side.steps and (may_wait or missed > LOOK_AHEAD):
                break  # where work waits, one step at a time, so that the next may find places again
        return side

    def blocked(self, step: NodeStep) -> Withheld | None:
        """Why the step may not even run alone."""
        return _Side(self).blocked(step)

    def _take(self, side: _Side) -> Wave:
        before, waiting = self.capacity, side.waiting()
        for step in side.steps:
            self.there.update(step.gain)
            self.capacity += step.gain_slices
            for change in step.changes:
                self.room.update([p.profile for p in change.after])
                self.room.subtract([h.placed.profile for h in change.gpu.held])
        seconds = max(s.seconds for s in side.steps)
        return Wave(tuple(side.steps), seconds, before, before - side.dip_slices, self.capacity, waiting)
