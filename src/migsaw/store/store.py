"""The store on one database. Every call is a transaction of its own: what was answered has been written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from sqlalchemy import Engine, Row, Select, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError

from migsaw.errors import MigsawError
from migsaw.store.engine import WRITING, connect, safe_url
from migsaw.store.migrate import migrate
from migsaw.store.records import Kind, Record
from migsaw.store.tables import RECORDS

BATCH = 500  # rows per statement: SQLite takes 32,766 values, and a batch is held in memory


class Store:
    """Use as a context manager, or call :meth:`close`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def add(self, records: Iterable[Record]) -> int:
        """Writes all or none of them; returns how many were not there yet."""
        insert = self._insert().on_conflict_do_nothing(index_elements=["id"]).returning(RECORDS.c.id)
        with self._engine.connect().execution_options(**WRITING) as connection, connection.begin():
            return sum(len(connection.execute(insert, batch).all()) for batch in _batches(records))

    def records(self, kind: Kind | None = None, subject: str | None = None) -> Iterator[Record]:
        """In the order of their times, those of one time as they were written. Read in batches: memory stays flat."""
        query = self._query(kind, subject).order_by(RECORDS.c.at, RECORDS.c.number)
        with self._engine.connect().execution_options(yield_per=BATCH) as connection:
            yield from map(_record, connection.execute(query))

    def latest(self, kind: Kind, subject: str) -> Record | None:
        found = self._query(kind, subject).order_by(RECORDS.c.at.desc(), RECORDS.c.number.desc()).limit(1)
        with self._engine.connect() as connection:
            row = connection.execute(found).one_or_none()
        return _record(row) if row else None

    def close(self) -> None:
        self._engine.dispose()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def _query(self, kind: Kind | None, subject: str | None) -> Select[tuple[str, Kind, str, str, str]]:
        query = select(RECORDS.c.id, RECORDS.c.kind, RECORDS.c.subject, RECORDS.c.at, RECORDS.c.document)
        if kind is not None:
            query = query.where(RECORDS.c.kind == kind)
        return query if subject is None else query.where(RECORDS.c.subject == subject)

    def _insert(self) -> sqlite.Insert | postgresql.Insert:
        return postgresql.insert(RECORDS) if self._engine.dialect.name == "postgresql" else sqlite.insert(RECORDS)


def open_store(url: str | Path) -> Store:
    """A file name (SQLite, made where it is not there) or a URL ``postgresql://…``; its form is brought up to date.

    Raises :class:`MigsawError` where it cannot be opened; the message shows no password.
    """
    engine = connect(url)
    try:
        migrate(engine)
    except MigsawError:
        engine.dispose()
        raise
    except SQLAlchemyError as problem:
        engine.dispose()
        cause = str(getattr(problem, "orig", None) or problem).strip().splitlines()[0]
        raise MigsawError(f"{safe_url(url)}: {cause}", hint="is the path writable, or the server reachable?") from None
    return Store(engine)


def _record(row: Row[tuple[str, Kind, str, str, str]]) -> Record:
    return Record(row.id, row.kind, row.subject, row.at, json.loads(row.document))


def _batches(records: Iterable[Record]) -> Iterator[list[dict[str, str]]]:
    batch: list[dict[str, str]] = []
    for r in records:
        text = json.dumps(r.document, sort_keys=True, ensure_ascii=False, allow_nan=False)
        batch.append({"id": r.id, "kind": r.kind, "subject": r.subject, "at": r.at, "document": text})
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
