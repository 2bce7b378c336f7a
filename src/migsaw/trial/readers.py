"""How a workload's throughput is read while it runs: from its lines, a file that it writes, or a server.

A reader gives :class:`Value` and :class:`InputWait` of one process, or of the whole slot; :func:`together` adds up
processes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from migsaw.errors import InputError
from migsaw.model.trial import JsonLinesReading, MlflowReading, PrometheusReading, ReadKind, RegexReading, TrialSpec
from migsaw.observe.prometheus import Client, QueryError, Server
from migsaw.trial.events import Event, InputWait, Value

if TYPE_CHECKING:
    from migsaw.trial.mlflow import MlflowRun

SHORTEST_SECONDS = 1e-3  # between two counts: what is nearer came in one piece
MOST_BYTES = 1 << 22  # of a file, read at once


class Reader:
    """A reader overrides what it needs. ``environment``: what the command must be told."""

    environment: Mapping[str, str] = MappingProxyType({})

    def line(self, seconds: float, text: str) -> Iterator[Event]:
        """A line of stdout."""
        return iter(())

    def poll(self, seconds: float) -> Iterator[Event]:
        """Time has passed."""
        return iter(())

    def close(self) -> None:
        """The trial is over."""


@dataclass
class Rates:
    """Numbers → values: rates as they are, counts by what was added since the last one."""

    kind: ReadKind
    before: tuple[float, float] | None = None  # (seconds, count)

    def value(self, seconds: float, number: float) -> Iterator[Event]:
        if not math.isfinite(number) or number < 0:
            return
        if self.kind == "rate":
            yield Value(seconds, number)
        elif self.before is None or number < self.before[1]:  # begins, or begins anew
            self.before = (seconds, number)
            yield Value(seconds, None)
        elif seconds - self.before[0] >= SHORTEST_SECONDS and number > self.before[1]:
            yield Value(seconds, (number - self.before[1]) / (seconds - self.before[0]))
            self.before = (seconds, number)


@dataclass
class RegexReader(Reader):
    reading: RegexReading
    rates: Rates = field(init=False)

    def __post_init__(self) -> None:
        self.rates = Rates(self.reading.kind)
        self._pattern = re.compile(self.reading.pattern)
        self._wait = re.compile(self.reading.input_wait) if self.reading.input_wait else None

    def line(self, seconds: float, text: str) -> Iterator[Event]:
        if self._wait and (share := _number(self._wait.search(text))) is not None:
            yield InputWait(seconds, share)
        if (number := _number(self._pattern.search(text))) is not None:
            yield from self.rates.value(seconds, number)


@dataclass
class JsonLinesReader(Reader):
    """Reads on from where the file ended when the trial began; a file that became shorter is read from its start."""

    reading: JsonLinesReading
    path: Path
    rates: Rates = field(init=False)
    place: int = field(init=False)

    def __post_init__(self) -> None:
        self.rates = Rates(self.reading.kind)
        self.place = self._size()

    def poll(self, seconds: float) -> Iterator[Event]:
        size = self._size()
        self.place = self.place if size >= self.place else 0
        if size == self.place:
            return
        with self.path.open("rb") as file:
            file.seek(self.place)
            content = file.read(MOST_BYTES)
        whole = content[: content.rfind(b"\n") + 1]
        self.place += len(whole)
        rows = [row for line in whole.splitlines() if isinstance(row := _json(line), dict)]
        if self.reading.input_wait:
            shares = (_plain(row.get(self.reading.input_wait)) for row in rows)
            yield from (InputWait(seconds, share) for share in shares if share is not None)
        numbers = [number for row in rows if (number := _plain(row.get(self.reading.field))) is not None]
        if numbers:  # they came together, so they are one value: rates their mean, counts the last
            one = sum(numbers) / len(numbers) if self.reading.kind == "rate" else numbers[-1]
            yield from self.rates.value(seconds, one)

    def _size(self) -> int:
        try:
            return self.path.stat().st_size
        except OSError:
            return 0


@dataclass
class PrometheusReader(Reader):
    """Asks every so often. No series: nothing yet; several: the query is wrong. A lost server is asked again."""

    reading: PrometheusReading
    next_at: float = 0.0

    def __post_init__(self) -> None:
        self._client = Client(Server(self.reading.url, timeout_seconds=10.0), retries=0)

    def poll(self, seconds: float) -> Iterator[Event]:
        if seconds < self.next_at:
            return
        self.next_at = seconds + self.reading.every_seconds
        try:
            found = self._client.ask("query", {"query": self.reading.query}, _sample, result="vector").rows
        except QueryError as problem:
            if problem.status is not None and problem.status < 500:
                raise
            return
        if len(found) > 1:
            message = f"the query gives {len(found)} series, one is expected"
            raise InputError(message, hint="sum(…) over them, with the labels of this workload")
        if found and math.isfinite(found[0]) and found[0] >= 0:
            yield Value(seconds, found[0])


class MlflowReader(Reader):
    """Values are placed in time by MLflow's own stamps; the newest counts as now."""

    def __init__(self, reading: MlflowReading, run: MlflowRun) -> None:
        self.run, self.environment, self.every = run, run.environment, reading.every_seconds
        self.next_at, self.seen = 0.0, 0

    def poll(self, seconds: float) -> Iterator[Event]:
        if seconds < self.next_at:
            return
        self.next_at = seconds + self.every
        history = self.run.values()
        new, self.seen = history[self.seen :], len(history)
        for at, value in new:
            yield Value(seconds - (new[-1][0] - at), value)

    def close(self) -> None:
        self.run.close()


def readers_of(spec: TrialSpec, folder: Path) -> list[Reader]:
    """One for each process, or a single one for the slot."""
    if spec.read.regex is not None:
        return [RegexReader(spec.read.regex) for _ in range(spec.processes)]
    if (lines := spec.read.json_lines) is not None:
        names = (lines.file.replace("{process}", str(n)) for n in range(spec.processes))
        return [JsonLinesReader(lines, folder / name) for name in names]
    if spec.read.prometheus is not None:
        return [PrometheusReader(spec.read.prometheus)]
    assert spec.read.mlflow is not None
    from migsaw.trial.mlflow import MlflowRun

    return [MlflowReader(spec.read.mlflow, MlflowRun(spec.read.mlflow, spec.name))]


@dataclass
class Together:
    """Values of several processes → values of the slot: one whenever every process has said something new.

    A process that speaks oftener counts with the mean of what it said.
    """

    processes: int
    rates: dict[int, list[float]] = field(default_factory=dict)
    begun: set[int] = field(default_factory=set)

    def value(self, process: int, event: Event) -> Iterator[Event]:
        if self.processes == 1 or not isinstance(event, Value):
            yield event
            return
        if len(self.begun) < self.processes:
            self.begun.add(process)
            if len(self.begun) == self.processes:
                yield Value(event.seconds, None)
            return
        if event.rate is not None:
            self.rates.setdefault(process, []).append(event.rate)
        if len(self.rates) == self.processes:
            yield Value(event.seconds, sum(sum(mine) / len(mine) for mine in self.rates.values()))
            self.rates.clear()


def _number(found: re.Match[str] | None) -> float | None:
    if found is None or found[1] is None:
        return None
    try:
        return float(found[1].replace(",", "") if re.fullmatch(r"\d{1,3}(,\d{3})+(\.\d+)?", found[1]) else found[1])
    except ValueError:
        return None


def _json(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _plain(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _sample(row: Any) -> float:
    return float(row["value"][1])
