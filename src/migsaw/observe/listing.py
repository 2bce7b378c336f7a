"""Which series a server has in the window, without reading a sample: what measuring is planned from.

Of each label set only what tells devices apart is kept, once per device. Where a server does not list series, it is
asked to count them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from migsaw.model.telemetry import OwnerSource, Window
from migsaw.observe import promql
from migsaw.observe.dcgm import GI_LABELS, OWNER_LABELS, PROFILE_LABELS, UUID_LABELS, Hint, Subject
from migsaw.observe.joins import PLACE_LABELS, Key, Shape, Unit, place
from migsaw.observe.prometheus import Client, QueryError

T = TypeVar("T")
NOT_THERE = (400, 404, 405, 501)  # Mimir, Cortex and proxies may not offer these addresses
_FAMILY = '{__name__=~"DCGM_.*|dcgm_.*"'
# what a count is grouped by where series are not listed
_TOLD_APART = (
    "__name__",
    "gpu",
    "device",
    *UUID_LABELS,
    *GI_LABELS,
    *PROFILE_LABELS,
    *(label for pair in OWNER_LABELS for label in pair),
    *PLACE_LABELS,
    "container",
    "pod_uid",
    "modelName",
    "modelname",
    "dra_claim_name",
    "dra_device_name",
    "dra_pool_name",
)


@dataclass(frozen=True, slots=True)
class Sighting:
    """What the labels of one device said at one time."""

    hints: tuple[Hint, ...]
    index: int | None
    model: str | None
    owner_source: OwnerSource
    exporter_pod: str | None
    has_claim: bool


@dataclass(slots=True)
class Listed:
    """The series of one signal."""

    series: dict[Unit, int] = field(default_factory=dict)
    families: dict[Key, str] = field(default_factory=dict)  # under which name it was exported
    instances: dict[str, set[str]] = field(default_factory=dict)  # GPU → its GI ids


@dataclass(slots=True)
class Listing:
    """All signals. ``devices``: in the hands of whom, and what was seen of it, in order of discovery."""

    devices: dict[Key, tuple[Sighting, ...]] = field(default_factory=dict)
    units: dict[str, Unit] = field(default_factory=dict)  # by GPU
    shapes: dict[Unit, tuple[Shape, ...]] = field(default_factory=dict)
    signals: dict[str, Listed] = field(default_factory=dict)
    warnings: set[str] = field(default_factory=set)


def families(client: Client, window: Window, matchers: Sequence[str]) -> tuple[str, ...]:
    """Every DCGM family of the window, sorted."""
    match = "".join(f", {m}" for m in matchers)
    form = {"match[]": [f"{_FAMILY}{match}}}"], "start": f"{window.start:.3f}", "end": f"{window.end:.3f}"}
    try:
        # GET: `label/…/values` takes no POST
        names = client.ask("label/__name__/values", form, str, get=True).rows
    except QueryError as problem:
        if problem.status not in NOT_THERE:
            raise
        counted = {"query": f"count by (__name__) ({_FAMILY}{match}}})", "time": f"{window.end:.3f}"}
        names = client.ask("query", counted, lambda row: str(row["metric"]["__name__"]), result="vector").rows
    return tuple(sorted({name for name in names if name.startswith(("DCGM_", "dcgm_"))}))


def list_signal(
    client: Client, listing: Listing, signal: str, names: Sequence[str], window: Window, matchers: Sequence[str]
) -> None:
    """Adds the series of one signal. Raises :class:`QueryError`."""
    selector, shrink = promql.selector(names, matchers), _Shrink()
    form = {"match[]": [selector], "start": f"{window.start:.3f}", "end": f"{window.end:.3f}"}
    try:
        answer = client.ask("series", form, lambda labels: (shrink(labels), 1))
    except QueryError as problem:
        if problem.status not in NOT_THERE:
            raise
        milliseconds = round((window.end - window.start) * 1000)
        count = f"count by ({', '.join(_TOLD_APART)}) (last_over_time({selector}[{milliseconds}ms]))"
        asked = {"query": count, "time": f"{window.end:.3f}"}
        answer = client.ask(
            "query", asked, lambda row: (shrink(row["metric"]), int(float(row["value"][1]))), result="vector"
        )
    listing.warnings |= set(answer.warnings)
    listed = listing.signals.setdefault(signal, Listed())
    for small, number in answer.rows:
        if small is not None:
            _add(listing, listed, small, number)


class _Small(NamedTuple):
    """What is kept of a label set until the answer is known to be whole. All but the key repeats from row to row."""

    name: str
    key: Key
    unit: Unit
    shape: Shape
    sighting: Sighting


class _Shrink:
    """One object for what is equal: a server of 35,000 series has few shapes and a node's devices one exporter."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def __call__(self, labels: Mapping[str, Any]) -> _Small | None:
        found = place({sys.intern(name): sys.intern(value) for name, value in labels.items()})
        if found is None:
            return None
        key, unit, shape, subject = found
        return _Small(
            labels["__name__"],
            Key(*map(sys.intern, key)),
            self._one(unit),
            self._one(shape),
            self._one(_sighting(subject)),
        )

    def _one(self, value: T) -> T:
        known: T = self._known.setdefault(value, value)
        return known


def _sighting(subject: Subject) -> Sighting:
    identity = subject.identity
    return Sighting(
        identity.hints, identity.index, subject.model, subject.owner_source, subject.exporter_pod, subject.has_claim
    )


def _add(listing: Listing, listed: Listed, small: _Small, number: int) -> None:
    seen = listing.devices.get(small.key, ())
    if small.sighting not in seen:
        listing.devices[small.key] = (*seen, small.sighting)
    listing.units.setdefault(small.key.gpu, small.unit)
    shapes = listing.shapes.get(small.unit, ())
    if small.shape not in shapes:
        listing.shapes[small.unit] = (*shapes, small.shape)
    listed.series[small.unit] = listed.series.get(small.unit, 0) + number
    listed.families[small.key] = min(sys.intern(small.name), listed.families.get(small.key, small.name))
    listed.instances.setdefault(small.key.gpu, set()).add(small.key.gi)
