"""``slos.yaml`` → objectives: read, and refused where an objective makes no sense or covers no workload."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from migsaw.errors import InputError
from migsaw.model.measurement import WorkloadId
from migsaw.model.slo import Objective, Slos
from migsaw.observe.documents import parse
from migsaw.observe.reading import read_document

POSITIVE = (
    "batch", "processes", "units_per_run", "deadline_seconds", "latency_slo_ms", "throughput_per_second",
    "runs_per_month",
)  # fmt: skip
NEED_RUN = ("deadline_seconds", "runs_per_month")


def read_slos(path: Path, workloads: Sequence[WorkloadId]) -> Slos:
    """Raises :class:`InputError` with file, line and field; an objective that covers none of ``workloads`` is a
    misspelt one."""
    document = read_document(path)
    slos = parse(document, Slos)
    for number, asked in enumerate(slos.objectives):
        if (problem := fault_of(asked)) is not None:
            field, text, hint = problem
            raise InputError(text, where=document.where(["objectives", number, field]), hint=hint)
        if not any(asked.covers(workload) for workload in workloads):
            facts = ", ".join(f"{key}: {value}" for key, value in asked.workload.items())
            where = document.where(["objectives", number, "workload"])
            raise InputError(f"no measured workload has {facts or 'these facts'}", where=where, hint=_known(workloads))
    return slos


def fault_of(asked: Objective) -> tuple[str, str, str] | None:
    """(field, what is wrong with it, hint), or None."""
    for field in POSITIVE:
        value = getattr(asked, field)
        if value is not None and not (0 < value < math.inf):
            return field, f"{value} is not a positive number", "leave it out where nothing is asked for"
    for field in NEED_RUN:
        if getattr(asked, field) is not None and asked.units_per_run is None:
            return field, "what a run is, is not said", "units_per_run: how many units one run finishes"
    ref = asked.workload_in_cluster
    if ref is not None and sum(part is not None for part in (ref.name, ref.azureml, ref.selector)) != 1:
        text = "a workload is named in exactly one way"
        return "workload_in_cluster", text, "namespace, kind and name; or azureml; or selector"
    return None


def _known(workloads: Sequence[WorkloadId]) -> str:
    texts = sorted({", ".join(f"{key}: {value}" for key, value in sorted(w.facts.items())) for w in workloads})
    shown = "; ".join(texts[:5]) + (f"; and {len(texts) - 5} more" if len(texts) > 5 else "")
    return f"measured are: {shown}" if texts else "nothing was measured that counts: `migsaw profile`"
