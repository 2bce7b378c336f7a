"""What a workload must reach, and how often it runs: the ``slos.yaml`` of ``assign`` and ``cost``.

Field names are those of the file. Without an objective any slot that holds the workload serves it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from migsaw.model.fits import WorkloadRef
from migsaw.model.measurement import WorkloadId

FORBID = {"extra": "forbid"}

Task = Literal["infer", "train"]


@dataclass(frozen=True, slots=True)
class Objective:
    """``workload``: identity facts that a workload must have; none: every workload. A run is ``units_per_run`` units.

    ``latency_slo_ms`` is of one batch of one process. ``batch`` and ``processes`` say which trials count where there
    are several; ``workload_in_cluster`` how the plan finds the workload, where its facts do not name it.
    """

    __pydantic_config__ = FORBID

    workload: Mapping[str, str] = field(default_factory=dict)
    workload_in_cluster: WorkloadRef | None = None
    task: Task | None = None
    batch: int | None = None
    processes: int | None = None
    units_per_run: float | None = None
    deadline_seconds: float | None = None  # of one run, its start-up included
    latency_slo_ms: float | None = None
    throughput_per_second: float | None = None
    runs_per_month: float | None = None

    @property
    def likely_task(self) -> Task:
        """What answers requests has a latency or a rate to keep; all else is taken for training, as in a trial."""
        serves = self.latency_slo_ms is not None or self.throughput_per_second is not None
        return self.task or ("infer" if serves else "train")

    def covers(self, workload: WorkloadId) -> bool:
        return all(workload.facts.get(key) == value for key, value in self.workload.items())


@dataclass(frozen=True, slots=True)
class Slos:
    """The first objective that covers a workload is its own."""

    __pydantic_config__ = FORBID

    objectives: tuple[Objective, ...] = ()
    schema: Literal["migsaw/slos/v1"] = "migsaw/slos/v1"

    def of(self, workload: WorkloadId) -> Objective:
        return next((o for o in self.objectives if o.covers(workload)), Objective())
