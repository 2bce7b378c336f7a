"""For NVIDIA's device plugin: the strategy of every node, and slices of one GPU handed out before the next is opened.

Facts (k8s-device-plugin v0.20.0, gpu-operator v26.3): a config file has ``flags.migStrategy`` and, since v0.20,
``flags.plugin.sharedDevicesAllocationPolicy`` (``distributed`` is its default; older versions ignore the key); a node
chooses its config by the label ``nvidia.com/device-plugin.config``. The operator passes its own ``mig.strategy`` as an
environment variable, which beats the file: with several strategies it must be unset.
"""

from __future__ import annotations

from collections.abc import Sequence

from migsaw.errors import TargetError
from migsaw.model.boards import Catalogue
from migsaw.model.plan import Plan
from migsaw.render.cuts import NodeCut, node_cuts
from migsaw.render.document import Options, RenderedFile, listed, quoted, script, yaml_file
from migsaw.render.yaml_text import to_yaml

CONFIG_MAP = "migsaw-device-plugin"
NAMESPACE = "gpu-operator"
OTHER_PLUGINS = ("dra", "aks-managed", "hami", "das")  # these nodes have no NVIDIA device plugin of the user's


def render(plan: Plan, catalogue: Catalogue, options: Options) -> tuple[RenderedFile, ...]:
    strategies = {node.node.name: _strategy(node) for node in node_cuts(plan) if node.node.owner not in OTHER_PLUGINS}
    known = {name: strategy for name, strategy in strategies.items() if strategy}
    if not known and plan.target != "device-plugin":
        raise TargetError("no node's device-plugin strategy is known", hint="observe with --nodes: the labels say it")
    kinds = sorted(set(known.values())) or ["none"]
    configs = {f"mig-{kind}": to_yaml(_config(kind)) for kind in kinds}
    about = ["", *_what(known, sorted(strategies.keys() - known.keys()))]
    files = [
        yaml_file("configmap.yaml", plan, [*about, "", *_how(len(kinds) > 1)], [_config_map(configs)]),
        yaml_file("cluster-policy-patch.yaml", plan, _patch_about(kinds), [{"spec": _cluster_policy(kinds)}]),
        yaml_file("helm-values.yaml", plan, _helm_about(), [_helm(kinds, configs)]),
    ]
    if len(kinds) > 1:
        lines = (
            f"kubectl label node {quoted(name)} nvidia.com/device-plugin.config=mig-{kind} --overwrite\n"
            for name, kind in sorted(known.items())
        )
        files.append(
            script("labels.sh", plan, ["", "The strategy of each node. Run it before the patch."], "".join(lines))
        )
    return tuple(files)


def _strategy(node: NodeCut) -> str | None:
    """The strategy the node has; where nobody said it and nothing is cut, none is needed."""
    if node.node.strategy in ("single", "mixed", "none"):
        return node.node.strategy
    return None if any(cut.after is not None for cut in node.gpus) else "none"


def _config(kind: str) -> dict[str, object]:
    plugin = {"sharedDevicesAllocationPolicy": "packed"}
    return {"version": "v1", "flags": {"migStrategy": kind, "plugin": plugin}}


def _config_map(configs: dict[str, str]) -> dict[str, object]:
    meta = {"name": CONFIG_MAP, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": configs}


def _cluster_policy(kinds: Sequence[str]) -> dict[str, object]:
    strategy = kinds[0] if len(kinds) == 1 else None  # null removes the key: the nodes' configs decide
    return {
        "mig": {"strategy": strategy},
        "devicePlugin": {"config": {"name": CONFIG_MAP, "default": f"mig-{kinds[0]}"}},
    }


def _helm(kinds: Sequence[str], configs: dict[str, str]) -> dict[str, object]:
    plugin = {"name": CONFIG_MAP, "create": True, "default": f"mig-{kinds[0]}", "data": configs}
    return {"mig": {"strategy": kinds[0] if len(kinds) == 1 else ""}, "devicePlugin": {"config": plugin}}


def _what(known: dict[str, str], unknown: Sequence[str]) -> list[str]:
    lines = [f"{kind}: {listed(name for name in known if known[name] == kind)}" for kind in sorted(set(known.values()))]
    lines += [f"strategy not known, left as it is: {listed(unknown)}"] if unknown else []
    return [
        *lines,
        "",
        "packed: slices of one GPU are handed out before the next GPU is opened, so that whole GPUs stay free to be",
        "re-cut. Device plugin v0.20 and newer; older ones ignore the line and spread the slices over all GPUs.",
    ]


def _how(several: bool) -> list[str]:
    labels = ["sh labels.sh"] if several else []
    return [
        "To apply with the GPU Operator, in this order (with Helm: helm-values.yaml instead):",
        f"kubectl apply -f configmap.yaml      # namespace {NAMESPACE}: change it where the operator lives elsewhere",
        *labels,
        "kubectl patch clusterpolicies.nvidia.com/cluster-policy --type merge --patch-file cluster-policy-patch.yaml",
    ]


def _patch_about(kinds: Sequence[str]) -> list[str]:
    if len(kinds) == 1:
        return ["", "Makes the GPU Operator's device plugin read that ConfigMap."]
    return ["", "The operator's own strategy is removed (null): it would beat the configs of the nodes."]


def _helm_about() -> list[str]:
    return [
        "",
        "The same for those who install the GPU Operator with Helm: helm upgrade … --reuse-values -f helm-values.yaml",
        "It creates the ConfigMap itself: do not apply configmap.yaml beside it.",
    ]
