"""The series of trials: one code path for every back end. What was measured is in the store before the next begins.

So a kill at any moment loses at most the trial that ran, and running again measures only what is not there yet.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from migsaw.fit.beside import neighbours_of, role_of, starved_by
from migsaw.fit.curve import CurvePrior
from migsaw.model.boards import Board
from migsaw.model.fits import Figure
from migsaw.model.measurement import Beside, Measurement, Neighbours
from migsaw.model.trial import Trials, TrialSpec
from migsaw.store import Store
from migsaw.store.records import record_of
from migsaw.trial.choice import Series, slots_of
from migsaw.trial.events import Backend, Running
from migsaw.trial.spec import digest
from migsaw.trial.watch import Watch, Watched, watch

# A slice beside idle neighbours is 0.6 to 9.4 % faster than beside busy ones, 4.8 % in the mean of ten: MLPerf
# Inference v1.1, NVIDIA's MIG results on A100 and A30 (five models each), one instance alone against all at once.
DERATED, DERATED_LOW, DERATED_HIGH = 0.952, 0.906, 0.994
FINISHED = ("steady", "unsteady", "out_of_memory")  # a failed trial may go well next time


class Progress(Protocol):
    """Told what happens, for people."""

    def started(self, profile: str) -> None: ...

    def seen(self, state: Watch) -> None: ...

    def finished(self, measurement: Measurement, message: str) -> None: ...


@dataclass(frozen=True)
class Profiling:
    """``clock`` gives the time as RFC 3339."""

    spec: TrialSpec
    board: Board
    backend: Backend
    prior: CurvePrior
    store: Store
    clock: Callable[[], str]
    progress: Progress

    def run(self) -> Trials:
        """Trials until none is worth its time. A command that fails ends the series: it would fail everywhere."""
        slots, names = slots_of(self.spec, self.board, self.backend.slots())
        names = (self.backend.slots() or names) if self.backend.device == "cpu" else names
        measured = self._resumed()
        resumed, made = frozenset(measured), 0
        series = Series(self.spec, self.board, self.backend.device, slots, names, self.prior, measured)
        while (profile := series.next_trial()) is not None:
            found = self._measure(profile)
            made += 1
            series = replace(series, measured={**series.measured, profile: found})
            if found.outcome == "failed":
                break
        return series.trials(made, resumed)

    def _resumed(self) -> dict[str, Measurement]:
        """By profile, what is finished under the same conditions; the latest counts.

        A number beside a stranger's work is kept, but measured again: next time the neighbours may be quiet.
        """
        records = self.store.records("measurement", self.spec.identity.fingerprint())
        found = [record.value(Measurement) for record in records]
        finished = [m for m in found if m.outcome in FINISHED and m.neighbours != "busy"]
        return {m.profile: m for m in finished if self._is_same(m)}

    def _is_same(self, m: Measurement) -> bool:
        of_whole = m.device == "gpu" and self.backend.device == "mig"
        wanted = (self.board.key, self.spec.batch, self.spec.processes, digest(self.spec))
        return (m.board, m.batch, m.processes, m.conditions.get("trial")) == wanted and (
            m.device == self.backend.device or of_whole
        )

    def _measure(self, profile: str) -> Measurement:
        self.progress.started(profile)
        with self.backend.trial(profile) as running:
            watched = watch(running.events, self.spec, self.progress.seen)
            beside = running.look(*watched.counted) if watched.counted else None
        found = self._measurement(profile, running, watched, beside)
        self.store.add([record_of(found, found.fingerprint, found.at)])
        self.progress.finished(found, watched.message)
        return found

    def _measurement(self, profile: str, running: Running, watched: Watched, beside: Beside | None) -> Measurement:
        spec, neighbours = self.spec, neighbours_of(running.neighbours, beside)
        is_derated = running.device == "mig" and neighbours in ("idle", "unknown")
        conditions = {"trial": digest(spec), "host": platform.node(), **running.conditions}
        if watched.message:
            conditions["message"] = watched.message
        return Measurement(
            workload=spec.identity, fingerprint=spec.identity.fingerprint(), board=self.board.key, profile=profile,
            device=running.device, outcome=watched.outcome, at=self.clock(), batch=spec.batch,
            processes=spec.processes, unit=spec.unit, throughput_per_second=_figure(watched, is_derated, neighbours),
            memory_peak_mib=watched.memory_peak_mib, startup_seconds=watched.startup_seconds,
            steady_seconds=watched.steady_seconds, input_wait=watched.input_wait, neighbours=neighbours,
            derated=DERATED if is_derated else 1.0, beside=beside,
            starved=starved_by(beside, role_of(profile, self.board), watched.input_wait, watched.memory_peak_mib),
            conditions=conditions,
        )  # fmt: skip


def _figure(watched: Watched, is_derated: bool, neighbours: Neighbours) -> Figure | None:
    """With its 95 % interval; de-rated, the interval holds what de-rating may be too.

    Beside a stranger's work the value stands, and its low end holds what more of such work may still take.
    """
    if watched.mean is None:
        return None
    value, half = watched.mean.value, watched.mean.half_width
    bounds = (max(0.0, value - half), value + half) if half < float("inf") else (None, None)
    low, high = bounds
    if neighbours == "busy":
        return Figure(value, low and low * DERATED_LOW, high)
    if not is_derated:
        return Figure(value, low, high)
    return Figure(value * DERATED, low and low * DERATED_LOW, None if high is None else high * DERATED_HIGH, "measured")
