"""``migsaw cost``: what a finished run costs on the whole GPU and on each slice that serves."""

from __future__ import annotations

from typing import Any

import click

from migsaw.cli.output import Output, output_option, show
from migsaw.cli.slot_inputs import slot_options, slots


@click.command()
@slot_options
@output_option()
def command(store: str, output: Output, **asked: Any) -> None:
    """Cost of each measured workload per run, or per million units, and where a bigger slice pays off.

    cost = share of the GPU, with what the slice strands × price of the GPU × duration, with its start-up.
    """
    from migsaw.observe import documents
    from migsaw.plan.run_cost import costs
    from migsaw.report.cost import cost_tables, raw_table

    found = slots(store, asked)
    made = costs(found.assigned, found.rates, found.notes)
    tables = [raw_table(made)] if output.format == "csv" else cost_tables(made)
    show(output, documents.plain(made), tables)
