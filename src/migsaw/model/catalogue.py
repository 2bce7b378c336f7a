"""Catalogue bytes → boards, Azure sizes. The bytes come from :mod:`migsaw.catalogue` or from a user's file."""

from __future__ import annotations

import json
from typing import Any

from migsaw.model.boards import AzureSize, Board, Catalogue, Profile


def parse_catalogue(boards: bytes, azure_sizes: bytes) -> Catalogue:
    """The package's own files; they are checked by tests, not here."""
    document, sizes = json.loads(boards), json.loads(azure_sizes)
    names = ("name", "board", "gpus", "vcpus", "memory_gb", "nic_mbps", "temp_disk_gib", "repartitionable")
    return Catalogue(
        boards=tuple(_board(row) for row in document["boards"]),
        azure_sizes={row["name"]: AzureSize(**{k: row[k] for k in names if k in row}) for row in sizes["sizes"]},
        sources={key: f"{value['title']} ({value['where']})" for key, value in document["sources"].items()},
    )


def _board(row: dict[str, Any]) -> Board:
    return Board(
        key=row["key"],
        product_names=tuple(row["product_names"]),
        pci_ids=tuple(row["pci_ids"]),
        architecture=row["architecture"],
        memory_mib=row["memory_mib"],
        memory_slices=row["memory_slices"],
        compute_slices=row["compute_slices"],
        sm_count=row["sm_count"],
        max_instances=row["max_instances"],
        engine_totals=tuple(row["engine_totals"]),
        evidence=row["evidence"],
        profiles=tuple(_profile(profile) for profile in row["profiles"]),
        mode_change_needs_reset=row["mode_change_needs_reset"],
        notes=tuple(row.get("notes", ())),
        sources={key: tuple(value) for key, value in row["sources"].items()},
    )


def _profile(row: dict[str, Any]) -> Profile:
    return Profile(
        name=row["name"],
        role=row["role"],
        profile_id=row["id"],
        compute_slices=row["compute_slices"],
        memory_slices=row["memory_slices"],
        memory_mib=row["memory_mib"],
        sm_count=row["sm_count"],
        max_instances=row["max_instances"],
        engines=tuple(row["engines"]),
        starts=None if row["starts"] is None else tuple(row["starts"]),
        aliases=tuple(row.get("aliases", ())),
        sources={key: tuple(value) for key, value in row["sources"].items()},
    )
