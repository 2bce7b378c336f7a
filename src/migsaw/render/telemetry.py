"""What turns on the measurements that migsaw reads, for whoever runs the exporter on the plan's nodes.

Dcgm-exporter's own list has SM activity and occupancy off. No cut is carried out here, so a plan for any target will
do. Who owns a node's GPUs tells who runs its exporter; where that leaves a choice, each way has its own folder.

Facts: GPU Operator v26.7: a ConfigMap's key is dcgm-metrics.csv, and the operator mounts it and sets
DCGM_EXPORTER_COLLECTORS and DCGM_EXPORTER_KUBERNETES itself (`controllers/object_controls.go`). Helm chart of
dcgm-exporter 4.8: `customMetrics` becomes the mounted counters file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from migsaw.model.boards import Catalogue
from migsaw.model.plan import Plan
from migsaw.model.snapshot import Owner
from migsaw.render.document import Options, RenderedFile, header, yaml_file
from migsaw.render.telemetry_counters import KUBE_STATE, NODE_LABELS, NODES_SHOWN, counters
from migsaw.render.telemetry_readme import readme
from migsaw.render.telemetry_scrape import (
    AZURE,
    OPEN_SOURCE,
    azure_scrape_map,
    azure_settings,
    monitor,
    service_monitor_values,
)

CONFIG_MAP = "migsaw-dcgm-counters"
OPERATOR_NAMESPACE = "gpu-operator"
NAMESPACE = "monitoring"
FOLDER = "/etc/migsaw"
# the DRA driver, HAMi and DAS bring no exporter of their own
VARIANTS: Mapping[Owner, tuple[str, ...]] = {
    "gpu-operator": ("gpu-operator",),
    "aks": ("daemonset",),
    "aks-managed": ("aks-managed",),
    "dra": ("daemonset", "gpu-operator"),
    "hami": ("daemonset", "gpu-operator"),
    "das": ("daemonset", "gpu-operator"),
    "unknown": ("aks-managed", "daemonset", "gpu-operator"),
}
_ELSEWHERE = "change the namespace where the exporter lives elsewhere"


def render(plan: Plan, catalogue: Catalogue, options: Options) -> tuple[RenderedFile, ...]:
    chosen = variants(plan)
    parts: Mapping[str, Callable[[Plan], list[RenderedFile]]] = {
        "aks-managed": _aks_managed,
        "daemonset": _daemonset,
        "gpu-operator": _gpu_operator,
    }
    about = ["", "Counters file of dcgm-exporter. It replaces the exporter's own list: add the lines that others read."]
    return (
        RenderedFile("README.md", readme(plan, chosen)),
        RenderedFile("counters.csv", header(plan, about) + counters(plan)),
        *_kube_state_metrics(plan),
        _azure_monitor(plan, "aks-managed" in chosen),
        *(file for name in chosen for file in parts[name](plan)),
    )


def variants(plan: Plan) -> tuple[str, ...]:
    """Who may run the exporter on the plan's nodes; every way where the plan names no node."""
    owners = {node.owner for node in plan.nodes} or {"unknown"}
    return tuple(sorted({name for owner in owners for name in VARIANTS[owner]}))


def _gpu_operator(plan: Plan) -> list[RenderedFile]:
    text = counters(plan)
    exporter = {"config": {"name": CONFIG_MAP}, "serviceMonitor": service_monitor_values()}
    helm = {**exporter, "config": {"name": CONFIG_MAP, "create": True, "data": text}}
    meta = {"name": CONFIG_MAP, "namespace": OPERATOR_NAMESPACE}
    return [
        yaml_file(
            "gpu-operator/configmap.yaml",
            plan,
            ["", f"Of the GPU Operator's namespace: {_ELSEWHERE}."],
            [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"dcgm-metrics.csv": text}}],
        ),
        yaml_file(
            "gpu-operator/cluster-policy-patch.yaml",
            plan,
            ["", "The operator mounts the ConfigMap and tells the exporter of it; a list of env would replace yours."],
            [{"spec": {"dcgmExporter": exporter}}],
        ),
        yaml_file(
            "gpu-operator/helm-values.yaml",
            plan,
            ["", "The same for Helm, which makes the ConfigMap itself: do not apply configmap.yaml beside it."],
            [{"dcgmExporter": helm}],
        ),
        _azure_pod_monitor(
            "gpu-operator", plan, OPERATOR_NAMESPACE, "app", ("nvidia-dcgm-exporter", "nvidia-dcgm-exporter-dra")
        ),
    ]


def _daemonset(plan: Plan) -> list[RenderedFile]:
    text = counters(plan)
    meta = {"name": CONFIG_MAP, "namespace": NAMESPACE}
    helm: dict[str, Any] = {"serviceMonitor": service_monitor_values(), "customMetrics": text}
    if any(node.owner == "dra" for node in plan.nodes):
        helm["kubernetesDRA"] = {"enabled": True}
    return [
        yaml_file(
            "daemonset/helm-values.yaml",
            plan,
            ["", "For the Helm chart of dcgm-exporter, which mounts the counters and makes the ServiceMonitor itself."],
            [helm],
        ),
        yaml_file(
            "daemonset/configmap.yaml",
            plan,
            ["", f"For a DaemonSet without Helm; {_ELSEWHERE}."],
            [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"counters.csv": text}}],
        ),
        yaml_file("daemonset/daemonset-patch.yaml", plan, _patch_about(), [_daemonset_patch()]),
        yaml_file(
            "daemonset/service-monitor.yaml",
            plan,
            ["", "For a DaemonSet without Helm. Add the labels that your Prometheus selects ServiceMonitors by."],
            [monitor(OPEN_SOURCE, "ServiceMonitor", NAMESPACE, "app.kubernetes.io/name", ("dcgm-exporter",))],
        ),
        _azure_pod_monitor("daemonset", plan, NAMESPACE, "app.kubernetes.io/name", ("dcgm-exporter",)),
    ]


def _patch_about() -> list[str]:
    return [
        "",
        "A strategic merge patch. The container must have this name, and no argument -f, which would win over the",
        "variable. SYS_ADMIN is what DCGM's profiling module needs; the mounted socket tells which pod holds what.",
    ]


def _daemonset_patch() -> dict[str, Any]:
    container = {
        "name": "dcgm-exporter",
        "env": [
            {"name": "DCGM_EXPORTER_COLLECTORS", "value": f"{FOLDER}/counters.csv"},
            {"name": "DCGM_EXPORTER_KUBERNETES", "value": "true"},
        ],
        "securityContext": {"runAsNonRoot": False, "runAsUser": 0, "capabilities": {"add": ["SYS_ADMIN"]}},
        "volumeMounts": [
            {"name": "migsaw-counters", "mountPath": FOLDER, "readOnly": True},
            {"name": "pod-gpu-resources", "mountPath": "/var/lib/kubelet/pod-resources", "readOnly": True},
        ],
    }
    volumes = [
        {"name": "migsaw-counters", "configMap": {"name": CONFIG_MAP}},
        {"name": "pod-gpu-resources", "hostPath": {"path": "/var/lib/kubelet/pod-resources"}},
    ]
    return {"spec": {"template": {"spec": {"containers": [container], "volumes": volumes}}}}


def _aks_managed(plan: Plan) -> list[RenderedFile]:
    return [
        yaml_file(
            "aks-managed/ama-metrics-prometheus-config.yaml",
            plan,
            [
                "",
                "A scrape job of one's own for the exporter that AKS manages: the built-in one drops the labels that",
                "tell instances apart. If the cluster has this ConfigMap already, add the job to it.",
            ],
            [azure_scrape_map()],
        )
    ]


def _azure_pod_monitor(folder: str, plan: Plan, namespace: str, label: str, values: tuple[str, ...]) -> RenderedFile:
    about = [
        "",
        "Only where Azure Monitor managed Prometheus scrapes. See first that the cluster has the kind:",
        "kubectl api-resources --api-group=azmonitoring.coreos.com",
    ]
    item = monitor(AZURE, "PodMonitor", namespace, label, values)
    return yaml_file(f"{folder}/azure-pod-monitor.yaml", plan, about, [item])


def _azure_monitor(plan: Plan, has_managed_exporter: bool) -> RenderedFile:
    about = [
        "",
        "Only where Azure Monitor managed Prometheus scrapes. If the cluster has this ConfigMap already, add these",
        "lines to it: applied as it is, it replaces yours. The agent restarts within minutes.",
    ]
    if has_managed_exporter:
        about += [
            "",
            "dcgmexporter = false: the built-in job makes all instances of a GPU one series. The job in",
            "aks-managed/ama-metrics-prometheus-config.yaml stands in for it: apply that first.",
        ]
    path = "azure-monitor/ama-metrics-settings-configmap.yaml"
    return yaml_file(path, plan, about, [azure_settings(has_managed_exporter)])


def _kube_state_metrics(plan: Plan) -> list[RenderedFile]:
    labels = f"nodes=[{','.join(NODE_LABELS)}]"
    families = sorted((*KUBE_STATE, *NODES_SHOWN))
    return [
        yaml_file(
            "kube-state-metrics/helm-values.yaml",
            plan,
            ["", f"Without Helm, the argument: --metric-labels-allowlist={labels}"],
            [{"metricLabelsAllowlist": [labels]}],
        ),
        yaml_file(
            "kube-state-metrics/metric-allowlist.yaml",
            plan,
            [
                "",
                "Only where kube-state-metrics serves migsaw alone, or has an allow-list already (add these to it):",
                "an allow-list turns off every other metric. Without Helm, the argument: --metric-allowlist=A,B,…",
            ],
            [{"metricAllowlist": families}],
        ),
    ]
