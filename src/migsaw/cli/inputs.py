"""What can be observed of a cluster, as options that verbs share, and the snapshot that is made of them."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from migsaw.errors import InputError

if TYPE_CHECKING:
    from migsaw.model.boards import Catalogue
    from migsaw.model.snapshot import Snapshot
    from migsaw.observe.history import History

F = TypeVar("F", bound=Callable[..., Any])

TOKEN = "MIGSAW_PROMETHEUS_TOKEN"  # environment: a bearer token
POINTS = 1000  # samples of a window whose step was not given

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


class Duration(click.ParamType):  # type: ignore[type-arg]
    """``30s``, ``5m``, ``12h``, ``7d``, ``2w`` → seconds."""

    name = "DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|[smhdw])", str(value))
        if not found or not float(found[1]):
            self.fail(f"{value!r} is no duration such as 30s, 5m, 12h or 7d", param, ctx)
        return float(found[1]) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}[found[2]]


TENANT = "Tenant that Mimir or Cortex is asked for (header X-Scope-OrgID)."
PROMETHEUS: dict[str, dict[str, Any]] = {  # option → its properties
    "--prometheus": {"metavar": "URL", "help": "Prometheus, Thanos, Mimir, VictoriaMetrics or Azure's managed one."},
    "--window": {"type": Duration(), "default": "7d", "show_default": True, "help": "How far back it is asked."},
    "--step": {"type": Duration(), "help": "Between samples; default: a thousandth of the window, at least 30s."},
    "--match": {"metavar": "MATCHERS", "help": 'Labels that all series must have: cluster="west".'},
    "--tenant": {"help": TENANT},
    "--samples-per-query": {"type": click.IntRange(1000), "default": 20_000_000, "show_default": True,
                            "help": "Most samples that one query may touch."},
    "--low-resource": {"is_flag": True, "help": "Small queries, one at a time, and fewer statistics."},
}  # fmt: skip


def input_options(command: F) -> F:
    """The options of :data:`FILES` and :data:`PROMETHEUS`, and ``--redact``; a command takes them as ``**inputs``."""
    text = "Hash all names of nodes, namespaces, pods and pools; joins are kept."
    command = click.option("--redact", is_flag=True, help=text)(command)
    for option, properties in reversed(PROMETHEUS.items()):
        command = click.option(option, **properties)(command)
    for name, what in reversed(FILES.items()):
        command = click.option(_option(name), multiple=True, type=FILE, help=what)(command)
    return command


def is_given(inputs: Mapping[str, Any]) -> bool:
    """Whether anything to observe was named."""
    return bool(inputs["redact"] or inputs["prometheus"] or any(inputs[name] for name in FILES))


def seen(snapshot: Path | None, inputs: Mapping[str, Any], catalogue: Catalogue) -> Snapshot:
    """A snapshot from its file, or from what :func:`input_options` took: never from both."""
    if snapshot is None:
        return observed(inputs, catalogue)
    if is_given(inputs):
        raise click.UsageError("--snapshot already holds what was observed: give it alone")
    from migsaw.observe.own_files import read_snapshot

    return read_snapshot(snapshot)


def observed(inputs: Mapping[str, Any], catalogue: Catalogue) -> Snapshot:
    """The snapshot of what :func:`input_options` took. Raises :class:`migsaw.errors.InputError`."""
    from migsaw.observe.files import InputFiles, observe_files

    files = InputFiles(**{name: inputs[name] for name in FILES})
    history = _history(inputs) if inputs["prometheus"] else None
    return observe_files(files, catalogue, redact=inputs["redact"], history=history)


def _history(inputs: Mapping[str, Any]) -> History:
    from migsaw.model.telemetry import Window
    from migsaw.observe.history import HistoryOptions, Server, read_all

    window, step = inputs["window"], inputs["step"]
    step = step or max(30.0, math.ceil(window / POINTS / 30) * 30.0)
    end = time.time()
    options = HistoryOptions(inputs["samples_per_query"], inputs["low_resource"], match=inputs["match"])
    url = inputs["prometheus"]
    return read_all(Server(url, headers(url, inputs["tenant"])), Window(end - window, end, step), options)


def headers(url: str, tenant: str | None = None) -> Callable[[], Mapping[str, str]]:
    """A token comes from the environment, never from the command line, where others could read it."""
    from migsaw.observe import azure_monitor
    from migsaw.observe.prometheus import check_url

    check_url(url)
    fixed = {"X-Scope-OrgID": tenant} if tenant else {}
    if token := os.environ.get(TOKEN):
        if not (token.isascii() and token.isprintable()):
            raise InputError(f"{TOKEN} holds signs that no token has", hint="is there a line end at its end?")
        fixed["Authorization"] = f"Bearer {token}"
    elif azure_monitor.is_managed(url):
        provide = azure_monitor.headers()
        return lambda: {**fixed, **provide()}
    return lambda: fixed


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
