"""``migsaw estimate``: what a model needs before it ever ran, and the profiles that hold it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import click

from migsaw.cli.output import Output, output_option, show
from migsaw.cli.shared import load_catalogue
from migsaw.model.workload_shape import Kernel, Optimizer, Precision, Setup, Task

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
@output_option()
def command(
    model: Path, weights: Path | None, job: Path | None, boards: tuple[str, ...], output: Output, **asked: Any
) -> None:
    """Memory of MODEL by parts, each a range with its formula, and the profiles that hold it.

    MODEL is a Hugging Face config.json, or a file of kind migsaw/estimate/v1 (docs/guides/estimate.md). Options beat
    the job, the job beats the file.
    """
    from migsaw.fit.estimate import estimate
    from migsaw.observe.estimate_file import read_asked
    from migsaw.report.estimate import estimate_document, estimate_tables

    catalogue = load_catalogue()
    known, setup = read_asked(model, weights)
    found = estimate(known, replace(_hinted(job, setup), **{k: v for k, v in asked.items() if v is not None}))
    chosen = [catalogue.board(name) for name in boards] or [b for b in catalogue.boards if b.placements_known]
    show(output, estimate_document(found, chosen), estimate_tables(found, chosen, is_listed=bool(boards)))


def _hinted(job: Path | None, setup: Setup) -> Setup:
    if job is None:
        return setup
    from migsaw.observe.job_hints import read_hints

    hints = read_hints(job, setup)
    click.echo(f"from {job}: {', '.join(hints.said) or 'nothing that is known here'}", err=True)
    return hints.setup
