"""What can be observed of a cluster, as options that verbs share, and the snapshot that is made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from migsaw.model.boards import Catalogue
    from migsaw.model.snapshot import Snapshot

F = TypeVar("F", bound=Callable[..., Any])

FILE = click.Path(path_type=Path)
FILES = {  # parameter → what it reads
    "nodes": "kubectl get nodes -o json (or yaml).",
    "pods": "kubectl get pods -A -o json: who holds and who waits.",
    "metrics": "Text of dcgm-exporter: GPU instances, holders, activity.",
    "mig_parted": "mig-parted config or export: compared with what is seen.",
    "smi": "nvidia-smi -L, mig -lgi, -lgip, -lgipp, -q -x or a CSV query.",
}


class SeveralValues(click.Command):
    """Lets ``--metrics a b`` stand for ``--metrics a --metrics b``: what a shell makes of ``--metrics *.prom``.

    There are no arguments besides options here, so a word that follows a file can only be one more file.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        several = {_option(name) for name in FILES}
        repeated: list[str] = []
        option: str | None = None
        for word in args:
            if word.startswith("-") and word != "-":
                option = word if word in several else None
            elif option and repeated[-1] != option:
                repeated.append(option)
            repeated.append(word)
        return super().parse_args(ctx, repeated)


def input_options(command: F) -> F:
    """The options of :data:`FILES` and ``--redact``; a command takes them as ``**inputs``."""
    text = "Hash all names of nodes, namespaces, pods and pools; joins are kept."
    command = click.option("--redact", is_flag=True, help=text)(command)
    for name, what in reversed(FILES.items()):
        command = click.option(_option(name), multiple=True, type=FILE, help=what)(command)
    return command


def observed(inputs: Mapping[str, Any], catalogue: Catalogue) -> Snapshot:
    """The snapshot of what :func:`input_options` took. Raises :class:`migsaw.errors.InputError`."""
    from migsaw.observe.files import InputFiles, observe_files

    files = InputFiles(**{name: inputs[name] for name in FILES})
    return observe_files(files, catalogue, redact=inputs["redact"])


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
