"""For pods: what a container asks for to get a slice, for every resource that some node offers after the plan."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from migsaw.errors import TargetError
from migsaw.model.boards import Catalogue
from migsaw.model.plan import Plan
from migsaw.render.cuts import Offer, changed_nodes, offers, silent_nodes
from migsaw.render.document import Options, RenderedFile, comment, header, listed
from migsaw.render.pools import pool_offers
from migsaw.render.selectors import Selector, node_selectors, selector_scripts
from migsaw.render.yaml_text import to_yaml

ABOUT = (
    "",
    "What a container asks for, one document for each resource that the nodes offer after the plan. Copy the part",
    "under `resources` (and `nodeSelector` where there is one) into the pod's spec. Ask for one slice per container:",
    "CUDA uses only the first MIG device of a process.",
)


def render(plan: Plan, catalogue: Catalogue, options: Options) -> tuple[RenderedFile, ...]:
    found = offers(plan)
    if not found and plan.target != "kubernetes":
        raise TargetError(
            "after this plan no node offers a GPU resource", hint="observe with --nodes: the labels say what they offer"
        )
    selectors = node_selectors(found)
    parts = [_part(rows, selectors) for rows in _alike(found, selectors)]
    about = [*ABOUT, *_doubts(plan, catalogue)]
    body = "---\n".join(parts) if parts else comment(["Nothing is offered."])
    return (RenderedFile("pod-resources.yaml", header(plan, about) + body), *selector_scripts(plan, selectors))


def _doubts(plan: Plan, catalogue: Catalogue) -> list[str]:
    changed, silent = changed_nodes(plan), silent_nodes(plan)
    lines = ["", f"They are there only when the plan is applied: nodes to change: {len(changed)}."] if changed else []
    for offer in pool_offers(plan, catalogue):
        lines += ["", f"{offer.node.name} will offer {offer.count} x {offer.resource} ({offer.profile or 'whole GPU'})"]
    if silent:
        lines += ["", f"Nothing to ask for by name, or strategy not known: {listed(silent)}"]
    return lines


def _alike(found: Iterable[Offer], selectors: dict[Offer, Selector]) -> list[list[Offer]]:
    """Offers that a pod asks for in the same words, in order of resource and selector."""
    groups: dict[tuple[str, Selector], list[Offer]] = {}
    for offer in found:
        groups.setdefault((offer.resource, selectors.get(offer, ())), []).append(offer)
    return [groups[key] for key in sorted(groups)]


def _part(rows: list[Offer], selectors: dict[Offer, Selector]) -> str:
    first = rows[0]
    count, names = sum(row.count for row in rows), listed(row.node.name for row in rows)
    what = first.profile or "whole GPU, MIG off"
    boards = ", ".join(sorted({row.board or "board not known" for row in rows}))
    said = comment([f"{what} of {boards}: {count} on {names}"])
    spec: dict[str, Any] = {}
    if selector := selectors.get(first):
        spec["nodeSelector"] = dict(selector)
    spec["containers"] = [{"name": "main", "resources": {"limits": {first.resource: 1}}}]
    return said + to_yaml({"spec": spec})
