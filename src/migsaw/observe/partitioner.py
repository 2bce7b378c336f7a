"""Who cuts the GPUs of a node. Two owners of one GPU destroy each other's instances, so every sign is told.

Only signs are read: labels, annotations, resources, daemons. What an owner can express (its layout scope) follows.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Literal

from migsaw.model.boards import Catalogue
from migsaw.model.snapshot import Owner, Scope
from migsaw.observe.nodes import POOL_LABELS, SIZE_LABELS, NodeFacts

MIG_MANAGER = "nvidia.com/gpu.deploy.mig-manager"
MIG_CONFIG = "nvidia.com/mig.config"
_DEPLOY = "nvidia.com/gpu.deploy."
_MANAGED = "kubernetes.azure.com/dcgm-exporter"  # AKS sets it on pools whose GPU stack it manages
_OF_AKS = ("aks", "aks-managed")
SLICERS = ("hami", "das", "dra")  # they cut when a pod arrives

Strategy = Literal["single", "mixed", "none"]


@dataclass(frozen=True, slots=True)
class Partitioner:
    owner: Owner
    reason: str
    others: tuple[str, ...] = ()  # signs of further owners


def find_partitioner(node: NodeFacts, slicers: Set[str], has_claims: bool) -> Partitioner:
    """``slicers``: daemons seen on the node (dra, hami, das); ``has_claims``: the exporter shows DRA claims there.

    Whoever takes GPUs at arrival comes first: it would take back what another cuts.
    """
    signs = _signs(node, slicers, has_claims)
    if not signs:
        return Partitioner("unknown", "no label, annotation, resource or daemon tells who cuts its GPUs")
    (owner, reason), *others = signs
    return Partitioner(owner, reason, tuple(why for _, why in others if why != reason))


def _signs(node: NodeFacts, slicers: Set[str], has_claims: bool) -> list[tuple[Owner, str]]:
    found: list[tuple[Owner, str]] = []
    resources = {*node.capacity, *node.allocatable}
    if "hami.io/node-nvidia-register" in node.annotations or "hami.io/node-handshake" in node.annotations:
        found.append(("hami", "annotation hami.io/node-nvidia-register"))
    elif "hami" in slicers:
        found.append(("hami", "HAMi's daemon runs on it"))
    if any(name.startswith("mig.das.com/") for name in resources):
        found.append(("das", "it advertises mig.das.com resources"))
    elif "das" in slicers:
        found.append(("das", "the daemon of DAS runs on it"))
    if has_claims:
        found.append(("dra", "the exporter shows DRA claims on it"))
    elif "dra" in slicers:
        found.append(("dra", "the kubelet plugin of the DRA driver runs on it"))
    return found + _operator_signs(node) + _aks_signs(node)


def _operator_signs(node: NodeFacts) -> list[tuple[Owner, str]]:
    if node.label(MIG_CONFIG):
        return [("gpu-operator", f"label {MIG_CONFIG}")]
    if node.label(MIG_MANAGER) not in (None, "false"):
        return [("gpu-operator", f"label {MIG_MANAGER}")]
    deployed = sorted(key for key, shown in node.labels.items() if key.startswith(_DEPLOY) and shown != "false")
    return [("gpu-operator", f"label {deployed[0]}")] if deployed else []


def _aks_signs(node: NodeFacts) -> list[tuple[Owner, str]]:
    if node.label(_MANAGED) == "enabled":
        return [("aks-managed", f"label {_MANAGED}=enabled")]
    pool = next((name for name in POOL_LABELS if node.label(name)), None)
    if pool is None or _operator_signs(node):
        return []
    return [("aks", f"label {pool}, and no GPU Operator")]


def layout_scope(owner: Owner, strategy: Strategy | None) -> Scope | None:
    """How fine the owner can cut: the GPU Operator per GPU (single strategy: one profile per node), AKS per pool."""
    if owner in _OF_AKS:
        return "pool"
    if owner == "gpu-operator":
        return {"single": "node", "mixed": "gpu", "none": "gpu"}.get(strategy or "")  # type: ignore[return-value]
    return "gpu" if owner in SLICERS else None


def strategy_of(node: NodeFacts) -> Strategy | None:
    """The label; without one, resources per profile exist under the mixed strategy only."""
    shown = node.label("nvidia.com/mig.strategy")
    if shown in ("single", "mixed", "none"):
        return shown  # type: ignore[return-value]
    has_slices = any(name.startswith("nvidia.com/mig-") and number for name, number in node.capacity.items())
    return "mixed" if shown is None and has_slices else None


def azure_size(node: NodeFacts, catalogue: Catalogue) -> str | None:
    """The VM size, in the catalogue's spelling where it knows it; other clouds' types are none."""
    shown = node.label(*SIZE_LABELS)
    known = next((name for name in catalogue.azure_sizes if shown and name.lower() == shown.lower()), None)
    return known or (shown if shown and shown.startswith("Standard_") else None)
