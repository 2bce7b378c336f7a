"""``migsaw recommend``: what each workload holds, what it should hold, and what of it fits together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from migsaw.cli.inputs import FILE, SeveralValues, input_options, seen
from migsaw.cli.output import FitsFile, Output, output_option, show
from migsaw.cli.shared import load_catalogue, load_facets


@click.command(cls=SeveralValues)
@input_options
@click.option("--snapshot", type=FILE, help="A snapshot of `migsaw observe -o`, instead of what it was made of.")
@click.option("--policy", type=click.Path(path_type=Path), help="policy.yaml: allowed profiles, strict MIG.")
@click.option("--prices", type=click.Path(path_type=Path), help="A price table instead of the built-in dated one.")
@click.option(
    "--tolerance", type=click.FloatRange(0, 0.9), default=0.1, show_default=True, help="Throughput to give up."
)
@click.option("--points-required", type=click.IntRange(1), default=100, show_default=True, help="Fewest samples.")
@click.option("--fits", type=FitsFile(), help="Write the fits here (.json or .yaml), for `migsaw plan --fits`.")
@output_option()
def command(
    snapshot: Path | None,
    policy: Path | None,
    prices: Path | None,
    tolerance: float,
    points_required: int,
    fits: Output | None,
    output: Output,
    **inputs: Any,
) -> None:
    """Right sizes from a window of telemetry, chosen so that the slots fit together on the GPUs."""
    from migsaw.fit.rightsize import Wish, right_size
    from migsaw.model.policy import Policy
    from migsaw.observe import documents
    from migsaw.observe.choices import read_policy
    from migsaw.observe.prices import load_prices
    from migsaw.plan.recommend import recommend
    from migsaw.report.recommend import raw_table, recommend_tables

    catalogue = load_catalogue()
    snapshot_seen = seen(snapshot, inputs, catalogue)
    found_fits = right_size(snapshot_seen, catalogue, Wish(tolerance, points_required))
    if fits:
        show(fits, documents.plain(found_fits), [])
    allowed = read_policy(policy, catalogue) if policy else Policy()
    found = recommend(snapshot_seen, found_fits, allowed, catalogue, load_facets(), load_prices(prices), tolerance)
    tables = [raw_table(found)] if output.format == "csv" else recommend_tables(found, catalogue)
    show(output, documents.plain(found), tables)
