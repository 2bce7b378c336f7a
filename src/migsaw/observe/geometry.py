"""The geometry that a driver reported (`mig -lgip`, `-lgipp`), beside the catalogue's. The driver's word wins."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from migsaw.model.boards import Board
from migsaw.model.names import parse_profile_name
from migsaw.model.snapshot import Note, ReportedProfile
from migsaw.observe.nodes import NodeFacts
from migsaw.observe.smi_facts import Smi


def reported_profiles(texts: Sequence[Smi], index: int, board: Board | None) -> tuple[ReportedProfile, ...]:
    """Of one GPU, by profile id. Placements come from `-lgipp` only; without it there is nothing to report."""
    places = {p.profile_id: p for text in texts for p in text.places if p.index == index}
    names = {n.profile_id: n for text in texts for n in text.names if n.index == index}
    found = []
    for profile_id, place in sorted(places.items()):
        known, row = board.by_id(profile_id) if board else None, names.get(profile_id)
        said = parse_profile_name(row.name) if row else None
        name = known.name if known else str(said) if said else f"profile {profile_id}"
        most = row.most if row else known.max_instances if known else None
        found.append(ReportedProfile(name, profile_id, place.starts, place.size, most))
    return tuple(found)


def geometry_key(board: Board | None, profiles: tuple[ReportedProfile, ...]) -> str:
    """Same geometry, same key, on whatever node."""
    digest = hashlib.sha256(repr(profiles).encode()).hexdigest()[:8]
    return f"{board.key if board else 'unknown-board'}/{digest}"


def check_geometry(
    node: NodeFacts, index: int, board: Board | None, profiles: tuple[ReportedProfile, ...], texts: Sequence[Smi]
) -> list[Note]:
    """Where the driver and the catalogue differ."""
    if board is None or not board.profiles:
        return []
    found = []
    for profile in profiles:
        known = board.by_id(profile.profile_id)
        if known is None:
            found.append(f"the driver reports profile id {profile.profile_id}, which {board.key} does not have here")
        elif known.starts is not None and (known.starts, known.memory_slices) != (profile.starts, profile.size):
            ours = f"{list(known.starts)}:{known.memory_slices}"
            found.append(
                f"{known.name} at {list(profile.starts)}:{profile.size} by the driver, {ours} by the catalogue"
            )
    for row in (n for text in texts for n in text.names if n.index == index):
        known, by_name = board.by_id(row.profile_id), board.find(row.name)
        if known is None or by_name is None or known.name != by_name.name:
            ours = known.name if known else "nothing"
            found.append(f"the driver calls profile id {row.profile_id} {row.name}, the catalogue {ours}")
        elif row.most != known.max_instances:
            found.append(f"at most {row.most} x {known.name} by the driver, {known.max_instances} by the catalogue")
    used = "; the driver's word is used" if profiles else ""
    return [node.note("warning", f"GPU {index}: {text}{used}") for text in found]
