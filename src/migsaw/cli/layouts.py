"""``migsaw layouts``: what one GPU of a board can be cut into."""

from __future__ import annotations

import click

from migsaw.cli.output import Output, output_option, show
from migsaw.cli.shared import load_catalogue


@click.command()
@click.argument("board")
@click.option("--maximal", is_flag=True, help="Only layouts to which nothing can be added.")
@click.option("--profiles", metavar="P,P", help="Only layouts of these profiles; all are the default.")
@output_option()
def command(board: str, maximal: bool, profiles: str | None, output: Output) -> None:
    """The layouts that one GPU of BOARD can have; the last line counts them."""
    from migsaw.model.layouts import StateSpace
    from migsaw.report.layouts import layouts_data, layouts_table

    found = load_catalogue().board(board)
    asked = [found.profile(name.strip()).name for name in profiles.split(",")] if profiles else None
    space = StateSpace(found, tuple(p.name for p in found.profiles if asked is None or p.name in asked))
    states = space.maximal if maximal else space.states
    is_data = output.format in ("json", "yaml")
    show(
        output,
        layouts_data(found, space, states) if is_data else None,
        [] if is_data else [layouts_table(found, space, states)],
    )
