"""Brings a database to today's form, under a lock: of several that open a store at once, one migrates."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, Engine, text

from migsaw.errors import MigsawError
from migsaw.store.engine import WRITING

FOLDER = Path(__file__).parent / "migrations"
HEAD = "0001"  # the newest file in migrations/versions; a test holds it to that
_LOCK = 4_919_771_003  # PostgreSQL's advisory locks are named by numbers; this one is migsaw's


def migrate(engine: Engine, to: str = HEAD) -> None:
    """Nothing is written where the form is right already. Raises :class:`MigsawError` for a newer form than known."""
    with engine.connect() as connection:
        if _revision(connection) == to:
            return
    with engine.connect().execution_options(**WRITING) as connection, connection.begin():
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        if _revision(connection) != to:
            _upgrade(connection, to)


def _revision(connection: Connection) -> str | None:
    from alembic.runtime.migration import MigrationContext

    return MigrationContext.configure(connection).get_current_revision()


def _upgrade(connection: Connection, to: str) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.util.exc import CommandError

    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, to)
    except CommandError:
        raise MigsawError(
            f"the store has the form {_revision(connection)}, which this migsaw does not know",
            hint="it was made by a newer migsaw: use that one, or export there and import here",
        ) from None
