"""For the NVIDIA DRA driver: a ResourceClaimTemplate for each profile. The driver cuts when a pod arrives.

Facts (driver ``gpu.nvidia.com``): DeviceClass ``mig.nvidia.com``; attribute ``profile``; no attribute tells the start,
so a claim cannot choose one. ``resource.k8s.io/v1`` is served from Kubernetes 1.34.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from migsaw.errors import TargetError
from migsaw.model.boards import Catalogue
from migsaw.model.plan import Plan
from migsaw.render.cuts import NodeCut, node_cuts
from migsaw.render.document import Options, RenderedFile, comment, header
from migsaw.render.yaml_text import to_yaml

ABOUT = (
    "",
    "One template for each profile that these GPUs can hold; the driver makes the slice when a pod is placed.",
    "Needs the driver's DynamicMIG gate. In the pod: spec.resourceClaims: [{name: slice,",
    "resourceClaimTemplateName: NAME}], and in its container resources.claims: [{name: slice}].",
    "A template belongs to a namespace: kubectl apply --namespace NAMESPACE -f resource-claim-templates.yaml",
)


def render(plan: Plan, catalogue: Catalogue, options: Options) -> tuple[RenderedFile, ...]:
    nodes = [node for node in node_cuts(plan) if node.node.owner == "dra"]
    if not nodes:
        raise TargetError(
            "no node's GPUs are owned by the DRA driver", hint="`migsaw observe` says who owns them, and why"
        )
    changed = [node for node in nodes if node.changed]
    if changed:
        raise TargetError(
            f"{changed[0].changed[0].name} is to be cut beforehand, but the DRA driver cuts when a pod arrives"
        )
    parts = [_part(name, users) for name, users in sorted(_profiles(nodes, catalogue).items())]
    body = (
        "---\n".join(parts)
        if parts
        else comment(["The profiles of these boards are not known: nothing to claim by name."])
    )
    return (RenderedFile("resource-claim-templates.yaml", header(plan, ABOUT) + body),)


def _profiles(nodes: Sequence[NodeCut], catalogue: Catalogue) -> dict[str, Counter[str]]:
    """Profile name → boards that have it, with the number of their GPUs."""
    gpus = Counter(cut.plan.board for node in nodes for cut in node.gpus if cut.plan.board)
    found: dict[str, Counter[str]] = {}
    for key, count in gpus.items():
        board = catalogue.find(key or "")
        for profile in board.profiles if board and board.placements_known else ():
            found.setdefault(profile.name, Counter())[board.key if board else ""] = count
    return found


def _part(profile: str, boards: Counter[str]) -> str:
    expression = f"device.attributes['gpu.nvidia.com'].profile == '{profile}'"
    request = {"deviceClassName": "mig.nvidia.com", "selectors": [{"cel": {"expression": expression}}]}
    document = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": template_name(profile)},
        "spec": {"spec": {"devices": {"requests": [{"name": "slice", "exactly": request}]}}},
    }
    said = ", ".join(f"{count} x {board}" for board, count in sorted(boards.items()))
    return comment([f"{profile}: on {said}"]) + to_yaml(document)


def template_name(profile: str) -> str:
    """A name that Kubernetes takes: ``1g.24gb+me.all`` → ``mig-1g-24gb-me-all``, ``…-me`` → ``mig-1g-24gb-no-me``."""
    return "mig-" + profile.replace("-me", "-no-me").replace(".", "-").replace("+", "-")
