"""Which device a series of Prometheus is about, and how the server is told to join the series of one device.

Generations of labels, two scrape jobs and restarts of the exporter give one device several series. Only what a batch
really shows is joined: each `label_replace` costs the server a pass over the samples. What label means what stands in
:mod:`migsaw.observe.dcgm`; what is measured, nothing here knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from migsaw.observe.dcgm import (
    GI_LABELS,
    HOST_LABELS,
    NODE_LABELS,
    NULLS,
    OWNER_LABELS,
    PROFILE_LABELS,
    UUID_LABELS,
    Subject,
    subject_of,
)
from migsaw.observe.promql import Matcher, Replace, literal

PLACE_LABELS = (*HOST_LABELS, *NODE_LABELS, "instance")  # what tells GPUs without a UUID apart
_WHERE_LABELS = ("gpu", "device", *PLACE_LABELS)
_UID = "pod_uid"
_SOURCES = (*UUID_LABELS, *GI_LABELS, *PROFILE_LABELS, *(pod for _, pod in OWNER_LABELS))
_OWN = "the exporter's own pod"  # flag: Prometheus put the scrape target's pod into `pod`
_NULL = "null "
_OWN_NAME = "dcgm-exporter"  # in a pod's name: most exporters need not be named one by one


class Key(NamedTuple):
    """A device in the hands of one holder. Empty: not said. ``owner``: ``namespace/pod`` or ``uid:…``."""

    gpu: str
    gi: str
    profile: str
    owner: str


class Unit(NamedTuple):
    """What is never split between batches: a GPU, or where it has no UUID, all of its host."""

    by: str  # "uuid" | "place"
    name: str


@dataclass(frozen=True, slots=True)
class Shape:
    """What a series looks like: by which label its unit is named, which labels say something."""

    known_by: str
    flags: frozenset[str]
    own_pod: str | None = None  # an exporter that its name does not give away


@dataclass(frozen=True, slots=True)
class Join:
    """How one batch is joined. ``gpu`` … ``uid``: the labels of the answer that say it."""

    matchers: tuple[Matcher, ...]
    replaces: tuple[Replace, ...]
    gpu: tuple[str, ...]
    gi: str | None
    profile: str | None
    namespace: str | None
    pod: str | None
    uid: str | None

    def labels(self, whole_gpus: bool) -> list[str]:
        """What to aggregate by; ``whole_gpus``: values of the board, the same on each of its instances."""
        more = () if whole_gpus else (self.gi, self.profile, self.namespace, self.pod, self.uid)
        return [*self.gpu, *(label for label in more if label)]

    def replaces_for(self, whole_gpus: bool) -> tuple[Replace, ...]:
        return tuple(r for r in self.replaces if r.target in self.gpu) if whole_gpus else self.replaces

    def key(self, labels: Mapping[str, str]) -> Key:
        def said(label: str | None) -> str:
            value = str(labels.get(label, "")) if label else ""
            return "" if value in NULLS else value

        pod, uid = said(self.pod), said(self.uid)
        owner = f"{said(self.namespace)}/{pod}" if pod else f"uid:{uid}" if uid else ""
        gpu = said(self.gpu[0]) if len(self.gpu) == 1 else "|".join(labels.get(label, "") for label in self.gpu)
        return Key(gpu, said(self.gi), said(self.profile), owner)


def place(labels: Mapping[str, str]) -> tuple[Key, Unit, Shape, Subject] | None:
    """None where the series is about no GPU (a switch, a CPU)."""
    subject = subject_of(labels)
    identity = subject.identity
    if subject.is_other_device or (identity.index is None and identity.uuid is None):
        return None
    own = subject.exporter_pod
    flags = {label for label in _SOURCES if labels.get(label, "") not in NULLS}
    flags |= {_NULL + label for label in _SOURCES if label in labels and labels[label] in NULLS}
    if own:
        flags = (flags - {"pod"}) | {_OWN}
    if subject.owner is None and subject.owner_uid:
        flags.add(_UID)
    if identity.uuid:
        gpu, unit = identity.uuid, Unit("uuid", identity.uuid)
        known_by = next(label for label in UUID_LABELS if labels.get(label, "") not in NULLS)
    else:
        gpu = "|".join(labels.get(label, "") for label in _WHERE_LABELS)
        known_by = next((label for label in PLACE_LABELS if labels.get(label)), PLACE_LABELS[-1])
        unit = Unit("place", labels.get(known_by, ""))
    gi = "" if identity.gi_id is None else str(identity.gi_id)
    shape = Shape(known_by, frozenset(flags), own if own and _OWN_NAME not in own else None)
    return Key(gpu, gi, subject.profile or "", _owner(subject)), unit, shape, subject


def _owner(subject: Subject) -> str:
    if subject.owner:
        return f"{subject.owner[0] or ''}/{subject.owner[1]}"
    return f"uid:{subject.owner_uid}" if subject.owner_uid else ""


def join(units: Sequence[Unit], shapes: Iterable[Shape], *, is_everything: bool = False) -> Join:
    """One batch: units of one kind and all shapes of their series.

    ``is_everything``: there is no other batch, so the units need not be named.
    """
    seen = set(shapes)
    flags = {flag for shape in seen for flag in shape.flags}
    own_pods = sorted({shape.own_pod for shape in seen if shape.own_pod})
    by_uuid = units[0].by == "uuid"
    names = tuple(sorted(unit.name for unit in units))
    known_by = sorted({shape.known_by for shape in seen})
    matchers = () if is_everything else tuple(Matcher(label, names) for label in known_by)
    replaces: list[Replace] = []
    gpu = (_merge("gpu", UUID_LABELS, flags, replaces) or UUID_LABELS[0],) if by_uuid else _WHERE_LABELS
    gi = _merge("gi", GI_LABELS, flags, replaces)
    profile = _merge("profile", PROFILE_LABELS, flags, replaces)
    namespace, pod = _merge_owner(flags, own_pods, replaces)
    uid = _uid(flags, pod, replaces)
    return Join(matchers, tuple(replaces), gpu, gi, profile, namespace, pod, uid)


def _merge(name: str, sources: Sequence[str], flags: set[str], replaces: list[Replace]) -> str | None:
    """The label itself where only one generation is there, else a new one that all are copied to, the weakest first."""
    there = [label for label in reversed(sources) if label in flags or _NULL + label in flags]
    has_nulls = any(_NULL + label in flags for label in there)
    if len(there) <= 1 and not has_nulls:
        return there[0] if there else None
    target = f"migsaw_{name}"
    replaces += [Replace(target, "$1", label, "(.+)") for label in there]
    if has_nulls:
        nulls = "|".join(literal(null) for null in NULLS if null)
        replaces.append(Replace(target, "", target, nulls))
    return target


def _merge_owner(flags: set[str], own_pods: Sequence[str], replaces: list[Replace]) -> tuple[str | None, str | None]:
    """Namespace and pod go together. The scrape target's own pod is no holder, and another one after a restart."""
    there = [(space, pod) for space, pod in reversed(OWNER_LABELS) if pod in flags]
    if len(there) <= 1 and not (_OWN in flags and there == [OWNER_LABELS[-1]]):
        return there[0] if there else (None, None)
    targets = ("migsaw_namespace", "migsaw_pod")
    for pair in there:
        replaces += [Replace(target, "$1", label, "(.+)") for target, label in zip(targets, pair, strict=True)]
        if pair == OWNER_LABELS[-1] and _OWN in flags:
            own = "|".join([f".*{_OWN_NAME}.*", *map(literal, own_pods)])
            replaces += [Replace(target, "", pair[1], own) for target in targets]
    return targets


def _uid(flags: set[str], pod: str | None, replaces: list[Replace]) -> str | None:
    """A pod's uid counts only where nobody says its name: the name stays when the pod is made again."""
    if _UID not in flags:
        return None
    if pod is None:
        return _UID
    target = "migsaw_uid"
    replaces += [Replace(target, "$1", _UID, "(.+)"), Replace(target, "", pod, ".+")]
    return target
