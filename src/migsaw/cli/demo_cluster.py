"""A small made-up AKS cluster as its engineer's tools would print it: kubectl JSON, dcgm-exporter and nvidia-smi text.

Four GPU nodes under the GPU Operator with the mixed strategy, and a waste that is met every day: services that need a
few GiB hold halves of GPUs and a whole H100, a notebook holds a whole A100, the slices that are free are of sizes that
nobody asks for, and pods wait for a size that nobody has. The files are all that ``demo`` gives to the other verbs;
nothing here knows what they will make of them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from migsaw.model.boards import Board, Catalogue
from migsaw.model.names import WHOLE_GPU_RESOURCE, resource_name

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Slice:
    """A GPU instance, or with the profile ``off`` a GPU without MIG. ``pod`` is its holder; ``active`` is 0..1."""

    profile: str
    gi_id: int = 0
    start: int = 0
    pod: str | None = None
    used_mib: int = 0
    active: float = 0.0


@dataclass(frozen=True, slots=True)
class Machine:
    name: str
    pool: str
    azure_size: str
    mig_config: str
    gpus: tuple[tuple[Slice, ...], ...]


@dataclass(frozen=True, slots=True)
class Work:
    """Pods of one workload. ``owner`` is the controller that made them: a ReplicaSet is a Deployment's."""

    namespace: str
    owner: str
    name: str
    replicas: tuple[str, ...]
    asks: str
    count: int = 1
    phase: str = "Running"

    @property
    def pods(self) -> tuple[str, ...]:
        return tuple(f"{self.name}-{replica}" for replica in self.replicas)


def _whole(pod: str, used_mib: int, active: float) -> tuple[Slice, ...]:
    return (Slice("off", pod=pod, used_mib=used_mib, active=active),)


MACHINES = (
    Machine(
        "aks-a100x4-30274113-vmss000000",
        "a100x4",
        "Standard_NC96ads_A100_v4",
        "halves-and-whole",
        (
            (
                Slice("3g.40gb", 2, 0, "serving/bert-7d9c5b8f6b-x2x9k", 4310, 0.061),
                Slice("3g.40gb", 1, 4, "serving/reranker-66f4c9d7d-8m4zq", 6120, 0.094),
            ),
            (Slice("4g.40gb", 1, 0), Slice("3g.40gb", 2, 4)),
            _whole("training/llama-ddp-0", 71204, 0.962),
            _whole("training/llama-ddp-0", 71388, 0.957),
        ),
    ),
    Machine(
        "aks-a100-14820555-vmss000000",
        "a100",
        "Standard_NC24ads_A100_v4",
        "all-disabled",
        (_whole("research/notebook-alice-0", 3276, 0.017),),
    ),
    Machine(
        "aks-a100-14820555-vmss000001",
        "a100",
        "Standard_NC24ads_A100_v4",
        "all-1g.10gb",
        (
            (
                Slice("1g.10gb", 7, 0, "research/notebook-bob-0", 2048, 0.008),
                Slice("1g.10gb", 8, 1, "research/notebook-carol-0", 5630, 0.471),
                *(Slice("1g.10gb", 7 + start, start) for start in range(2, 7)),
            ),
        ),
    ),
    Machine(
        "aks-h100-27719034-vmss000000",
        "h100",
        "Standard_NC40ads_H100_v5",
        "all-7g.94gb",
        ((Slice("7g.94gb", 0, 0, "serving/whisper-5b8d7f9c4c-kq7tn", 9412, 0.138),),),
    ),
)

WORK = (
    Work("serving", "ReplicaSet", "bert-7d9c5b8f6b", ("x2x9k",), "3g.40gb"),
    Work("serving", "ReplicaSet", "reranker-66f4c9d7d", ("8m4zq",), "3g.40gb"),
    Work("serving", "ReplicaSet", "whisper-5b8d7f9c4c", ("kq7tn",), "7g.94gb"),
    Work("training", "Job", "llama-ddp", ("0",), "off", count=2),
    Work("research", "StatefulSet", "notebook-alice", ("0",), "off"),
    Work("research", "StatefulSet", "notebook-bob", ("0",), "1g.10gb"),
    Work("research", "StatefulSet", "notebook-carol", ("0",), "1g.10gb"),
    Work("research", "Job", "embed-nightly", ("t9wfd",), "1g.10gb", phase="Succeeded"),
    Work("serving", "ReplicaSet", "embedder-78b6f4d5c8", ("4kx2p", "j7c9m", "zr5wd"), "2g.20gb", phase="Pending"),
    Work("research", "Job", "lora-mistral", ("6hdvb",), "1g.20gb", phase="Pending"),
    Work("training", "Job", "llama-70b", ("0",), "off", count=4, phase="Pending"),
)


def files(catalogue: Catalogue) -> dict[str, str]:
    """File name → text: nodes.json, pods.json, metrics.prom, and per node with MIG an NODE.lgi.txt."""
    boards = {m.name: catalogue.board(m.azure_size) for m in MACHINES}
    samples = [row for machine in MACHINES for row in _samples(machine, boards[machine.name])]
    found = {
        "nodes.json": _listing(_node(machine, boards[machine.name]) for machine in MACHINES),
        "pods.json": _listing(_pod(work, pod) for work in WORK for pod in work.pods),
        "metrics.prom": _exposition(samples),
    }
    for machine in MACHINES:
        if instances := _instance_table(machine, boards[machine.name]):
            found[f"{machine.name}.lgi.txt"] = instances
    return found


def _listing(items: Iterable[Any]) -> str:
    document = {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": list(items)}
    return json.dumps(document, indent=2) + "\n"


# ---- kubectl get nodes ---------------------------------------------------------------------------------------------


def _node(machine: Machine, board: Board) -> dict[str, Any]:
    counts = Counter(item.profile for gpu in machine.gpus for item in gpu)
    amounts = {WHOLE_GPU_RESOURCE: counts.pop("off", 0)} | {resource_name(name): n for name, n in counts.items()}
    labels = _machine_labels(machine, board) | _profile_labels(counts, board)
    metadata = {"name": machine.name, "resourceVersion": str(880_001 + MACHINES.index(machine)), "labels": labels}
    shown = {resource: str(number) for resource, number in amounts.items()}
    status = {"capacity": shown, "allocatable": shown, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": status}


def _machine_labels(machine: Machine, board: Board) -> dict[str, str]:
    parts = ("dcgm-exporter", "device-plugin", "driver", "gpu-feature-discovery", "mig-manager")
    return {
        "agentpool": machine.pool,
        "kubernetes.azure.com/agentpool": machine.pool,
        "kubernetes.io/hostname": machine.name,
        "node.kubernetes.io/instance-type": machine.azure_size,
        "nvidia.com/gpu.count": str(len(machine.gpus)),
        "nvidia.com/gpu.family": board.architecture.lower(),
        "nvidia.com/gpu.memory": str(board.memory_mib),
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": _product(board),
        "nvidia.com/mig.capable": "true",
        "nvidia.com/mig.config": machine.mig_config,
        "nvidia.com/mig.config.state": "success",
        "nvidia.com/mig.strategy": "mixed",
    } | {f"nvidia.com/gpu.deploy.{part}": "true" for part in parts}


def _profile_labels(counts: Mapping[str, int], board: Board) -> dict[str, str]:
    """What GPU feature discovery adds per profile under the mixed strategy."""
    labels: dict[str, str] = {}
    for name, count in counts.items():
        profile, resource = board.profile(name), resource_name(name)
        facts = {
            "count": count,
            "memory": profile.memory_mib,
            "multiprocessors": profile.sm_count,
            "product": f"{_product(board)}-MIG-{name}",
            "slices.gi": profile.compute_slices,
        }
        labels |= {f"{resource}.{fact}": str(value) for fact, value in facts.items()}
    return labels


def _product(board: Board) -> str:
    return board.product_names[0].replace(" ", "-")


# ---- kubectl get pods ----------------------------------------------------------------------------------------------


def _pod(work: Work, name: str) -> dict[str, Any]:
    resource = WHOLE_GPU_RESOURCE if work.asks == "off" else resource_name(work.asks)
    resources = {"limits": {resource: str(work.count)}, "requests": {resource: str(work.count)}}
    owner = {"apiVersion": "apps/v1", "kind": work.owner, "name": work.name, "controller": True}
    app, _, pod_template_hash = work.name.rpartition("-") if work.owner == "ReplicaSet" else (work.name, "", "")
    labels = {"app": app} | ({"pod-template-hash": pod_template_hash} if pod_template_hash else {})
    node = {} if work.phase == "Pending" else {"nodeName": _node_of(f"{work.namespace}/{name}")}
    metadata = {"namespace": work.namespace, "name": name, "labels": labels, "ownerReferences": [owner]}
    spec = node | {"containers": [{"name": "main", "image": f"registry.example.com/{app}:1", "resources": resources}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": work.phase}}


def _node_of(pod: str) -> str:
    """Where a pod runs; finished ones ran on the last A100."""
    held = (machine.name for machine in MACHINES for gpu in machine.gpus if any(item.pod == pod for item in gpu))
    return next(held, MACHINES[2].name)


# ---- dcgm-exporter /metrics ----------------------------------------------------------------------------------------


def _uuid(machine: Machine, index: int) -> str:
    return f"GPU-5d3c1a00-7e41-4c0b-9a6e-{MACHINES.index(machine):06d}{index:06d}"


def _samples(machine: Machine, board: Board) -> Iterable[tuple[str, Labels, str]]:
    """(family, labels, value). On MIG there is no GPU utilisation; where MIG is off there is."""
    for index, gpu in enumerate(machine.gpus):
        for item in gpu:
            labels = _exporter_labels(machine, board, index, item)
            capacity = board.memory_mib if item.profile == "off" else board.profile(item.profile).memory_mib
            yield "DCGM_FI_DEV_FB_USED", labels, str(item.used_mib)
            yield "DCGM_FI_DEV_FB_FREE", labels, str((capacity or 0) - item.used_mib)
            yield "DCGM_FI_PROF_GR_ENGINE_ACTIVE", labels, f"{item.active:.6f}"
            yield "DCGM_FI_PROF_SM_ACTIVE", labels, f"{item.active * 0.8:.6f}"
            yield "DCGM_FI_PROF_DRAM_ACTIVE", labels, f"{item.active * 0.5:.6f}"
            if item.profile == "off":
                yield "DCGM_FI_DEV_GPU_UTIL", labels, str(round(item.active * 100))


def _exporter_labels(machine: Machine, board: Board, index: int, item: Slice) -> Labels:
    labels = {"gpu": str(index), "UUID": _uuid(machine, index), "device": f"nvidia{index}"}
    labels |= {"modelName": board.product_names[0], "Hostname": machine.name}
    if item.profile != "off":
        labels |= {"GPU_I_PROFILE": item.profile, "GPU_I_ID": str(item.gi_id)}
    namespace, _, pod = (item.pod or "").partition("/")
    return labels | {"namespace": namespace, "pod": pod, "container": "main" if pod else ""}


def _exposition(samples: Iterable[tuple[str, Labels, str]]) -> str:
    families: dict[str, list[str]] = {}
    for family, labels, value in samples:
        inside = ",".join(f'{name}="{text}"' for name, text in labels.items())
        families.setdefault(family, [f"# TYPE {family} gauge"]).append(f"{family}{{{inside}}} {value}")
    return "".join("\n".join(lines) + "\n" for lines in families.values())


# ---- nvidia-smi mig -lgi -------------------------------------------------------------------------------------------


def _instance_table(machine: Machine, board: Board) -> str:
    """The table of GPU instances with their placements; empty where no GPU of the node has MIG on."""
    rule, rows = "+" + "-" * 55 + "+", []
    for index, gpu in enumerate(machine.gpus):
        for item in (item for item in gpu if item.profile != "off"):
            profile = board.profile(item.profile)
            span = f"{item.start}:{profile.memory_slices}"
            row = f"|{index:4d}  {'MIG ' + item.profile:<18}{profile.profile_id:4d}{item.gi_id:9d}{span:>13}"
            rows += [f"{row:<56}|", rule]
    titles = ("GPU instances:", "GPU   Name             Profile  Instance   Placement")
    units = "                         ID       ID       Start:Size"
    head = [rule, *(f"| {title:<54}|" for title in (*titles, units)), "|" + "=" * 55 + "|"]
    return "\n".join([*head, *rows]) + "\n" if rows else ""
