"""The one table, as code sees it. The database's own form comes from the migrations, never from here."""

from __future__ import annotations

from sqlalchemy import Column, Integer, MetaData, String, Table, Text

METADATA = MetaData()

RECORDS = Table(
    "records",
    METADATA,
    Column("number", Integer, primary_key=True, autoincrement=True),  # in the order of writing, per database
    Column("id", String(64), nullable=False, unique=True),
    Column("kind", String(16), nullable=False),
    Column("subject", String(128), nullable=False),
    Column("at", String(40), nullable=False),
    Column("document", Text, nullable=False),  # JSON text: the same bytes on every database
)
