"""What ``assign`` and ``cost`` share: their options, and the slots that come of the measurements of a store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from migsaw import catalogue as data
from migsaw.cli.inputs import Duration
from migsaw.cli.shared import load_catalogue
from migsaw.cli.store import existing, store_option
from migsaw.errors import InputError

if TYPE_CHECKING:
    from migsaw.fit.assigned import Assigned
    from migsaw.model.boards import Board, Catalogue
    from migsaw.model.measurement import Measurement, WorkloadId
    from migsaw.model.slo import Objective, Slos
    from migsaw.plan.run_cost import BoardRate

F = TypeVar("F", bound=Callable[..., Any])

FILE = click.Path(path_type=Path)
ASKED: dict[str, dict[str, Any]] = {  # option → its properties; all but the first two are fields of an objective
    "--slos": {"type": FILE, "help": "What each workload must reach (docs/guides/slots.md); or the options below."},
    "--workload": {"multiple": True, "metavar": "FACT=VALUE", "help": "Only workloads with it: name=bert."},
    "--units-per-run": {"type": float, "help": "Units (samples, requests) that one run finishes."},
    "--deadline": {"type": Duration(), "help": "Longest time of a run, start-up included: 30m, 8h."},
    "--latency-slo-ms": {"type": float, "help": "Longest latency of one batch of one process."},
    "--throughput": {"type": float, "metavar": "UNITS/S", "help": "Least units per second."},
    "--runs-per-month": {"type": float, "help": "How often it runs."},
}
FIELDS = {
    "units_per_run": "units_per_run", "deadline": "deadline_seconds", "latency_slo_ms": "latency_slo_ms",
    "throughput": "throughput_per_second", "runs_per_month": "runs_per_month",
}  # fmt: skip


@dataclass(frozen=True)
class Found:
    assigned: tuple[Assigned, ...]
    rates: tuple[BoardRate, ...]
    notes: tuple[str, ...]


def slot_options(command: F) -> F:
    """A command takes them as ``store`` and ``**asked``, for :func:`slots`."""
    text = "Let simulated trials count: for a demonstration."
    command = click.option("--simulated", is_flag=True, help=text)(command)
    text = "The VM size whose price counts for its board, repeatable.  [default: the cheapest per GPU]"
    command = click.option("--azure-size", "sizes", multiple=True, metavar="SIZE", help=text)(command)
    text = "A board nothing was measured on, to predict for from one of its architecture, repeatable."
    command = click.option("--sibling", "siblings", multiple=True, metavar="BOARD", help=text)(command)
    text = "A price table instead of the built-in dated one."
    command = click.option("--prices", type=FILE, help=text)(command)
    for option, properties in reversed(ASKED.items()):
        command = click.option(option, **properties)(command)
    return store_option(command)


def slots(store: str, asked: dict[str, Any]) -> Found:
    """Raises :class:`InputError` where nothing was measured that could count."""
    from migsaw.fit.assigned import assign
    from migsaw.fit.curve_prior import parse_prior
    from migsaw.fit.evidence import evidence_of
    from migsaw.observe.prices import load_prices
    from migsaw.plan.run_cost import board_rates

    catalogue = load_catalogue()
    measured = _measurements(store, asked["workload"])
    slos = _slos(asked, list({m.fingerprint: m.workload for m in measured}.values()))
    evidence, left_out = evidence_of(measured, slos, with_simulated=asked["simulated"])
    if not evidence:
        why = "; ".join(left_out) or "no trial of such a workload ended with a number"
        raise InputError(f"{store}: nothing there tells of a slot: {why}", hint="`migsaw profile` measures a workload")
    siblings = [_sibling(name, {e.board for e in evidence}, catalogue) for name in asked["siblings"]]
    boards = [*(e.board for e in evidence), *(board.key for board in siblings)]
    rates = board_rates(boards, load_prices(asked["prices"]), catalogue, asked["sizes"])
    usd = {rate.board: rate.usd_per_gpu_hour for rate in rates}
    found = assign(evidence, slos, catalogue, parse_prior(data.read("curves.json")), usd, siblings)
    return Found(found, rates, (*left_out, *(note for e in evidence for note in e.notes)))


def _measurements(store: str, words: Sequence[str]) -> list[Measurement]:
    from migsaw.model.measurement import Measurement
    from migsaw.model.slo import Objective
    from migsaw.store import open_store

    facts = dict(_fact(word) for word in words)
    with open_store(existing(store)) as opened:
        found = [record.value(Measurement) for record in opened.records("measurement")]
    if not found:
        raise InputError(f"{store}: no measurement is there", hint="`migsaw profile --store` adds some")
    kept = [m for m in found if Objective(facts).covers(m.workload)]
    if not kept:
        raise InputError(f"{store}: no measured workload has {', '.join(words)}", hint=_names(found))
    return kept


def _fact(word: str) -> tuple[str, str]:
    key, equals, value = word.partition("=")
    if not equals or not key:
        raise click.BadParameter(f"{word!r} is not FACT=VALUE, such as name=bert", param_hint="--workload")
    return key, value


def _names(found: Sequence[Measurement]) -> str:
    from migsaw.fit.evidence import name_of

    names = sorted({name_of(m.workload) for m in found})
    return f"measured are: {', '.join(names[:8])}{f' and {len(names) - 8} more' if len(names) > 8 else ''}"


def _slos(asked: dict[str, Any], workloads: Sequence[WorkloadId]) -> Slos:
    from migsaw.model.slo import Objective, Slos
    from migsaw.observe.slos_file import fault_of, read_slos

    said = {field: asked[name] for name, field in FIELDS.items() if asked[name] is not None}
    if asked["slos"] is not None:
        if said:
            raise click.UsageError("--slos says what is asked for: give it without the options for that")
        return read_slos(asked["slos"], workloads)
    objective: Objective = Objective(**said)
    if (problem := fault_of(objective)) is not None:
        field, text, _ = problem
        option = next(name for name, known in FIELDS.items() if known == field).replace("_", "-")
        raise click.UsageError(f"--{option}: {text}" + ("; give --units-per-run" if "run" in text else ""))
    return Slos((objective,))


def _sibling(name: str, measured: set[str], catalogue: Catalogue) -> Board:
    """Raises :class:`InputError` where no measured board says anything of it."""
    from migsaw.fit.siblings import why_no_sibling

    board = catalogue.board(name)
    reasons = [why_no_sibling(board, catalogue.board(home)) for home in sorted(measured)]
    if all(reasons):
        raise InputError(f"--sibling {name}: {reasons[0]}", hint="`migsaw profile` measures on the board itself")
    return board
