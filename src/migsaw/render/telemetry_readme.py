"""The page that lies beside the rendered telemetry settings: in what order to apply them, and what cannot be set.

Only words; what is set is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from migsaw.model.plan import Plan
from migsaw.render.document import MARK, listed

_OWNERS: Mapping[str, tuple[str, ...]] = {
    "gpu-operator": ("gpu-operator", "dra", "hami", "das", "unknown"),
    "daemonset": ("aks", "dra", "hami", "das", "unknown"),
    "aks-managed": ("aks-managed", "unknown"),
}

_ALWAYS = """
Each folder is one way to run the exporter; apply the one that is yours. `counters.csv` is the list of fields, also
inside the ConfigMaps. It replaces the exporter's own list: if dashboards read more, add their lines. In it SM activity
and SM occupancy are on, which dcgm-exporter leaves off.

## Everywhere

- `kube-state-metrics/helm-values.yaml`: labels of nodes. `metric-allowlist.yaml` only where an allow-list is wanted.
- `azure-monitor/ama-metrics-settings-configmap.yaml`: only where Azure Monitor managed Prometheus scrapes. On AKS the
  node labels are set by the cluster: `az aks update --ksm-metric-labels-allow-list "nodes=[…]"` with the same list.
- Every 30 s: the exporter collects every 30 s, oftener would store the same values again.
- `honorLabels: true`: pod and namespace name the holder of the instance, not the exporter. Where the platform forces it
  off, they arrive as `exported_pod` and `exported_namespace`; migsaw reads both.
"""
_WAYS: Mapping[str, str] = {
    "gpu-operator": """
## gpu-operator

{nodes}

```
kubectl apply -f gpu-operator/configmap.yaml
kubectl patch clusterpolicies.nvidia.com/cluster-policy --type merge \\
  --patch-file gpu-operator/cluster-policy-patch.yaml
```

With Helm: `helm upgrade … --reuse-values -f gpu-operator/helm-values.yaml` instead of both. The ServiceMonitor needs
the kinds of prometheus-operator in the cluster; where Azure Monitor scrapes, `azure-pod-monitor.yaml` stands in for it.
A ConfigMap that changes later is not read by itself:
`kubectl rollout restart daemonset/nvidia-dcgm-exporter --namespace gpu-operator`.
""",
    "daemonset": """
## daemonset

{nodes}

With the Helm chart of dcgm-exporter: `helm upgrade … --reuse-values -f daemonset/helm-values.yaml`, nothing else.
Without it:

```
kubectl apply -f daemonset/configmap.yaml
kubectl patch daemonset dcgm-exporter --namespace monitoring --patch-file daemonset/daemonset-patch.yaml
kubectl apply -f daemonset/service-monitor.yaml
```

The exporter must run on the nodes: tolerations and node selector stay as they are. Where Azure Monitor scrapes, apply
`azure-pod-monitor.yaml` instead of the ServiceMonitor. One exporter a node: two that watch the profiling fields of the
same GPU take the counters from each other.
""",
    "aks-managed": """
## aks-managed

{nodes}

```
kubectl apply -f aks-managed/ama-metrics-prometheus-config.yaml
kubectl apply -f azure-monitor/ama-metrics-settings-configmap.yaml
```

AKS runs this exporter on the node itself, on port 19400. What cannot be set there:

- *The list of fields.* It is a file of the node's image, which no AKS setting changes. The list that comes with the
  exporter has no SM_ACTIVE and no SM_OCCUPANCY; GR_ENGINE_ACTIVE, PIPE_TENSOR_ACTIVE, DRAM_ACTIVE and FB are in newer
  ones. See on a node: `curl --silent localhost:19400/metrics | grep --count DCGM_FI_PROF_`.
- *Pods.* It is started without Kubernetes, so no series names a pod: `observe` needs the pods beside (`--pods`).
- *Labels in the built-in scrape job.* It keeps only cluster, instance, gpu and job: all instances of a GPU become one
  series. The job in this folder keeps them all, and the built-in one is turned off (`dcgmexporter = false`).

For SM activity and pods, run an exporter of your own on node pools that AKS does not manage, with the files of the way
`daemonset` (render a plan of such nodes).
""",
}


def readme(plan: Plan, variants: Sequence[str]) -> str:
    """Markdown. Names of nodes are shown as code, without what could end it."""
    parts = [
        "# Telemetry of GPU instances\n",
        f"\n{MARK} from a plan of snapshot sha256:{plan.made_from.snapshot_sha256}\n",
        _ALWAYS,
        *(_WAYS[name].format(nodes=_nodes(plan, name)) for name in variants),
        _CHECK,
    ]
    return "".join(parts)


_CHECK = """
## Whether it works

After some minutes `migsaw observe --prometheus URL …` shows SM activity of the instances.
"""


def _nodes(plan: Plan, variant: str) -> str:
    names = [node.name for node in plan.nodes if node.owner in _OWNERS[variant]]
    if not names:
        return "For nodes whose owner the plan does not tell."
    safe = ["".join(c if c.isprintable() and c not in "`{}" else " " for c in name) for name in names]
    return f"For: `{listed(safe)}`."
