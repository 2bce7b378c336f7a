"""``migsaw observe``: files of a cluster become one snapshot."""

from __future__ import annotations

from typing import Any

import click

from migsaw.cli.inputs import SeveralValues, input_options, observed
from migsaw.cli.output import Output, output_option, show
from migsaw.cli.shared import load_catalogue


@click.command(cls=SeveralValues)
@input_options
@output_option()
def command(output: Output, **inputs: Any) -> None:
    """Read what is there: files of a cluster become one snapshot.

    Each option may be repeated or take several files. Nothing is asked of the cluster itself.
    """
    from migsaw.observe import documents
    from migsaw.report.snapshot import snapshot_table

    catalogue = load_catalogue()
    snapshot = observed(inputs, catalogue)
    document = documents.plain(snapshot) if output.is_data else None  # large: not made in vain
    show(output, document, [snapshot_table(snapshot, catalogue)], makes_document=True)
