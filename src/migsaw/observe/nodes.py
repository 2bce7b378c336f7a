"""`kubectl get nodes`: what a Node object says of its GPUs, as facts; nothing is concluded here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from migsaw.model.snapshot import Note, Taint
from migsaw.observe import naming
from migsaw.observe.kube import KubeObject, gpu_amounts, mapping, read_objects, sequence, text, texts, value

POOL_LABELS = ("kubernetes.azure.com/agentpool", "agentpool")
SIZE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
# annotations that say who else cuts GPUs here
ANNOTATIONS = ("hami.io/node-nvidia-register", "hami.io/node-handshake", "run.ai/mig.config")


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """``capacity`` and ``allocatable`` hold GPU resources only. A label that is absent is absent, not empty."""

    name: str
    labels: Mapping[str, str]
    annotations: frozenset[str]  # which of ANNOTATIONS are there
    taints: tuple[Taint, ...]
    schedulable: bool
    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]
    addresses: frozenset[str]
    version: str | None
    file: str | None = None  # None: no Node object was given, only other tools showed this node
    where: str | None = None

    def label(self, *names: str) -> str | None:
        return next((self.labels[name] for name in names if self.labels.get(name)), None)

    def number(self, name: str) -> int | None:
        """A label that is a whole number, of such a size that it can count something."""
        shown = self.labels.get(name, "")
        return int(shown) if re.fullmatch(r"[0-9]{1,9}", shown) else None

    def note(self, severity: str, message: str) -> Note:
        text = f"node {naming.node(self.name)}: {message}"
        return Note(severity, text, self.file, None if self.where == "$" else self.where)  # type: ignore[arg-type]


def bare_node(name: str) -> NodeFacts:
    """A node of which no Node object was given."""
    return NodeFacts(name, {}, frozenset(), (), True, {}, {}, frozenset(), None)


def read_nodes(paths: Iterable[Path]) -> tuple[dict[str, NodeFacts], list[Note]]:
    """Every node by name. Raises :class:`migsaw.errors.InputError` for a file that holds none."""
    nodes: dict[str, NodeFacts] = {}
    notes: list[Note] = []
    for path in paths:
        odd: list[tuple[str, str]] = []
        before = len(nodes)
        for thing in read_objects(path, "Node", odd):
            facts = _facts(thing)
            nodes[facts.name] = _newer(facts, nodes[facts.name], notes) if facts.name in nodes else facts
        notes += [Note("warning", f"{what}: left out", str(path), place) for place, what in odd]
        if len(nodes) == before and not odd:
            notes.append(Note("warning", "no node in this file that others do not have", str(path)))
    return nodes, notes


def _facts(thing: KubeObject) -> NodeFacts:
    labels = texts(thing.data, "metadata", "labels")
    annotations = mapping(thing.data, "metadata", "annotations")
    return NodeFacts(
        name=thing.name,
        labels=labels,
        annotations=frozenset(key for key in ANNOTATIONS if key in annotations),
        taints=_taints(thing.data),
        schedulable=value(thing.data, "spec", "unschedulable") is not True and _is_ready(thing.data),
        capacity=gpu_amounts(thing.data, "status", "capacity"),
        allocatable=gpu_amounts(thing.data, "status", "allocatable"),
        addresses=_addresses(thing.data),
        version=text(thing.data, "metadata", "resourceVersion"),
        file=thing.file,
        where=thing.where,
    )


def _is_ready(data: Any) -> bool:
    """A node that says nothing of its readiness is taken as ready: it is told apart from one that says it is not."""
    said = [value(c, "status") for c in sequence(data, "status", "conditions") if value(c, "type") == "Ready"]
    return all(status == "True" for status in said)


def _taints(data: Any) -> tuple[Taint, ...]:
    rows = ((text(t, "key"), text(t, "value"), text(t, "effect")) for t in sequence(data, "spec", "taints"))
    found = {Taint(key, value or "", effect or "NoSchedule") for key, value, effect in rows if key}
    return tuple(sorted(found, key=lambda t: (t.key, t.value, t.effect)))


def _addresses(data: Any) -> frozenset[str]:
    shown = (text(address, "address") for address in sequence(data, "status", "addresses"))
    return frozenset(address for address in shown if address)


def _newer(one: NodeFacts, other: NodeFacts, notes: list[Note]) -> NodeFacts:
    """Of two objects of the same node: the later version, whatever the order of files."""
    first, second = sorted((one, other), key=_age)
    if first.version != second.version or first.capacity != second.capacity:
        versions = f"resourceVersion {first.version} and {second.version}"
        notes.append(second.note("warning", f"given twice, with {versions}; the later one is used"))
    return second


def _age(node: NodeFacts) -> tuple[int, str]:
    """Versions are opaque by contract and numbers in practice."""
    version = node.version or ""
    return int(version) if version.isdecimal() else -1, repr(node)
