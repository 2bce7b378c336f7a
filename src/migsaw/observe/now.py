"""The newest sample of every DCGM series as rows of an exporter, so that nodes are put together as from its text."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from migsaw.model.dcgm_fields import FIELDS
from migsaw.model.telemetry import RATIOS
from migsaw.observe import promql
from migsaw.observe.dcgm import MOST_OF_A_RATIO, Identity, Subject, is_blank, subject_of
from migsaw.observe.exporter import Row
from migsaw.observe.measure import Batch, Meter, Signal

_ROW_BYTES = 1 << 12


def read_now(meter: Meter, signals: Sequence[tuple[Signal, Sequence[Batch]]]) -> list[Row]:
    """At the end of the window. A series that ended before gives none.

    Raises :class:`migsaw.observe.prometheus.QueryError`.
    """
    rows: dict[Identity, Row] = {}
    known: dict[Subject, Subject] = {}  # labels repeat from family to family: kept once
    for signal, batches in signals:
        for batch in batches:
            for name, subject, value in _ask(meter, signal, batch, known):
                identity = subject.identity
                if subject.is_other_device or (identity.index is None and identity.uuid is None):
                    continue
                if identity not in rows:
                    rows[identity] = Row(identity, meter.client.server.shown, len(rows) + 1, seconds=meter.window.end)
                _add(rows[identity], FIELDS[name], subject, value)
    return list(rows.values())


def _ask(meter: Meter, signal: Signal, batch: Batch, known: dict[Subject, Subject]) -> list[tuple[str, Subject, float]]:
    def small(row: Mapping[str, Mapping[str, str]]) -> tuple[str, Subject, float]:
        labels = {name: sys.intern(text) for name, text in row["metric"].items()}  # most repeat from row to row
        subject = subject_of(labels)
        value: Sequence[str] = row["value"]  # type: ignore[assignment]  # [time, "number"]
        return labels["__name__"], known.setdefault(subject, subject), float(value[1])

    query = promql.selector(signal.families, meter.options.matchers, batch.join.matchers)
    form = {"query": query, "time": f"{meter.window.end:.3f}"}
    limit = (1 << 20) + _ROW_BYTES * batch.series
    return meter.client.ask("query", form, small, result="vector", limit_bytes=limit).rows


def _add(row: Row, key: str, subject: Subject, value: float) -> None:
    row.subjects.add(subject)
    if is_blank(value) or (key in RATIOS and value > MOST_OF_A_RATIO):
        return
    row.values[key] = max(value, row.values.get(key, value))
