"""Telemetry beside the nodes that it belongs to: rows of exporters, or devices that a Prometheus server measured.

A profile is the one that the snapshot settled on; the exporter's label is kept where it says something else. Values of
a board stand once per GPU: they are repeated on each instance, and the largest is taken, never the sum. An owner is
taken from the labels where the snapshot believes them. How texts and series are read, nothing here knows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from migsaw.model.boards import Catalogue
from migsaw.model.layouts import UNKNOWN
from migsaw.model.snapshot import Gpu, Instance, Node, Snapshot
from migsaw.model.telemetry import (
    MEMORY,
    RATIOS,
    WHOLE_GPU_ONLY,
    BoardReading,
    Device,
    Distribution,
    Series,
    Telemetry,
)
from migsaw.observe.cards import Sighting
from migsaw.observe.exporter import Row
from migsaw.observe.instances import FindHolders
from migsaw.observe.inventory import profile_name

_SIGNALS = (*RATIOS, *MEMORY, *WHOLE_GPU_ONLY)
_NOBODY_SAYS = "nobody says who holds it"


@dataclass(frozen=True, slots=True)
class Scraped:
    """Of one node. ``alive``: pods that may hold a GPU, ``namespace/name``; None where no pods are known."""

    node: Node
    seen: Mapping[int, Sighting]  # by GPU index
    find_holders: FindHolders
    alive: Container[str] | None


def of_scrape(said: Telemetry, nodes: Iterable[Scraped]) -> Telemetry:
    """``said`` with the devices and boards of all nodes. One scrape is a history of one sample."""
    parts = list(nodes)
    devices = [device for scraped in parts for device in _devices(scraped)]
    boards = [reading for scraped in parts for reading in _boards(scraped)]
    return in_order(replace(said, devices=tuple(devices), boards=tuple(boards)))


def in_order(telemetry: Telemetry) -> Telemetry:
    """The same rows in another order give the same bytes."""
    return replace(
        telemetry,
        devices=tuple(sorted(telemetry.devices, key=_device_order)),
        boards=tuple(sorted(telemetry.boards, key=_board_order)),
        pods=tuple(sorted(telemetry.pods, key=lambda use: str(use.pod))),
        nodes=tuple(sorted(telemetry.nodes, key=lambda use: use.node)),
    )


def _device_order(device: Device) -> tuple[str, int, str, int, str, str]:
    index = -1 if device.index is None else device.index
    gi_id = -1 if device.gi_id is None else device.gi_id
    label = device.profile or device.profile_label or ""
    return device.node or "", index, device.uuid or "", gi_id, label, str(device.owner or "")


def _board_order(board: BoardReading) -> tuple[str, int, str]:
    return board.node or "", -1 if board.index is None else board.index, board.uuid or ""


# ---- one scrape ----------------------------------------------------------------------------------------------------


def _devices(scraped: Scraped) -> Iterable[Device]:
    for gpu in scraped.node.gpus:
        sighting = scraped.seen.get(gpu.index)
        if sighting is None:
            continue
        instances = {i.gi_id: i for i in gpu.instances}
        for gi_id, rows in sighting.rows.items():
            yield from _held(scraped, gpu, instances.get(gi_id), rows)
        if sighting.board_rows and not gpu.instances and gpu.mig != "on":
            yield from _held(scraped, gpu, None, sighting.board_rows)


def _held(scraped: Scraped, gpu: Gpu, instance: Instance | None, rows: Sequence[Row]) -> Iterable[Device]:
    """One device for each of its holders: what they share was measured once and is shown on each."""
    subjects = [subject for row in rows for subject in row.subjects]
    labels = sorted({s.profile for s in subjects if s.profile})
    profile = _known_profile(instance)
    device = Device(
        node=scraped.node.name,
        index=gpu.index,
        uuid=gpu.uuid,
        gi_id=rows[0].identity.gi_id,
        product=min((s.model for s in subjects if s.model), default=None),
        board=gpu.board,
        profile=profile,
        profile_label=next((label for label in labels if label != profile), None),
        exporter_pod=min((s.exporter_pod for s in subjects if s.exporter_pod), default=None),
        has_claim=any(s.has_claim for s in subjects),
        exporters=max(1, *(len({r.identity.hints for r in rows if signal in r.tallies}) for signal in _SIGNALS)),
        series=_series(rows),
    )
    owner, reason = (instance.owner, instance.owner_reason) if instance else (gpu.owner, gpu.owner_reason)
    if owner is None:
        yield replace(device, owner_reason=reason or _NOBODY_SAYS)
        return
    sources = dict(scraped.find_holders(rows))
    others = (ref for ref in sources if owner in sources and (scraped.alive is None or str(ref) in scraped.alive))
    for ref in {owner: None} | dict.fromkeys(others):
        yield replace(device, owner=ref, owner_source=sources.get(ref, "pods"))


def _known_profile(instance: Instance | None) -> str | None:
    return instance.profile if instance and instance.profile != UNKNOWN else None


def _series(rows: Sequence[Row]) -> dict[str, Series]:
    found = {signal: _one_series(signal, rows) for signal in _SIGNALS}
    return {signal: series for signal, series in found.items() if series}


def _one_series(signal: str, rows: Sequence[Row]) -> Series | None:
    """Duplicates (two scrapes, a line for each of several pods) are one sample, the largest that was kept."""
    tallies = [row.tallies[signal] for row in rows if signal in row.tallies]
    if not tallies:
        return None
    value = max((row.values[signal] for row in rows if signal in row.values), default=None)
    is_spike = value is None and any(tally.spikes for tally in tallies)
    return Series(
        name=min(tally.family for tally in tallies),
        samples=int(value is not None),
        values=_single(value),
        blanks=int(value is None and not is_spike),
        spikes=int(is_spike),
        above_one=int(signal in RATIOS and value is not None and value > 1),
        last=max((row.seconds for row in rows if row.seconds is not None), default=None),
    )


def _single(value: float | None) -> Distribution | None:
    return None if value is None else Distribution(value, value, value, value, value, 0.0)


def _boards(scraped: Scraped) -> Iterable[BoardReading]:
    for gpu in scraped.node.gpus:
        sighting = scraped.seen.get(gpu.index)
        rows = [*sighting.board_rows, *(r for mine in sighting.rows.values() for r in mine)] if sighting else []
        shown = [row for row in rows if row.board]
        if not shown:
            continue
        carriers = {row.identity.gi_id for row in shown} - {None}

        def most(signal: str, shown: Sequence[Row] = shown) -> Distribution | None:
            return _single(max((row.board[signal] for row in shown if signal in row.board), default=None))

        yield BoardReading(
            node=scraped.node.name,
            index=gpu.index,
            uuid=gpu.uuid,
            repeated_on=max(1, len(carriers)),
            power_watts=most("power_watts"),
            temperature_celsius=most("temperature_celsius"),
            sm_clock_mhz=most("sm_clock_mhz"),
        )


# ---- a history ------------------------------------------------------------------------------------------------------


def complete(telemetry: Telemetry, snapshot: Snapshot, catalogue: Catalogue) -> Telemetry:
    """Telemetry of a server with the snapshot's boards, nodes, profiles and, where labels name none, owners.

    Joined by GPU UUID and GI id, else by node, index and GI id. Of an instance that had several profiles in the window,
    each device keeps its label's: it was cut anew. What was there before the snapshot keeps its label's too.
    """
    fleet = _Fleet(snapshot, catalogue, telemetry.devices)
    devices, boards = map(fleet.completed, telemetry.devices), map(fleet.placed, telemetry.boards)
    return in_order(replace(telemetry, devices=tuple(devices), boards=tuple(boards)))


class _Fleet:
    """The snapshot's GPUs by the names that series have for them."""

    def __init__(self, snapshot: Snapshot, catalogue: Catalogue, devices: Iterable[Device]) -> None:
        self._catalogue = catalogue
        self._by_uuid: dict[str | None, tuple[Node, Gpu]] = {}
        self._by_place: dict[tuple[str | None, int | None], tuple[Node, Gpu]] = {}
        for node in snapshot.nodes:
            for gpu in node.gpus:
                self._by_place[node.name, gpu.index] = node, gpu
                if gpu.uuid:
                    self._by_uuid.setdefault(gpu.uuid, (node, gpu))
        rows = list(devices)
        self._labels = Counter(key for key, _ in {(_key(d), d.profile_label) for d in rows if d.profile_label})
        self._owned = {_key(d) for d in rows if d.owner}

    def placed(self, board: BoardReading) -> BoardReading:
        found = self._find(board.node, board.index, board.uuid)
        if found is None:
            return board
        node, gpu = found
        return replace(board, node=node.name, index=gpu.index, uuid=gpu.uuid or board.uuid)

    def completed(self, device: Device) -> Device:
        found = self._find(device.node, device.index, device.uuid)
        if found is None:
            return device
        node, gpu = found
        instance = (
            next((i for i in gpu.instances if i.gi_id == device.gi_id), None) if device.gi_id is not None else None
        )
        profile = self._profile(device, gpu, instance)
        device = replace(
            device,
            node=node.name,
            index=gpu.index,
            uuid=gpu.uuid or device.uuid,
            product=device.product or gpu.product,
            board=gpu.board,
            profile=profile,
            profile_label=device.profile_label if device.profile_label != profile else None,
        )
        return self._with_owner(device, gpu, instance)

    def _find(self, node: str | None, index: int | None, uuid: str | None) -> tuple[Node, Gpu] | None:
        if uuid in self._by_uuid:
            return self._by_uuid[uuid]
        found = self._by_place.get((node, index))
        return None if found is None or (uuid and found[1].uuid) else found

    def _profile(self, device: Device, gpu: Gpu, instance: Instance | None) -> str | None:
        board = self._catalogue.find(gpu.board) if gpu.board else None
        label = profile_name(device.profile_label, board) if device.profile_label else None
        if board and board.profiles and label and board.find(label) is None:
            label = None
        was_recut = self._labels[_key(device)] > 1
        return label if was_recut or instance is None else _known_profile(instance)

    def _with_owner(self, device: Device, gpu: Gpu, instance: Instance | None) -> Device:
        """Only where no label of the whole window names a holder: else it was free for a time."""
        if device.owner or _key(device) in self._owned or (device.gi_id is not None and instance is None):
            return device
        owner, reason = (instance.owner, instance.owner_reason) if instance else (gpu.owner, gpu.owner_reason)
        if owner is None:
            return replace(device, owner_reason=reason or device.owner_reason or _NOBODY_SAYS)
        return replace(device, owner=owner, owner_source="pods", owner_reason=None)


def _key(device: Device) -> tuple[str | None, str | None, int | None, int | None]:
    return (None, device.uuid, None, device.gi_id) if device.uuid else (device.node, None, device.index, device.gi_id)
