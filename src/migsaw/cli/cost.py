"""``migsaw cost``: what a finished run costs on the whole GPU and on each slice that serves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from migsaw.cli.output import Output, output_option, show
from migsaw.cli.slot_inputs import FILE, slot_options, slots

if TYPE_CHECKING:
    from migsaw.fit.assigned import Assigned
    from migsaw.fit.frequency import Frequency


@click.command()
@slot_options
@click.option("--snapshot", type=FILE, help="Of `migsaw observe --prometheus`: its window tells how often they run.")
@output_option()
def command(store: str, snapshot: Path | None, output: Output, **asked: Any) -> None:
    """Cost of each measured workload per run, or per million units, and where a bigger slice pays off.

    cost = share of the GPU, with what the slice strands × price of the GPU × duration, with its start-up.
    """
    from migsaw.observe import documents
    from migsaw.plan.run_cost import costs
    from migsaw.report.cost import cost_tables, raw_table

    found = slots(store, asked)
    made = costs(found.assigned, found.rates, found.notes, _observed(snapshot, found.assigned))
    tables = [raw_table(made)] if output.format == "csv" else cost_tables(made)
    show(output, documents.plain(made), tables)


def _observed(snapshot: Path | None, found: tuple[Assigned, ...]) -> dict[str, Frequency]:
    if snapshot is None:
        return {}
    from migsaw.fit.frequency import observed
    from migsaw.observe.own_files import read_snapshot

    seen = read_snapshot(snapshot)
    return {row.fingerprint: often for row in found if (often := observed(seen, row.ref)) is not None}
