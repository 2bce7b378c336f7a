"""``migsaw demo``: the whole job on a made-up cluster, by the very verbs that a user would call on a real one."""

from __future__ import annotations

import contextlib
import shlex
import tempfile
from pathlib import Path

import click

from migsaw.cli.demo_cluster import files
from migsaw.cli.main import group
from migsaw.cli.output import write_file
from migsaw.cli.shared import load_catalogue


@click.command()
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Folder for the files; default: a new one."
)
def command(out: Path | None) -> None:
    """The whole job on a small built-in cluster: observe, plan, explain, render.

    Writes the files that an engineer would have of the cluster and runs the verbs on them. Nothing touches a cluster.
    """
    folder = (out or Path(tempfile.mkdtemp(prefix="migsaw-demo-"))).resolve()
    inputs = files(load_catalogue())
    for name, text in inputs.items():
        write_file(folder / name, text)
    click.echo(f"cd {shlex.quote(str(folder))}  # made-up inputs: {', '.join(inputs)}")
    given = ["--nodes", "nodes.json", "--pods", "pods.json", "--metrics", "metrics.prom"]
    given += [word for name in inputs if name.endswith(".lgi.txt") for word in ("--smi", name)]
    with contextlib.chdir(folder):
        _run("what is there", ["observe", *given, "-o", "snapshot.json"])
        _run("a better partition, and what it saves", ["plan", "snapshot.json", "-o", "plan.json"])
        _run("why", ["explain", "plan.json"])
        _run("the objects to apply", ["render", "plan.json", "--for", "mig-manager", "--out", "render"])
        written = sorted(path.as_posix() for path in Path("render").rglob("*") if path.is_file())
    click.echo(f"\nAll files are in {folder}: snapshot.json, plan.json, {', '.join(written)}")


def _run(title: str, words: list[str]) -> None:
    click.echo(f"\n# {title}\n$ migsaw {shlex.join(words)}")
    group.main(words, prog_name="migsaw", standalone_mode=False)
