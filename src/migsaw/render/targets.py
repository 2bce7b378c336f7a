"""A plan and a target become the files to apply, or a refusal by name. Nothing is approximated and nothing is written.

A plan that was made for a target is rendered for that one only: what the target cannot express shaped the plan. A plan
made for none is rendered for every target that can express all of it. Telemetry carries out nothing, so it is rendered
for any plan and no plan is made for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from migsaw.errors import TargetError
from migsaw.model.boards import Catalogue
from migsaw.model.plan import Plan, Target
from migsaw.render import aks, azureml, device_plugin, dra, kubernetes, mig_manager, nvidia_smi, telemetry
from migsaw.render.document import Options, RenderedFile

Renderer = Callable[[Plan, Catalogue, Options], tuple[RenderedFile, ...]]


@dataclass(frozen=True, slots=True)
class Way:
    renderer: Renderer
    cuts: bool  # carries out changes of GPUs that exist, and nothing else
    about: str


WAYS: Mapping[Target, Way] = {
    "mig-manager": Way(mig_manager.render, True, "mig-parted file, ConfigMap and node labels for the GPU Operator"),
    "aks": Way(aks.render, False, "commands and ARM template for new AKS node pools"),
    "azureml": Way(azureml.render, False, "Azure ML InstanceTypes"),
    "kubernetes": Way(kubernetes.render, False, "what a pod's container asks for"),
    "dra": Way(dra.render, False, "ResourceClaimTemplates for the NVIDIA DRA driver"),
    "device-plugin": Way(device_plugin.render, False, "strategy and allocation policy of NVIDIA's device plugin"),
    "nvidia-smi": Way(nvidia_smi.render, True, "a script of nvidia-smi commands for each machine"),
}


def render(
    plan: Plan, target: Target | Literal["telemetry"], catalogue: Catalogue, options: Options
) -> tuple[RenderedFile, ...]:
    """The files for the target, in order of their paths. Raises :class:`TargetError`: nothing may be written then."""
    if target == "telemetry":
        return _in_order(telemetry.render(plan, catalogue, options))
    if plan.target is not None and plan.target != target:
        raise TargetError(
            f"the plan was made for {plan.target}, not for {target}",
            hint=f"render --for {plan.target}, or plan again with --for {target}",
        )
    way = WAYS[target]
    pools = [step.pool.name for step in plan.steps if step.pool]
    if way.cuts and pools:
        raise TargetError(
            f"the plan makes node pool {pools[0]}, which {target} cannot",
            hint=f"`migsaw plan SNAPSHOT --for {target}` plans what it can do, --for aks the pools",
        )
    return _in_order(way.renderer(plan, catalogue, options))


def _in_order(files: tuple[RenderedFile, ...]) -> tuple[RenderedFile, ...]:
    return tuple(sorted(files, key=lambda file: file.path))
