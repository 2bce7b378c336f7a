"""Which series a server has in the window, without reading a sample: what measuring is planned from.

Of each label set only what tells devices apart is kept, once per device. Where a server does not list series, it is
asked to count them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from migsaw.model.telemetry import OwnerSource, Window
from migsaw.observe import promql
from migsaw.observe.dcgm import GI_LABELS, OWNER_LABELS, PROFILE_LABELS, UUID_LABELS, Hint, Subject
from migsaw.observe.joins import PLACE_LABELS, Key, Shape, Unit, place
from migsaw.observe.prometheus import Client, QueryError

_NOT_THERE = (400, 404, 405, 501)  # Mimir, Cortex and proxies may not offer these addresses
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

    devices: dict[Key, set[Sighting]] = field(default_factory=dict)
    units: dict[str, Unit] = field(default_factory=dict)  # by GPU
    shapes: dict[Unit, Shape] = field(default_factory=dict)
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
        if problem.status not in _NOT_THERE:
            raise
        counted = {"query": f"count by (__name__) ({_FAMILY}{match}}})", "time": f"{window.end:.3f}"}
        names = client.ask("query", counted, lambda row: str(row["metric"]["__name__"]), result="vector").rows
    return tuple(sorted({name for name in names if name.startswith(("DCGM_", "dcgm_"))}))


def list_signal(
    client: Client, listing: Listing, signal: str, names: Sequence[str], window: Window, matchers: Sequence[str]
) -> None:
    """Adds the series of one signal. Raises :class:`QueryError`."""
    selector = promql.selector(names, matchers)
    form = {"match[]": [selector], "start": f"{window.start:.3f}", "end": f"{window.end:.3f}"}
    try:
        answer = client.ask("series", form, lambda labels: (_shrink(labels), 1))
    except QueryError as problem:
        if problem.status not in _NOT_THERE:
            raise
        milliseconds = round((window.end - window.start) * 1000)
        count = f"count by ({', '.join(_TOLD_APART)}) (last_over_time({selector}[{milliseconds}ms]))"
        asked = {"query": count, "time": f"{window.end:.3f}"}
        answer = client.ask(
            "query", asked, lambda row: (_shrink(row["metric"]), int(float(row["value"][1]))), result="vector"
        )
    listing.warnings |= set(answer.warnings)
    listed = listing.signals.setdefault(signal, Listed())
    for small, number in answer.rows:
        if small is not None:
            _add(listing, listed, small, number)


@dataclass(frozen=True, slots=True)
class _Small:
    """What is kept of a label set until the answer is known to be whole."""

    name: str
    key: Key
    unit: Unit
    labels: frozenset[str]
    flags: frozenset[str]
    own_pods: frozenset[str]
    sighting: Sighting


def _shrink(labels: Mapping[str, Any]) -> _Small | None:
    found = place(labels)
    if found is None:
        return None
    key, unit, shape, subject = found
    key = Key(*map(sys.intern, key))
    own, flags = frozenset(shape.own_pods), frozenset(map(sys.intern, shape.flags))
    name = sys.intern(labels["__name__"])
    return _Small(name, key, unit, frozenset(shape.labels), flags, own, _sighting(subject))


def _sighting(subject: Subject) -> Sighting:
    hints = tuple((sys.intern(kind), sys.intern(name)) for kind, name in subject.identity.hints)
    model = sys.intern(subject.model) if subject.model else None
    exporter = sys.intern(subject.exporter_pod) if subject.exporter_pod else None
    return Sighting(hints, subject.identity.index, model, subject.owner_source, exporter, subject.has_claim)


def _add(listing: Listing, listed: Listed, small: _Small, number: int) -> None:
    listing.devices.setdefault(small.key, set()).add(small.sighting)
    listing.units.setdefault(small.key.gpu, small.unit)
    shape = Shape(set(small.labels), set(small.flags), set(small.own_pods))
    if small.unit in listing.shapes:
        listing.shapes[small.unit].add(shape)
    else:
        listing.shapes[small.unit] = shape
    listed.series[small.unit] = listed.series.get(small.unit, 0) + number
    listed.families[small.key] = min(small.name, listed.families.get(small.key, small.name))
    listed.instances.setdefault(small.key.gpu, set()).add(small.key.gi)
