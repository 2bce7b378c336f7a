"""Points of a workload from a CSV file: what one instance of a profile does. Decimals are exact, faults have lines."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from decimal import Decimal, InvalidOperation
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from migsaw.errors import InputError, Where
from migsaw.observe.demand_file import Point
from migsaw.observe.reading import decode, read_bytes

Locate = Callable[[str], Where]  # field of a point → where it stands

TEXTS = ("board", "profile")


def read_points(path: Path) -> Iterator[tuple[Point, Locate]]:
    """Rows of a file with a header; an empty cell is no value."""
    rows = csv.reader(io.StringIO(decode(read_bytes(path), str(path))))
    adapter = TypeAdapter(Point)
    header = [name.strip() for name in next(rows, [])]
    for needed in (*TEXTS, "throughput_per_second"):
        if needed not in header:
            raise InputError(f"no column {needed}", where=Where(str(path), "1", needed))
    for cells in rows:
        if cells:
            locate = partial(_where, str(path), rows.line_num)
            yield _point(dict(zip(header, cells, strict=False)), locate, adapter), locate


def _point(cells: dict[str, str], locate: Locate, adapter: TypeAdapter[Point]) -> Point:
    values = {
        name: text if name in TEXTS else _number(text, name, locate) for name, text in cells.items() if text.strip()
    }
    try:
        return adapter.validate_python(values)
    except ValidationError as problem:
        first = problem.errors()[0]
        raise InputError(first["msg"], where=locate(str(first["loc"][-1]))) from None


def _number(text: str, name: str, locate: Locate) -> Any:
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite():
        raise InputError(f"{text!r} is no number", where=locate(name))
    return number


def _where(file: str, line: int, field: str) -> Where:
    return Where(file, str(line), field)
