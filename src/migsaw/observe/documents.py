"""migsaw's own files ↔ model values: snapshot, fits, plan and the like, validated by pydantic at the border."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from migsaw.errors import InputError, Where
from migsaw.observe.reading import Document, read_document

T = TypeVar("T")


def read(path: Path, kind: type[T], *, exact: bool = False) -> T:
    """A value of ``kind`` from a JSON or YAML file; every fault is named with file, place and field."""
    return parse(read_document(path, exact=exact), kind)


def parse(document: Document, kind: type[T]) -> T:
    expected = _schema_of(kind)
    found = document.data.get("schema") if isinstance(document.data, dict) else None
    if not isinstance(document.data, dict):
        raise InputError(f"not a {expected} document", where=Where(document.file, "1"))
    if found != expected:
        said = f"schema is {found!r}" if found else "there is no schema"
        raise InputError(
            f"{said}, expected {expected}", where=document.where(["schema"]), hint="the first key of the file"
        )
    try:
        return TypeAdapter(kind).validate_python(document.data)
    except ValidationError as problem:
        first = problem.errors()[0]
        place = [step for step in first["loc"] if isinstance(step, int) or not step.startswith(("function-", "tuple["))]
        more = f" (and {problem.error_count() - 1} more)" if problem.error_count() > 1 else ""
        raise InputError(first["msg"] + more, where=document.where(place), hint=_hint(first["type"])) from None


def _schema_of(kind: type[Any]) -> str:
    return str(kind.__dataclass_fields__["schema"].default)


def _hint(error_type: str) -> str | None:
    return {
        "extra_forbidden": "no such field: see docs/reference/schemas",
        "unexpected_keyword_argument": "no such field",
    }.get(error_type)


def plain(value: Any) -> Any:
    """A model value as dicts, lists, strings and numbers, with ``schema`` first."""
    data = TypeAdapter(type(value)).dump_python(value, mode="json")
    if isinstance(data, dict) and "schema" in data:
        data = {"schema": data.pop("schema"), **data}
    return data


def to_json(value: Any) -> str:
    """Same value, same bytes."""
    return json.dumps(plain(value), indent=2, ensure_ascii=False) + "\n"


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
