"""How a pod finds the right nodes where slices of every size have the same resource name.

Under the single strategy each slice is an ``nvidia.com/gpu``: only a node label tells 1g from 3g. The label of the AKS
pool is static and survives a scale from zero, so it is taken where all nodes of the pool offer the same; else the
project's own label is put on the nodes by a script.
"""

from __future__ import annotations

from collections.abc import Iterable

from migsaw.model.names import WHOLE_GPU_RESOURCE
from migsaw.model.plan import Plan
from migsaw.render.cuts import Offer
from migsaw.render.document import RenderedFile, quoted, script

POOL_LABEL = "agentpool"
SLICE_LABEL = "migsaw/slice"

Selector = tuple[tuple[str, str], ...]


def node_selectors(found: Iterable[Offer]) -> dict[Offer, Selector]:
    """A selector for every offer of ``nvidia.com/gpu``; offers by profile name need none."""
    rows = [offer for offer in found if offer.resource == WHOLE_GPU_RESOURCE]
    return {offer: _selector(offer, rows) for offer in rows}


def _selector(offer: Offer, rows: Iterable[Offer]) -> Selector:
    pool = offer.node.pool
    beside = {(row.board, row.profile) for row in rows if row.node.pool == pool}
    if pool and len(beside) == 1:
        return ((POOL_LABEL, pool),)
    return ((SLICE_LABEL, slice_name(offer)),)


def slice_name(offer: Offer) -> str:
    """A label value: board and profile, ``+`` written as in resource names."""
    return f"{offer.board or 'unknown'}-{(offer.profile or 'whole').replace('+', '.')}"


def selector_scripts(plan: Plan, selectors: dict[Offer, Selector]) -> tuple[RenderedFile, ...]:
    """The script that labels nodes, where a selector uses the project's own label."""
    pairs = sorted(
        (offer.node.name, value) for offer, chosen in selectors.items() for key, value in chosen if key == SLICE_LABEL
    )
    if not pairs:
        return ()
    lines = "".join(f"kubectl label node {quoted(name)} {SLICE_LABEL}={value} --overwrite\n" for name, value in pairs)
    about = [
        "",
        "Says which slice a node offers, for the nodeSelectors rendered beside. Run it once the nodes are cut, and",
        "again after every plan that re-cuts them.",
    ]
    return (script("slice-labels.sh", plan, about, lines),)
