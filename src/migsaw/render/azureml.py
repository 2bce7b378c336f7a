"""For Azure ML on Kubernetes: InstanceTypes, the names by which a job asks for a slice.

The documented shape (learn.microsoft.com, manage Kubernetes instance types): ``cpu`` and ``memory`` non-zero strings in
requests and limits, the GPU an integer in limits only under ``nvidia.com/gpu``, a ``nodeSelector`` of labels. No sample
or document has a ``nvidia.com/mig-…`` resource, so those are rendered only when asked for, with a warning.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from migsaw.errors import TargetError
from migsaw.model.boards import Catalogue
from migsaw.model.names import WHOLE_GPU_RESOURCE
from migsaw.model.plan import Plan
from migsaw.render.cuts import Offer, changed_nodes, offers
from migsaw.render.document import Options, RenderedFile, comment, header, listed, short_hash
from migsaw.render.pools import pool_offers
from migsaw.render.selectors import POOL_LABEL, Selector, node_selectors, selector_scripts
from migsaw.render.shares import RULE, amounts
from migsaw.render.yaml_text import to_yaml

NAME_LENGTH = 31  # [a-z][a-z0-9]{0,30}: what every public sample keeps to
ABOUT = (
    "",
    "Apply with kubectl apply -f instance-types.yaml before `az ml compute attach`; a compute that is attached sees",
    "new types only when it is attached again. A job asks by resources.instance_type: NAME, one slice per instance.",
    *RULE,
)
MIXED_WARNING = (
    "Types that ask for nvidia.com/mig-… are not documented for Azure ML: try one with",
    "`kubectl apply --dry-run=server` and a small job before anybody depends on it.",
)


@dataclass(frozen=True, slots=True)
class Kind:
    """What one InstanceType stands for."""

    resource: str
    profile: str | None
    selector: Selector
    offers: tuple[Offer, ...]


def render(plan: Plan, catalogue: Catalogue, options: Options) -> tuple[RenderedFile, ...]:
    found = (*offers(plan), *pool_offers(plan, catalogue))
    slices = [offer for offer in found if offer.resource != WHOLE_GPU_RESOURCE]
    plain = [offer for offer in found if offer.resource == WHOLE_GPU_RESOURCE]
    _refuse(plan, plain, slices, options)
    selectors = node_selectors(plain)
    kinds = _kinds([*plain, *(slices if options.allow_mixed else [])], selectors)
    parts = [_part(name, kind, catalogue) for name, kind in sorted(_names(kinds).items())]
    about = [*ABOUT, *_left_out(slices, options), *_when(plan)]
    body = "---\n".join(parts) if parts else comment(["Nothing is offered."])
    return (RenderedFile("instance-types.yaml", header(plan, about) + body), *selector_scripts(plan, selectors))


def _refuse(plan: Plan, plain: list[Offer], slices: list[Offer], options: Options) -> None:
    if plain or (slices and options.allow_mixed) or plan.target == "azureml":
        return
    if slices:
        raise TargetError(
            "all slices of this plan have the mixed strategy, and InstanceTypes are documented for nvidia.com/gpu only",
            hint="give a pool the single strategy, or add --allow-mixed and try one type before you depend on it",
        )
    raise TargetError(
        "after this plan no node offers a GPU", hint="observe with --nodes: the labels say what they offer"
    )


def _left_out(slices: list[Offer], options: Options) -> list[str]:
    if not slices:
        return []
    if options.allow_mixed:
        return ["", *MIXED_WARNING]
    names = sorted({offer.resource for offer in slices})
    return ["", f"Left out, because they have the mixed strategy (--allow-mixed adds them): {', '.join(names)}"]


def _when(plan: Plan) -> list[str]:
    changed = changed_nodes(plan)
    return ["", f"They hold only when the plan is applied: nodes to change: {len(changed)}."] if changed else []


def _kinds(found: Iterable[Offer], selectors: dict[Offer, Selector]) -> list[Kind]:
    groups: dict[tuple[str, str, str, Selector], list[Offer]] = {}
    for offer in found:
        selector = selectors[offer] if offer in selectors else _pool_selector(offer)
        groups.setdefault((offer.resource, offer.profile or "", offer.board or "", selector), []).append(offer)
    return [Kind(key[0], key[1] or None, key[3], tuple(rows)) for key, rows in sorted(groups.items())]


def _pool_selector(offer: Offer) -> Selector:
    """A slice asked for by name finds its node without a selector; the pool's keeps its CPU share true."""
    return ((POOL_LABEL, offer.node.pool),) if offer.node.pool else ()


def _names(kinds: Iterable[Kind]) -> dict[str, Kind]:
    """A name depends on its own slice and pool only: jobs keep it whatever else the cluster gets."""
    names: dict[str, Kind] = {}
    for kind in kinds:
        name = _name(kind)
        while name in names:
            name = name[: NAME_LENGTH - 6] + short_hash(f"{name} {kind.selector}", 6)
        names[name] = kind
    return names


def _name(kind: Kind) -> str:
    attribute = (kind.profile or "").replace("-me", "nome")
    where = kind.selector[0][1] if kind.selector and kind.selector[0][0] == POOL_LABEL else kind.offers[0].board or ""
    text = _letters(f"mig{attribute}{where}" if kind.profile else f"gpu{where}")
    return text if len(text) <= NAME_LENGTH else text[: NAME_LENGTH - 6] + short_hash(text, 6)


def _letters(text: str) -> str:
    return "".join(c for c in text.lower() if c.isascii() and c.isalnum())


def _part(name: str, kind: Kind, catalogue: Catalogue) -> str:
    shares = [amounts(offer, catalogue) for offer in kind.offers]
    least = min(shares, key=lambda share: (share.cpu_milli, share.memory_gib))
    base = {"cpu": least.cpu, "memory": min(shares, key=lambda share: share.memory_gib).memory}
    spec: dict[str, object] = {"nodeSelector": dict(kind.selector)} if kind.selector else {}
    spec["resources"] = {"requests": base, "limits": {**base, kind.resource: 1}}
    document = {
        "apiVersion": "amlarc.azureml.com/v1alpha1",
        "kind": "InstanceType",
        "metadata": {"name": name},
        "spec": spec,
    }
    count, nodes = sum(offer.count for offer in kind.offers), listed(offer.node.name for offer in kind.offers)
    sizes = listed(offer.node.azure_size or "size not known" for offer in kind.offers)
    return comment([f"{kind.profile or 'whole GPU'}: {count} on {nodes} ({sizes})"]) + to_yaml(document)
