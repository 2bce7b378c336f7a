"""A record: one remembered value with its kind, subject and time. Values are validated when they go in and come out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

from pydantic import TypeAdapter, ValidationError

from migsaw.errors import InputError, Where
from migsaw.model.fits import Fits
from migsaw.model.measurement import Measurement, content_id
from migsaw.model.plan import Plan
from migsaw.model.savings import Saving

Kind = Literal["measurement", "fits", "plan", "saving"]
TYPES: Mapping[Kind, type[Any]] = {"measurement": Measurement, "fits": Fits, "plan": Plan, "saving": Saving}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Record:
    """``subject``: whom it is about (a workload's fingerprint, a snapshot's hash). ``at``: RFC 3339, UTC."""

    id: str
    kind: Kind
    subject: str
    at: str
    document: Mapping[str, Any]

    def value(self, kind: type[T]) -> T:
        return TypeAdapter(kind).validate_python(self.document)


def record_of(value: Measurement | Fits | Plan | Saving, subject: str, at: str) -> Record:
    kind = next(kind for kind, known in TYPES.items() if isinstance(value, known))
    document = TypeAdapter(type(value)).dump_python(value, mode="json")
    return _record(kind, subject, at, document)


def to_line(record: Record) -> str:
    """One line of JSON lines."""
    row = {"kind": record.kind, "subject": record.subject, "at": record.at, "document": record.document}
    return json.dumps(row, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def of_line(line: str, where: Where) -> Record:
    """Raises :class:`InputError` for a line that is no record of this version."""
    try:
        row = json.loads(line)
        kind, subject, at, document = (row[name] for name in ("kind", "subject", "at", "document"))
    except (ValueError, KeyError, TypeError):
        raise InputError("not a line of `migsaw store export`", where=where) from None
    if kind not in get_args(Kind) or not isinstance(subject, str) or not isinstance(at, str):
        raise InputError(f"kind {kind!r} is none of {', '.join(get_args(Kind))}", where=where)
    try:
        TypeAdapter(TYPES[kind]).validate_python(document)
    except ValidationError as problem:
        first = problem.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(f"{place}: {first['msg']}", where=where, hint=f"a {kind} document is needed") from None
    return _record(kind, subject, at, document)


def _record(kind: Kind, subject: str, at: str, document: Mapping[str, Any]) -> Record:
    identity = {"kind": kind, "subject": subject, "at": at, "document": document}
    return Record(content_id(identity), kind, subject, at, document)
