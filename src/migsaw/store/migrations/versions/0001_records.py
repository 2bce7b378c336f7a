"""One table of records, added to and never changed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "records",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("id", sa.String(64), nullable=False, unique=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("subject", sa.String(128), nullable=False),
        sa.Column("at", sa.String(40), nullable=False),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_index("records_by_subject", "records", ["kind", "subject", "at"])
