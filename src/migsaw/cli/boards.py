"""``migsaw boards``: the catalogue, and how sure it is."""

from __future__ import annotations

import click

from migsaw.cli.output import Output, output_option, show
from migsaw.cli.shared import load_catalogue


@click.command()
@click.argument("board", required=False)
@output_option()
def command(board: str | None, output: Output) -> None:
    """Boards and how sure their geometry is; of BOARD its profiles.

    BOARD is any name a node can show: a key, NVML or GFD product name, PCI id or Azure VM size.
    """
    from migsaw.report.boards import board_data, board_table, boards_table

    catalogue = load_catalogue()
    if board is None:
        data = {"boards": [board_data(found, catalogue) for found in catalogue.boards]}
        show(output, data, [boards_table(catalogue)])
    else:
        found = catalogue.board(board)
        show(output, board_data(found, catalogue), [board_table(found, catalogue)])
