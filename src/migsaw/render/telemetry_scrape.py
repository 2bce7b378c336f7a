"""How a Prometheus comes to the exporter's page so that every instance keeps its own labels: monitors and scrape jobs.

``honorLabels``: pod, namespace and container are the holder's, as the exporter says. Of an instance that nobody holds
the exporter says nothing, and the target's own labels would take the place: they are dropped before the scrape. The
node's name is added, because old exporters name their own pod as the host.

Facts: prometheus-operator, `monitoring.coreos.com/v1`; Azure's metrics add-on (Azure/prometheus-collector) reads the
same kinds under `azmonitoring.coreos.com/v1` and wants the three label limits. AKS starts its exporter on the node, on
port 19400, without pods (Azure/AgentBaker, `startNvidiaManagedExpServices`); the add-on's built-in job for it keeps the
labels cluster, instance, gpu and job (`dcgmExporterDefault.yml`), which makes all instances of a GPU one series.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from migsaw.render.telemetry_counters import CADVISOR, KUBE_STATE, NODE_EXPORTER, dcgm_families, keep_list
from migsaw.render.yaml_text import to_yaml

INTERVAL = "30s"  # dcgm-exporter collects every 30 s (DCGM_EXPORTER_INTERVAL): oftener repeats the same values
TIMEOUT = "10s"
OPEN_SOURCE, AZURE = "monitoring.coreos.com/v1", "azmonitoring.coreos.com/v1"
AKS_PORT = "19400"
AKS_LABEL = "__meta_kubernetes_node_label_kubernetes_azure_com_dcgm_exporter"
NODE_OF_POD: Mapping[str, Any] = {"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"}
NOT_THE_EXPORTER: Mapping[str, Any] = {"action": "labeldrop", "regex": "(pod|container)"}
RELABELINGS = (NODE_OF_POD, NOT_THE_EXPORTER)
_AZURE_LIMITS = {"labelLimit": 63, "labelNameLengthLimit": 511, "labelValueLengthLimit": 1023}


def service_monitor_values() -> dict[str, Any]:
    """``serviceMonitor`` of the GPU Operator's exporter (ClusterPolicy and Helm) and of dcgm-exporter's own chart."""
    return {
        "enabled": True,
        "interval": INTERVAL,
        "scrapeTimeout": TIMEOUT,
        "honorLabels": True,
        "relabelings": list(RELABELINGS),
    }


def monitor(
    group: str, kind: Literal["PodMonitor", "ServiceMonitor"], namespace: str, label: str, values: Sequence[str]
) -> dict[str, Any]:
    """Of the exporters whose pods (PodMonitor) or Service (ServiceMonitor) have the label, in any namespace.

    Azure Monitor is paid by the sample, so there only what is read is kept; elsewhere the counters file decides.
    """
    is_azure = group == AZURE
    endpoint: dict[str, Any] = {
        "port": "metrics",
        "path": "/metrics",
        "interval": INTERVAL,
        "scrapeTimeout": TIMEOUT,
        "honorLabels": True,
        "relabelings": list(RELABELINGS),
    }
    if is_azure:
        keep = {"sourceLabels": ["__name__"], "action": "keep", "regex": keep_list(dcgm_families())}
        endpoint["metricRelabelings"] = [keep]
    selector = {"matchExpressions": [{"key": label, "operator": "In", "values": list(values)}]}
    return {
        "apiVersion": group,
        "kind": kind,
        "metadata": {"name": "migsaw-dcgm-exporter", "namespace": namespace},
        "spec": {
            **(_AZURE_LIMITS if is_azure else {}),
            "selector": selector,
            "namespaceSelector": {"any": True},
            "podMetricsEndpoints" if kind == "PodMonitor" else "endpoints": [endpoint],
        },
    }


def aks_scrape_config() -> dict[str, Any]:
    """A Prometheus scrape configuration for the exporter that AKS manages, with all labels of an instance.

    Written without ``$``: what Azure's agent makes of one in a user's configuration depends on its version.
    """
    job = {
        "job_name": "migsaw-dcgm",
        "honor_labels": True,
        "scrape_interval": INTERVAL,
        "scrape_timeout": TIMEOUT,
        "label_limit": 63,
        "label_name_length_limit": 511,
        "label_value_length_limit": 1023,
        "kubernetes_sd_configs": [{"role": "node"}],
        "relabel_configs": [
            {"source_labels": [AKS_LABEL], "regex": "enabled", "action": "keep"},
            {"target_label": "__tmp_port", "replacement": AKS_PORT},
            {
                "source_labels": ["__meta_kubernetes_node_address_InternalIP", "__tmp_port"],
                "separator": ":",
                "target_label": "__address__",
            },
            {"source_labels": ["__meta_kubernetes_node_name"], "target_label": "node"},
        ],
        "metric_relabel_configs": [
            {"source_labels": ["__name__"], "regex": keep_list(dcgm_families()), "action": "keep"}
        ],
    }
    return {"scrape_configs": [job]}


def azure_scrape_map() -> dict[str, Any]:
    return _kube_system("ama-metrics-prometheus-config", {"prometheus-config": to_yaml(aks_scrape_config())})


def azure_settings(has_managed_exporter: bool) -> dict[str, Any]:
    """Schema v1, which every version of the add-on reads. Keep-lists add to the minimal ingestion profile."""
    targets = {"kubestate": "true", "cadvisor": "true", "nodeexporter": "true"}
    if has_managed_exporter:
        targets["dcgmexporter"] = "false"
    keep = {"kubestate": KUBE_STATE, "cadvisor": CADVISOR, "nodeexporter": NODE_EXPORTER}
    lists = {"dcgmexporter": dcgm_families(), **keep}
    return _kube_system(
        "ama-metrics-settings-configmap",
        {
            "schema-version": "v1",
            "config-version": "migsaw1",
            "default-scrape-settings-enabled": _toml(targets),
            "default-targets-metrics-keep-list": _toml(
                {name: f'"{keep_list(families)}"' for name, families in lists.items()}
                | {"minimalingestionprofile": "true"}
            ),
        },
    )


def _toml(values: Mapping[str, str]) -> str:
    return "".join(f"{name} = {value}\n" for name, value in sorted(values.items()))


def _kube_system(name: str, data: Mapping[str, str]) -> dict[str, Any]:
    meta = {"name": name, "namespace": "kube-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
