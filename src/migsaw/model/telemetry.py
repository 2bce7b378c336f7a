"""What DCGM and its neighbours measured, in one scrape or over a window: the value that fits and doctor rules read.

A row speaks of one device (a GPU instance, or a GPU with MIG off) in the hands of one holder. It keeps what was dropped
and why beside what was kept, so that nobody downstream has to guess. None is "not known"; an absent series has no
entry. Nothing here depends on whether text of an exporter or a Prometheus server gave it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from migsaw.model.refs import PodRef

FORBID = {"extra": "forbid"}

RATIOS = ("graphics", "sm", "occupancy", "tensor", "dram")  # 0..1 of the instance (DCGM fields 1001 to 1005)
MEMORY = ("used", "free")  # MiB (DCGM_FI_DEV_FB_USED, DCGM_FI_DEV_FB_FREE)
WHOLE_GPU_ONLY = ("util",)  # percent; DCGM never had it for GPU instances

OwnerSource = Literal["label", "exported label", "pod uid", "dra claim", "pods", "none"]


@dataclass(frozen=True, slots=True)
class Window:
    """Unix seconds. A series that was there all the time has ``points`` samples."""

    __pydantic_config__ = FORBID

    start: float
    end: float
    step: float

    @property
    def points(self) -> int:
        return int((self.end - self.start) / self.step + 1e-9)


@dataclass(frozen=True, slots=True)
class Distribution:
    """Of the samples that were kept, in the unit of the series. None: not asked for, to spare the server."""

    __pydantic_config__ = FORBID

    mean: float
    low: float | None  # 5th percentile
    median: float | None
    high: float  # 95th percentile
    peak: float  # maximum
    deviation: float | None  # standard deviation of the samples; 0 for a single one


@dataclass(frozen=True, slots=True)
class Series:
    """One signal of one device. ``values`` None: every sample was blank or out of range."""

    __pydantic_config__ = FORBID

    name: str  # the family's name as it was exported, such as DCGM_FI_PROF_SM_ACTIVE
    samples: int  # kept
    values: Distribution | None
    blanks: int = 0  # dropped: DCGM's "blank" of any type, NaN, negative
    spikes: int = 0  # dropped: a ratio far above 1
    above_one: int = 0  # kept: a ratio a little above 1
    last: float | None = None  # Unix seconds of the newest sample
    changes: int | None = None  # how often the value changed from sample to sample


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU instance (``gi_id``) or a GPU with MIG off (``gi_id`` None), as one holder had it."""

    __pydantic_config__ = FORBID

    node: str | None = None
    index: int | None = None
    uuid: str | None = None
    gi_id: int | None = None
    product: str | None = None  # modelName as exported
    board: str | None = None  # catalogue key
    profile: str | None = None  # catalogue's name; None: a whole GPU, or unknown where ``gi_id`` is set
    profile_label: str | None = None  # GPU_I_PROFILE as exported, unless it is the same
    owner: PodRef | None = None
    owner_source: OwnerSource = "none"
    owner_reason: str | None = None  # set where ``owner`` is None
    exporter_pod: str | None = None  # the pod label named the exporter itself (honorLabels: false)
    has_claim: bool = False  # handed out by DRA
    exporters: int = 1  # how many showed one signal of it, told apart by host, pod or address; duplicates are joined
    series: Mapping[str, Series] = field(default_factory=dict)  # by signal: RATIOS, MEMORY, WHOLE_GPU_ONLY


@dataclass(frozen=True, slots=True)
class BoardReading:
    """Values of a whole board, which dcgm-exporter repeats on every instance of it. Never to be added up."""

    __pydantic_config__ = FORBID

    node: str | None = None
    index: int | None = None
    uuid: str | None = None
    repeated_on: int = 1  # instances that carried the same value
    power_watts: Distribution | None = None
    temperature_celsius: Distribution | None = None
    sm_clock_mhz: Distribution | None = None
    energy_joules: float | None = None  # over the window, counter resets taken into account


@dataclass(frozen=True, slots=True)
class PodUse:
    """What cAdvisor and kube-state-metrics say of a pod that holds a GPU."""

    __pydantic_config__ = FORBID

    pod: PodRef
    cpu_cores: Distribution | None = None
    cpu_limit_cores: float | None = None
    cpu_throttled: Distribution | None = None  # share of the scheduler's periods, 0..1
    network_receive_bytes_per_second: Distribution | None = None
    disk_read_bytes_per_second: Distribution | None = None
    oom_kills: int | None = None  # containers ended for memory in the window (of the host: not of the GPU)
    restarts: int | None = None


@dataclass(frozen=True, slots=True)
class NodeUse:
    """What node-exporter says of a node with GPUs."""

    __pydantic_config__ = FORBID

    node: str
    disk_busy: Distribution | None = None  # share of time of the busiest disk, 0..1
    network_receive_bytes_per_second: Distribution | None = None


@dataclass(frozen=True, slots=True)
class Telemetry:
    """``window`` None: one scrape. ``partial``: what is missing from the answers, one sentence each."""

    __pydantic_config__ = FORBID

    source: Literal["exporter", "prometheus"]
    window: Window | None = None
    devices: tuple[Device, ...] = ()
    boards: tuple[BoardReading, ...] = ()
    pods: tuple[PodUse, ...] = ()
    nodes: tuple[NodeUse, ...] = ()
    families: tuple[str, ...] = ()  # every DCGM family that was seen, as exported
    dcgm_version: str | None = None
    exporter_version: str | None = None
    server: str | None = None  # what answered, such as "Prometheus 2.42.0"
    partial: tuple[str, ...] = ()
    read_from: tuple[str, ...] = ()  # the server's address without user and password, or the files of exporter text
