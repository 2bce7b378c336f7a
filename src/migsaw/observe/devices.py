"""Listed series and their statistics → devices and boards, named as well as labels and kube-state-metrics can tell.

Board keys and catalogue names of profiles are added where a snapshot is at hand; nothing is asked here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from migsaw.model.refs import PodRef
from migsaw.model.telemetry import BoardReading, Device, Series
from migsaw.observe import naming
from migsaw.observe.hosts import Hosts, shown_name
from migsaw.observe.joins import Key
from migsaw.observe.listing import Listing, Sighting
from migsaw.observe.measure import Measured, distribution, series_of
from migsaw.observe.pods import PodsSeen


@dataclass(frozen=True, slots=True)
class Names:
    """What names mean: hosts → nodes, uids and names without a namespace → pods."""

    hosts: Hosts
    pods: PodsSeen | None = None

    def node(self, sightings: Iterable[Sighting]) -> str | None:
        """By whichever sighting a node is known for: the exporter's pod and address change when it restarts."""
        hints = sorted({sighting.hints for sighting in sightings if sighting.hints})
        known = (node for mine in hints if (node := self.hosts.of_hints(mine)))
        return next(known, None) or next((shown_name(mine) for mine in hints), None)

    def owner(self, said: str) -> PodRef | None:
        """``namespace/pod``, ``/pod`` or ``uid:…`` → the pod."""
        if said.startswith("uid:"):
            return self.pods.of_uid.get(said.removeprefix("uid:")) if self.pods else None
        namespace, _, name = said.partition("/")
        if namespace:
            return PodRef(namespace, name)
        pods = self.pods.pods.values() if self.pods else ()
        same = {PodRef(pod.namespace, pod.name) for pod in pods if pod.name == name}
        return same.pop() if len(same) == 1 else None


def make_devices(listing: Listing, values: Mapping[str, Measured], names: Names) -> tuple[Device, ...]:
    """By node, index, instance and holder. ``values``: by signal."""
    places = _places(listing, names)
    keys = {key for signal in values for key in listing.signals[signal].families}
    found = [_device(key, listing, values, names, places[key.gpu]) for key in keys]
    return tuple(sorted(found, key=_order))


def make_boards(
    listing: Listing, values: Mapping[str, Measured], energy: Measured | None, names: Names
) -> tuple[BoardReading, ...]:
    """``values``: by the field of a reading."""
    places = _places(listing, names)
    found = []
    for gpu in sorted({key.gpu for measured in (*values.values(), energy) if measured for key in measured.keys}):
        key, (node, index), unit = Key(gpu, "", "", ""), places[gpu], listing.units[gpu]
        told = {name: mine for name, mine in values.items() if key in mine.keys and unit not in mine.failed}
        is_counted = energy is not None and key in energy.keys and unit not in energy.failed
        millijoules = energy.get("increase", key) if energy and is_counted else None
        reading = BoardReading(
            node=node,
            index=index,
            uuid=_uuid(listing, gpu),
            repeated_on=max(1, *(len(listed.instances.get(gpu, set()) - {""}) for listed in listing.signals.values())),
            energy_joules=None if millijoules is None else millijoules / 1000,
            **{name: distribution(mine, key) for name, mine in told.items()},
        )
        found.append(reading)
    return tuple(sorted(found, key=lambda b: (b.node or "", -1 if b.index is None else b.index, b.uuid or "")))


def _device(
    key: Key, listing: Listing, values: Mapping[str, Measured], names: Names, place: tuple[str | None, int | None]
) -> Device:
    sightings = listing.devices[key]
    owner = names.owner(key.owner) if key.owner else None
    exporter = min((s.exporter_pod for s in sightings if s.exporter_pod), default=None)
    return Device(
        node=place[0],
        index=place[1],
        uuid=_uuid(listing, key.gpu),
        gi_id=int(key.gi) if key.gi else None,
        product=min((s.model for s in sightings if s.model), default=None),
        profile_label=key.profile or None,
        owner=owner,
        owner_source=min(s.owner_source for s in sightings) if owner else "none",
        owner_reason=None if owner else _reason(key.owner, exporter),
        exporter_pod=exporter,
        has_claim=any(s.has_claim for s in sightings),
        series=_series(key, listing, values),
    )


def _series(key: Key, listing: Listing, values: Mapping[str, Measured]) -> dict[str, Series]:
    unit, found = listing.units[key.gpu], {}
    for signal, measured in values.items():
        if key in measured.keys and (series := series_of(listing.signals[signal].families[key], measured, key, unit)):
            found[signal] = series
    return found


def _places(listing: Listing, names: Names) -> dict[str, tuple[str | None, int | None]]:
    """GPU → node and index."""
    sightings: dict[str, set[Sighting]] = {}
    for key, mine in listing.devices.items():
        sightings.setdefault(key.gpu, set()).update(mine)
    return {
        gpu: (names.node(mine), min((s.index for s in mine if s.index is not None), default=None))
        for gpu, mine in sightings.items()
    }


def _uuid(listing: Listing, gpu: str) -> str | None:
    return gpu if listing.units[gpu].by == "uuid" else None


def _reason(said: str, exporter: str | None) -> str:
    if said.startswith("uid:"):
        return "the series name a pod by its uid only, and kube-state-metrics does not know it"
    if said:
        name = naming.mark("pod", said.removeprefix("/"))
        return f"the series name pod {name} without a namespace"
    if exporter:
        return "the pod label is the exporter's own, and no other label names a holder"
    return "no label of the series names a pod"


def _order(device: Device) -> tuple[str, int, str, int, str, str]:
    index = -1 if device.index is None else device.index
    gi_id = -1 if device.gi_id is None else device.gi_id
    owner = str(device.owner or "")
    return device.node or "", index, device.uuid or "", gi_id, device.profile_label or "", owner
