"""An engine that keeps its promises: on SQLite a transaction is one, and a second writer waits instead of failing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from migsaw.errors import InputError

WAYS = "a file name (SQLite), or postgresql://USER@HOST/DATABASE"
WAIT_SECONDS = 60  # for another writer
WRITING = {"migsaw_writing": True}  # execution option: the transaction takes the write lock at once


def connect(url: str | Path) -> Engine:
    """Raises :class:`InputError` for a URL of another kind of database or without its driver."""
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite":
        return _sqlite(parsed)
    try:
        import psycopg  # noqa: F401 - SQLAlchemy's own message would not say how to get it
    except ModuleNotFoundError:
        raise InputError("PostgreSQL needs its driver", hint="pip install 'migsaw[postgres]'") from None
    return create_engine(parsed, pool_pre_ping=True)


def parse_url(url: str | Path) -> URL:
    """A path is a SQLite file; ``postgresql://`` is read with psycopg 3."""
    text = str(url)
    if "://" not in text:
        return URL.create("sqlite", database=text)
    try:
        parsed = make_url(text)
    except ArgumentError:
        raise InputError(
            "the store's URL cannot be read", hint="a file name, or postgresql://USER@HOST/DATABASE"
        ) from None
    if parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise InputError(f"no store on {parsed.get_backend_name()}", hint=WAYS)
    return parsed.set(drivername="postgresql+psycopg") if parsed.drivername == "postgresql" else parsed


def safe_url(url: str | Path) -> str:
    """Without the password."""
    return str(url) if "://" not in str(url) else parse_url(url).render_as_string(hide_password=True)


def _sqlite(url: URL) -> Engine:
    if url.database and url.database != ":memory:":
        try:
            Path(url.database).parent.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise InputError(f"{url.database}: {problem.strerror}", hint="a path that can be written") from None
    engine = create_engine(url, connect_args={"timeout": WAIT_SECONDS})
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _prepare(connection: Any, record: Any) -> None:
    """Python's sqlite3 would begin and commit on its own; WAL lets readers go on beside a writer."""
    connection.isolation_level = None
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")


def _begin(connection: Connection) -> None:
    writing = connection.get_execution_options().get("migsaw_writing")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")
