"""Which node an exporter's series, or a file of nvidia-smi text, belongs to.

Names are tried as people and tools write them; where none fits, the only GPU node is meant, and where there are
several nobody is guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath

from migsaw.errors import InputError, Where
from migsaw.model.snapshot import Note
from migsaw.observe import naming
from migsaw.observe.dcgm import Hint
from migsaw.observe.exporter import Row
from migsaw.observe.nodes import NodeFacts
from migsaw.observe.pods import PodsSeen

_SUFFIXES = (
    ".lgi.txt",
    ".list.txt",
    ".lgip.txt",
    ".lgipp.txt",
    ".smi",
    ".csv",
    ".xml",
    ".txt",
    ".prom",
    ".metrics",
    ".yaml",
    ".yml",
    ".json",
)


class Hosts:
    """Names of nodes under which other tools know them. ``gpu_nodes``: those whose Node object shows GPUs."""

    def __init__(self, nodes: Mapping[str, NodeFacts], gpu_nodes: Iterable[str], pods: PodsSeen | None) -> None:
        self._nodes, self.gpu_nodes, self._pods = nodes, sorted(gpu_nodes), pods
        self._aliases: dict[str, set[str]] = {}
        for node in nodes.values():
            hostname = node.labels.get("kubernetes.io/hostname", node.name)
            for alias in (node.name, hostname, node.name.split(".")[0], *node.addresses):
                self._aliases.setdefault(alias.lower(), set()).add(node.name)

    def of_hint(self, hint: Hint) -> str | None:
        kind, name = hint
        if kind == "address":
            name = name.rpartition(":")[0] or name
            return self._alias(name) or (self._pods.node_of_address.get(name) if self._pods else None)
        if kind == "node":
            return self._alias(name)
        by_pod = self._pods.node_of.get(name) if self._pods else None
        return by_pod if kind == "pod" else self._alias(name) or by_pod

    def of_hints(self, hints: Sequence[Hint]) -> str | None:
        return next((node for hint in hints if (node := self.of_hint(hint))), None)

    def _alias(self, name: str) -> str | None:
        found = self._aliases.get(name.lower()) or self._aliases.get(name.lower().split(".")[0]) or set()
        return next(iter(found)) if len(found) == 1 else None


def place_rows(rows: Iterable[Row], hosts: Hosts, notes: list[Note]) -> dict[str, list[Row]]:
    """Node → its rows. A host that nothing knows becomes a node of its own, with a note."""
    by_host: dict[tuple[Hint, ...], list[Row]] = {}
    for row in rows:
        # series that name no host belong to the node that their file is called by
        hints = row.identity.hints or (("node", file_stem(row.file)),)
        by_host.setdefault(hints, []).append(row)
    placed: dict[str, list[Row]] = {}
    strange: dict[str, list[Row]] = {}
    for hints, mine in sorted(by_host.items()):
        node = hosts.of_hints(hints)
        target = placed if node else strange
        target.setdefault(node or shown_name(hints), []).extend(mine)
    unseen = [name for name in hosts.gpu_nodes if name not in placed]
    for name, mine in sorted(strange.items()):
        node = unseen[0] if len(strange) == 1 and len(hosts.gpu_nodes) == len(unseen) == 1 else name
        notes += _strange_notes(name, node, mine, bool(hosts.gpu_nodes))
        placed.setdefault(node, []).extend(mine)
    return placed


def shown_name(hints: tuple[Hint, ...]) -> str:
    """What to call a host that no node is known by."""
    named = [name for kind, name in hints if kind != "address"]
    return next(iter(named), hints[0][1])


def _strange_notes(name: str, node: str, rows: Sequence[Row], knows_nodes: bool) -> list[Note]:
    place = (rows[0].file, f"line {min(r.line for r in rows if r.file == rows[0].file)}")
    if node != name:
        message = f"no node is called {naming.node(name)}; taken for {naming.node(node)}, the only GPU node"
        return [Note("info", message, *place)]
    if knows_nodes:
        hint = "give --pods with the exporter's pods, so that its node can be found"
        return [Note("warning", f"no node is called {naming.node(name)}: shown as a node of its own; {hint}", *place)]
    return []


def file_stem(file: str) -> str:
    """``dir/gpu-1.example.org.lgi.txt`` → ``gpu-1.example.org``."""
    name = PurePath(file).name
    found = next((s for s in _SUFFIXES if name.endswith(s) and name != s), PurePath(name).suffix)
    return name.removesuffix(found) if found else name


def node_of_file(
    file: str, uuids: Iterable[str], hosts: Hosts, known: Iterable[str], node_of_uuid: Mapping[str, str]
) -> str:
    """The node of a file of nvidia-smi text: by its name, by a GPU UUID in it, or because there is only one.

    ``known``: all nodes with GPUs. Where no node is known at all, the file's name names one.
    Raises :class:`InputError` where it belongs to none.
    """
    nodes, name = sorted(known), PurePath(file).name
    by_name = [node for node in nodes if name == node or name.startswith(f"{node}.")]
    if by_name:
        return max(by_name, key=len)
    if alias := hosts.of_hint(("node", file_stem(file))):
        return alias
    by_uuid = {node_of_uuid[uuid] for uuid in uuids if uuid in node_of_uuid}
    if len(by_uuid) == 1:
        return by_uuid.pop()
    if len(by_uuid) > 1:
        raise InputError("GPUs of several nodes in one file", where=Where(file), hint="one file per node")
    if len(nodes) <= 1:
        return nodes[0] if nodes else file_stem(file)
    hint = "call it NODE.smi, NODE.csv or NODE.lgi.txt; nodes: " + ", ".join(nodes[:5])
    raise InputError("which node this is of cannot be told", where=Where(file), hint=hint)
