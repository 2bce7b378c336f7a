"""What a measured trial is asked for (``workload.yaml``) and what a series of trials found.

Field names are those of the files. Seconds are of a clock that starts with the trial. Whether the words of a
``workload.yaml`` make sense together is checked where it is read (:mod:`migsaw.trial.spec`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from migsaw.model.fits import Figure
from migsaw.model.measurement import DeviceKind, Measurement, WorkloadId

FORBID = {"extra": "forbid"}

ReadKind = Literal["rate", "count"]


@dataclass(frozen=True, slots=True)
class RegexReading:
    """``pattern``: one group, a number in a line of stdout. ``rate``: units per second; ``count``: units done so far.

    ``input_wait``: one group, the share (0..1) of the time that the script waited for data.
    """

    __pydantic_config__ = FORBID

    pattern: str
    kind: ReadKind = "rate"
    input_wait: str | None = None


@dataclass(frozen=True, slots=True)
class JsonLinesReading:
    """``file``: relative to the spec; ``{process}`` in it is the number of the process, from 0."""

    __pydantic_config__ = FORBID

    file: str
    field: str
    kind: ReadKind = "rate"
    input_wait: str | None = None  # a field


@dataclass(frozen=True, slots=True)
class PrometheusReading:
    """``query`` gives units per second of the whole slot: one series, or none while there is nothing yet."""

    __pydantic_config__ = FORBID

    url: str
    query: str
    every_seconds: float = 15.0


@dataclass(frozen=True, slots=True)
class MlflowReading:
    """A metric of units per second. The run is made here and handed to the command as ``MLFLOW_RUN_ID``."""

    __pydantic_config__ = FORBID

    metric: str
    tracking_uri: str | None = None
    every_seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class Read:
    """Exactly one of them."""

    __pydantic_config__ = FORBID

    regex: RegexReading | None = None
    json_lines: JsonLinesReading | None = None
    prometheus: PrometheusReading | None = None
    mlflow: MlflowReading | None = None


@dataclass(frozen=True, slots=True)
class WarmUp:
    """What is left out, from the first value on: values within ``seconds`` of it, and so many ``values``."""

    __pydantic_config__ = FORBID

    seconds: float = 0.0
    values: int = 0


@dataclass(frozen=True, slots=True)
class Steady:
    """A trial ends when half of the mean's 95 % interval is at most this part of the mean, or its time is over.

    ``at_least_seconds``: what comes in waves (evaluation, checkpoints, clocks) must be seen to be counted.
    """

    __pydantic_config__ = FORBID

    relative_half_width: float = 0.03
    at_least_values: int = 20
    at_least_seconds: float = 10.0  # counted, after the warm-up
    at_most_seconds: float = 300.0  # from the first value
    start_within_seconds: float = 900.0  # the first value must come


@dataclass(frozen=True, slots=True)
class Limit:
    """What the slot must reach; ``latency_ms`` is of one batch of one process."""

    __pydantic_config__ = FORBID

    latency_ms: float | None = None
    throughput_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class TrialSpec:
    """``command`` is a list of words: no shell reads it. ``workload``: identity facts; without them the name is it."""

    __pydantic_config__ = FORBID

    name: str
    board: str
    command: tuple[str, ...]
    read: Read
    workload: Mapping[str, str] = field(default_factory=dict)
    image: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    task: Literal["infer", "train"] = "train"
    batch: int | None = None
    processes: int = 1
    unit: str = "samples"
    warm_up: WarmUp = field(default_factory=WarmUp)
    steady: Steady = field(default_factory=Steady)
    limit: Limit = field(default_factory=Limit)
    profiles: tuple[str, ...] | None = None  # the only ones to try
    schema: Literal["migsaw/trial/v1"] = "migsaw/trial/v1"

    @property
    def identity(self) -> WorkloadId:
        return WorkloadId(dict(self.workload) or {"name": self.name})

    @property
    def floor(self) -> float | None:
        """Least throughput per second that the limit asks for; None: no limit.

        A batch of each process must be done within the latency: batch × processes ÷ latency.
        """
        if self.limit.latency_ms is not None:
            return (self.batch or 1) * self.processes / (self.limit.latency_ms / 1000)
        return self.limit.throughput_per_second


class Verdict(StrEnum):
    """Why the trials ended as they did."""

    CHOSEN = "Chosen"  # no further trial is worth its time
    NONE_SERVES = "NoneServes"  # whatever could be tried does not hold it or misses the limit
    REHEARSED = "Rehearsed"  # on the CPU: says nothing of a slice
    FAILED = "Failed"  # the command failed, and would on the next slot


@dataclass(frozen=True, slots=True)
class SlotRow:
    """One slot of the board: measured, or predicted. ``cost``: share of a GPU × seconds per unit."""

    __pydantic_config__ = FORBID

    profile: str
    share: float | None
    holds: bool | None  # None: not known
    throughput_per_second: Figure | None = None
    cost: float | None = None
    measurement: Measurement | None = None
    is_resumed: bool = False  # measured by an earlier run


@dataclass(frozen=True, slots=True)
class Trials:
    """``trials``: how many were made now."""

    __pydantic_config__ = FORBID

    name: str
    board: str
    device: DeviceKind
    unit: str
    rows: tuple[SlotRow, ...]
    trials: int
    chosen: str | None
    verdict: Verdict
    because: str
    floor: float | None = None
    schema: Literal["migsaw/trials/v1"] = "migsaw/trials/v1"
