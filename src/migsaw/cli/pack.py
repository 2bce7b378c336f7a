"""``migsaw pack``: capacity from demand alone."""

from __future__ import annotations

from pathlib import Path

import click

from migsaw import catalogue
from migsaw.cli.output import Output, output_option, show
from migsaw.cli.shared import load_catalogue
from migsaw.errors import InfeasibleError, Where


@click.command()
@click.argument("demand", type=click.Path(path_type=Path))
@output_option()
def command(demand: Path, output: Output) -> None:
    """The fewest GPUs, or the least cost, that serve DEMAND: layouts, assignment, and a certified bound.

    DEMAND is a file of kind migsaw/demand/v1 (docs/reference/schemas/demand.json).
    """
    from migsaw.observe.demand import read_demand
    from migsaw.plan.packing import pack, pack_by_rule, parse_facets
    from migsaw.report.packing import packing_document, packing_tables

    asked, table = read_demand(demand, load_catalogue()), parse_facets(catalogue.read("facets.json"))
    try:
        found = pack(asked, table)
    except InfeasibleError as problem:
        raise InfeasibleError(problem.message, where=Where(str(demand)), hint=problem.hint) from None
    by_rule = None if output.format in ("json", "yaml") else pack_by_rule(asked, table)
    show(output, packing_document(asked, found), packing_tables(asked, found, by_rule))
