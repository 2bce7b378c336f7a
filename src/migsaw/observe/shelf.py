"""Where the reading of a history puts what it learns: a private database of SQLite, so that memory stays flat.

35,000 instances, each with a hundred numbers, would take half a gigabyte as Python objects. Here they are rows of a
temporary file without a name, of which only a few pages are held; small clusters never reach the disk. Answers go in
one by one and devices come out one by one. What numbers mean, and how they were asked for, nothing here knows.

Source: sqlite.org "Temporary Files Used By SQLite"; the environment's SQLITE_TMPDIR or TMPDIR says where.
"""

from __future__ import annotations

import json
import math
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from migsaw.observe.dcgm import LABELS, Subject, subject_of
from migsaw.observe.joins import Key, Shape, Unit, place

PRAGMAS = ("cache_size = -2048",)  # KiB of pages in memory
_SCHEMA = """
CREATE TABLE device (
    id INTEGER PRIMARY KEY, gpu TEXT, gi TEXT, profile TEXT, owner TEXT, kind TEXT, unit TEXT,
    UNIQUE (gpu, gi, profile, owner)
);
CREATE INDEX device_of_unit ON device (unit);
CREATE TABLE subject (id INTEGER PRIMARY KEY, said TEXT UNIQUE, device INTEGER, shape INTEGER);
CREATE INDEX subject_of_device ON subject (device);
CREATE TABLE series (
    subject INTEGER, signal TEXT, family TEXT, number INTEGER, PRIMARY KEY (subject, signal, family)
) WITHOUT ROWID;
CREATE TABLE newest (subject INTEGER, signal TEXT, value REAL, PRIMARY KEY (subject, signal)) WITHOUT ROWID;
CREATE TABLE value (
    signal TEXT, device INTEGER, family TEXT, is_answered INTEGER DEFAULT 0, {columns}, PRIMARY KEY (signal, device)
) WITHOUT ROWID;
"""
_LISTED = "series JOIN subject ON subject.id = series.subject JOIN device ON device.id = subject.device"


@dataclass(frozen=True, slots=True)
class Measured:
    """One signal of a device. ``family``: under which name it was exported, of several the first.

    ``values``: statistic → number, None where there is none; None where not everything was answered.
    """

    signal: str
    family: str
    values: Mapping[str, float | None] | None


class Shelf:
    """``statistics``: what may be measured of a signal.

    A *subject* is what the labels of some series say, a *device* a GPU or instance in the hands of one holder; labels
    that a restart changes give one device several subjects. Series that are about no GPU are left out.
    """

    def __init__(self, statistics: Iterable[str]) -> None:
        self._db = sqlite3.connect("", check_same_thread=False)  # whichever thread forgets it last closes it
        for pragma in PRAGMAS:
            self._db.execute(f"PRAGMA {pragma}")
        self._statistics = tuple(statistics)
        self._db.executescript(_SCHEMA.format(columns=", ".join(f"{name} REAL" for name in self._statistics)))
        self._shapes: list[Shape] = []

    def __del__(self) -> None:
        self._db.close()

    def whole(self) -> AbstractContextManager[object]:
        """What is added inside counts only where nothing is raised inside."""
        return self._db

    # ---- what the labels of series say ------------------------------------------------------------------------------

    def add_series(self, signal: str, labels: Mapping[str, str], number: int) -> None:
        """``number``: how many series there are that say just this."""
        if subject := self._subject(labels):
            more = "ON CONFLICT DO UPDATE SET number = number + excluded.number"
            row = (subject, signal, str(labels["__name__"]), number)
            self._db.execute(f"INSERT INTO series VALUES (?, ?, ?, ?) {more}", row)

    def add_newest(self, signal: str, labels: Mapping[str, str], value: float | None) -> None:
        """None: a sample that does not count. Of several samples of one subject the largest counts."""
        if subject := self._subject(labels):
            largest = "max(ifnull(value, excluded.value), ifnull(excluded.value, value))"
            more = f"ON CONFLICT DO UPDATE SET value = {largest}"
            self._db.execute(f"INSERT INTO newest VALUES (?, ?, ?) {more}", (subject, signal, value))

    def _subject(self, labels: Mapping[str, str]) -> int | None:
        said = json.dumps([labels.get(name) for name in LABELS])
        known: int | None = self._one("SELECT id FROM subject WHERE said = ?", said)
        if known is not None:
            return known
        found = place({name: sys.intern(word) for name, word in labels.items()})
        if found is None:
            return None
        key, unit, shape, _ = found
        if shape not in self._shapes:
            self._shapes.append(shape)
        self._db.execute(f"INSERT OR IGNORE INTO device VALUES (NULL{', ?' * 6})", (*key, *unit))
        row = (said, self.device(key), self._shapes.index(shape))
        return self._db.execute("INSERT INTO subject VALUES (NULL, ?, ?, ?)", row).lastrowid

    def series(self, signal: str) -> dict[Unit, int]:
        """How many series each unit has."""
        text = f"SELECT kind, unit, sum(number) FROM {_LISTED} WHERE signal = ? GROUP BY kind, unit"
        return {Unit(kind, unit): number for kind, unit, number in self._db.execute(text, (signal,))}

    def shapes(self) -> Iterator[tuple[Unit, Shape]]:
        """How the series of each unit look, of all signals."""
        text = "SELECT DISTINCT kind, unit, shape FROM subject JOIN device ON device.id = subject.device"
        return ((Unit(kind, unit), self._shapes[at]) for kind, unit, at in self._db.execute(text))

    def owners(self) -> Iterator[str]:
        """Every holder that a label names, as in a :class:`Key`."""
        return (owner for (owner,) in self._db.execute("SELECT DISTINCT owner FROM device WHERE owner != ''"))

    def gpus(self) -> Iterator[tuple[str, Unit]]:
        """Each GPU by its name."""
        text = "SELECT gpu, kind, unit FROM device GROUP BY gpu ORDER BY gpu"
        return ((gpu, Unit(kind, unit)) for gpu, kind, unit in self._db.execute(text))

    def subjects(self, gpu: str) -> Iterator[tuple[int, Subject]]:
        """(device, what labels say of it) of one GPU."""
        text = "SELECT device, said FROM device JOIN subject ON subject.device = device.id WHERE gpu = ?"
        return ((device, _said(said)) for device, said in self._db.execute(text, (gpu,)))

    def newest(self, gpu: str) -> Iterator[tuple[Subject, str, float | None]]:
        """(subject, signal, value) of one GPU."""
        text = (
            "SELECT said, signal, value FROM device JOIN subject ON subject.device = device.id "
            "JOIN newest ON newest.subject = subject.id WHERE gpu = ?"
        )
        return ((_said(said), signal, value) for said, signal, value in self._db.execute(text, (gpu,)))

    def repeats(self, gpu: str) -> int:
        """On how many instances of a GPU the same signal is shown, at most."""
        each = f"SELECT count(DISTINCT gi) AS n FROM {_LISTED} WHERE gpu = ? AND gi != '' GROUP BY signal"
        found: int | None = self._one(f"SELECT max(n) FROM ({each})", gpu)
        return found or 0

    # ---- what was measured ------------------------------------------------------------------------------------------

    def device(self, key: Key) -> int | None:
        text = "SELECT id FROM device WHERE gpu = ? AND gi = ? AND profile = ? AND owner = ?"
        found: int | None = self._one(text, *key)
        return found

    def prepare(self, signal: str, *, whole_gpus: bool) -> None:
        """A place for what will be measured of each device, or of each GPU; until then it counts as not answered."""
        with self.whole():
            if whole_gpus:
                each = f"SELECT DISTINCT NULL, gpu, '', '', '', kind, unit FROM {_LISTED} WHERE signal = ?"
                self._db.execute(f"INSERT OR IGNORE INTO device {each}", (signal,))
            target = "gpu.id" if whole_gpus else "device.id"
            more = " JOIN device AS gpu ON (gpu.gpu, gpu.gi, gpu.profile, gpu.owner) = (device.gpu, '', '', '')"
            each = f"SELECT signal, {target}, min(family) FROM {_LISTED}{more if whole_gpus else ''}"
            text = f"INSERT INTO value (signal, device, family) {each} WHERE signal = ? GROUP BY {target}"
            self._db.execute(text, (signal,))

    def put(self, signal: str, statistic: str, devices: Sequence[int], numbers: Sequence[float]) -> int:
        """How many could be taken: numbers, of devices that have a place. Of two the larger counts."""
        text = f"UPDATE value SET {statistic} = max(ifnull({statistic}, ?1), ?1) WHERE signal = ?2 AND device = ?3"
        rows = ((number, signal, at) for at, number in zip(devices, numbers, strict=True) if math.isfinite(number))
        with self.whole():
            return self._db.executemany(text, rows).rowcount

    def answered(self, signal: str, units: Iterable[Unit]) -> None:
        """All statistics of these units were answered."""
        devices = "SELECT id FROM device WHERE kind = ? AND unit = ?"
        text = f"UPDATE value SET is_answered = 1 WHERE signal = ? AND device IN ({devices})"
        with self.whole():
            self._db.executemany(text, ((signal, *unit) for unit in units))

    def is_answered(self, signals: Sequence[str]) -> bool:
        """Whether anything is known of one of these."""
        text = f"SELECT 1 FROM value WHERE is_answered AND signal IN ({', '.join('?' * len(signals))}) LIMIT 1"
        return self._one(text, *signals) is not None

    def largest(self, signal: str, statistic: str) -> float | None:
        found: float | None = self._one(f"SELECT max({statistic}) FROM value WHERE signal = ?", signal)
        return found

    def measured(self, gpu: str, signals: Sequence[str]) -> Iterator[tuple[Key, int, Measured]]:
        """(device in the hands of one holder, its number, what was measured of it) of one GPU."""
        text = (
            f"SELECT gi, profile, owner, id, signal, family, is_answered, {', '.join(self._statistics)} "
            "FROM device CROSS JOIN value ON value.device = device.id "
            f"WHERE gpu = ? AND signal IN ({', '.join('?' * len(signals))})"
        )
        for gi, profile, owner, device, signal, family, is_answered, *numbers in self._db.execute(
            text, (gpu, *signals)
        ):
            values = dict(zip(self._statistics, numbers, strict=True)) if is_answered else None
            yield Key(gpu, gi, profile, owner), device, Measured(signal, family, values)

    def _one(self, text: str, *given: str) -> Any:
        found = self._db.execute(text, given).fetchone()
        return None if found is None else found[0]


def _said(text: str) -> Subject:
    """Most of its words are repeated from row to row: kept once."""
    pairs = zip(LABELS, json.loads(text), strict=True)
    return subject_of({name: sys.intern(word) for name, word in pairs if word is not None})
