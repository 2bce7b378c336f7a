"""One signal of all devices over a window: which statistics are asked for, in which batches, and what comes back.

A batch that cannot be answered leaves a sentence and no value; nothing is filled in. What text a question has stands in
:mod:`migsaw.observe.promql`, how it is sent in :mod:`migsaw.observe.prometheus`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from migsaw.model.telemetry import Distribution, Series, Window
from migsaw.observe import promql
from migsaw.observe.joins import Join, Key, Shape, Unit, join
from migsaw.observe.prometheus import Client, QueryError
from migsaw.observe.promql import Kept

_LOW_BUDGET = 2_000_000
_ANSWER_BYTES, _ROW_BYTES = 1 << 20, 1 << 12  # a row of an answer has some hundred bytes
_WORDS = {
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


@dataclass(slots=True)
class Measured:
    """Statistic → number of each device; NaN where there is none. ``failed``: units that were not answered."""

    keys: dict[Key, int]
    numbers: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    failed: set[Unit] = field(default_factory=set)

    def get(self, statistic: str, key: Key) -> float | None:
        column = self.numbers.get(statistic)
        number = math.nan if column is None else float(column[self.keys[key]])
        return number if math.isfinite(number) else None

    def put(self, statistic: str, rows: Iterable[tuple[int | None, float]]) -> int:
        """Numbers by the place of their key. How many could not be taken: of no listed device, or no number."""
        column = self.numbers.setdefault(statistic, np.full(len(self.keys), math.nan))
        strange = 0
        for at, number in rows:
            if at is None or not math.isfinite(number):
                strange += 1
            else:  # two rows of one device differ in a label that neither should have: the larger
                column[at] = np.fmax(column[at], number)
        return strange


@dataclass(frozen=True, slots=True)
class Meter:
    """``partial`` collects a sentence for everything that is missing."""

    client: Client
    window: Window
    options: HistoryOptions
    partial: dict[str, None]

    def batches(self, series: Mapping[Unit, int], shapes: Mapping[Unit, Iterable[Shape]]) -> list[Batch]:
        """GPUs with and without a UUID apart: they are named by other labels."""
        kinds = sorted({unit.by for unit in series}, reverse=True)
        found = []
        for kind in kinds:
            mine = {unit: number for unit, number in series.items() if unit.by == kind}
            parts = promql.split(mine, self.window.points, self.options.budget)
            for part in parts:
                is_everything = len(parts) == len(kinds) == 1
                how = join(part, (s for unit in part for s in shapes[unit]), is_everything=is_everything)
                found.append(Batch(part, how, sum(mine[unit] for unit in part)))
        return found

    def empty(self, keys: Iterable[Key], batches: Sequence[Batch]) -> Measured:
        """Before the first question every unit has failed."""
        units = {unit for batch in batches for unit in batch.units}
        return Measured({key: at for at, key in enumerate(keys)}, failed=units)

    def fill(self, measured: Measured, signal: Signal, there: Sequence[str], batches: Sequence[Batch]) -> None:
        """``there``: which of the signal's families the server has.

        Raises :class:`QueryError` where the server is gone; what was measured before stays.
        """
        for batch in batches:
            if _Asking(self, signal, there, batch, measured).ask_all():
                measured.failed -= set(batch.units)


class _Asking:
    """One signal of one batch."""

    def __init__(self, meter: Meter, signal: Signal, there: Sequence[str], batch: Batch, measured: Measured) -> None:
        self._meter, self._signal, self._there, self._batch, self._measured = meter, signal, there, batch, measured
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
            self._say(f"{_WORDS[self._statistic]} of {number} GPU{'s' * (number != 1)} not read: {problem.message}")
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
            if signal.is_ratio and self._peak() > 1:
                self._ask("above_one", promql.COUNT, self._vector(promql.ABOVE_ONE))
        self._ask("last", promql.LATEST, self._times())

    def _ask_true_peak(self) -> None:
        """Between two steps memory may have been higher: what is stored counts, where no blank hides it."""
        how, window = self._batch.join, self._meter.window
        series = promql.selector(self._signal.families, self._meter.options.matchers, how.matchers)
        stored = promql.every_sample(promql.VALUES["peak"], series, window)
        self._send("peak", promql.joined(stored, self._signal.kept, how.replaces_for(False), how.labels(False)))

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
        answer = meter.client.ask("query", form, self._row, result="vector", limit_bytes=limit)
        for warning in answer.warnings:
            self._say(f"the server warns: {warning}")
        if strange := self._measured.put(statistic, answer.rows):
            self._say(f"{strange} of {len(answer.rows)} answers ({_WORDS[statistic]}) are no number of a listed device")
        return sum(number for _, number in answer.rows)

    def _row(self, row: Mapping[str, Mapping[str, str]]) -> tuple[int | None, float]:
        """(place of the key, number): the labels of a row are not kept."""
        key = self._batch.join.key(row["metric"])
        value: Sequence[str] = row["value"]  # type: ignore[assignment]  # [time, "number"]
        key = Key(key.gpu, "", "", "") if self._signal.is_board else key
        return self._measured.keys.get(key), float(value[1])

    def _vector(self, kept: Kept) -> str:
        how, whole = self._batch.join, self._signal.is_board
        series = promql.selector(self._signal.families, self._meter.options.matchers, how.matchers)
        return promql.joined(series, kept, how.replaces_for(whole), how.labels(whole))

    def _times(self) -> str:
        how, matchers = self._batch.join, self._meter.options.matchers
        units = [[matcher] for matcher in how.matchers] or [[]]
        each = [promql.selector([family], matchers, unit) for family in self._there for unit in units]
        return promql.joined(promql.timestamps(each), promql.SHOWN, how.replaces, how.labels(False))

    def _peak(self) -> float:
        peaks = self._measured.numbers["peak"]
        return float(np.nanmax(peaks)) if np.isfinite(peaks).any() else 0.0

    def _say(self, sentence: str) -> None:
        self._meter.partial[f"{self._signal.families[0]}: {sentence}"] = None


def series_of(family: str, measured: Measured, key: Key, unit: Unit) -> Series | None:
    """None where the batch of this device had no answer."""
    if unit in measured.failed:
        return None
    kept, shown = measured.get("kept", key), measured.get("shown", key)
    samples = int(kept or 0)
    dropped = int(shown or samples) - samples
    numbers = measured.get("numbers", key)
    spikes = int(numbers) - samples if numbers is not None and dropped else 0
    changes = measured.get("changes", key)
    return Series(
        name=family,
        samples=samples,
        values=distribution(measured, key),
        blanks=dropped - spikes,
        spikes=spikes,
        above_one=int(measured.get("above_one", key) or 0),
        last=measured.get("last", key),
        changes=None if changes is None else int(changes),
    )


def distribution(measured: Measured, key: Key) -> Distribution | None:
    found = {name: measured.get(name, key) for name in promql.VALUES}
    if any(found[name] is None for name in promql.FEW_VALUES):
        return None
    return Distribution(**found)  # type: ignore[arg-type]  # those of FEW_VALUES are numbers
