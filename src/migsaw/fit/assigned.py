"""Slots of every workload over all boards it was measured on, the one it gets, and both as fits that a plan reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from migsaw.fit.curve import CurvePrior
from migsaw.fit.evidence import WHOLE, Evidence, name_of
from migsaw.fit.siblings import why_no_sibling
from migsaw.fit.slots import SlotOption, choose, options_of
from migsaw.model.boards import Board, Catalogue
from migsaw.model.fits import AzureMlRef, Choice, Fit, Option, Source, WorkloadRef
from migsaw.model.measurement import WorkloadId
from migsaw.model.slo import Objective, Slos


@dataclass(frozen=True, slots=True)
class Assigned:
    """``options``: of every board, by size, the GPU without MIG among them. ``chosen`` None: ``because`` says why."""

    workload: WorkloadId
    fingerprint: str
    unit: str
    asked: Objective
    evidence: tuple[Evidence, ...]  # one per board
    options: tuple[SlotOption, ...]
    chosen: SlotOption | None
    because: str

    @property
    def name(self) -> str:
        return name_of(self.workload)

    @property
    def ref(self) -> WorkloadRef | None:
        """How a plan finds the workload; None: no fact names it there."""
        if self.asked.workload_in_cluster is not None:
            return self.asked.workload_in_cluster
        facts = self.workload.facts
        if "name" in facts:
            return WorkloadRef(facts.get("namespace"), facts.get("kind"), facts["name"])
        if "experiment" in facts:
            return WorkloadRef(azureml=AzureMlRef(facts["experiment"], facts.get("component")))
        return None


def assign(
    evidence: Sequence[Evidence],
    slos: Slos,
    catalogue: Catalogue,
    prior: CurvePrior,
    usd_per_gpu_hour: Mapping[str, float | None],
    siblings: Sequence[Board] = (),
) -> tuple[Assigned, ...]:
    """One per workload, in the order of the evidence. Raises :class:`migsaw.errors.InputError` for an unknown board.

    ``siblings``: boards to predict for where nothing was measured on them, from the first board that can tell.
    """
    return tuple(
        _assigned(tuple(rows), slos, catalogue, prior, usd_per_gpu_hour, siblings)
        for _, rows in groupby(evidence, key=lambda e: (name_of(e.workload), e.fingerprint))
    )


def _assigned(
    rows: tuple[Evidence, ...],
    slos: Slos,
    catalogue: Catalogue,
    prior: CurvePrior,
    usd_per_gpu_hour: Mapping[str, float | None],
    siblings: Sequence[Board],
) -> Assigned:
    asked = slos.of(rows[0].workload)
    options = tuple(o for e in rows for o in options_of(e, catalogue.board(e.board), asked, prior))
    for board in siblings:
        homes = [(e, catalogue.board(e.board)) for e in rows]
        able = [(e, home) for e, home in homes if why_no_sibling(board, home) is None]
        if able and all(home.key != board.key for _, home in homes):
            options += options_of(*able[0], asked, prior, board)
    chosen = choose(options, usd_per_gpu_hour)
    because = _because(chosen, options, asked)
    return Assigned(rows[0].workload, rows[0].fingerprint, rows[0].unit, asked, rows, options, chosen, because)


def fit_of(found: Assigned) -> Fit | None:
    """None for a workload that no fact names to a plan. A predicted choice is marked so: plans do not move what runs
    for its sake."""
    if found.ref is None:
        return None
    options = tuple(_option(o) for o in found.options if o.profile != WHOLE)
    chosen = found.chosen
    choice = Choice(chosen.board, chosen.profile) if chosen else None
    next_step = f"measure {chosen.profile}: it is only predicted" if chosen and not chosen.is_measured else None
    return Fit(
        found.ref, _source(found), options, choice, confidence=_confidence(found), because=found.because,
        next_step=next_step,
    )  # fmt: skip


def _option(o: SlotOption) -> Option:
    return Option(o.board, o.profile, o.fits, o.memory, o.throughput, o.latency_ms, o.reason)


def _source(found: Assigned) -> Source:
    """Of the choice; without one, of what was measured at all."""
    figures = [found.chosen.throughput] if found.chosen else [o.throughput for o in found.options if o.is_measured]
    return next((figure.source for figure in figures if figure is not None), "predicted")


def _confidence(found: Assigned) -> str:
    trials = [m for e in found.evidence for m in e.trials.values()]
    simulated = sum(m.device == "simulated" for m in trials)
    said = f"{len(trials)} slot{'s' * (len(trials) != 1)} measured, the others predicted"
    return f"{said}; {simulated} of the trials are simulated" if simulated else said


def _because(chosen: SlotOption | None, options: Sequence[SlotOption], asked: Objective) -> str:
    fitting = [o for o in options if o.fits and o.profile != WHOLE]
    goals = ", ".join(_goals(asked))
    limits = f" (limits: {goals})" if goals else ""
    if chosen is None:
        if fitting:
            return f"{len({o.board for o in fitting})} boards would do, and no price says which"
        return f"no slot is known to serve{limits}"
    unit = "run" if asked.units_per_run is not None else "unit"
    if len(fitting) == 1:
        return f"the only slot that is known to serve{limits}"
    return f"least cost per finished {unit} of {len(fitting)} slots that serve{limits}"


def _goals(asked: Objective) -> list[str]:
    goals = []
    if asked.deadline_seconds is not None:
        goals.append(f"{asked.deadline_seconds:,.0f} s a run")
    if asked.latency_slo_ms is not None:
        goals.append(f"{asked.latency_slo_ms:,.4g} ms")
    if asked.throughput_per_second is not None:
        goals.append(f"{asked.throughput_per_second:,.4g}/s")
    return goals
