"""The GPUs of one node, put together from all who show them: one index, one UUID, one name each.

The index is NVML's, which mig-parted and nvidia-smi use. DCGM and `nvidia-smi -q -x` count GPUs by themselves; where a
UUID ties them to NVML's index, that one is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from migsaw.model.snapshot import Note
from migsaw.observe.exporter import Row
from migsaw.observe.nodes import NodeFacts
from migsaw.observe.smi_facts import Card, Device, Placement, Smi


@dataclass(slots=True)
class Sighting:
    """What was seen of one GPU. That `mig -lgi` shows nothing of it proves nothing: `-i` may have named another GPU."""

    index: int
    uuid: str | None = None
    cards: list[Card] = field(default_factory=list)
    board_rows: list[Row] = field(default_factory=list)  # of the exporter, about the GPU as a whole
    rows: dict[int, list[Row]] = field(default_factory=dict)  # by GPU instance id
    placements: dict[int, Placement] = field(default_factory=dict)  # by GPU instance id
    devices: list[Device] = field(default_factory=list)

    @property
    def is_exported(self) -> bool:
        return bool(self.board_rows or self.rows)


def put_together(node: NodeFacts, rows: Iterable[Row], texts: Sequence[Smi], notes: list[Note]) -> dict[int, Sighting]:
    """GPU index → what was seen of it, in the order of the index."""
    rows = sorted(rows, key=_row_order)
    index_of = _index_of_uuid(rows, texts)
    seen: dict[int, Sighting] = {}
    for text in sorted(texts, key=lambda t: t.file):
        _add_text(seen, text, index_of)
    for row in rows:
        index = _index(row, index_of)
        if index is None:
            notes.append(
                Note("warning", f"{row.identity.uuid}: no index is known, left out", row.file, f"line {row.line}")
            )
            continue
        _add_row(seen.setdefault(index, Sighting(index)), row)
    for index, sighting in seen.items():
        sighting.uuid = _one_uuid(node, sighting, notes)
        seen[index] = _only(sighting)
    return dict(sorted(seen.items()))


def _row_order(row: Row) -> tuple[str, int, str]:
    return row.identity.uuid or "", -1 if row.identity.gi_id is None else row.identity.gi_id, repr(row.identity)


def _index_of_uuid(rows: Iterable[Row], texts: Sequence[Smi]) -> dict[str, int]:
    """nvidia-smi's listing knows best, then the exporter, then the order in XML."""
    found: dict[str, int] = {}
    pairs = [(card.uuid, card.index) for text in texts if not text.is_by_order for card in text.cards]
    pairs += [(i.uuid, i.index) for i in (row.identity for row in rows) if i.index is not None]
    pairs += [(card.uuid, card.index) for text in texts if text.is_by_order for card in text.cards]
    for uuid, index in pairs:
        if uuid:
            found.setdefault(uuid, index)
    return found


def _index(row: Row, index_of: dict[str, int]) -> int | None:
    by_uuid = index_of.get(row.identity.uuid or "")
    return row.identity.index if by_uuid is None else by_uuid


def _add_text(seen: dict[int, Sighting], text: Smi, index_of: dict[str, int]) -> None:
    moved = {card.index: index_of.get(card.uuid or "", card.index) for card in text.cards}
    for card in text.cards:
        index = moved[card.index]
        seen.setdefault(index, Sighting(index)).cards.append(replace(card, index=index))
    for placement in text.placements:
        sighting = seen.setdefault(placement.index, Sighting(placement.index))
        sighting.placements[placement.gi_id] = placement
    for device in text.devices:
        index = moved.get(device.index, device.index)
        seen.setdefault(index, Sighting(index)).devices.append(replace(device, index=index))


def _add_row(sighting: Sighting, row: Row) -> None:
    if row.identity.gi_id is None:
        sighting.board_rows.append(row)
    else:
        sighting.rows.setdefault(row.identity.gi_id, []).append(row)


def _one_uuid(node: NodeFacts, sighting: Sighting, notes: list[Note]) -> str | None:
    """Two GPUs with one index: files of two times, or of two nodes. The one sampled last is taken."""
    times: dict[str, float] = {}
    every = [*sighting.board_rows, *(row for rows in sighting.rows.values() for row in rows)]
    for uuid, seconds in [(c.uuid, 0.0) for c in sighting.cards] + [(r.identity.uuid, r.seconds or 0.0) for r in every]:
        if uuid:
            times[uuid] = max(seconds, times.get(uuid, 0.0))
    if len(times) > 1:
        names = " and ".join(sorted(times))
        text = f"{names} are both said to be GPU {sighting.index}: files of different times? The last one is taken"
        notes.append(node.note("error", text))
    return min(times, key=lambda uuid: (-times[uuid], uuid), default=None)


def _only(sighting: Sighting) -> Sighting:
    """Without what belongs to another UUID."""
    uuids = (None, sighting.uuid)
    rows = {gi: [r for r in rows if r.identity.uuid in uuids] for gi, rows in sighting.rows.items()}
    return replace(
        sighting,
        cards=[card for card in sighting.cards if card.uuid in uuids],
        board_rows=[row for row in sighting.board_rows if row.identity.uuid in uuids],
        rows={gi: kept for gi, kept in rows.items() if kept},
    )
