"""Run by alembic, on the connection and in the transaction that :mod:`migsaw.store.migrate` opened."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=False)
context.run_migrations()
