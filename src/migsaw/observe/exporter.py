"""dcgm-exporter text of every generation → one row per GPU or GPU instance that an exporter shows.

A line that is no Prometheus text costs one note, not the file. Values that DCGM means as "blank" are dropped before
any arithmetic. Which node a row belongs to, and whether its owner is right, is not decided here.

Sources: dcgm-exporter's label names of 2020 to 2026 and its `etc/default-counters.csv`; blanks: `dcgm_structs.h`,
DCGM_INT32_BLANK, DCGM_INT64_BLANK, DCGM_FP64_BLANK; DCGM 4.6 renamed the `…_ACTIVE` fields to `…_UTIL_RATIO`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from migsaw.errors import InputError, Where
from migsaw.model.snapshot import Note
from migsaw.model.telemetry import RATIOS
from migsaw.observe.dcgm import FIELDS, MOST_OF_A_RATIO, Identity, Subject, is_blank, subject_of
from migsaw.observe.reading import decode, read_bytes
from migsaw.observe.sniff import belongs_to

_BLOCK = re.compile(r"(?P<name>[A-Za-z_:][\w:]*)(?P<labels>\{.*\})(?P<rest>[^{}]*)")


@dataclass(slots=True)
class Row:
    """All lines about one GPU or GPU instance. More than one model, profile or owner is a contradiction or sharing."""

    identity: Identity
    file: str
    line: int  # the first
    subjects: set[Subject] = field(default_factory=set)
    values: dict[str, float] = field(default_factory=dict)  # by the names of FIELDS, no blanks
    seconds: float | None = None  # Unix time of the sample, where the text has it

    @property
    def models(self) -> set[str]:
        return {s.model for s in self.subjects if s.model}

    @property
    def profiles(self) -> set[str]:
        return {s.profile for s in self.subjects if s.profile}

    @property
    def owners(self) -> set[tuple[str | None, str]]:
        return {s.owner for s in self.subjects if s.owner}

    @property
    def owner_uids(self) -> set[str]:
        return {s.owner_uid for s in self.subjects if s.owner_uid and not s.owner}

    @property
    def dra_devices(self) -> set[str]:
        return {s.dra_device for s in self.subjects if s.dra_device}

    @property
    def has_claims(self) -> bool:
        return any(s.has_claim for s in self.subjects)


def read_metrics(paths: Iterable[Path]) -> tuple[list[Row], list[Note]]:
    """Rows of all files, by identity. Raises :class:`InputError` for a file without a single series of DCGM."""
    rows: list[Row] = []
    notes: list[Note] = []
    for path in paths:
        found, more = parse_metrics(decode(read_bytes(path), str(path)), str(path))
        rows += found
        notes += more
    return rows, notes


def parse_metrics(content: str, file: str) -> tuple[list[Row], list[Note]]:
    _check_kind(content, file)
    rows: dict[Identity, Row] = {}
    notes: list[Note] = []
    for number, name, subject, value, seconds in _samples(content, file, notes):
        if not name.startswith("DCGM_") and name not in FIELDS:
            continue
        identity = subject.identity
        if identity.index is None and identity.uuid is None:
            if not subject.is_other_device:
                notes.append(Note("warning", f"{name} names no GPU: left out", file, f"line {number}"))
            continue
        if identity not in rows:
            rows[identity] = Row(identity, file, number)
        row = rows[identity]
        row.subjects.add(subject)
        if seconds is not None:
            row.seconds = max(seconds, row.seconds or seconds)
        _add_value(row, FIELDS.get(name), value, notes, number)
    if not rows:
        hint = "expected the text that `curl http://EXPORTER:9400/metrics` prints"
        raise InputError("no series of dcgm-exporter in this file", where=Where(file, "1"), hint=hint)
    for row in rows.values():
        if row.identity.gi_id is not None and not row.profiles:
            message = f"GPU instance {row.identity.gi_id} without a profile in GPU_I_PROFILE"
            notes.append(Note("warning", message, file, f"line {row.line}"))
    return list(rows.values()), _gather(notes)


def _check_kind(content: str, file: str) -> None:
    if not content.strip():
        raise InputError("the file is empty", where=Where(file, "1"))
    option = belongs_to(content)
    is_json = content.lstrip()[:1] in ("{", "[")
    if (option and option != "--metrics") or is_json:
        kind = "JSON" if is_json else "no Prometheus text"
        hint = f"give it to {option}" if option else "--metrics reads the exporter's text, not an answer of Prometheus"
        raise InputError(f"this is {kind}", where=Where(file, "1"), hint=hint)


def _samples(content: str, file: str, notes: list[Note]) -> Iterator[tuple[int, str, Subject, float, float | None]]:
    """(line, family, subject, value, Unix seconds). A block of labels that was seen before is not parsed again."""
    known: dict[str, Subject] = {}
    for number, line in enumerate(content.split("\n"), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        block = _BLOCK.fullmatch(line)
        try:
            if block and block["labels"] in known:
                value, seconds = _numbers(block["rest"])
                yield number, block["name"], known[block["labels"]], value, seconds
                continue
            for family in text_string_to_metric_families(line):
                for sample in family.samples:
                    subject = subject_of(sample.labels)
                    if block:
                        known[block["labels"]] = subject
                    moment = None if sample.timestamp is None else float(sample.timestamp)
                    yield number, sample.name, subject, float(sample.value), moment
        except (ValueError, IndexError, KeyError):
            notes.append(Note("warning", "no Prometheus text: this line is left out", file, f"line {number}"))


def _numbers(rest: str) -> tuple[float, float | None]:
    """``1410`` or ``1410 1764547200000``: a value and its time in milliseconds."""
    parts = rest.split()
    if len(parts) not in (1, 2):
        raise ValueError(rest)
    return float(parts[0]), float(parts[1]) / 1000 if len(parts) == 2 else None


def _add_value(row: Row, key: str | None, value: float, notes: list[Note], line: int) -> None:
    if key is None or is_blank(value):
        return
    if key in RATIOS and value > 1:
        fate = "kept" if value <= MOST_OF_A_RATIO else "far above, left out"
        notes.append(Note("info", f"a ratio is above 1: {fate}", row.file, f"line {line}"))
        if value > MOST_OF_A_RATIO:
            return
    # a series given twice (two scrapes, several pods on one GPU): the larger value, in whatever order they come
    row.values[key] = max(value, row.values.get(key, value))


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
