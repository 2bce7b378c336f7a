"""Files of a cluster → one snapshot: the door of this room for the command line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from migsaw.errors import InputError
from migsaw.model.boards import Catalogue
from migsaw.model.snapshot import Note, Snapshot
from migsaw.observe.assemble import Facts, assemble
from migsaw.observe.exporter import read_metrics
from migsaw.observe.mig_parted import read_mig_parted
from migsaw.observe.nodes import read_nodes
from migsaw.observe.pods import read_pods
from migsaw.observe.redact import show_names
from migsaw.observe.smi import read_smi

if TYPE_CHECKING:
    from migsaw.observe.history import History


@dataclass(frozen=True, slots=True)
class InputFiles:
    """Of one cluster at one time. Any of them may be missing; what only they could tell is then unknown."""

    nodes: tuple[Path, ...] = ()
    pods: tuple[Path, ...] = ()
    metrics: tuple[Path, ...] = ()
    mig_parted: tuple[Path, ...] = ()
    smi: tuple[Path, ...] = ()


def observe_files(
    files: InputFiles, catalogue: Catalogue, *, redact: bool = False, history: History | None = None
) -> Snapshot:
    """``history``: what a Prometheus server knows; where a file says the same, the file counts.

    Raises :class:`InputError` for a file that is none of its kind; what is only partly understood is a note.
    """
    given = (files.nodes, files.pods, files.metrics, files.smi, files.mig_parted)
    if history is None and not any(given):
        hint = (
            "at least one of --nodes, --pods, --metrics, --smi, --prometheus, for example "
            "`kubectl get nodes -o json > nodes.json`"
        )
        raise InputError("nothing to observe: no input was given", hint=hint)
    nodes, notes = read_nodes(files.nodes)
    pods, pod_notes = read_pods(files.pods) if files.pods else (None, list[Note]())
    scrape = read_metrics(files.metrics)
    smi, parted = read_smi(files.smi), read_mig_parted(files.mig_parted)
    facts = Facts(nodes, pods, scrape.rows, smi, parted, scrape.telemetry())
    found = [*notes, *pod_notes, *scrape.notes]
    if history is not None:
        facts, found = _with_history(facts, history), [*found, *history.notes]
    return show_names(assemble(facts, catalogue, found), redact=redact)


def _with_history(facts: Facts, history: History) -> Facts:
    kube = history.kube
    return replace(
        facts,
        nodes={**(kube.nodes if kube else {}), **facts.nodes},
        pods=facts.pods or (kube.pods if kube else None),
        rows=[*facts.rows, *history.rows],
        telemetry=history.telemetry,
    )
