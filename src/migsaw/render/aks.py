"""For pools that AKS owns: the commands for new pools, and the same as an ARM template.

The layout of an AKS pool is fixed when the pool is made, so a change is a new pool beside the old one. When an old pool
may go is decided by what runs there, so nothing here empties or deletes one; the script says how.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from migsaw.errors import TargetError
from migsaw.model.boards import Catalogue
from migsaw.model.plan import Plan, PoolStep
from migsaw.render.cuts import changed_nodes
from migsaw.render.document import MARK, Options, RenderedFile, comment, quoted, script
from migsaw.render.pools import new_pools, uniform

STABLE_API, PREVIEW_API = "2026-08-01", "2026-08-02-preview"
WHERE = (
    ': "${RESOURCE_GROUP:?set it to the resource group of the cluster}"\n'
    ': "${CLUSTER:?set it to the name of the AKS cluster}"\n'
)
ABOUT = (
    "",
    "Makes the new pools beside the old ones. Needs az 2.72.2 or newer, logged in. The same as a template, and the",
    "only form for several profiles on one GPU: pools.arm.json",
    "",
    "An old pool may go when nothing runs there any more: kubectl cordon --selector agentpool=OLD; wait until its pods",
    "have ended; az aks nodepool delete --name OLD. Pods that wait must ask for what the new pools offer.",
)


def render(plan: Plan, catalogue: Catalogue, options: Options) -> tuple[RenderedFile, ...]:
    refuse_cuts(plan)
    new = new_pools(plan)
    if not new:
        about = ["", "Nothing to change: the plan makes no pool."]
        return (script("create-pools.sh", plan, about, "echo 'nothing to change'\n"),)
    managed = any(node.owner == "aks-managed" for node in plan.nodes)
    by_command = [pool for pool in new if uniform(pool) or not pool.mig_profiles]
    body = WHERE + "".join(_add(pool, managed) for pool in by_command)
    files = [script("create-pools.sh", plan, ABOUT, body)] if by_command else []
    return (*files, _arm(plan, new, managed))


def refuse_cuts(plan: Plan) -> None:
    changed = changed_nodes(plan)
    if changed:
        raise TargetError(
            f"{changed[0].changed[0].name} changes in place ({changed[0].node.owner}): AKS can only replace pools",
            hint="`migsaw plan SNAPSHOT --for aks` plans what AKS can do",
        )


def _add(pool: PoolStep, managed: bool) -> str:
    name = uniform(pool)
    words = [
        "az aks nodepool add",
        '--resource-group "$RESOURCE_GROUP" --cluster-name "$CLUSTER"',
        f"--name {quoted(pool.name)} --mode User",
        f"--node-vm-size {quoted(pool.azure_size)} --node-count {pool.nodes}",
    ]
    words += [f"--gpu-instance-profile {name}"] if name else []
    words += _managed_words(pool) if managed else []
    return "\n" + comment(_remarks(pool)) + " \\\n  ".join(words) + "\n"


def _managed_words(pool: PoolStep) -> list[str]:
    """The preview of managed GPU pools; the strategy is fixed with the pool."""
    strategy = (pool.strategy or "single").capitalize() if pool.mig_profiles else "None"
    return [f"--enable-managed-gpu=true --gpu-mig-strategy {strategy}"]


def _remarks(pool: PoolStep) -> list[str]:
    what = uniform(pool) or "+".join(pool.mig_profiles) or "MIG off"
    return [f"{pool.name}: {pool.nodes} x {pool.azure_size}, {what} on every GPU"]


def _arm(plan: Plan, new: Sequence[PoolStep], managed: bool) -> RenderedFile:
    preview = managed or any(pool.mig_profiles and not uniform(pool) for pool in new)
    origin = f"{MARK} from a plan of snapshot sha256:{plan.made_from.snapshot_sha256}"
    document = {
        "$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#",
        "contentVersion": "1.0.0.0",
        "metadata": {
            "description": f"{origin}. Apply: az deployment group create --resource-group GROUP"
            " --template-file pools.arm.json --parameters cluster=CLUSTER",
        },
        "parameters": {"cluster": {"type": "string"}},
        "resources": [_resource(pool, managed, preview) for pool in new],
    }
    return RenderedFile("pools.arm.json", json.dumps(document, indent=2) + "\n")


def _resource(pool: PoolStep, managed: bool, preview: bool) -> dict[str, Any]:
    properties: dict[str, Any] = {"mode": "User", "type": "VirtualMachineScaleSets", "osType": "Linux"}
    properties |= {"count": pool.nodes, "vmSize": pool.azure_size}
    nvidia: dict[str, Any] = {}
    if managed or (pool.mig_profiles and not uniform(pool)):
        strategy = (pool.strategy or "mixed").capitalize() if pool.mig_profiles else "None"
        nvidia = {"managementMode": "Managed", "migStrategy": strategy}
    if name := uniform(pool):
        properties["gpuInstanceProfile"] = name
    elif pool.mig_profiles:
        nvidia["migProfiles"] = list(pool.mig_profiles)
    if nvidia:
        properties["gpuProfile"] = {"nvidia": nvidia}
    return {
        "type": "Microsoft.ContainerService/managedClusters/agentPools",
        "apiVersion": PREVIEW_API if preview else STABLE_API,
        "name": f"[concat(parameters('cluster'), '/{pool.name}')]",
        "properties": properties,
    }
