"""`kubectl get pods`: which pods ask for GPUs, which hold them, which may use them without asking.

A list of 100,000 pods is read one by one; only pods that ask for a GPU resource are kept whole, of the others only
where they run. Which instance a pod holds is not concluded here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from migsaw.fit.estimate_classes import find_class
from migsaw.model.names import CLASS_KEY
from migsaw.model.refs import PodRef
from migsaw.model.snapshot import Note, Pod, Requirement, Toleration
from migsaw.observe import naming
from migsaw.observe.choices import class_hint
from migsaw.observe.controllers import daemon_set, top_controller
from migsaw.observe.kube import (
    KubeObject,
    gpu_amounts,
    mapping,
    read_objects,
    sequence,
    text,
    texts,
    unreadable_amounts,
    value,
)

FINISHED = ("Succeeded", "Failed")
# daemons that look at every GPU and compute on none
_DAEMONS = re.compile(
    r"nvidia-(device-plugin|driver|container-toolkit|dcgm|mig-manager|operator|mps|node-status|sandbox|vgpu|dra-driver)"
    r"|dcgm-exporter|gpu-feature-discovery|node-feature-discovery|gpu-health|hami-device-plugin|das-daemon"
)
# daemons that cut or hand out GPUs; the planner must know them
_SLICERS = {"dra": re.compile(r"dra-driver"), "hami": re.compile(r"hami"), "das": re.compile(r"^das-|instaslice")}
_NOTHING = ("", "none", "void")  # values of NVIDIA_VISIBLE_DEVICES that give no GPU


@dataclass(slots=True)
class PodsSeen:
    """What all pods files together say."""

    pods: dict[str, Pod] = field(default_factory=dict)  # ask for a GPU resource, not finished; by namespace/name
    versions: dict[str, str] = field(default_factory=dict)  # resourceVersion of these
    finished: set[str] = field(default_factory=set)  # namespace/name
    namespaces: set[str] = field(default_factory=set)  # of all pods, those without GPUs too
    node_of: dict[str, str | None] = field(default_factory=dict)  # pod name → node; None: same name on several nodes
    node_of_address: dict[str, str | None] = field(default_factory=dict)
    of_uid: dict[str, PodRef] = field(default_factory=dict)  # GPU pods
    # (namespace, ResourceClaim) → the pod that has it; None: several share it
    of_claim: dict[tuple[str, str], PodRef | None] = field(default_factory=dict)
    loose: dict[str, dict[PodRef, str]] = field(default_factory=dict)  # node → pods that may use any GPU of it, and why
    slicers: dict[str, set[str]] = field(default_factory=dict)  # node → keys of _SLICERS at work there
    on_node: dict[str, list[Pod]] = field(default_factory=dict)  # node → pods of ``pods`` that were placed there

    @property
    def is_whole_cluster(self) -> bool:
        """A list of one namespace, which `kubectl get pods` gives without ``-A``, cannot show who holds a GPU."""
        return len(self.namespaces) > 1 or "kube-system" in self.namespaces


def read_pods(paths: Iterable[Path]) -> tuple[PodsSeen, list[Note]]:
    seen = PodsSeen()
    notes: list[Note] = []
    for path in paths:
        odd: list[tuple[str, str]] = []
        for thing in read_objects(path, "Pod", odd):
            _add(seen, thing, notes)
        notes += [Note("warning", f"{what}: left out", str(path), place) for place, what in odd]
    for pod in seen.pods.values():
        if pod.node:
            seen.on_node.setdefault(pod.node, []).append(pod)
    if not seen.is_whole_cluster:
        held = "pods of one namespace only" if seen.namespaces else "no pods"
        hint = "whether an instance is idle cannot be told; use `kubectl get pods -A`"
        notes.append(Note("warning", f"{held} were given: {hint}"))
    return seen, notes


def _add(seen: PodsSeen, thing: KubeObject, notes: list[Note]) -> None:
    namespace = text(thing.data, "metadata", "namespace") or "default"
    node = text(thing.data, "spec", "nodeName")
    phase = text(thing.data, "status", "phase") or ("Unknown" if node else "Pending")
    ref, key = PodRef(namespace, thing.name), f"{namespace}/{thing.name}"
    seen.namespaces.add(namespace)
    if phase in FINISHED or (not node and text(thing.data, "metadata", "deletionTimestamp")):
        seen.finished.add(key)
        return
    if node:
        _place(seen.node_of, thing.name, node)
        if address := text(thing.data, "status", "podIP"):
            _place(seen.node_of_address, address, node)
        _note_slicer(seen, thing.data, node)
    for claim in _claims(thing.data):
        mine = (namespace, claim)
        seen.of_claim[mine] = ref if seen.of_claim.get(mine, ref) == ref else None
    asks = asked(mapping(thing.data, "spec"))
    if asks:
        _keep(seen, thing, _pod(thing, ref, node, phase, asks), notes)
        notes += [*_odd_asks(thing, ref, asks), *_odd_class(thing, ref)]
    unread = _unreadable(value(thing.data, "spec"))
    if why := unread or (_loose_use(thing.data, bool(asks)) if node else None):
        severity: Literal["warning", "info"] = "warning" if unread else "info"
        notes.append(Note(severity, f"pod {naming.pod(*_parts(ref))}: {why}", thing.file, thing.where))
        if node:
            seen.loose.setdefault(node, {})[ref] = why


def _parts(ref: PodRef) -> tuple[str, str]:
    return ref.namespace, ref.pod


def _place(table: dict[str, str | None], name: str, node: str) -> None:
    table[name] = node if table.get(name, node) == node else None


def _claims(data: Any) -> set[str]:
    """Names of ResourceClaims: written by hand in the spec, made from a template in the status."""
    rows = sequence(data, "spec", "resourceClaims") + sequence(data, "status", "resourceClaimStatuses")
    return {name for row in rows if (name := text(row, "resourceClaimName"))}


def _keep(seen: PodsSeen, thing: KubeObject, pod: Pod, notes: list[Note]) -> None:
    """Of two objects of the same pod: the later version, whatever the order of files."""
    version = text(thing.data, "metadata", "resourceVersion") or ""
    if pod.key in seen.pods:
        old = seen.versions.get(pod.key, "")
        if old != version:
            ref = naming.pod(pod.namespace, pod.name)
            notes.append(Note("warning", f"pod {ref}: given twice; the later version is used", thing.file, thing.where))
        if _age(old, seen.pods[pod.key]) >= _age(version, pod):
            return
    seen.pods[pod.key] = pod
    if version:
        seen.versions[pod.key] = version
    if uid := text(thing.data, "metadata", "uid"):
        seen.of_uid[uid] = PodRef(pod.namespace, pod.name)


def _age(version: str, pod: Pod) -> tuple[int, str]:
    return int(version) if version.isdecimal() else -1, repr(pod)


def _pod(thing: KubeObject, ref: PodRef, node: str | None, phase: str, asks: Mapping[str, int]) -> Pod:
    spec = mapping(thing.data, "spec")
    terms = sequence(
        spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"
    )
    return Pod(
        namespace=ref.namespace,
        name=ref.pod,
        node=node,
        phase=phase,
        asks=asks,
        workload=top_controller(thing.data, ref.namespace),
        labels=dict(sorted(texts(thing.data, "metadata", "labels").items())),
        node_selector=dict(sorted(texts(spec, "nodeSelector").items())),
        node_affinity=tuple(_requirements(term) for term in terms),
        tolerations=tuple(_toleration(t) for t in sequence(spec, "tolerations") if isinstance(t, dict)),
        workload_class=work.name if (work := find_class(_class_of(thing.data) or "")) else None,
    )


def _requirements(term: Any) -> tuple[Requirement, ...]:
    """Fields and labels alike: the only field a term can name is metadata.name."""
    rows = sequence(term, "matchExpressions") + sequence(term, "matchFields")
    return tuple(
        Requirement(key, text(row, "operator") or "In", tuple(str(v) for v in sequence(row, "values")))
        for row in rows
        if (key := text(row, "key"))
    )


def _toleration(row: Any) -> Toleration:
    return Toleration(text(row, "key"), text(row, "operator") or "Equal", text(row, "value") or "", text(row, "effect"))


def asked(spec: Mapping[str, Any]) -> dict[str, int]:
    """GPU resources that the scheduler sets aside for a pod.

    The larger of: all containers and sidecars at once; each init container with the sidecars started before it
    (Kubernetes: effective request of init containers; a sidecar is an init container with restartPolicy Always).
    """
    total: dict[str, int] = {}
    for container in sequence(spec, "containers"):
        _add_up(total, _container_asks(container))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in sequence(spec, "initContainers"):
        asks = _container_asks(container)
        if value(container, "restartPolicy") == "Always":
            _add_up(sidecars, asks)
            asks = {}
        for name in {*asks, *sidecars}:
            peak[name] = max(peak.get(name, 0), asks.get(name, 0) + sidecars.get(name, 0))
    _add_up(total, sidecars)
    both = {name: max(total.get(name, 0), peak.get(name, 0)) for name in sorted({*total, *peak})}
    return {name: number for name, number in both.items() if number}


def _container_asks(container: Any) -> dict[str, int]:
    """Requests of extended resources equal their limits; either may be left out."""
    limits, requests = (gpu_amounts(container, "resources", part) for part in ("limits", "requests"))
    return requests | limits


def _add_up(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, number in more.items():
        total[name] = total.get(name, 0) + number


def _odd_asks(thing: KubeObject, ref: PodRef, asks: Mapping[str, int]) -> list[Note]:
    """`nvidia.com/mig1g.10gb`: a name that no plugin advertises, one sign from one that does."""
    found = []
    for name in asks:
        if re.match(r"nvidia\.com/mig(?!-\d)", name):
            near = re.sub(r"nvidia\.com/mig-?", "nvidia.com/mig-", name)
            message = f"pod {naming.pod(*_parts(ref))} asks for {name}, which nothing advertises; did it mean {near}?"
            found.append(Note("warning", message, thing.file, thing.where))
    return found


def _class_of(data: Any) -> str | None:
    """The label, else the annotation: a label is shorter, but may be the selector of somebody's service."""
    return text(data, "metadata", "labels", CLASS_KEY) or text(data, "metadata", "annotations", CLASS_KEY)


def _odd_class(thing: KubeObject, ref: PodRef) -> list[Note]:
    shown = _class_of(thing.data)
    if shown is None or find_class(shown):
        return []
    said = f"pod {naming.pod(*_parts(ref))}: {CLASS_KEY} is {naming.mark('label', shown)}, which is no class"
    return [Note("error", f"{said}; {class_hint()}", thing.file, thing.where)]


def _unreadable(spec: Any) -> str | None:
    """What of its request cannot be read: such a pod may hold anything on its node."""
    for part in ("containers", "initContainers"):
        rows = value(spec, part)
        if rows is not None and not (isinstance(rows, list) and all(isinstance(row, dict) for row in rows)):
            return f"its {part} cannot be read: it may hold any GPU or slice of its node"
        for row in rows or ():
            for kind in ("limits", "requests"):
                if odd := unreadable_amounts(row, "resources", kind):
                    return f"asks for {odd[0]}, which is no whole number: it may hold any GPU or slice of its node"
    return None


def _loose_use(data: Any, asks: bool) -> str | None:
    """Why this pod may use GPUs that no request shows."""
    if sequence(data, "spec", "resourceClaims") and not asks:
        return (
            "asks through a resource claim (DRA), which does not say for what: it may hold any GPU or slice of its node"
        )
    if asks or _DAEMONS.search(daemon_set(data) or ""):
        return None
    for container in sequence(data, "spec", "initContainers") + sequence(data, "spec", "containers"):
        for variable in sequence(container, "env"):
            if value(variable, "name") != "NVIDIA_VISIBLE_DEVICES":
                continue
            if "valueFrom" in variable or str(value(variable, "value") or "") not in _NOTHING:
                return "asks for no GPU but sets NVIDIA_VISIBLE_DEVICES: it may use any GPU or slice of its node"
    if value(data, "spec", "runtimeClassName") == "nvidia":
        return "asks for no GPU but runs with the nvidia runtime class: it may use any GPU or slice of its node"
    return None


def _note_slicer(seen: PodsSeen, data: Any, node: str) -> None:
    name = daemon_set(data) or ""
    for key, pattern in _SLICERS.items():
        if pattern.search(name):
            seen.slicers.setdefault(node, set()).add(key)
