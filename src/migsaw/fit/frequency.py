"""How often a workload runs, counted in a window of telemetry: pods of it that held a GPU. A service has no runs."""

from __future__ import annotations

from dataclasses import dataclass

from migsaw.fit.held import works_of
from migsaw.model.fits import WorkloadRef
from migsaw.model.snapshot import Snapshot

SERVICES = ("DaemonSet", "Deployment", "ReplicaSet", "ReplicationController", "StatefulSet")  # their pods never finish
SECONDS_PER_MONTH = 730 * 3600  # 365 days ÷ 12


@dataclass(frozen=True, slots=True)
class Frequency:
    runs_per_month: float
    source: str


def observed(snapshot: Snapshot, ref: WorkloadRef | None) -> Frequency | None:
    """None: no window, nothing seen of it, or a service. A run that one end of the window cuts counts as one, so a
    window of many runs is needed; a run of several pods counts as several."""
    window = snapshot.telemetry.window if snapshot.telemetry else None
    if window is None or window.end <= window.start or ref is None or ref.name is None:
        return None
    seen = [w for w in works_of(snapshot) if _is_of(ref, w.ref) and w.ref.kind not in SERVICES]
    pods = sum(len(work.owners) for work in seen)
    if not pods:
        return None
    seconds = window.end - window.start
    source = f"{pods} pod{'s' * (pods > 1)} of it held a GPU in {seconds / 86400:.3g} days"
    return Frequency(pods * SECONDS_PER_MONTH / seconds, source)


def _is_of(asked: WorkloadRef, seen: WorkloadRef) -> bool:
    pairs = ((asked.namespace, seen.namespace), (asked.kind, seen.kind), (asked.name, seen.name))
    return all(mine in (None, other) for mine, other in pairs)
