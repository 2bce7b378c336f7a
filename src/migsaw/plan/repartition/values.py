"""What repartition is asked and what it answers, as values: GPUs with what they hold, demand, actuators, budgets.

A GPU's *held* instances are pinned unless their workload has a budget; its *idle* instances exist and serve as they
are for as long as the GPU is not touched. Memory is counted in memory slices, time in whole seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from migsaw.errors import InputError
from migsaw.model.boards import Board
from migsaw.model.layouts import Layout, Placed

Reach = Literal["gpu", "part", "none"]


@dataclass(frozen=True, slots=True)
class Actuator:
    """What can change a GPU. ``reach``: ``gpu`` the whole GPU, once nothing on it is held; ``part`` any idle or free
    part of it beside what runs; ``none`` nothing. ``seconds`` of one change, ``mode_seconds`` more where it changes the
    MIG mode. ``cordons``: the node takes no pods meanwhile, and advertises no slices."""

    name: str
    reach: Reach
    seconds: int = 0
    mode_seconds: int = 0
    cordons: bool = False


# Seconds are estimates from public reports, never measurements of this cluster.
MIG_MANAGER = Actuator("mig-manager", "gpu", 60, 300, cordons=True)
DRA = Actuator("dra", "part", 5)
AKS_POOL = Actuator("aks-pool", "none")


@dataclass(frozen=True, slots=True)
class Held:
    """An instance that something runs in. ``workload`` names the budget that may let it move."""

    placed: Placed
    workload: str | None = None
    pod: str | None = None


@dataclass(frozen=True, slots=True)
class PoolGpu:
    """``changes_mode``: MIG is off and idle; any change turns it on and resets every GPU of the node."""

    node: str
    index: int
    board: Board
    actuator: Actuator
    held: tuple[Held, ...] = ()
    idle: Layout = ()
    changes_mode: bool = False

    @property
    def key(self) -> tuple[str, int]:
        return self.node, self.index


@dataclass(frozen=True, slots=True)
class MoveBudget:
    """A workload whose instances may restart elsewhere: at most ``at_once`` at one time, as a PodDisruptionBudget says,
    at ``price`` each (>= 1); ``seconds`` until one serves again. A workload without a budget is pinned, as a training
    run must be."""

    at_once: int = 1
    price: int = 1
    seconds: int = 60

    def __post_init__(self) -> None:
        if self.at_once < 1 or self.price < 1:
            raise InputError("a budget lets at least one instance move, at a price of at least 1", hint="or give none")


@dataclass(frozen=True, slots=True)
class Ask:
    """``demand``: instances that wait, by profile; ``headroom``: free instances wanted beyond, for which nobody is
    evicted; ``keep``: profiles that queued jobs name, of which one must exist at every moment if there is one now;
    ``budgets`` by workload; ``evictions``: most of the whole plan, None: as the budgets allow."""

    demand: Mapping[str, int]
    headroom: Mapping[str, int] = field(default_factory=dict)
    keep: frozenset[str] = frozenset()
    budgets: Mapping[str, MoveBudget] = field(default_factory=dict)
    evictions: int | None = None


@dataclass(frozen=True, slots=True)
class Level:
    """``value`` was counted again from the plan; no plan has less than ``lower_bound`` with the levels before kept."""

    name: str
    value: int
    lower_bound: int

    @property
    def gap(self) -> Fraction:
        return Fraction(self.value - self.lower_bound, self.value) if self.value else Fraction(0)


@dataclass(frozen=True, slots=True)
class Change:
    """One GPU that is touched: ``evicted`` restart elsewhere, ``after`` is its whole new layout, ``needed`` what of it
    the demand and head-room were counted on."""

    gpu: PoolGpu
    evicted: tuple[Held, ...]
    after: Layout
    needed: tuple[tuple[str, int], ...]

    @property
    def kept(self) -> tuple[Held, ...]:
        return tuple([h for h in self.gpu.held if h not in self.evicted]) if self.evicted else self.gpu.held


@dataclass(frozen=True, slots=True)
class Repartition:
    """``unmet`` and ``headroom_unmet`` by profile, in instances; GPUs that are in no change stay as they are.
    ``unmet_before``: memory slices of demand that idle instances do not serve, were nothing changed."""

    levels: tuple[Level, ...]
    unmet_before: int
    changes: tuple[Change, ...]
    unmet: Mapping[str, int]
    headroom_unmet: Mapping[str, int]
