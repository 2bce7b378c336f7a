"""Package data → bytes. Beside the tower: it parses nothing and imports no room.

Files: ``boards.json`` (geometry with source and evidence per field), ``azure_sizes.json``, ``prices.json`` (dated),
``facets.json`` (packing facets with their proof, keyed by a hash of the placements), ``curves.json`` (which throughput
curves are likely, learned from public measurements).
"""

from __future__ import annotations

from importlib.resources import files


def read(name: str) -> bytes:
    return files(__name__).joinpath(name).read_bytes()
