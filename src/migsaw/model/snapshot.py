"""What was seen of a cluster at one time: the value at the border of ``observe``.

Field names are those of ``snapshot.json`` (``docs/reference/schemas/snapshot.json``). ``None`` is "not known"; a count
or a memory figure that is not known is never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from migsaw.model.refs import PodRef
from migsaw.model.telemetry import Telemetry

SCHEMA = "migsaw/snapshot/v1"
FORBID = {"extra": "forbid"}  # read by pydantic at the edges; here it is only data

Owner = Literal["gpu-operator", "aks", "aks-managed", "dra", "hami", "das", "unknown"]
Scope = Literal["gpu", "node", "pool", "pool_layout"]
Mode = Literal["on", "off", "pending", "unknown"]
State = Literal["busy", "idle", "unknown"]


@dataclass(frozen=True, slots=True)
class Activity:
    """One sample of DCGM's profiling ratios, 0..1 of the instance; None where blank or absent."""

    __pydantic_config__ = FORBID

    graphics: float | None = None
    sm: float | None = None
    tensor: float | None = None
    dram: float | None = None
    source: str = "one sample"


@dataclass(frozen=True, slots=True)
class Memory:
    """MiB. ``used`` from DCGM FB_USED; ``capacity`` from FB_USED + FB_FREE, else from the catalogue."""

    __pydantic_config__ = FORBID

    used: int | None = None
    capacity: int | None = None


@dataclass(frozen=True, slots=True)
class Instance:
    """A GPU instance. ``profile`` is the catalogue's name, or the tool's own where the board is unknown."""

    __pydantic_config__ = FORBID

    profile: str
    gi_id: int | None = None
    start: int | None = None  # only where something gave it; a GI id never does
    owner: PodRef | None = None
    owner_reason: str | None = None  # why the owner is what it is, always set where owner is None
    state: State = "unknown"
    activity: Activity | None = None
    memory_mib: Memory = field(default_factory=Memory)


@dataclass(frozen=True, slots=True)
class Gpu:
    __pydantic_config__ = FORBID

    index: int
    uuid: str | None = None
    board: str | None = None  # catalogue key; None: not known, see product
    product: str | None = None  # as a tool printed it
    mig: Mode = "unknown"
    owner: PodRef | None = None  # holder of the whole GPU (MIG off)
    owner_reason: str | None = None
    state: State = "unknown"  # of the whole GPU where it has no instances
    instances: tuple[Instance, ...] = ()
    activity: Activity | None = None
    memory_mib: Memory = field(default_factory=Memory)
    geometry: str | None = None  # key of Snapshot.geometries where the driver reported placements


@dataclass(frozen=True, slots=True)
class Taint:
    __pydantic_config__ = FORBID

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True)
class Toleration:
    __pydantic_config__ = FORBID

    key: str | None = None  # None with operator Exists: every taint
    operator: str = "Equal"
    value: str = ""
    effect: str | None = None  # None: every effect


@dataclass(frozen=True, slots=True)
class Node:
    __pydantic_config__ = FORBID

    name: str
    azure_size: str | None = None
    pool: str | None = None
    owner: Owner = "unknown"
    owner_reason: str | None = None
    strategy: Literal["single", "mixed", "none"] | None = None
    layout_scope: Scope | None = None
    schedulable: bool = True  # not cordoned and not known to be NotReady
    mig_config: str | None = None  # label nvidia.com/mig.config
    mig_config_state: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)  # those a pod of this snapshot may select by
    taints: tuple[Taint, ...] = ()
    allocatable: Mapping[str, int] = field(default_factory=dict)  # GPU resources only; devices, however many share one
    gpus: tuple[Gpu, ...] = ()


@dataclass(frozen=True, slots=True)
class Workload:
    """What recurs: the controller at the top of a pod's owner references."""

    __pydantic_config__ = FORBID

    namespace: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term of node affinity: operator In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    __pydantic_config__ = FORBID

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that asks for a GPU resource. Finished pods are not kept."""

    __pydantic_config__ = FORBID

    namespace: str
    name: str
    node: str | None = None
    phase: str = "Pending"
    asks: Mapping[str, int] = field(default_factory=dict)  # resource → number
    workload: Workload | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    node_affinity: tuple[tuple[Requirement, ...], ...] = ()  # required terms: any of, each all of
    tolerations: tuple[Toleration, ...] = ()
    workload_class: str | None = None  # of label or annotation migsaw.io/class

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ReportedProfile:
    __pydantic_config__ = FORBID

    name: str
    profile_id: int
    starts: tuple[int, ...]
    size: int  # memory slices
    max_instances: int | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """Something that a reader of the snapshot should know: an input not understood, a doubt, a contradiction."""

    __pydantic_config__ = FORBID

    severity: Literal["error", "warning", "info"]
    text: str
    file: str | None = None
    where: str | None = None  # "line 12" or a JSON path


@dataclass(frozen=True, slots=True)
class Snapshot:
    __pydantic_config__ = FORBID

    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    notes: tuple[Note, ...] = ()
    geometries: Mapping[str, tuple[ReportedProfile, ...]] = field(default_factory=dict)
    resource_versions: Mapping[str, str] = field(default_factory=dict)  # "Node/name" → version
    taken_at: str | None = None  # RFC 3339, where an input said so
    telemetry: Telemetry | None = None  # what was measured, over a window or in one scrape
    schema: Literal["migsaw/snapshot/v1"] = "migsaw/snapshot/v1"
