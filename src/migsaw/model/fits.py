"""What a workload needs: the profiles that can hold it, each with where its numbers come from.

Field names are those of ``fits.json``. A ``source`` is one of declared, estimated, predicted, measured, certified.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

FORBID = {"extra": "forbid"}

Source = Literal["declared", "estimated", "predicted", "measured", "certified"]
Verdict = Literal["right", "too_big", "too_small", "starved_input", "starved_cpu", "idle", "unknown"]


@dataclass(frozen=True, slots=True)
class AzureMlRef:
    __pydantic_config__ = FORBID

    experiment: str
    component: str | None = None


@dataclass(frozen=True, slots=True)
class Selector:
    __pydantic_config__ = FORBID

    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkloadRef:
    """Exactly one way to name a workload: by namespace, kind and name; by Azure ML experiment; or by pod labels."""

    __pydantic_config__ = FORBID

    namespace: str | None = None
    kind: str | None = None
    name: str | None = None
    azureml: AzureMlRef | None = None
    selector: Selector | None = None

    def __str__(self) -> str:
        if self.azureml:
            return "/".join(part for part in ("azureml", self.azureml.experiment, self.azureml.component) if part)
        if self.selector:
            return ",".join(f"{key}={value}" for key, value in sorted(self.selector.labels.items()))
        return "/".join(part for part in (self.namespace, self.kind, self.name) if part)


@dataclass(frozen=True, slots=True)
class Figure:
    """A number with its interval (same unit) and its source."""

    __pydantic_config__ = FORBID

    value: float
    low: float | None = None
    high: float | None = None
    source: Source = "measured"


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """MiB: the peak that was seen or estimated, the margin on top, the limit of the profile."""

    __pydantic_config__ = FORBID

    peak: int | None = None
    margin: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    __pydantic_config__ = FORBID

    board: str
    profile: str


@dataclass(frozen=True, slots=True)
class Option:
    __pydantic_config__ = FORBID

    board: str
    profile: str
    fits: bool
    memory_mib: MemoryNeed = field(default_factory=MemoryNeed)
    throughput_per_second: Figure | None = None
    latency_ms: Figure | None = None
    reason: str = "OK"
    throughput_ratio: Figure | None = None  # throughput there ÷ throughput on what is held


@dataclass(frozen=True, slots=True)
class Fit:
    __pydantic_config__ = FORBID

    workload: WorkloadRef
    source: Source
    options: tuple[Option, ...] = ()
    chosen: Choice | None = None
    verdict: Verdict = "unknown"
    confidence: str = "n/a (not stated)"  # such as "one sample"
    because: str = ""  # why the verdict, in one sentence with its figures
    measured_by: str = ""  # how activity was read: the signal, its ceiling, the rule and its source
    next_step: str | None = None  # what to do first, such as what starves it
    points: int | None = None  # samples of the scarcest signal that the verdict rests on
    workload_class: str | None = None  # all that is known of it; then a plan makes the options


@dataclass(frozen=True, slots=True)
class Fits:
    __pydantic_config__ = FORBID

    fits: tuple[Fit, ...] = ()
    schema: Literal["migsaw/fits/v1"] = "migsaw/fits/v1"
