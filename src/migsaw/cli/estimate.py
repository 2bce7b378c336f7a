"""``migsaw estimate``: what a model needs before it ever ran, and the profiles that hold it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from migsaw.cli.output import FitsFile, Output, output_option, show
from migsaw.cli.shared import load_catalogue
from migsaw.errors import InfeasibleError
from migsaw.model.workload_shape import Kernel, Optimizer, Precision, Setup, Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from migsaw.model.boards import Board, Catalogue
    from migsaw.model.fits import WorkloadRef
    from migsaw.model.workload_shape import Estimate

FILE = click.Path(path_type=Path)


@click.command()
@click.argument("model", type=FILE)
@click.option("--weights", type=FILE, help="model.safetensors.index.json or a .safetensors file: exact bytes.")
@click.option("--job", type=FILE, help="A job's YAML: what its command line says of the set-up.")
@click.option("--task", type=click.Choice(get_args(Task)), help="Default: inference.")
@click.option("--precision", type=click.Choice(get_args(Precision)), help="Default: as stored; mixed to train.")
@click.option("--seq", type=click.IntRange(1), metavar="N", help="Tokens of one sequence. Default: 4096.")
@click.option("--batch", type=click.IntRange(1), metavar="N", help="Sequences at once: requests, or the micro-batch.")
@click.option("--optimizer", type=click.Choice(get_args(Optimizer)), help="Default: adamw.")
@click.option("--checkpointing", is_flag=True, default=None, help="Gradient checkpointing.")
@click.option(
    "--attention",
    type=click.Choice(get_args(Kernel)),
    help="eager holds all scores. Default: flash for a decoder, else either.",
)
@click.option("--rank", type=click.IntRange(1), metavar="N", help="Of LoRA's adapters. Default: 16.")
@click.option("--board", "boards", multiple=True, metavar="BOARD", help="Every profile of it; repeatable.")
@click.option("--fits", type=FitsFile(), help="Add it to the fits here (.json or .yaml), for `migsaw plan --fits`.")
@click.option("--workload", metavar="NAMESPACE/KIND/NAME", help="Whose fit it is: ml/Deployment/chat.")
@output_option()
def command(
    model: Path,
    weights: Path | None,
    job: Path | None,
    boards: tuple[str, ...],
    fits: Output | None,
    workload: str | None,
    output: Output,
    **asked: Any,
) -> None:
    """Memory of MODEL by parts, each a range with its formula, and the profiles that hold it.

    MODEL is a Hugging Face config.json, or a file of kind migsaw/estimate/v1 (docs/guides/estimate.md). Options beat
    the job, the job beats the file.
    """
    from migsaw.fit.estimate import estimate
    from migsaw.observe.estimate_file import read_asked
    from migsaw.report.estimate import estimate_document, estimate_tables

    ref = _ref(fits, workload)
    catalogue = load_catalogue()
    known, setup = read_asked(model, weights)
    found = estimate(known, replace(_hinted(job, setup), **{k: v for k, v in asked.items() if v is not None}))
    chosen = [catalogue.board(name) for name in boards] or [b for b in catalogue.boards if b.placements_known]
    show(output, estimate_document(found, chosen), estimate_tables(found, chosen, is_listed=bool(boards)))
    if fits is not None and ref is not None:
        _add(fits, ref, found, chosen, catalogue)


def _ref(fits: Output | None, workload: str | None) -> WorkloadRef | None:
    from migsaw.model.fits import WorkloadRef

    if (fits is None) != (workload is None):
        raise click.UsageError("--fits and --workload go together: the file, and whose row in it")
    if workload is None:
        return None
    namespace, kind, name, *more = *workload.split("/"), "", "", ""
    if not (namespace and kind and name) or any(more):
        hint = "three parts, as a pod's owner: ml/Deployment/chat, or ml/Pod/chat-0"
        raise click.BadParameter(f"{workload!r} is not NAMESPACE/KIND/NAME: {hint}", param_hint="--workload")
    return WorkloadRef(namespace, kind, name)


def _add(fits: Output, ref: WorkloadRef, found: Estimate, boards: Sequence[Board], catalogue: Catalogue) -> None:
    from migsaw.fit.estimate_fits import fit_of_estimate, merged
    from migsaw.model.fits import Fits
    from migsaw.observe import documents
    from migsaw.observe.choices import read_fits
    from migsaw.report.estimate import asked_words

    path = fits.path
    assert path is not None
    fit = fit_of_estimate(found, ref, boards, asked_words(found))
    if not any(option.fits for option in fit.options):
        why = found.unknown or "none of these boards has a profile with room for the upper end"
        raise InfeasibleError(f"{path}: no fit was written: {why}", hint="`migsaw profile` tells what may hold it")
    together, better = merged(read_fits(path, catalogue) if path.exists() else Fits(), fit)
    if better is not None:
        click.echo(f"{path}: {ref} is {better.source} there ({better.confidence}), which beats an estimate", err=True)
        return
    show(fits, documents.plain(together), [])
    click.echo(f"{path}: {ref} is there, estimated", err=True)


def _hinted(job: Path | None, setup: Setup) -> Setup:
    if job is None:
        return setup
    from migsaw.observe.job_hints import read_hints

    hints = read_hints(job, setup)
    click.echo(f"from {job}: {', '.join(hints.said) or 'nothing that is known here'}", err=True)
    return hints.setup
