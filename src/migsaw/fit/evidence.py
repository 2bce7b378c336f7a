"""Which trials speak for a workload on a board: those on a real slice, made alike, the latest of each slot.

A number of the CPU says nothing of a slice, and a simulated one only where it was asked for. It must not know of money
or of what the workload must reach.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from migsaw.model.measurement import Measurement, WorkloadId
from migsaw.model.slo import Slos

WHOLE = "off"  # the slot of a GPU without MIG
FINISHED = ("steady", "unsteady", "out_of_memory")


@dataclass(frozen=True, slots=True)
class Evidence:
    """Trials of one workload on one board with one batch, number of processes and unit, by profile."""

    workload: WorkloadId
    fingerprint: str
    board: str
    batch: int | None
    processes: int
    unit: str
    trials: Mapping[str, Measurement]
    notes: tuple[str, ...] = ()


def evidence_of(
    measurements: Iterable[Measurement], slos: Slos, *, with_simulated: bool = False
) -> tuple[tuple[Evidence, ...], tuple[str, ...]]:
    """(evidence by workload and board, what was left out and why), in the order of names and boards.

    Of several ways to run a workload (batch, processes, unit) its objective says which counts, else the latest trial.
    """
    groups: dict[tuple[str, str], list[Measurement]] = {}
    left_out: dict[str, int] = {}
    for m in sorted(measurements, key=lambda m: m.at):
        if why := _why_not(m, with_simulated):
            left_out[why] = left_out.get(why, 0) + 1
        elif m.outcome in FINISHED:
            groups.setdefault((m.fingerprint, m.board), []).append(m)
    found = [e for rows in groups.values() if (e := _evidence(rows, slos)) is not None]
    found.sort(key=lambda e: (name_of(e.workload), e.fingerprint, e.board))
    return tuple(found), tuple(f"{n} measurement{'s' * (n > 1)} left out: {why}" for why, n in sorted(left_out.items()))


def name_of(workload: WorkloadId) -> str:
    """For people: ``namespace/name``, else an experiment, else whatever fact there is."""
    facts = workload.facts
    if "name" in facts:
        return f"{facts['namespace']}/{facts['name']}" if "namespace" in facts else facts["name"]
    keys = ("experiment", "component", "model", "image", "command")
    return next((facts[key] for key in keys if key in facts), "n/a (no fact names it)")


def _why_not(m: Measurement, with_simulated: bool) -> str | None:
    if m.device == "cpu":
        return "device: cpu says nothing of a slice"
    if m.device == "simulated":
        return None if with_simulated else "device: simulated (--simulated lets them count, for a demonstration)"
    if (m.device == "gpu") != (m.profile == WHOLE):
        return f"device: {m.device} cannot have measured {m.profile}"
    return None


def _evidence(rows: list[Measurement], slos: Slos) -> Evidence | None:
    last = rows[-1]
    asked = slos.of(last.workload)
    kept = [m for m in rows if asked.batch in (None, m.batch) and asked.processes in (None, m.processes)]
    if not kept:
        return None
    way = _way(kept[-1])
    trials: dict[str, Measurement] = {}
    for m in sorted((m for m in kept if _way(m) == way), key=lambda m: m.device != "simulated"):
        trials[m.profile] = m  # later ones over earlier ones, real ones over simulated ones
    ways = len({_way(m) for m in kept})
    note = f"{name_of(last.workload)} on {last.board}: measured in {ways} ways; the latest counts: {_said(kept[-1])}"
    notes = (f"{note} (an objective's batch and processes choose)",) if ways > 1 else ()
    return Evidence(last.workload, last.fingerprint, last.board, *way, trials, notes)


def _way(m: Measurement) -> tuple[int | None, int, str]:
    return m.batch, m.processes, m.unit


def _said(m: Measurement) -> str:
    return f"batch {m.batch or 'n/a (not stated)'}, {m.processes} process{'es' * (m.processes > 1)}, {m.unit}"
