"""``migsaw boards``: the catalogue, and how sure it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from migsaw.cli.output import Output, output_option, show
from migsaw.cli.shared import load_catalogue

if TYPE_CHECKING:
    from migsaw.model.boards import Catalogue


@click.command()
@click.argument("board", required=False)
@click.option("--guide", is_flag=True, help="Default profile for each class of work, by static estimate.")
@output_option()
def command(board: str | None, guide: bool, output: Output) -> None:
    """Boards and how sure their geometry is; of BOARD its profiles.

    BOARD is any name a node can show: a key, NVML or GFD product name, PCI id or Azure VM size.
    """
    from migsaw.report.boards import board_data, board_table, boards_table

    catalogue = load_catalogue()
    if guide:
        _guide(catalogue, board, output)
    elif board is None:
        data = {"boards": [board_data(found, catalogue) for found in catalogue.boards]}
        show(output, data, [boards_table(catalogue)])
    else:
        found = catalogue.board(board)
        show(output, board_data(found, catalogue), [board_table(found, catalogue)])


def _guide(catalogue: Catalogue, board: str | None, output: Output) -> None:
    from migsaw.report.guide import guide_boards, guide_data, guide_matrix, guide_table

    if board is not None:
        found = catalogue.board(board)
        show(output, guide_data(found), [guide_table(found)])
    else:
        chosen = guide_boards(catalogue)
        show(output, {"boards": [guide_data(one) for one in chosen]}, [guide_matrix(chosen)])
