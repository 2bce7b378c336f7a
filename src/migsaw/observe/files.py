"""Files of a cluster → one snapshot: the door of this room for the command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True, slots=True)
class InputFiles:
    """Of one cluster at one time. Any of them may be missing; what only they could tell is then unknown."""

    nodes: tuple[Path, ...] = ()
    pods: tuple[Path, ...] = ()
    metrics: tuple[Path, ...] = ()
    mig_parted: tuple[Path, ...] = ()
    smi: tuple[Path, ...] = ()


def observe_files(files: InputFiles, catalogue: Catalogue, *, redact: bool = False) -> Snapshot:
    """Raises :class:`InputError` for a file that is none of its kind; what is only partly understood is a note."""
    if not (files.nodes or files.pods or files.metrics or files.smi or files.mig_parted):
        hint = "at least one of --nodes, --pods, --metrics, --smi, for example `kubectl get nodes -o json > nodes.json`"
        raise InputError("nothing to observe: no input was given", hint=hint)
    nodes, notes = read_nodes(files.nodes)
    pods, pod_notes = read_pods(files.pods) if files.pods else (None, list[Note]())
    scrape = read_metrics(files.metrics)
    smi, parted = read_smi(files.smi), read_mig_parted(files.mig_parted)
    facts = Facts(nodes, pods, scrape.rows, smi, parted, scrape.telemetry())
    snapshot = assemble(facts, catalogue, [*notes, *pod_notes, *scrape.notes])
    return show_names(snapshot, redact=redact)
