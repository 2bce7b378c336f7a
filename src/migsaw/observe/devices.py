"""Listed series and their statistics → devices and boards, named as well as labels and kube-state-metrics can tell.

Board keys and catalogue names of profiles are added where a snapshot is at hand; nothing is asked here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

from migsaw.model.refs import PodRef
from migsaw.model.telemetry import BoardReading, Device
from migsaw.observe import naming
from migsaw.observe.dcgm import Subject
from migsaw.observe.hosts import Hosts, shown_name
from migsaw.observe.joins import Key
from migsaw.observe.measure import distribution, series_of
from migsaw.observe.pods import PodsSeen
from migsaw.observe.shelf import Measured, Shelf


@dataclass(frozen=True)  # without slots: what is found once is kept
class Names:
    """What names mean: hosts → nodes, uids and names without a namespace → pods."""

    hosts: Hosts
    pods: PodsSeen | None = None

    def node(self, subjects: Iterable[Subject]) -> str | None:
        """By whichever labels a node is known for: the exporter's pod and address change when it restarts."""
        hints = sorted({subject.identity.hints for subject in subjects if subject.identity.hints})
        known = (node for mine in hints if (node := self.hosts.of_hints(mine)))
        return next(known, None) or next((shown_name(mine) for mine in hints), None)

    def owner(self, said: str) -> PodRef | None:
        """``namespace/pod``, ``/pod`` or ``uid:…`` → the pod."""
        if said.startswith("uid:"):
            return self.pods.of_uid.get(said.removeprefix("uid:")) if self.pods else None
        namespace, _, name = said.partition("/")
        if namespace:
            return PodRef(namespace, name)
        same = self._of_name.get(name, ())
        return same[0] if len(same) == 1 else None

    @cached_property
    def _of_name(self) -> dict[str, list[PodRef]]:
        found: dict[str, list[PodRef]] = {}
        for pod in self.pods.pods.values() if self.pods else ():
            found.setdefault(pod.name, []).append(PodRef(pod.namespace, pod.name))
        return found


@dataclass(frozen=True, order=True, slots=True)
class Place:
    """Of a GPU, in the order in which GPUs are shown. ``uuid``: empty where it has none."""

    node: str
    index: int  # -1: not known
    uuid: str
    gpu: str  # its name on the shelf


def places(shelf: Shelf, names: Names) -> list[Place]:
    """Of every GPU, sorted."""
    found = []
    for gpu, unit in shelf.gpus():
        subjects = [subject for _, subject in shelf.subjects(gpu)]
        index = min((s.identity.index for s in subjects if s.identity.index is not None), default=-1)
        found.append(Place(names.node(subjects) or "", index, gpu if unit.by == "uuid" else "", gpu))
    return sorted(found)


def make_devices(shelf: Shelf, signals: Sequence[str], names: Names) -> Iterator[Device]:
    """By node, index, instance and holder. Only the devices of one GPU are held at a time."""
    for _, same in groupby(places(shelf, names), lambda p: (p.node, p.index, p.uuid)):
        yield from sorted((d for place in same for d in _devices(shelf, signals, names, place)), key=_order)


def make_boards(shelf: Shelf, signals: Sequence[str], energy: str, names: Names) -> Iterator[BoardReading]:
    """``signals``: the fields of a reading; ``energy``: the counter beside them."""
    for place in places(shelf, names):
        told = {mine.signal: mine for _, _, mine in shelf.measured(place.gpu, (*signals, energy))}
        if not told:
            continue
        values = told[energy].values if energy in told else None
        millijoules = values["increase"] if values else None
        yield BoardReading(
            node=place.node or None,
            index=place.index if place.index >= 0 else None,
            uuid=place.uuid or None,
            repeated_on=max(1, shelf.repeats(place.gpu)),
            energy_joules=None if millijoules is None else millijoules / 1000,
            **{signal: distribution(mine) for signal, mine in told.items() if signal != energy},
        )


def _devices(shelf: Shelf, signals: Sequence[str], names: Names, place: Place) -> Iterator[Device]:
    found: dict[tuple[Key, int], dict[str, Measured]] = {}
    for key, number, measured in shelf.measured(place.gpu, signals):
        found.setdefault((key, number), {})[measured.signal] = measured
    if not found:
        return
    subjects: dict[int, list[Subject]] = {}
    for number, subject in shelf.subjects(place.gpu):
        subjects.setdefault(number, []).append(subject)
    exporters = _exporters(shelf, place.gpu)
    for (key, number), mine in found.items():
        series = {signal: series for signal in signals if signal in mine and (series := series_of(mine[signal]))}
        device = _device(key, place, names, subjects[number])
        yield replace(device, series=series, exporters=exporters.get(device.gi_id, 1))


def _exporters(shelf: Shelf, gpu: str) -> dict[int | None, int]:
    """GI id → how many exporters show one signal of it at the end of the window: before, one may follow another.

    As many as hosts, pods or addresses are named: of two scrape jobs one may say more of the same exporter.
    """
    named: dict[tuple[int | None, str, str], set[str]] = {}
    for subject, signal, _ in shelf.newest(gpu):
        for kind, name in dict(reversed(subject.identity.hints)).items():  # of one kind the most certain
            named.setdefault((subject.identity.gi_id, signal, kind), set()).add(name)
    found: dict[int | None, int] = {}
    for (gi_id, _, _), names in named.items():
        found[gi_id] = max(len(names), found.get(gi_id, 1))
    return found


def _device(key: Key, place: Place, names: Names, subjects: Sequence[Subject]) -> Device:
    owner = names.owner(key.owner) if key.owner else None
    exporter = min((s.exporter_pod for s in subjects if s.exporter_pod), default=None)
    return Device(
        node=place.node or None,
        index=place.index if place.index >= 0 else None,
        uuid=place.uuid or None,
        gi_id=int(key.gi) if key.gi else None,
        product=min((s.model for s in subjects if s.model), default=None),
        profile_label=key.profile or None,
        owner=owner,
        owner_source=min(s.owner_source for s in subjects) if owner else "none",
        owner_reason=None if owner else _reason(key.owner, exporter),
        exporter_pod=exporter,
        has_claim=any(s.has_claim for s in subjects),
    )


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
