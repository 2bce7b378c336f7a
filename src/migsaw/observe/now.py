"""The newest sample of every DCGM series as rows of an exporter, so that nodes are put together as from its text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from migsaw.model.telemetry import RATIOS
from migsaw.observe import promql
from migsaw.observe.dcgm import MOST_OF_A_RATIO, Identity, is_blank
from migsaw.observe.exporter import Row
from migsaw.observe.measure import Batch, Meter, Signal
from migsaw.observe.shelf import Shelf

_ROW_BYTES = 1 << 12


def read_now(meter: Meter, shelf: Shelf, signals: Iterable[tuple[Signal, Sequence[Batch]]]) -> None:
    """At the end of the window. A series that ended before gives none.

    Raises :class:`migsaw.observe.prometheus.QueryError`; then none counts.
    """
    with shelf.whole():
        for signal, batches in signals:
            for batch in batches:
                _ask(meter, shelf, signal, batch)


def _ask(meter: Meter, shelf: Shelf, signal: Signal, batch: Batch) -> None:
    def take(rows: Iterator[Mapping[str, Mapping[str, str]]]) -> None:
        for row in rows:
            value: Sequence[str] = row["value"]  # type: ignore[assignment]  # [time, "number"]
            shelf.add_newest(signal.name, row["metric"], _kept(signal, float(value[1])))

    query = promql.selector(signal.families, meter.options.matchers, batch.join.matchers)
    form = {"query": query, "time": f"{meter.window.end:.3f}"}
    limit = (1 << 20) + _ROW_BYTES * batch.series
    meter.client.fold("query", form, take, result="vector", limit_bytes=limit)


def _kept(signal: Signal, value: float) -> float | None:
    return None if is_blank(value) or (signal.name in RATIOS and value > MOST_OF_A_RATIO) else value


def rows_of(shelf: Shelf, file: str, seconds: float) -> Iterator[Row]:
    """By GPU. ``file``: what notes call the source; ``seconds``: the time of all samples."""
    number = 0
    for gpu, _ in shelf.gpus():
        rows: dict[Identity, Row] = {}
        for subject, signal, value in shelf.newest(gpu):
            if subject.identity not in rows:
                number += 1
                rows[subject.identity] = Row(subject.identity, file, number, seconds=seconds)
            row = rows[subject.identity]
            row.subjects.add(subject)
            if value is not None:
                row.values[signal] = max(value, row.values.get(signal, value))
        yield from rows.values()
