"""``-o``: a format or a file name, and how tables are drawn. stdout is data, stderr is talk."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

from migsaw.errors import InputError, Where
from migsaw.report.table import Table, to_csv, to_markdown

FORMATS = ("table", "wide", "json", "yaml", "csv", "md")
SUFFIXES = {".json": "json", ".yaml": "yaml", ".yml": "yaml", ".csv": "csv", ".md": "md", ".txt": "table"}

WIDTH = 160  # of tables that do not go to a terminal
GAP = "  "
FOLDED = 8  # signs of a cell below which breaking it leaves nothing to read

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Output:
    format: str
    path: Path | None = None  # None: stdout

    @property
    def is_data(self) -> bool:
        return self.format in ("json", "yaml")


class OutputType(click.ParamType):  # type: ignore[type-arg]
    name = "FORMAT|FILE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Output:
        if isinstance(value, Output):
            return value
        if value == "-":
            return Output("json")
        if value in FORMATS:
            return Output(value)
        if "." not in value and "/" not in value:
            self.fail(f"{value!r} is neither a format ({', '.join(FORMATS)}) nor a file name", param, ctx)
        path = Path(value)
        if path.suffix not in SUFFIXES:
            self.fail(f"{value!r}: the suffix must be one of {', '.join(SUFFIXES)}", param, ctx)
        return Output(SUFFIXES[path.suffix], path)


class FitsFile(OutputType):
    """A file of fits: a document, not a table."""

    name = "FILE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Output:
        output = super().convert(value, param, ctx)
        if output.path is None or output.format not in ("json", "yaml"):
            self.fail(f"{value!r} is no file name that ends in .json or .yaml", param, ctx)
        return output


def output_option(default: str = "table") -> Callable[[F], F]:
    text = "table, wide, json, yaml, csv, md; or a file whose suffix sets the format; - is JSON on stdout"
    return click.option("-o", "--output", type=OutputType(), default=default, show_default=True, help=text)


def show(output: Output, document: Any, tables: Sequence[Table], *, makes_document: bool = False) -> None:
    """Writes ``document`` (plain data; needed only where ``output.is_data``) or ``tables`` as asked.

    A command that makes a document writes it and prints its tables too: on stdout where a file was named, else on
    stderr.
    """
    pieces = _encode(document, output.format) if output.is_data else [_draw(tables, output)]
    if output.path is not None:
        write_file(output.path, pieces)
    else:
        sys.stdout.writelines(pieces)
    if makes_document and output.is_data:
        (sys.stdout if output.path else sys.stderr).write(_draw(tables, Output("table")))


def write_file(path: Path, text: str | Iterable[str]) -> None:
    """Whole or not at all: a file that is there is replaced only by a complete one. ``text``: may come in pieces."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with scratch.open("w", encoding="utf-8", errors="backslashreplace") as out:
            out.writelines([text] if isinstance(text, str) else text)
        scratch.replace(path)
    except OSError as problem:
        with contextlib.suppress(OSError):
            scratch.unlink(missing_ok=True)
        raise InputError(f"cannot be written: {problem.strerror}", where=Where(str(path))) from None


def _encode(document: Any, form: str) -> Iterable[str]:
    """In pieces: the text of a large snapshot is never held as a whole."""
    if form == "json":
        return chain(json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(document), ["\n"])
    return [to_yaml(document)]


def to_yaml(document: Any) -> str:
    import io

    from ruamel.yaml import YAML

    yaml, out = YAML(typ="safe", pure=True), io.StringIO()
    yaml.default_flow_style, yaml.sort_base_mapping_type_on_output = False, False  # type: ignore[assignment]
    yaml.dump(document, out)
    return out.getvalue()


def _draw(tables: Sequence[Table], output: Output) -> str:
    tables = [table.shown() for table in tables]
    if output.format == "csv":
        return "\n".join(to_csv(table) for table in tables)
    if output.format == "md":
        return "\n".join(to_markdown(table) for table in tables)
    return "\n".join(draw(table if output.format == "wide" else table.narrow()) for table in tables)


def draw(table: Table) -> str:
    """Plain text, as wide as the terminal; a terminal gets bold heads, ``NO_COLOR`` and files get none."""
    is_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if is_terminal else WIDTH
    is_bold = is_terminal and "NO_COLOR" not in os.environ
    lines = [_bold(table.title, is_bold)] if table.title else []
    if _needed(table) <= width:
        lines += _aligned(table, is_bold)
    else:
        lines += _folded(table, width, is_bold) if _needed(table, FOLDED) <= width else _stacked(table)
    return "\n".join([*lines, *table.footer]) + "\n"


def _needed(table: Table, most: int | None = None) -> int:
    """Signs in a line, with cells of at most ``most`` where they may be broken."""
    widths = zip(_widths(table), table.columns, strict=True)
    cells = (width if most is None or column.whole else min(width, most) for width, column in widths)
    return sum(cells) + len(GAP) * (len(table.columns) - 1)


def _widths(table: Table) -> list[int]:
    cells = [[column.title for column in table.columns], *table.rows]
    return [max(map(len, column)) for column in zip(*cells, strict=True)]


def _aligned(table: Table, is_bold: bool) -> list[str]:
    """Where nothing must be folded no table layout is needed: thousands of rows in no time."""
    widths = _widths(table)
    ways = [str.rjust if column.right else str.ljust for column in table.columns]

    def line(cells: Sequence[str]) -> str:
        return GAP.join(way(cell, width) for way, cell, width in zip(ways, cells, widths, strict=True)).rstrip()

    return [_bold(line([column.title for column in table.columns]), is_bold), *(line(row) for row in table.rows)]


def _bold(text: str, is_bold: bool) -> str:
    return f"\033[1m{text}\033[0m" if is_bold else text


def _stacked(table: Table) -> list[str]:
    """For a terminal too narrow for columns: a block of lines for each row."""
    lines: list[str] = []
    for row in table.rows:
        shown = zip(table.columns, row, strict=True)
        lines += ["", *(f"{column.title}: {cell}".strip() for column, cell in shown if cell)]
    return lines or [" ".join(column.title for column in table.columns)]


def _folded(table: Table, width: int, is_bold: bool) -> list[str]:
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console(width=width, force_terminal=is_bold, highlight=False, emoji=False)
    drawn = RichTable(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for column in table.columns:
        justify: Literal["right", "left"] = "right" if column.right else "left"
        drawn.add_column(column.title, justify=justify, overflow="fold", no_wrap=column.whole)
    for row in table.rows:
        drawn.add_row(*(Text(cell) for cell in row))
    with console.capture() as capture:
        console.print(drawn)
    return [text.rstrip() for text in capture.get().splitlines()]
