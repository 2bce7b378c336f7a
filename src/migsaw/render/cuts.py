"""What a plan asks of every GPU, and what its nodes offer afterwards: the part that all targets share.

It reads the plan's own texts (``3g.40gb@4``, ``off``) and nothing else; whether a layout is legal the plan has decided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from migsaw.errors import InputError, Where
from migsaw.model.layouts import Layout, Placed, by_start, parse_placed
from migsaw.model.names import WHOLE_GPU_RESOURCE, resource_name
from migsaw.model.plan import GpuPlan, NodePlan, Plan

OFF = ("off",)


@dataclass(frozen=True, slots=True)
class Cut:
    """One GPU before and after; None: MIG off."""

    plan: GpuPlan
    before: Layout | None
    after: Layout | None

    @property
    def changed(self) -> bool:
        if self.before is None or self.after is None:
            return self.before is not self.after
        return bool(missing(self.before, self.after) or missing(self.after, self.before))

    @property
    def changes_mode(self) -> bool:
        return (self.before is None) != (self.after is None)

    @property
    def name(self) -> str:
        return f"GPU {self.plan.node}/{self.plan.index}"


@dataclass(frozen=True, slots=True)
class NodeCut:
    node: NodePlan
    gpus: tuple[Cut, ...]  # by index

    @property
    def changed(self) -> tuple[Cut, ...]:
        return tuple(gpu for gpu in self.gpus if gpu.changed)


@dataclass(frozen=True, slots=True)
class Offer:
    """What a node advertises after the plan: ``count`` of ``resource``. ``profile`` is None for a whole GPU."""

    node: NodePlan
    strategy: str
    board: str | None
    profile: str | None
    resource: str
    count: int


def read_layout(texts: Sequence[str]) -> Layout | None:
    return None if tuple(texts) == OFF else by_start(parse_placed(text) for text in texts)


def missing(few: Layout, many: Layout) -> list[Placed]:
    """Instances of ``few`` that ``many`` lacks; an unknown start on either side matches any."""
    rest, lost = list(many), []
    for item in sorted(few, key=lambda i: i.start is None):
        alike = (
            i for i in rest if i.profile == item.profile and (None in (i.start, item.start) or i.start == item.start)
        )
        hit = item if item in rest else next(alike, None)
        if hit is None:
            lost.append(item)
        else:
            rest.remove(hit)
    return lost


def node_cuts(plan: Plan) -> tuple[NodeCut, ...]:
    """The GPUs of every node, in order of names and indices."""
    known = {node.name: node for node in plan.nodes}
    grouped: dict[str, list[Cut]] = {}
    for place, gpu in enumerate(plan.gpus):
        try:
            cut = Cut(gpu, read_layout(gpu.before), read_layout(gpu.after))
        except InputError as problem:
            raise InputError(problem.message, where=Where(None, f"$.gpus[{place}]"), hint=problem.hint) from None
        grouped.setdefault(gpu.node, []).append(cut)
    return tuple(
        NodeCut(
            known.get(name) or NodePlan(name, "unknown", any(cut.changed for cut in cuts)),
            tuple(sorted(cuts, key=lambda cut: cut.plan.index)),
        )
        for name, cuts in sorted(grouped.items())
    )


def changed_nodes(plan: Plan) -> tuple[NodeCut, ...]:
    return tuple(node for node in node_cuts(plan) if node.changed)


def offers(plan: Plan) -> tuple[Offer, ...]:
    """What the device plugin advertises after the plan, by node. Pools that the plan makes are not among them."""
    return tuple(offer for node in node_cuts(plan) for offer in node_offers(node))


def node_offers(node: NodeCut) -> list[Offer]:
    """Of one node, by its strategy; nothing where the strategy cannot advertise what is there.

    Single: every slice is an ``nvidia.com/gpu``, and only when all GPUs are cut into one profile (the plugin marks
    other nodes MIG-INVALID). Mixed: slices by name, GPUs with MIG off whole.
    """
    strategy = node.node.strategy
    slices = Counter((cut.plan.board, item.profile) for cut in node.gpus for item in cut.after or ())
    if node.node.owner == "dra" or (strategy not in ("single", "mixed") and slices):
        return []
    if strategy == "single" and slices and (len(slices) > 1 or any(not cut.after for cut in node.gpus)):
        return []
    named = [
        Offer(
            node.node,
            strategy or "none",
            board,
            profile,
            WHOLE_GPU_RESOURCE if strategy == "single" else resource_name(profile),
            count,
        )
        for (board, profile), count in sorted(slices.items(), key=lambda pair: (pair[0][0] or "", pair[0][1]))
    ]
    whole = [cut for cut in node.gpus if cut.after is None]
    boards = {cut.plan.board for cut in whole}
    board = boards.pop() if len(boards) == 1 else None
    return named + (
        [Offer(node.node, strategy or "none", board, None, WHOLE_GPU_RESOURCE, len(whole))] if whole else []
    )


def silent_nodes(plan: Plan) -> tuple[str, ...]:
    """Nodes with GPUs that advertise nothing that a plan can name."""
    return tuple(node.node.name for node in node_cuts(plan) if not node_offers(node))
