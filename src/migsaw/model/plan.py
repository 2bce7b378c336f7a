"""A plan: steps from the observed partition to a better one, with reasons, savings and disruption.

Field names are those of ``plan.json``. Layouts are written as the interface says: ``["off"]`` MIG off, ``[]`` MIG on
without instances, ``1g.10gb@0`` with and ``1g.10gb`` without a known start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from migsaw.model.fits import MemoryNeed, Source
from migsaw.model.reasons import Reason
from migsaw.model.snapshot import Owner, Scope

FORBID = {"extra": "forbid"}

Target = Literal["mig-manager", "aks", "azureml", "kubernetes", "dra", "device-plugin", "nvidia-smi"]
StepKind = Literal[
    "cordon", "wait-idle", "recut", "reboot", "verify", "uncordon", "create-pool", "drain-pool", "delete-pool"
]


@dataclass(frozen=True, slots=True)
class MadeFrom:
    __pydantic_config__ = FORBID

    snapshot_sha256: str
    resource_versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GpuPlan:
    """One GPU. ``text`` gives the particulars of ``reason``."""

    __pydantic_config__ = FORBID

    node: str
    index: int
    before: tuple[str, ...]
    after: tuple[str, ...]
    reason: Reason
    text: str = ""
    uuid: str | None = None
    board: str | None = None
    pinned: tuple[str, ...] = ()  # held, or perhaps held
    unsure: tuple[str, ...] = ()  # those of them of which nobody says whether they are held
    is_layout_known: bool = True  # ``before`` is all that it has
    is_geometry_reported: bool = False  # the node's driver told its placements, which win over the catalogue's
    idle_in_use: tuple[str, ...] = ()  # instances that are held and showed no activity in the sample
    stranded: tuple[int, int] | None = None  # (compute, memory) slices after the plan that no legal placement can use


@dataclass(frozen=True, slots=True)
class Place:
    __pydantic_config__ = FORBID

    node: str
    profile: str  # "off" for a whole GPU with MIG off


@dataclass(frozen=True, slots=True)
class KnownBy:
    """The fit that a slot rests on. ``workload_class``: nothing but the class was known."""

    __pydantic_config__ = FORBID

    source: Source
    confidence: str
    workload_class: str | None = None
    memory_mib: MemoryNeed = field(default_factory=MemoryNeed)


@dataclass(frozen=True, slots=True)
class PodPlan:
    """``known_by``: what says that the slot serves it; None: its own request."""

    __pydantic_config__ = FORBID

    namespace: str
    name: str
    reason: Reason
    text: str = ""
    before: Place | None = None
    after: Place | None = None
    asks: Mapping[str, int] = field(default_factory=dict)
    known_by: KnownBy | None = None


@dataclass(frozen=True, slots=True)
class NodePlan:
    """What rendering needs to know of a node without the snapshot."""

    __pydantic_config__ = FORBID

    name: str
    owner: Owner
    changed: bool
    pool: str | None = None
    azure_size: str | None = None
    strategy: str | None = None
    layout_scope: Scope | None = None
    mig_config: str | None = None  # the label's value before the plan


@dataclass(frozen=True, slots=True)
class PoolStep:
    """A node pool to create. ``mig_profiles`` are AKS names (MIG1g …), one layout for every GPU of the pool."""

    __pydantic_config__ = FORBID

    name: str
    azure_size: str
    nodes: int
    mig_profiles: tuple[str, ...] = ()
    strategy: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """``seconds`` is an estimate from public reports; ``disrupts`` names pods as namespace/name."""

    __pydantic_config__ = FORBID

    id: str
    kind: StepKind
    node: str | None
    gpus: tuple[int, ...] = ()
    needs: tuple[str, ...] = ()
    disrupts: tuple[str, ...] = ()
    seconds: float | None = None
    reversible: bool = True
    pool: PoolStep | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a lexicographic plan: its value, certified bound (same unit) and gap."""

    __pydantic_config__ = FORBID

    name: str
    value: float
    lower_bound: float
    gap: float


@dataclass(frozen=True, slots=True)
class Savings:
    """Per hour of operation. None: not known, ``source`` says why."""

    __pydantic_config__ = FORBID

    gpu_hours: float | None
    usd: float | None
    source: str


@dataclass(frozen=True, slots=True)
class IdealRow:
    """GPUs of one board with the same layout in the best partition, were every workload free to restart."""

    __pydantic_config__ = FORBID

    board: str
    layout: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Ideal:
    """The best partition for the work that runs, on an empty fleet: what restarting it would allow, with its proof.

    ``objective`` and ``lower_bound`` (certified in exact arithmetic) are in ``unit``: USD per hour where every size has
    a price, else GPUs. GPUs are whole nodes where the owner decides by node or pool.
    """

    __pydantic_config__ = FORBID

    gpus_now: int  # GPUs that the work holds now
    gpus: int
    objective: float
    lower_bound: float
    gap: float
    unit: str = "GPUs"
    gpus_with_waiting: int | None = None  # the same with all pods that wait and could be served by these boards
    gpus_recommended: int | None = None  # the same when the recommended policy (2g and 3g slices first) chooses slots
    rows: tuple[IdealRow, ...] = ()
    # what the narrower scopes cost beyond cutting every GPU freely; None: no scope is narrower
    scope_cost_gpus: int | None = None
    scope_cost_usd: float | None = None
    savings: Savings | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    __pydantic_config__ = FORBID

    made_from: MadeFrom
    target: Target | None
    objective: float | None
    lower_bound: float | None
    gap: float | None
    gpus: tuple[GpuPlan, ...]
    pods: tuple[PodPlan, ...]
    steps: tuple[Step, ...]
    savings: Savings
    nodes: tuple[NodePlan, ...] = ()
    levels: tuple[Level, ...] = ()
    ideal: Ideal | None = None
    unit: str = "GPUs"
    notes: tuple[str, ...] = ()
    schema: Literal["migsaw/plan/v1"] = "migsaw/plan/v1"
