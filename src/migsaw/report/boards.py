"""The catalogue as tables: which boards there are, how sure their geometry is, and what one board can be cut into."""

from __future__ import annotations

from typing import Any

from migsaw.model.boards import ENGINES, EVIDENCE, Board, Catalogue, Profile
from migsaw.model.names import resource_name
from migsaw.report.table import Column, Table, na

NO_PLACEMENTS = "placements not known"


def boards_table(catalogue: Catalogue) -> Table:
    columns = (
        Column("board", whole=True),
        Column("architecture", wide=True),
        Column("memory MiB", right=True),
        Column("slices", right=True),
        Column("profiles", right=True),
        Column("evidence"),
        Column("planned for"),
        Column("names", wide=True),
        Column("PCI ids", wide=True),
        Column("Azure sizes", wide=True),
        Column("notes", wide=True),
    )
    known = sum(board.placements_known for board in catalogue.boards)
    count = len(catalogue.boards)
    footer = (
        "slices: compute. planned for: no where placements are not known; --smi gives what a driver reports.",
        f"{count} boards: placements of {known} known, of {count - known} not.",
    )
    rows = tuple(_board_row(board, catalogue) for board in catalogue.boards)
    return Table(columns, rows, "", footer)


def _board_row(board: Board, catalogue: Catalogue) -> tuple[str, ...]:
    return (
        board.key,
        board.architecture,
        _number(board.memory_mib),
        _number(board.compute_slices),
        str(len(board.profiles)) if board.profiles else na("none known"),
        board.evidence,
        "yes" if board.placements_known else f"no: {refusal(board)}",
        ", ".join(board.product_names) or na("none known"),
        ", ".join(board.pci_ids) or na("none known"),
        ", ".join(azure_sizes(board, catalogue)) or "none",
        "; ".join(board.notes) or "none",
    )


def refusal(board: Board) -> str | None:
    """Why nothing is planned for this board; None where it can be."""
    if board.placements_known:
        return None
    return NO_PLACEMENTS if board.profiles else "profiles not known"


def azure_sizes(board: Board, catalogue: Catalogue) -> list[str]:
    return sorted(size.name for size in catalogue.azure_sizes.values() if size.board == board.key)


def board_table(board: Board, catalogue: Catalogue) -> Table:
    """The profiles of one board."""
    columns = (
        Column("profile", whole=True),
        Column("id", right=True),
        Column("slices", right=True),
        Column("MiB", right=True),
        Column("SMs", right=True),
        Column("engines", whole=True),
        Column("starts:size", whole=True),
        Column("max", right=True),
        Column("resource"),
        Column("sources", wide=True),
    )
    rows = tuple(_profile_row(profile) for profile in board.profiles)
    return Table(columns, rows, board.key, tuple(_about(board, catalogue)))


def _profile_row(profile: Profile) -> tuple[str, ...]:
    return (
        profile.name,
        _number(profile.profile_id),
        str(profile.compute_slices),
        _number(profile.memory_mib),
        _number(profile.sm_count),
        "/".join("n/a" if count is None else str(count) for count in profile.engines),
        placements(profile),
        str(profile.max_instances),
        resource_name(profile.name),
        _sources(profile),
    )


def placements(profile: Profile) -> str:
    """``0-6:1``, ``0,2,4:2``: starts and size in memory slices, as ``nvidia-smi mig -lgipp`` has them."""
    if profile.starts is None:
        return na(NO_PLACEMENTS)
    starts = list(profile.starts)
    dense = len(starts) > 2 and starts == list(range(starts[0], starts[-1] + 1))
    text = f"{starts[0]}-{starts[-1]}" if dense else ",".join(map(str, starts))
    return f"{text}:{profile.memory_slices}"


def _sources(profile: Profile) -> str:
    return "; ".join(f"{field}: {', '.join(keys)}" for field, keys in sorted(profile.sources.items())) or na(
        "not noted"
    )


def _about(board: Board, catalogue: Catalogue) -> list[str]:
    why = refusal(board)
    reset = {True: "needs a GPU reset, in a VM a reboot", False: "needs no reset", None: na("not noted")}
    lines = [
        "slices: compute; MiB: smallest seen; engines: copy/decode/encode/JPEG/OFA; starts and size in memory slices.",
        f"{_number(board.memory_mib)} MiB, {_number(board.memory_slices)} memory and {_number(board.compute_slices)} "
        f"compute slices, {_number(board.sm_count)} SMs, at most {_number(board.max_instances)} instances; "
        f"turning MIG on or off {reset[board.mode_change_needs_reset]}.",
        f"Names: {', '.join(board.product_names) or na('none known')}.",
        f"PCI ids: {', '.join(board.pci_ids) or na('none known')}.",
        f"Azure sizes: {', '.join(azure_sizes(board, catalogue)) or 'none'}.",
        *(f"Note: {note}." for note in board.notes),
        f"Evidence: {board.evidence} ({EVIDENCE[board.evidence]}).",
    ]
    lines += (
        [f"Nothing is planned for this board: {why}. --smi with `nvidia-smi mig -lgipp` would give them."]
        if why
        else []
    )
    return [*lines, f"{len(board.profiles)} profiles."]


def _number(value: int | None) -> str:
    return na("not known") if value is None else str(value)


def board_data(board: Board, catalogue: Catalogue) -> dict[str, Any]:
    """One board as plain data; what is not known is null."""
    return {
        "key": board.key,
        "product_names": list(board.product_names),
        "pci_ids": list(board.pci_ids),
        "architecture": board.architecture,
        "memory_mib": board.memory_mib,
        "memory_slices": board.memory_slices,
        "compute_slices": board.compute_slices,
        "sm_count": board.sm_count,
        "max_instances": board.max_instances,
        "engines": dict(zip(ENGINES, board.engine_totals, strict=True)),
        "mode_change_needs_reset": board.mode_change_needs_reset,
        "evidence": board.evidence,
        "planned": board.placements_known,
        "refusal": refusal(board),
        "azure_sizes": azure_sizes(board, catalogue),
        "notes": list(board.notes),
        "sources": {field: list(keys) for field, keys in board.sources.items()},
        "profiles": [_profile_data(profile) for profile in board.profiles],
    }


def _profile_data(profile: Profile) -> dict[str, Any]:
    return {
        "name": profile.name,
        "aliases": list(profile.aliases),
        "profile_id": profile.profile_id,
        "compute_slices": profile.compute_slices,
        "memory_slices": profile.memory_slices,
        "memory_mib": profile.memory_mib,
        "sm_count": profile.sm_count,
        "max_instances": profile.max_instances,
        "engines": dict(zip(ENGINES, profile.engines, strict=True)),
        "starts": None if profile.starts is None else list(profile.starts),
        "resource": resource_name(profile.name),
        "sources": {field: list(keys) for field, keys in profile.sources.items()},
    }
