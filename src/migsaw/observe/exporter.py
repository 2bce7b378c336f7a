"""dcgm-exporter text of every generation → one row per GPU or GPU instance that an exporter shows.

A line that is no Prometheus text costs one note, not the file. Families that nobody reads are dropped by their name,
before anything is parsed: of the 25 that an exporter may show, about 10 are read. Values that DCGM means as "blank" are
counted and dropped before any arithmetic. Which node a row belongs to, and whether its owner is right, is not decided
here; what labels and names mean stands in :mod:`migsaw.observe.dcgm`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from migsaw.errors import InputError, Where
from migsaw.model.dcgm_fields import BOARD_FIELDS, BUILD_INFO, FIELDS
from migsaw.model.snapshot import Note
from migsaw.model.telemetry import Telemetry
from migsaw.observe.dcgm import (
    MOST_OF_A_RATIO,
    RATIOS,
    Identity,
    Subject,
    is_blank,
    subject_of,
    versions_of,
)
from migsaw.observe.reading import decode, read_bytes
from migsaw.observe.sniff import belongs_to

# a counter of energy says nothing in one scrape
_BOARD = {family: signal for family, signal in BOARD_FIELDS.items() if signal != "energy_millijoules"}
_SIGNALS = frozenset((*FIELDS, *_BOARD))
READ = _SIGNALS | {BUILD_INFO}
_NAME = re.compile(r"[A-Za-z_:][\w:]*")
_PREFIXES = ("DCGM_", "dcgm_")


@dataclass(slots=True)
class Tally:
    """What became of the lines of one signal. ``family`` as exported; of two generations the first by name."""

    family: str
    kept: int = 0
    blanks: int = 0
    spikes: int = 0  # ratios far above 1: dropped
    above_one: int = 0  # ratios a little above 1: kept


@dataclass(slots=True)
class Row:
    """All lines about one GPU or GPU instance. More than one model, profile or owner is a contradiction or sharing."""

    identity: Identity
    file: str
    line: int  # the first
    subjects: set[Subject] = field(default_factory=set)
    values: dict[str, float] = field(default_factory=dict)  # by signal, no blanks
    seconds: float | None = None  # Unix time of the sample, where the text has it
    tallies: dict[str, Tally] = field(default_factory=dict)  # by signal
    board: dict[str, float] = field(default_factory=dict)  # power_watts …: the same on every instance of a GPU

    @property
    def models(self) -> set[str]:
        return {s.model for s in self.subjects if s.model}

    @property
    def profiles(self) -> set[str]:
        return {s.profile for s in self.subjects if s.profile}

    @property
    def dra_devices(self) -> set[str]:
        return {s.dra_device for s in self.subjects if s.dra_device}

    @property
    def has_claims(self) -> bool:
        return any(s.has_claim for s in self.subjects)

    @property
    def names_a_pod(self) -> bool:
        return any(s.owner or s.owner_uid for s in self.subjects)


@dataclass(slots=True)
class Scrape:
    """What all texts hold together. ``families``: those of DCGM, read or not. ``builds``: versions as printed."""

    rows: list[Row] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    families: set[str] = field(default_factory=set)
    builds: set[str] = field(default_factory=set)

    def add(self, other: Scrape) -> None:
        self.rows += other.rows
        self.notes += other.notes
        self.families |= other.families
        self.builds |= other.builds

    def telemetry(self) -> Telemetry | None:
        """What the texts say besides rows; None where there was none. A version that differs among them is unknown."""
        if not self.rows:
            return None
        dcgm, exporter = (_only(versions_of(build)[side] for build in self.builds) for side in (0, 1))
        families = tuple(sorted(self.families))
        files = tuple(sorted({row.file for row in self.rows}))
        return Telemetry("exporter", families=families, dcgm_version=dcgm, exporter_version=exporter, read_from=files)


def read_metrics(paths: Iterable[Path]) -> Scrape:
    """Rows of all files, by identity. Raises :class:`InputError` for a file without a series of DCGM that is read."""
    scrape = Scrape()
    for path in paths:
        scrape.add(parse_metrics(decode(read_bytes(path), str(path)), str(path)))
    return scrape


def parse_metrics(content: str, file: str) -> Scrape:
    """As :func:`read_metrics`, of one text; ``file`` is what to call it."""
    _check_kind(content, file)
    scrape = Scrape()
    rows: dict[Identity, Row] = {}
    for number, name, subject, value, seconds in _samples(content, file, scrape):
        identity = subject.identity
        if identity.index is None and identity.uuid is None:
            if not subject.is_other_device:
                scrape.notes.append(Note("warning", f"{name} names no GPU: left out", file, f"line {number}"))
            continue
        if identity not in rows:
            rows[identity] = Row(identity, file, number)
        row = rows[identity]
        row.subjects.add(subject)
        if seconds is not None:
            row.seconds = max(seconds, row.seconds or seconds)
        _add_value(row, name, value, scrape.notes, number)
    if not rows:
        raise InputError(_nothing(scrape.families), where=Where(file, "1"), hint=_HINT)
    for row in rows.values():
        if row.identity.gi_id is not None and not row.profiles:
            message = f"GPU instance {row.identity.gi_id} without a profile in GPU_I_PROFILE"
            scrape.notes.append(Note("warning", message, file, f"line {row.line}"))
    scrape.rows, scrape.notes = list(rows.values()), _gather(scrape.notes)
    return scrape


_HINT = "expected the text that `curl http://EXPORTER:9400/metrics` prints"


def _nothing(families: set[str]) -> str:
    if not families:
        return "no series of dcgm-exporter in this file"
    return f"of dcgm-exporter only what does not tell what a GPU does: {', '.join(sorted(families)[:3])}"


def _check_kind(content: str, file: str) -> None:
    if not content.strip():
        raise InputError("the file is empty", where=Where(file, "1"))
    option = belongs_to(content)
    is_json = content.lstrip()[:1] in ("{", "[")
    if (option and option != "--metrics") or is_json:
        kind = "JSON" if is_json else "no Prometheus text"
        hint = f"give it to {option}" if option else "--metrics reads the exporter's text, not an answer of Prometheus"
        raise InputError(f"this is {kind}", where=Where(file, "1"), hint=hint)


def _samples(content: str, file: str, scrape: Scrape) -> Iterator[tuple[int, str, Subject, float, float | None]]:
    """(line, family, subject, value, Unix seconds) of what is read. Labels seen before are not parsed again."""
    known: dict[str, Subject] = {}
    for number, line in _lines(content, scrape.families):
        start, end = max(line.find("{"), 0), line.rfind("}") + 1
        name, labels = line[:start].rstrip(), line[start:end]
        try:
            if name in _SIGNALS and labels in known:
                value, seconds = _numbers(line[end:])
                yield number, name, known[labels], value, seconds
                continue
            for sample in _parsed(line):
                if sample.name == BUILD_INFO:
                    scrape.builds.add(sample.labels.get("version", ""))
                elif sample.name in _SIGNALS:
                    known[labels] = subject = subject_of(sample.labels)
                    moment = None if sample.timestamp is None else float(sample.timestamp)
                    yield number, sample.name, subject, float(sample.value), moment
        except (ValueError, IndexError, KeyError):
            scrape.notes.append(Note("warning", "no Prometheus text: this line is left out", file, f"line {number}"))


def _lines(content: str, families: set[str]) -> Iterator[tuple[int, str]]:
    """Lines that may be read: without comments and without families that are not, which ``families`` gathers too."""
    unread: set[str] = set()
    for number, line in enumerate(content.split("\n"), start=1):
        name = line[: max(line.find("{"), 0)].strip()
        if name in unread:
            continue
        if name and name not in families and _NAME.fullmatch(name):
            if name.startswith(_PREFIXES):
                families.add(name)
            if name not in READ:
                unread.add(name)
                continue
        if (line := line.strip()) and not line.startswith("#"):
            yield number, line


def _parsed(line: str) -> list[Sample]:
    return [sample for family in text_string_to_metric_families(line) for sample in family.samples]


def _numbers(rest: str) -> tuple[float, float | None]:
    """``1410`` or ``1410 1764547200000``: a value and its time in milliseconds."""
    parts = rest.split()
    if len(parts) not in (1, 2):
        raise ValueError(rest)
    return float(parts[0]), float(parts[1]) / 1000 if len(parts) == 2 else None


def _add_value(row: Row, family: str, value: float, notes: list[Note], line: int) -> None:
    """A series given twice (two scrapes, several pods on one GPU): the larger value, in whatever order they come."""
    if family in _BOARD:
        if not is_blank(value):
            signal = _BOARD[family]
            row.board[signal] = max(value, row.board.get(signal, value))
        return
    signal = FIELDS[family]
    tally = row.tallies.setdefault(signal, Tally(family))
    tally.family = min(family, tally.family)
    if is_blank(value):
        tally.blanks += 1
        return
    if signal in RATIOS and value > 1:
        fate = "kept" if value <= MOST_OF_A_RATIO else "far above, left out"
        notes.append(Note("info", f"a ratio is above 1: {fate}", row.file, f"line {line}"))
        if value > MOST_OF_A_RATIO:
            tally.spikes += 1
            return
        tally.above_one += 1
    tally.kept += 1
    row.values[signal] = max(value, row.values.get(signal, value))


def _only(found: Iterable[str | None]) -> str | None:
    told = {one for one in found if one}
    return told.pop() if len(told) == 1 else None


def _gather(notes: list[Note]) -> list[Note]:
    """Many lines with the same fault become one note with the first place and their number."""
    first: dict[str, Note] = {}
    times: dict[str, int] = {}
    for note in notes:
        first.setdefault(note.text, note)
        times[note.text] = times.get(note.text, 0) + 1
    return [
        n
        if times[n.text] == 1
        else Note(n.severity, f"{n.text} ({times[n.text]} such lines, first one shown)", n.file, n.where)
        for n in first.values()
    ]
