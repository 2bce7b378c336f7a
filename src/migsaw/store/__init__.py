"""EDGE: what migsaw remembers: measurements, fits, plans and what they saved. SQLite by default, PostgreSQL by URL.

:func:`open_store` is the door. Records are only added; a record's id is the hash of its content, so writing one twice
adds nothing and two writers at once lose nothing. See ``designs/0007-store.md``.
"""

from __future__ import annotations

from migsaw.store.records import Kind, Record
from migsaw.store.store import Store, open_store

__all__ = ["Kind", "Record", "Store", "open_store"]
