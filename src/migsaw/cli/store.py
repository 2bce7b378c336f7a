"""``migsaw store``: what migsaw remembers, as JSON lines: out of one store and into another."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

from migsaw.errors import InputError, Where

if TYPE_CHECKING:
    from migsaw.store import Record

F = TypeVar("F", bound=Callable[..., Any])

STDIO = Path("-")


def default_store() -> Path:
    """One per user, where the XDG base directory specification puts data."""
    folder = os.environ.get("XDG_DATA_HOME") or ""
    base = Path(folder) if Path(folder).is_absolute() else Path.home() / ".local/share"
    return base / "migsaw/store.db"


def store_option(command: F) -> F:
    text = "A file, or postgresql://…  [default: $XDG_DATA_HOME/migsaw/store.db]"
    return click.option("--store", metavar="FILE|URL", default=lambda: str(default_store()), help=text)(command)


def existing(store: str) -> str:
    """To read from a file that is not there would make an empty store and find nothing in it."""
    if "://" not in store and not Path(store).exists():
        raise InputError(f"{store}: there is no store", hint="`migsaw profile --store` makes one; or name another")
    return store


@click.group()
def command() -> None:
    """Measurements, fits, plans and savings as JSON lines: between stores, versions and people."""


@command.command("export")
@click.argument("file", type=click.Path(path_type=Path), default="-")
@store_option
def export(file: Path, store: str) -> None:
    """Write every record to FILE (default: stdout), one a line."""
    from migsaw.store import open_store

    with open_store(existing(store)) as opened:
        if file == STDIO:
            _write(sys.stdout, opened.records())
            return
        count = _replace(file, opened.records())
    click.echo(f"{count} records written to {file}", err=True)


@command.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@store_option
def import_(file: Path, store: str) -> None:
    """Add the records of FILE (- is stdin): all or, where a line is wrong, none. What is there already stays once."""
    from migsaw.store import open_store

    name = "stdin" if file == STDIO else str(file)
    try:
        with sys.stdin.buffer if file == STDIO else file.open("rb") as lines, open_store(store) as opened:
            read = _Counted(lines, name)
            new = opened.add(read)
    except OSError as problem:
        raise InputError(f"cannot be read: {problem.strerror}", where=Where(name)) from None
    click.echo(f"{new} new of {read.count} records", err=True)


class _Counted:
    """The records of a file as they are read, and how many there were. Empty lines are none."""

    def __init__(self, lines: IO[bytes], name: str) -> None:
        self._lines, self._name, self.count = lines, name, 0

    def __iter__(self) -> Iterator[Record]:
        from migsaw.store.records import of_line

        for number, line in enumerate(self._lines, start=1):
            where = Where(self._name, str(number))
            try:
                text = line.decode()
            except UnicodeDecodeError:
                raise InputError("not UTF-8", where=where) from None
            if text.strip():
                yield of_line(text, where)
                self.count += 1


def _replace(file: Path, records: Iterator[Record]) -> int:
    """Whole or not at all, and never all of it in memory."""
    scratch = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with scratch.open("w", encoding="utf-8") as out:
            count = _write(out, records)
        scratch.replace(file)
    except OSError as problem:
        raise InputError(f"cannot be written: {problem.strerror}", where=Where(str(file))) from None
    finally:
        scratch.unlink(missing_ok=True)
    return count


def _write(out: IO[str], records: Iterator[Record]) -> int:
    from migsaw.store.records import to_line

    count = 0
    for record in records:
        out.write(to_line(record))
        count += 1
    return count
