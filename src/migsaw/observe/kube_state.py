"""What kube-state-metrics says through Prometheus: pods that ask for GPUs, their workloads, where every pod runs.

It stands in for `kubectl get pods`, with one thing less: pods that use GPUs without asking do not show, so nobody is
called idle by it alone. What is measured it must not know.

Source: kube-state-metrics, docs/metrics: pod, node, replicaset and job metrics. Resource names lose every sign that a
label cannot hold: `nvidia.com/mig-1g.10gb` is `nvidia_com_mig_1g_10gb`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from migsaw.model.refs import PodRef
from migsaw.model.snapshot import Pod, Workload
from migsaw.observe.nodes import NodeFacts, bare_node
from migsaw.observe.pods import FINISHED, PodsSeen
from migsaw.observe.prometheus import Client
from migsaw.observe.promql import selector

_RESOURCE = re.compile(
    r"nvidia_com_(?P<gpu>gpu)(?P<shared>_shared)?|nvidia_com_mig_(?P<g>\d+)g_(?P<gb>\d+)gb(?P<more>\w*)"
)
_GPU_RESOURCES = 'resource=~"nvidia_com_(gpu|mig).*"'


@dataclass(frozen=True, slots=True)
class KubeState:
    pods: PodsSeen
    nodes: Mapping[str, NodeFacts] = field(default_factory=dict)  # only names and addresses


def read_kube_state(client: Client, seconds: float, matchers: Sequence[str]) -> KubeState | None:
    """As it was at ``seconds`` (Unix). None where there is no kube-state-metrics.

    Raises :class:`migsaw.observe.prometheus.QueryError`.
    """
    ask = _Questions(client, seconds, matchers)
    everywhere = ask.rows("kube_pod_info", ("namespace", "pod", "node", "pod_ip", "uid"))
    if not everywhere:
        return None
    asks: dict[PodRef, dict[str, int]] = {}
    node_of: dict[PodRef, str] = {}
    for row, amount in ask.rows(*_REQUESTS):
        ref, name = PodRef(row["namespace"], row["pod"]), _resource(row["resource"])
        mine = asks.setdefault(ref, {})
        mine[name] = mine.get(name, 0) + round(amount)
        node_of[ref] = node_of.get(ref) or row["node"]
    phases = {PodRef(r["namespace"], r["pod"]): r["phase"] for r, is_so in ask.phases() if is_so == 1}
    workloads = ask.workloads() if asks else {}
    seen = PodsSeen()
    _add_places(seen, everywhere, asks)
    for ref, amounts in sorted(asks.items(), key=lambda item: str(item[0])):
        phase = phases.get(ref, "Unknown")
        if phase in FINISHED:
            seen.finished.add(str(ref))
            continue
        node = node_of[ref] or None
        pod = Pod(ref.namespace, ref.pod, node, phase, dict(sorted(amounts.items())), workloads.get(ref))
        seen.pods[str(ref)] = pod
        if node:
            seen.on_node.setdefault(node, []).append(pod)
    nodes = {
        row["node"]: replace(bare_node(row["node"]), addresses=frozenset({row["internal_ip"]} - {""}))
        for row, _ in ask.rows("kube_node_info", ("node", "internal_ip"))
    }
    return KubeState(seen, nodes)


_REQUESTS = (
    "kube_pod_container_resource_requests",
    ("namespace", "pod", "container", "node", "resource"),
    _GPU_RESOURCES,
)


def _add_places(
    seen: PodsSeen, rows: Sequence[tuple[dict[str, str], float]], asks: Mapping[PodRef, Mapping[str, int]]
) -> None:
    for row, _ in rows:
        name, node, ref = row["pod"], row["node"], PodRef(row["namespace"], row["pod"])
        for table, key in ((seen.node_of, name), (seen.node_of_address, row["pod_ip"])):
            if key and node:
                table[key] = node if table.get(key, node) == node else None
        if row["uid"] and ref in asks:
            seen.of_uid[row["uid"]] = ref


@dataclass(frozen=True, slots=True)
class _Questions:
    client: Client
    seconds: float
    matchers: Sequence[str]

    def rows(
        self, family: str, labels: Sequence[str], matcher: str = "", only: str = ""
    ) -> list[tuple[dict[str, str], float]]:
        """(labels, value), each label there, if only empty. ``only``: what else the vector must meet."""
        query = f"max by ({', '.join(labels)}) ({self._series(family, matcher)}){only}"

        def small(row: Any) -> tuple[dict[str, str], float]:
            return {label: row["metric"].get(label, "") for label in labels}, float(row["value"][1])

        form = {"query": query, "time": f"{self.seconds:.3f}"}
        return self.client.ask("query", form, small, result="vector").rows

    def _series(self, family: str, matcher: str = "") -> str:
        """Where the scrape does not honour labels, the pod that is spoken of stands in ``exported_pod``."""
        text = selector([family], [*self.matchers, *([matcher] if matcher else [])])
        for label in ("namespace", "pod", "node", "uid"):
            text = f'label_replace({text}, "{label}", "$1", "exported_{label}", "(.+)")'
        return text

    def _of_gpu_pods(self) -> str:
        return f" and on (namespace, pod) {self._series(_REQUESTS[0], _GPU_RESOURCES)}"

    def phases(self) -> list[tuple[dict[str, str], float]]:
        labels = ("namespace", "pod", "phase")
        return self.rows("kube_pod_status_phase", labels, only=f" == 1{self._of_gpu_pods()}")

    def workloads(self) -> dict[PodRef, Workload]:
        """The controller at the top: a ReplicaSet's Deployment, a Job's CronJob, where they are shown."""
        labels = ("namespace", "pod", "owner_kind", "owner_name")
        found: dict[PodRef, Workload] = {}
        for row, _ in self.rows("kube_pod_owner", labels, only=self._of_gpu_pods()):
            if row["owner_kind"] not in ("", "<none>"):
                own = Workload(row["namespace"], row["owner_kind"], row["owner_name"])
                found[PodRef(row["namespace"], row["pod"])] = own
        above = self._above("kube_replicaset_owner", "ReplicaSet", "replicaset")
        above |= self._above("kube_job_owner", "Job", "job_name")
        return {ref: above.get(workload, workload) for ref, workload in found.items()}

    def _above(self, family: str, kind: str, label: str) -> dict[Workload, Workload]:
        labels = ("namespace", label, "owner_kind", "owner_name")
        rows = self.rows(family, labels, 'owner_kind=~"Deployment|CronJob"')
        return {
            Workload(row["namespace"], kind, row[label]): Workload(
                row["namespace"], row["owner_kind"], row["owner_name"]
            )
            for row, _ in rows
        }


def _resource(label: str) -> str:
    """`-me` and `.me` look alike here; `.me`, which far more boards have, is meant."""
    found = _RESOURCE.fullmatch(label)
    if found is None:
        return label
    if found["gpu"]:
        return f"nvidia.com/gpu{'.shared' if found['shared'] else ''}"
    return f"nvidia.com/mig-{found['g']}g.{found['gb']}gb{found['more'].replace('_', '.')}"
