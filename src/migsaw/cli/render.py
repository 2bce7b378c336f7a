"""``migsaw render``: a plan becomes the objects to apply, in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from migsaw.cli.output import write_file
from migsaw.cli.shared import load_catalogue
from migsaw.errors import InputError, Where

if TYPE_CHECKING:
    from collections.abc import Sequence

    from migsaw.render.document import RenderedFile

TARGETS = ("mig-manager", "aks", "azureml", "kubernetes", "dra", "device-plugin", "nvidia-smi", "telemetry")


@click.command()
@click.argument("plan", type=click.Path(path_type=Path))
@click.option("--for", "target", type=click.Choice(TARGETS), required=True, help="What the files are for.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder for the files.")
@click.option(
    "--allow-mixed", is_flag=True, help="azureml: also types that ask for nvidia.com/mig-…, undocumented there."
)
def command(plan: Path, target: str, out: Path, allow_mixed: bool) -> None:
    """The objects that carry out PLAN, or a refusal by name. Nothing is applied, nothing written outside --out.

    telemetry, for any plan: what makes dcgm-exporter and Prometheus measure its instances.
    """
    from migsaw.observe.own_files import read_plan
    from migsaw.render.document import Options
    from migsaw.render.targets import render

    catalogue = load_catalogue()
    value = read_plan(plan, catalogue)
    files = render(value, target, catalogue, Options(allow_mixed=allow_mixed))  # type: ignore[arg-type]
    write_all(out, files)
    for file in files:
        click.echo(str(out / file.path))


def write_all(out: Path, files: Sequence[RenderedFile]) -> None:
    """All files or none: where one cannot be written, those that this call made are taken away again."""
    _refuse_leftovers(out, files)
    made: list[Path] = []
    try:
        for file in files:
            path = out / file.path
            is_new = not path.exists()
            write_file(path, file.text)
            made += [path] if is_new else []
            if file.executable:
                path.chmod(0o755)
    except (InputError, OSError):
        for path in made:
            path.unlink(missing_ok=True)
        raise


def _refuse_leftovers(out: Path, files: Sequence[RenderedFile]) -> None:
    """Files of an earlier rendering beside those of a later one would be applied together."""
    from migsaw.render.document import MARK

    mine = {out / file.path for file in files}
    for path in sorted((*out.glob("*"), *out.glob("*/*"))) if out.is_dir() else ():
        if path in mine or not path.is_file():
            continue
        with path.open("rb") as opened:
            if MARK.encode() in opened.read(4096):
                raise InputError(
                    "is of an earlier rendering, and this one does not replace it",
                    where=Where(str(path)),
                    hint="remove it, or give an empty folder",
                )
