"""Measurements for tests: a workload on the A100-40GB, whose slices carry known shares of the GPU."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from migsaw import catalogue
from migsaw.cli.shared import load_catalogue
from migsaw.fit.assigned import Assigned, assign
from migsaw.fit.curve_prior import parse_prior
from migsaw.fit.evidence import evidence_of
from migsaw.model.fits import Figure
from migsaw.model.measurement import Measurement, WorkloadId
from migsaw.model.slo import Objective, Slos
from migsaw.store import open_store
from migsaw.store.records import record_of

CATALOGUE = load_catalogue()
PRIOR = parse_prior(catalogue.read("curves.json"))
BOARD = "a100-sxm4-40gb"
NOTHING = Objective()
PLAIN = ("1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb")


def trial(profile: str, rate: float | None = None, *, board: str = BOARD, name: str = "m", **more) -> Measurement:
    """One trial; without a rate it ran out of memory. ``latency`` in ms."""
    workload = WorkloadId({"namespace": "ml", "kind": "Job", "name": name})
    words = {"device": "gpu" if profile == "off" else "mig", "at": "2026-12-01T00:00:00Z", "batch": 8, **more}
    words["outcome"] = words.get("outcome") or ("steady" if rate else "out_of_memory")
    latency = words.pop("latency", None)
    return Measurement(
        workload=workload, fingerprint=workload.fingerprint(), board=board, profile=profile,
        throughput_per_second=Figure(rate) if rate else None, latency_ms=Figure(latency) if latency else None, **words,
    )  # fmt: skip


def assigned(
    trials: list[Measurement], asked: Objective = NOTHING, usd: Mapping[str, float | None] = {}, **more
) -> Assigned:
    """Of one workload."""
    evidence, _ = evidence_of(trials, Slos((asked,)), **more)
    (found,) = assign(evidence, Slos((asked,)), CATALOGUE, PRIOR, usd)
    return found


def stored(path: Path, trials: list[Measurement]) -> Path:
    with open_store(path) as store:
        store.add(record_of(m, m.fingerprint, m.at) for m in trials)
    return path
