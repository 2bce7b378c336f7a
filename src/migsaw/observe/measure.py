"""One signal of all devices over a window: which statistics are asked for, in which batches, and what comes back.

A batch that cannot be answered leaves a sentence and no value; nothing is filled in. What text a question has stands in
:mod:`migsaw.observe.promql`, how it is sent in :mod:`migsaw.observe.prometheus`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from migsaw.model.telemetry import Distribution, Series, Window
from migsaw.observe import promql
from migsaw.observe.joins import Join, Key, Shape, Unit, join
from migsaw.observe.prometheus import Client, QueryError
from migsaw.observe.promql import Kept
from migsaw.observe.shelf import Measured, Shelf

_LOW_BUDGET = 2_000_000
_ANSWER_BYTES, _ROW_BYTES = 1 << 20, 1 << 12  # a row of an answer has some hundred bytes
STATISTICS = {
    "shown": "number of samples",
    "kept": "number of samples",
    "mean": "mean",
    "low": "5th percentile",
    "median": "median",
    "high": "95th percentile",
    "peak": "maximum",
    "deviation": "standard deviation",
    "changes": "changes",
    "last": "time of the newest sample",
    "numbers": "number of spikes",
    "above_one": "number of ratios above 1",
    "increase": "increase",
}


@dataclass(frozen=True, slots=True)
class HistoryOptions:
    """``match``: matchers of labels that all series must meet, such as ``cluster="west"``.

    ``low_resource``: smaller questions with pauses, and of each signal only samples, mean, 95th percentile, maximum.
    """

    samples_per_query: int = 20_000_000
    low_resource: bool = False
    retries: int = 3
    match: str | None = None

    @property
    def budget(self) -> int:
        return min(self.samples_per_query, _LOW_BUDGET) if self.low_resource else self.samples_per_query

    @property
    def matchers(self) -> tuple[str, ...]:
        text = (self.match or "").strip().removeprefix("{").removesuffix("}").strip().rstrip(",")
        return (text,) if text else ()


@dataclass(frozen=True, slots=True)
class Signal:
    """``families``: its names in all generations. ``is_board``: the same value on every instance of a GPU."""

    name: str
    families: tuple[str, ...]
    kept: Kept
    is_board: bool = False

    @property
    def is_ratio(self) -> bool:
        return self.kept == promql.A_RATIO

    @property
    def is_counter(self) -> bool:
        return self.kept == promql.A_COUNTER


@dataclass(frozen=True, slots=True)
class Batch:
    units: tuple[Unit, ...]
    join: Join
    series: int


@dataclass(frozen=True, slots=True)
class Meter:
    """``partial`` collects a sentence for everything that is missing."""

    client: Client
    window: Window
    options: HistoryOptions
    partial: dict[str, None]

    def batches(self, series: Mapping[Unit, int], shapes: Iterable[tuple[Unit, Shape]]) -> list[Batch]:
        """GPUs with and without a UUID apart: they are named by other labels."""
        parts = []
        for kind in sorted({unit.by for unit in series}, reverse=True):
            mine = {unit: number for unit, number in series.items() if unit.by == kind}
            parts += promql.split(mine, self.window.points, self.options.budget)
        part_of = {unit: at for at, part in enumerate(parts) for unit in part}
        seen: list[set[Shape]] = [set() for _ in parts]
        for unit, shape in shapes:
            if unit in part_of:
                seen[part_of[unit]].add(shape)
        return [
            Batch(part, join(part, mine, is_everything=len(parts) == 1), sum(series[unit] for unit in part))
            for part, mine in zip(parts, seen, strict=True)
        ]

    def fill(self, shelf: Shelf, signal: Signal, there: Sequence[str], batches: Sequence[Batch]) -> None:
        """``there``: which of the signal's families the server has.

        Raises :class:`QueryError` where the server is gone; what was measured before stays.
        """
        for batch in batches:
            if _Asking(self, signal, there, batch, shelf).ask_all():
                shelf.answered(signal.name, batch.units)


class _Asking:
    """One signal of one batch."""

    def __init__(self, meter: Meter, signal: Signal, there: Sequence[str], batch: Batch, shelf: Shelf) -> None:
        self._meter, self._signal, self._there, self._batch, self._shelf = meter, signal, there, batch, shelf
        self._statistic = ""

    def ask_all(self) -> bool:
        """Whether every statistic was answered; where one was not, none counts."""
        try:
            if self._signal.is_counter:
                self._ask("increase", promql.INCREASE, self._vector(self._signal.kept))
            else:
                self._ask_values()
        except QueryError as problem:
            number = len(self._batch.units)
            self._say(f"{STATISTICS[self._statistic]} of {number} GPU{'s' * (number != 1)} not read: {problem.message}")
            if problem.is_gone:
                raise
            return False
        return True

    def _ask_values(self) -> None:
        signal, is_short = self._signal, self._meter.options.low_resource or self._signal.is_board
        kept = self._vector(signal.kept)
        number = self._ask("kept", promql.COUNT, kept)
        if number:
            for statistic in promql.FEW_VALUES if self._meter.options.low_resource else promql.VALUES:
                self._ask(statistic, promql.VALUES[statistic], kept)
        if number and signal.name == "used":
            self._ask_true_peak()
        if is_short:
            return
        shown = self._ask("shown", promql.COUNT, self._vector(promql.SHOWN))
        if signal.is_ratio and shown != number:
            self._ask("numbers", promql.COUNT, self._vector(promql.NO_BLANKS))
        if number:
            self._ask("changes", promql.CHANGES, kept)
            if signal.is_ratio and (self._shelf.largest(signal.name, "peak") or 0) > 1:
                self._ask("above_one", promql.COUNT, self._vector(promql.ABOVE_ONE))
        self._ask("last", promql.LATEST, self._times())

    def _ask_true_peak(self) -> None:
        """Between two steps memory may have been higher: what is stored counts.

        A blank is larger than any number, so it hides what else was stored since the step before it, and no more.
        """
        how, matchers = self._batch.join, self._meter.options.matchers
        each = [promql.selector(self._signal.families, matchers, unit) for unit in [[m] for m in how.matchers] or [[]]]
        stored = promql.each_step(promql.VALUES["peak"], each, self._meter.window)
        vector = promql.joined(stored, self._signal.kept, how.replaces_for(False), how.labels(False))
        self._ask("peak", promql.VALUES["peak"], vector)

    def _ask(self, statistic: str, function: str, vector: str) -> float:
        """The sum over the batch: of counts, the number of samples."""
        return self._send(statistic, promql.over(function, vector, self._meter.window))

    def _send(self, statistic: str, query: str) -> float:
        self._statistic = statistic
        meter, batch = self._meter, self._batch
        form = {
            "query": query,
            "time": f"{meter.window.end:.3f}",
            "timeout": promql.duration(meter.client.server.timeout_seconds),
        }
        limit = _ANSWER_BYTES + _ROW_BYTES * batch.series
        answer = meter.client.fold("query", form, self._taken, result="vector", limit_bytes=limit)
        devices, numbers = answer.rows
        for warning in answer.warnings:
            self._say(f"the server warns: {warning}")
        if strange := len(numbers) - self._shelf.put(self._signal.name, statistic, devices, numbers):
            self._say(f"{strange} of {len(numbers)} answers ({STATISTICS[statistic]}) are no number of a listed device")
        return sum(numbers)

    def _taken(self, rows: Iterator[Mapping[str, Mapping[str, str]]]) -> tuple[array[int], array[float]]:
        """Devices and their numbers: the labels of a row are not kept."""
        devices, numbers = array("q"), array("d")
        for row in rows:
            key = self._batch.join.key(row["metric"])
            key = Key(key.gpu, "", "", "") if self._signal.is_board else key
            value: Sequence[str] = row["value"]  # type: ignore[assignment]  # [time, "number"]
            devices.append(self._shelf.device(key) or 0)  # 0 is none
            numbers.append(float(value[1]))
        return devices, numbers

    def _vector(self, kept: Kept) -> str:
        how, whole = self._batch.join, self._signal.is_board
        series = promql.selector(self._signal.families, self._meter.options.matchers, how.matchers)
        return promql.joined(series, kept, how.replaces_for(whole), how.labels(whole))

    def _times(self) -> str:
        how, matchers = self._batch.join, self._meter.options.matchers
        units = [[matcher] for matcher in how.matchers] or [[]]
        each = [promql.selector([family], matchers, unit) for family in self._there for unit in units]
        return promql.joined(promql.timestamps(each), promql.SHOWN, how.replaces, how.labels(False))

    def _say(self, sentence: str) -> None:
        self._meter.partial[f"{self._signal.families[0]}: {sentence}"] = None


def series_of(measured: Measured) -> Series | None:
    """None where the batch of this device had no answer."""
    values = measured.values
    if values is None:
        return None
    kept, shown, changes = values["kept"], values["shown"], values["changes"]
    samples = int(kept or 0)
    dropped = int(shown or samples) - samples
    numbers = values["numbers"]
    spikes = int(numbers) - samples if numbers is not None and dropped else 0
    return Series(
        name=measured.family,
        samples=samples,
        values=distribution(measured),
        blanks=dropped - spikes,
        spikes=spikes,
        above_one=int(values["above_one"] or 0),
        last=values["last"],
        changes=None if changes is None else int(changes),
    )


def distribution(measured: Measured) -> Distribution | None:
    found = {name: measured.values[name] for name in promql.VALUES} if measured.values else {}
    if any(found.get(name) is None for name in promql.FEW_VALUES):
        return None
    return Distribution(**found)  # type: ignore[arg-type]  # those of FEW_VALUES are numbers
