"""What one trial of a workload on one slot showed, and which runs count as the same workload.

A number without its conditions is worth nothing: device, neighbours and what ended the trial stay with it. Times are
RFC 3339 strings that the edge put there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from migsaw.model.fits import Figure
from migsaw.model.telemetry import Device, NodeUse, PodUse

FORBID = {"extra": "forbid"}

DeviceKind = Literal["mig", "gpu", "cpu", "simulated"]
Outcome = Literal["steady", "unsteady", "out_of_memory", "failed", "interrupted"]
Neighbours = Literal["loaded", "busy", "idle", "none", "unknown"]  # busy: with work that is not the trial's

# what makes two runs the same workload, unless a rule says otherwise; everything else is a condition of the trial
IDENTITY = ("namespace", "kind", "name", "experiment", "component", "image", "command", "model")


@dataclass(frozen=True, slots=True)
class WorkloadId:
    """Facts by which a workload is known: those of :data:`IDENTITY` that its source has, and none other.

    The fingerprint is the SHA-256 of the canonical JSON of the facts that the rule names: the same facts in any order
    give the same fingerprint, and a fact that is absent differs from an empty one.
    """

    __pydantic_config__ = FORBID

    facts: Mapping[str, str] = field(default_factory=dict)

    def fingerprint(self, rule: tuple[str, ...] = IDENTITY) -> str:
        """64 hexadecimal digits. Raises ValueError where the rule leaves nothing to tell workloads apart by."""
        kept = {key: self.facts[key] for key in sorted(rule) if key in self.facts}
        if not kept:
            raise ValueError(f"none of {', '.join(rule)} is known of this workload")
        return _digest(kept)


@dataclass(frozen=True, slots=True)
class Beside:
    """What DCGM showed in the steady time. ``device``: the slot; ``neighbours``: the other instances of its GPU.

    ``device`` None: ``unknown`` says why. ``pod`` and ``node``: what stands beside the GPU, as a Prometheus knows it.
    """

    __pydantic_config__ = FORBID

    source: str
    device: Device | None = None
    neighbours: tuple[Device, ...] = ()
    unknown: str = ""
    dcgm_version: str | None = None
    pod: PodUse | None = None
    node: NodeUse | None = None


@dataclass(frozen=True, slots=True)
class Starved:
    """Why the slot was not busy, with its evidence in a sentence, and what to mend first."""

    __pydantic_config__ = FORBID

    cause: Literal["cpu", "input", "suspected"]
    is_sure: bool
    because: str
    mend: str


@dataclass(frozen=True, slots=True)
class Measurement:
    """One finished trial. Throughput is of the whole slot, all its processes together."""

    __pydantic_config__ = FORBID

    workload: WorkloadId
    fingerprint: str
    board: str  # catalogue key; of cpu and simulated trials too: what was asked for
    profile: str  # catalogue's name, or "off" for a whole GPU
    device: DeviceKind
    outcome: Outcome
    at: str
    batch: int | None = None
    processes: int = 1
    unit: str = "samples"
    throughput_per_second: Figure | None = None
    latency_ms: Figure | None = None
    memory_peak_mib: int | None = None
    startup_seconds: float | None = None  # until the first unit of work was done
    steady_seconds: float | None = None
    input_wait: float | None = None  # share of the steady time that the workload waited for data, 0..1
    neighbours: Neighbours = "unknown"
    derated: float = 1.0  # what the throughput was multiplied by because neighbours were idle
    beside: Beside | None = None  # None: nobody was asked
    starved: Starved | None = None
    conditions: Mapping[str, str] = field(default_factory=dict)  # driver, versions, node: for people
    schema: Literal["migsaw/measurement/v1"] = "migsaw/measurement/v1"


def content_id(document: Mapping[str, Any]) -> str:
    """The same content has the same id, so a record that is written or imported twice is there once."""
    return _digest(document)


def _digest(document: Mapping[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
