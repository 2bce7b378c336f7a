"""``--redact``: names of nodes, namespaces, pods, pools, workloads and files become hashes; every join is kept.

A name is hashed with its kind, so a pod and a namespace of one name cannot be told to be the same. What every cluster
of the world has in common (product names, VM sizes, profile names, resource names) stays, and so do GPU UUIDs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import PurePath

from migsaw.model.refs import PodRef
from migsaw.model.snapshot import Gpu, Instance, Node, Pod, Requirement, Snapshot, Taint, Toleration, Workload
from migsaw.model.telemetry import Device, Telemetry
from migsaw.observe import naming
from migsaw.observe.nodes import POOL_LABELS
from migsaw.observe.partitioner import MIG_CONFIG
from migsaw.observe.telemetry import in_order

Hide = Callable[[str, str], str]  # (kind, name) → what is shown

_NODE_KEYS = ("kubernetes.io/hostname", "metadata.name")
_PUBLIC_KEYS = (
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "kubernetes.io/arch",
    "kubernetes.io/os",
)
_PUBLIC_PREFIXES = ("nvidia.com/", "feature.node.kubernetes.io/")
_PUBLIC_VALUES = ("", "true", "false", "enabled", "disabled", "nvidia")
_PUBLIC_CONFIGS = ("all-", "current")  # names that mig-parted itself gives
_QUOTED = re.compile(r"""\w+://[^\s"]+|\b[\w.-]+:\d{2,5}\b|"(?:\\.|[^"\\])*"|`[^`]*`""")
_PUBLIC_DOMAINS = ("kubernetes.io/", "k8s.io/", "azure.com/", "nvidia.com/")


def show_names(snapshot: Snapshot, *, redact: bool) -> Snapshot:
    """The snapshot with its names as they are, or with all of them hidden."""
    if not redact:
        return _texts(snapshot, naming.plain, lambda file: file)
    shown = _texts(snapshot, lambda text: naming.hidden(text, _hide), _file)
    versions = {_version_key(key): version for key, version in shown.resource_versions.items()}
    return replace(
        shown,
        nodes=tuple(sorted(map(_node, shown.nodes), key=lambda n: n.name)),
        pods=tuple(sorted(map(_pod, shown.pods), key=lambda p: (p.namespace, p.name))),
        resource_versions=dict(sorted(versions.items())),
        telemetry=_telemetry(shown.telemetry) if shown.telemetry else None,
    )


def _hide(kind: str, name: str) -> str:
    if kind == "config" and name.startswith(_PUBLIC_CONFIGS):
        return name
    return naming.short_hash(kind, name)


def _texts(snapshot: Snapshot, write: Callable[[str], str], file: Callable[[str], str]) -> Snapshot:
    nodes = tuple(replace(n, gpus=tuple(_gpu_texts(g, write) for g in n.gpus)) for n in snapshot.nodes)
    notes = (replace(n, text=write(n.text), file=file(n.file) if n.file else None) for n in snapshot.notes)
    telemetry = snapshot.telemetry and _telemetry_texts(snapshot.telemetry, write, file)
    return replace(snapshot, nodes=nodes, notes=tuple(notes), telemetry=telemetry)


def _telemetry_texts(telemetry: Telemetry, write: Callable[[str], str], file: Callable[[str], str]) -> Telemetry:
    devices = (
        replace(device, owner_reason=write(device.owner_reason)) if device.owner_reason else device
        for device in telemetry.devices
    )
    partial = tuple(map(write, telemetry.partial))
    return replace(telemetry, devices=tuple(devices), partial=partial, read_from=tuple(map(file, telemetry.read_from)))


def _gpu_texts(gpu: Gpu, write: Callable[[str], str]) -> Gpu:
    def said(reason: str | None) -> str | None:
        return None if reason is None else write(reason)

    instances = tuple(replace(i, owner_reason=said(i.owner_reason)) for i in gpu.instances)
    return replace(gpu, owner_reason=said(gpu.owner_reason), instances=instances)


def _file(file: str) -> str:
    """A file, or the address of a server: of these not even the end is shown."""
    if "://" in file:
        return naming.short_hash("server", file)
    path = PurePath(file)
    return naming.short_hash("file", path.name) + path.suffix


def _node(node: Node) -> Node:
    return replace(
        node,
        name=_hide("node", node.name),
        pool=_hide("pool", node.pool) if node.pool else None,
        mig_config=_hide("config", node.mig_config) if node.mig_config else None,
        labels=_labels(node.labels),
        taints=tuple(Taint(_key(t.key), _label(t.key, t.value), t.effect) for t in node.taints),
        gpus=tuple(_gpu(gpu) for gpu in node.gpus),
    )


def _gpu(gpu: Gpu) -> Gpu:
    return replace(gpu, owner=_ref(gpu.owner), instances=tuple(map(_instance, gpu.instances)))


def _instance(instance: Instance) -> Instance:
    return replace(instance, owner=_ref(instance.owner))


def _ref(owner: PodRef | None) -> PodRef | None:
    return _hidden_pod(owner) if owner else None


def _hidden_pod(ref: PodRef) -> PodRef:
    return PodRef(_hide("namespace", ref.namespace), _hide("pod", ref.pod))


def _telemetry(telemetry: Telemetry) -> Telemetry:
    """Names of hosts that no Node object is known by are hidden as nodes are: the snapshot shows them as such."""
    shown: Telemetry = replace(
        telemetry,
        devices=tuple(map(_device, telemetry.devices)),
        boards=tuple(replace(b, node=_node_name(b.node)) for b in telemetry.boards),
        pods=tuple(replace(use, pod=_hidden_pod(use.pod)) for use in telemetry.pods),
        nodes=tuple(replace(use, node=_hide("node", use.node)) for use in telemetry.nodes),
        server=_foreign(telemetry.server) if telemetry.server else None,
        partial=tuple(map(_foreign, telemetry.partial)),
    )
    return in_order(shown)


def _device(device: Device) -> Device:
    return replace(
        device,
        node=_node_name(device.node),
        owner=_ref(device.owner),
        exporter_pod=_hide("pod", device.exporter_pod) if device.exporter_pod else None,
    )


def _node_name(name: str | None) -> str | None:
    return None if name is None else _hide("node", name)


def _foreign(text: str) -> str:
    """A sentence that may quote a server: addresses and whatever stands in quotation marks may hold names."""
    return _QUOTED.sub(lambda found: naming.short_hash("quoted", found[0]), text)


def _pod(pod: Pod) -> Pod:
    return replace(
        pod,
        namespace=_hide("namespace", pod.namespace),
        name=_hide("pod", pod.name),
        node=_hide("node", pod.node) if pod.node else None,
        workload=_workload(pod.workload),
        labels=_labels(pod.labels),
        node_selector=_labels(pod.node_selector),
        node_affinity=tuple(tuple(map(_requirement, term)) for term in pod.node_affinity),
        tolerations=tuple(map(_toleration, pod.tolerations)),
    )


def _workload(workload: Workload | None) -> Workload | None:
    if workload is None:
        return None
    name = _hide("workload", workload.name)
    return Workload(_hide("namespace", workload.namespace), workload.kind, name)


def _requirement(row: Requirement) -> Requirement:
    return Requirement(_key(row.key), row.operator, tuple(_label(row.key, value) for value in row.values))


def _toleration(row: Toleration) -> Toleration:
    key = None if row.key is None else _key(row.key)
    return Toleration(key, row.operator, _label(row.key or "", row.value), row.effect)


def _labels(labels: Mapping[str, str]) -> dict[str, str]:
    return dict(sorted((_key(key), _label(key, value)) for key, value in labels.items()))


def _key(key: str) -> str:
    """Keys of public domains, and plain words such as ``app``, are no names; a domain of one's own is."""
    domain, slash, _ = key.partition("/")
    if not slash or f"{domain}/".endswith(_PUBLIC_DOMAINS):
        return key
    return naming.short_hash("key", key)


def _label(key: str, value: str) -> str:
    """The same value under the same kind of key has the same hash, so selectors still meet their nodes."""
    if key == MIG_CONFIG:
        return _hide("config", value)
    if key in _PUBLIC_KEYS or key.startswith(_PUBLIC_PREFIXES) or value in _PUBLIC_VALUES:
        return value
    kind = "pool" if key in POOL_LABELS else "node" if key in _NODE_KEYS else "label"
    return naming.short_hash(kind, value)


def _version_key(key: str) -> str:
    kind, _, name = key.partition("/")
    namespace, _, pod = name.partition("/")
    return (
        f"Node/{_hide('node', name)}" if kind == "Node" else f"Pod/{_hide('namespace', namespace)}/{_hide('pod', pod)}"
    )
