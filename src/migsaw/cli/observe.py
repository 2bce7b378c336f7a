"""``migsaw observe``: files of a cluster become one snapshot."""

from __future__ import annotations

from pathlib import Path

import click

from migsaw.cli.output import Output, output_option, show
from migsaw.cli.shared import load_catalogue

FILE = click.Path(path_type=Path)
SEVERAL = ("--nodes", "--pods", "--metrics", "--mig-parted", "--smi")


class SeveralValues(click.Command):
    """Lets ``--metrics a b`` stand for ``--metrics a --metrics b``: what a shell makes of ``--metrics *.prom``.

    There are no arguments besides options here, so a word that follows a file can only be one more file.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        repeated: list[str] = []
        option: str | None = None
        for word in args:
            if word.startswith("-") and word != "-":
                option = word if word in SEVERAL else None
            elif option and repeated[-1] != option:
                repeated.append(option)
            repeated.append(word)
        return super().parse_args(ctx, repeated)


@click.command(cls=SeveralValues)
@click.option("--nodes", multiple=True, type=FILE, help="kubectl get nodes -o json (or yaml).")
@click.option("--pods", multiple=True, type=FILE, help="kubectl get pods -A -o json: who holds and who waits.")
@click.option("--metrics", multiple=True, type=FILE, help="Text of dcgm-exporter: GPU instances, holders, activity.")
@click.option("--mig-parted", multiple=True, type=FILE, help="mig-parted config or export: compared with what is seen.")
@click.option("--smi", multiple=True, type=FILE, help="nvidia-smi -L, mig -lgi, -lgip, -lgipp, -q -x or a CSV query.")
@click.option("--redact", is_flag=True, help="Hash all names of nodes, namespaces, pods and pools; joins are kept.")
@output_option()
def command(
    nodes: tuple[Path, ...],
    pods: tuple[Path, ...],
    metrics: tuple[Path, ...],
    mig_parted: tuple[Path, ...],
    smi: tuple[Path, ...],
    redact: bool,
    output: Output,
) -> None:
    """Read what is there: files of a cluster become one snapshot.

    Each option may be repeated or take several files. Nothing is asked of the cluster itself.
    """
    from migsaw.observe import documents
    from migsaw.observe.files import InputFiles, observe_files
    from migsaw.report.snapshot import snapshot_table

    catalogue = load_catalogue()
    files = InputFiles(nodes, pods, metrics, mig_parted, smi)
    snapshot = observe_files(files, catalogue, redact=redact)
    show(output, documents.plain(snapshot), [snapshot_table(snapshot, catalogue)], makes_document=True)
