"""Which series a server has in the window, without reading a sample: what measuring is planned from.

Of each label set only what tells devices apart is kept, once per device. Where a server does not list series, it is
asked to count them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from migsaw.model.telemetry import Window
from migsaw.observe import promql
from migsaw.observe.dcgm import LABELS
from migsaw.observe.prometheus import Client, QueryError
from migsaw.observe.shelf import Shelf

NOT_THERE = (400, 404, 405, 501)  # Mimir, Cortex and proxies may not offer these addresses
_FAMILY = '{__name__=~"DCGM_.*|dcgm_.*"'


def families(client: Client, window: Window, matchers: Sequence[str]) -> tuple[str, ...]:
    """Every DCGM family of the window, sorted."""
    match = "".join(f", {m}" for m in matchers)
    form = {"match[]": [f"{_FAMILY}{match}}}"], "start": f"{window.start:.3f}", "end": f"{window.end:.3f}"}
    try:
        # GET: `label/…/values` takes no POST
        names = client.ask("label/__name__/values", form, str, get=True).rows
    except QueryError as problem:
        if problem.status not in NOT_THERE:
            raise
        counted = {"query": f"count by (__name__) ({_FAMILY}{match}}})", "time": f"{window.end:.3f}"}
        names = client.ask("query", counted, lambda row: str(row["metric"]["__name__"]), result="vector").rows
    return tuple(sorted({name for name in names if name.startswith(("DCGM_", "dcgm_"))}))


def list_signal(
    client: Client, shelf: Shelf, signal: str, names: Sequence[str], window: Window, matchers: Sequence[str]
) -> tuple[str, ...]:
    """Adds the series of one signal; gives the server's warnings. Raises :class:`QueryError`."""

    def adding(read: Callable[[Any], tuple[Mapping[str, str], int]]) -> Callable[[Iterator[Any]], None]:
        def take(rows: Iterator[Any]) -> None:
            with shelf.whole():
                for row in rows:
                    shelf.add_series(signal, *read(row))

        return take

    selector = promql.selector(names, matchers)
    form = {"match[]": [selector], "start": f"{window.start:.3f}", "end": f"{window.end:.3f}"}
    try:
        return client.fold("series", form, adding(lambda labels: (labels, 1))).warnings
    except QueryError as problem:
        if problem.status not in NOT_THERE:
            raise
    milliseconds = round((window.end - window.start) * 1000)
    count = f"count by ({', '.join(('__name__', *LABELS))}) (last_over_time({selector}[{milliseconds}ms]))"
    asked = {"query": count, "time": f"{window.end:.3f}"}
    counted = adding(lambda row: (row["metric"], int(float(row["value"][1]))))
    return client.fold("query", asked, counted, result="vector").warnings
