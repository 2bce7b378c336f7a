"""The plan of a snapshot: which GPUs to cut anew for the pods that wait, without touching anything that runs.

It never evicts. What restarting everything would allow is the *ideal*, computed by exact packing beside the plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from migsaw.fit.rules import is_idle
from migsaw.model.boards import Board, Catalogue
from migsaw.model.fits import Fit, Fits, MemoryNeed
from migsaw.model.layouts import Layout, Placed, by_start, seen_fault, stranded
from migsaw.model.names import WHOLE_GPU_RESOURCE
from migsaw.model.plan import GpuPlan, KnownBy, Level, MadeFrom, NodePlan, Place, Plan, PodPlan, Savings, Step, Target
from migsaw.model.policy import Policy
from migsaw.model.reasons import Because, Reason
from migsaw.model.snapshot import Node, Pod, Snapshot
from migsaw.plan.assign import Assignment, assign
from migsaw.plan.cells import build_cells, classify, most_of
from migsaw.plan.fill import layout_for, uniform_layout
from migsaw.plan.fleet import Fleet, FleetGpu, build_fleet, in_use
from migsaw.plan.items import ANY_SLICE, KEPT_SLICE, WHOLE, is_single
from migsaw.plan.known import known_fits
from migsaw.plan.steps import recut_steps
from migsaw.plan.unserved import why_unserved
from migsaw.plan.wants import FitIndex, Items, Want, may_hold_whole, want_of


@dataclass(frozen=True, slots=True)
class Inputs:
    snapshot: Snapshot
    snapshot_sha256: str
    catalogue: Catalogue
    policy: Policy
    fits: Fits | None = None
    target: Target | None = None


@dataclass(frozen=True)
class Draft:
    """The decision, before it is written up."""

    fleet: Fleet
    wants: tuple[Want, ...]
    assignment: Assignment
    after: Mapping[tuple[str, int], Layout | None]  # None: MIG off; missing: as before

    @cached_property
    def placed(self) -> Mapping[str, tuple[tuple[str, Items], ...]]:
        """Node → (pod, items) of the waiting pods that get their place there."""
        found: dict[str, list[tuple[str, Items]]] = {}
        for pod, (node, items) in sorted(self.assignment.places.items()):
            found.setdefault(node, []).append((pod, items))
        return {node: tuple(rows) for node, rows in found.items()}

    @cached_property
    def kept(self) -> frozenset[str]:
        """Those of them that a slice serves which is free already and stays; all others need the cut of their node."""
        found: set[str] = set()
        for node, rows in self.placed.items():
            free: Counter[str] = Counter()
            for gpu in self.fleet.of_node(node):
                if gpu.key not in self.after:
                    free.update(gpu.offers)
            for pod, items in rows:
                if all(free[item] >= n for item, n in items):
                    free.subtract(dict(items))
                    found.add(pod)
        return frozenset(found)


def draft_plan(inputs: Inputs, seen: Fits | None = None) -> Draft:
    """``seen``: what was measured of workloads; what waits is not moved for its sake, but a class no longer counts."""
    fleet = build_fleet(inputs.snapshot, inputs.catalogue, inputs.policy, inputs.target)
    waiting = [p for p in inputs.snapshot.pods if p.node is None and any(n > 0 for n in p.asks.values())]
    silent = Fits(tuple(replace(fit, options=(), chosen=None) for fit in seen.fits)) if seen else Fits()
    known = known_fits(inputs.fits, silent, waiting, inputs.catalogue, inputs.policy)
    fits, allowed = FitIndex(known), inputs.policy.names(inputs.catalogue)
    wants = tuple(want_of(p, fits, allowed) for p in sorted(waiting, key=lambda p: p.key))
    classes = classify(wants, fleet)
    cells = build_cells(fleet, classes, inputs.policy, inputs.policy.headroom)
    done = assign([c for c, _ in classes], cells, inputs.policy.headroom)
    after: dict[tuple[str, int], Layout | None] = {}
    for unit, used in done.cuts:
        for gpu in unit.gpus:
            after[gpu.key] = _layout_after(gpu, dict(used), inputs)
    return Draft(fleet, wants, done, after)


def _layout_after(gpu: FleetGpu, used: dict[str, int], inputs: Inputs) -> Layout | None:
    board = gpu.board
    assert board is not None
    if WHOLE in used:
        return None
    if is_single(gpu.node):
        name = next(name for name in used if name not in (ANY_SLICE, KEPT_SLICE))
        layout = uniform_layout(board, name, most_of(board, name))
    else:
        layout = layout_for(board, used, gpu.layout, inputs.policy)
    if gpu.node.owner == "gpu-operator":  # mig-parted cannot pin: the driver chooses the starts
        return by_start(Placed(p.profile) for p in layout)
    return layout


# ---- writing it up ----------------------------------------------------------------------------------------------


def write_up(inputs: Inputs, draft: Draft) -> Plan:
    """The plan as a value, without bounds on the GPUs in use, pools and the ideal; see :mod:`migsaw.plan.make`."""
    gpus = tuple(_gpu_plan(gpu, draft) for gpu in draft.fleet.gpus)
    steps: list[Step] = []
    for node in draft.fleet.nodes:
        changed = [g for g in draft.fleet.of_node(node.name) if g.key in draft.after]
        if changed:
            steps += recut_steps(node, changed, _modes_change(changed, draft), inputs.target == "nvidia-smi")
    levels = tuple(
        Level(level.name, level.value, level.lower_bound, _gap(level.value, level.lower_bound))
        for level in draft.assignment.levels
    )
    return Plan(
        made_from=MadeFrom(inputs.snapshot_sha256, dict(sorted(inputs.snapshot.resource_versions.items()))),
        target=inputs.target,
        objective=None,
        lower_bound=None,
        gap=None,
        gpus=gpus,
        pods=_pod_plans(inputs, draft),
        steps=tuple(steps),
        savings=Savings(None, None, "not computed"),
        nodes=tuple(_node_plan(node, draft) for node in draft.fleet.nodes),
        levels=levels,
    )


def _gap(value: float, bound: float) -> float:
    return (value - bound) / value if value else 0.0


def _modes_change(changed: list[FleetGpu], draft: Draft) -> bool:
    return any((g.gpu.mig != "on" and not g.gpu.instances) or draft.after[g.key] is None for g in changed)


def shown(layout: Layout | None) -> tuple[str, ...]:
    return ("off",) if layout is None else tuple(str(p) for p in by_start(layout))


def before_of(gpu: FleetGpu) -> tuple[str, ...]:
    if gpu.layout:
        return shown(gpu.layout)
    return ("off",) if gpu.gpu.mig in ("off", "pending") else ()


def _gpu_plan(gpu: FleetGpu, draft: Draft) -> GpuPlan:
    before = before_of(gpu)
    after = shown(draft.after[gpu.key]) if gpu.key in draft.after else before
    because = _because(gpu, draft)
    busy = [i for i in gpu.gpu.instances if i.state != "idle"]
    pinned = shown(tuple(Placed(i.profile, i.start) for i in busy)) if busy else ()
    unsure = shown(tuple(Placed(i.profile, i.start) for i in busy if i.state == "unknown"))
    if not gpu.layout and in_use(gpu):
        pinned, unsure = before, before if gpu.gpu.state == "unknown" and gpu.gpu.owner is None else ()
    idle = tuple(
        str(Placed(i.profile, i.start)) for i in gpu.gpu.instances if i.state == "busy" and is_idle(i.activity)
    )
    if gpu.gpu.owner and not gpu.layout and is_idle(gpu.gpu.activity):
        idle = ("off",)
    return GpuPlan(
        node=gpu.node.name,
        index=gpu.gpu.index,
        before=before,
        after=after,
        reason=because.reason,
        text=because.text,
        uuid=gpu.gpu.uuid,
        board=gpu.board.key if gpu.board else gpu.gpu.board,
        pinned=pinned,
        unsure=unsure,
        is_layout_known=gpu.is_seen,
        is_geometry_reported=gpu.gpu.geometry is not None,
        idle_in_use=idle,
        stranded=_stranded(gpu.board, after),
    )


def _stranded(board: Board | None, after: tuple[str, ...]) -> tuple[int, int] | None:
    if board is None or not board.placements_known or after == ("off",):
        return None
    placed = [Placed(*_split(text)) for text in after]
    known = all(board.find(p.profile) for p in placed) and seen_fault(board, placed) is None
    return stranded(board, placed) if known else None


def _split(text: str) -> tuple[str, int | None]:
    name, _, start = text.partition("@")
    return name, int(start) if start else None


def _because(gpu: FleetGpu, draft: Draft) -> Because:
    if gpu.key in draft.after:
        mine = [pod for pod, _ in draft.placed.get(gpu.node.name, ()) if pod not in draft.kept]
        who = f"for {', '.join(mine[:3])}{' and more' if len(mine) > 3 else ''}" if mine else "for the head-room"
        return Because(Reason.RECUT, f"all it holds is idle; cut anew {who}")
    if gpu.blocked is not None:
        return gpu.blocked
    if any(pod in draft.kept for pod, _ in draft.placed.get(gpu.node.name, ())):
        return Because(Reason.ALREADY_RIGHT, "free slices of this node serve waiting pods as they are")
    waiting = len(draft.wants) - len(draft.assignment.places)
    if waiting:
        return Because(Reason.NO_DEMAND, f"free, but none of the {waiting} pods left waiting could use a cut of it")
    return Because(Reason.NO_DEMAND, "free, and nothing that waits needs another layout")


def _node_plan(node: Node, draft: Draft) -> NodePlan:
    changed = any(g.key in draft.after for g in draft.fleet.of_node(node.name))
    return NodePlan(
        node.name, node.owner, changed, node.pool, node.azure_size, node.strategy, node.layout_scope, node.mig_config
    )


def _pod_plans(inputs: Inputs, draft: Draft) -> tuple[PodPlan, ...]:
    running = [_running(pod, draft) for pod in inputs.snapshot.pods if pod.node is not None]
    waiting = [_waiting(want, inputs, draft) for want in draft.wants]
    return tuple(sorted([*running, *waiting], key=lambda p: (p.namespace, p.name)))


def _running(pod: Pod, draft: Draft) -> PodPlan:
    held = sorted(
        {
            i.profile
            for g in draft.fleet.of_node(pod.node or "")
            for i in g.gpu.instances
            if i.owner and str(i.owner) == pod.key
        }
        | {WHOLE for g in draft.fleet.of_node(pod.node or "") if g.gpu.owner and str(g.gpu.owner) == pod.key}
    )
    place = Place(pod.node or "", held[0]) if len(held) == 1 else None
    text = f"keeps {' and '.join(held)}" if held else "keeps what it holds"
    if held == [WHOLE]:
        text = "keeps its whole GPUs" if sum(pod.asks.values()) > 1 else "keeps its whole GPU"
    return PodPlan(pod.namespace, pod.name, Reason.RUNNING, text, place, place, pod.asks)


def _waiting(want: Want, inputs: Inputs, draft: Draft) -> PodPlan:
    pod = want.pod
    if pod.key not in draft.assignment.places:
        because = why_unserved(want, draft.fleet, inputs.policy, draft.assignment)
        known = known_by(want.fit, None, None)
        text = because.text + estimate_words(known)
        return PodPlan(pod.namespace, pod.name, because.reason, text, None, None, pod.asks, known)
    node, option = draft.assignment.places[pod.key]
    named = _named(option)
    place = Place(node, named[0] if named else _profile_of_any(node, draft))
    what = " and ".join("a whole GPU" if name == WHOLE else name for name in named or (place.profile,))
    because = (
        Because(Reason.FITS_FREE_SLICE, f"{what} {'are' if ' and ' in what else 'is'} free on {node} as it is")
        if pod.key in draft.kept
        else Because(Reason.SERVED_AFTER_RECUT, f"{what} on {node} once its GPUs are cut anew")
    )
    request = _request_change(want, place, draft.fleet)
    if place.profile == WHOLE and not may_hold_whole(pod, want.count, inputs.policy):
        why = "its memory need is unknown (give --fits or its class)" if want.refused is None else want.refused.text
        request += f"; strict MIG would give it a slice, but {why}"
    board = next((g.board for g in draft.fleet.of_node(node) if g.board), None)
    known = known_by(want.fit, board, place.profile)
    text = because.text + request + estimate_words(known)
    return PodPlan(pod.namespace, pod.name, because.reason, text, None, place, pod.asks, known)


def known_by(fit: Fit | None, board: Board | None, profile: str | None) -> KnownBy | None:
    """None where a fit names no slot, unless it is a class that has none."""
    if fit is None or not (fit.workload_class or any(o.fits for o in fit.options)):
        return None
    at = (board.key if board else None, profile)
    option = next((o for o in fit.options if (o.board, o.profile) == at), None)
    sure = f"; {option.reason}" if fit.workload_class and option and option.reason != "OK" else ""
    need = option.memory_mib if option else MemoryNeed()
    return KnownBy(fit.source, fit.confidence + sure, fit.workload_class, need)


def estimate_words(known: KnownBy | None) -> str:
    """What a slot that only an estimate speaks for must say."""
    if known is None or known.source != "estimated":
        return ""
    need, of = known.memory_mib, f"class {known.workload_class}, " if known.workload_class else ""
    memory = "" if need.peak is None else f", up to {need.peak} MiB in {need.limit}"
    return f"; {of}estimated {known.confidence}{memory}"


def _request_change(want: Want, place: Place, fleet: Fleet) -> str:
    """What the pod must ask for where its fit says another slot than its request."""
    if not want.slots or place.profile in dict(want.asks):
        return ""
    node = next(n for n in fleet.nodes if n.name == place.node)
    resource = WHOLE_GPU_RESOURCE if is_single(node) else f"nvidia.com/mig-{place.profile.replace('+', '.')}"
    if dict(want.pod.asks) == {resource: want.count}:
        return "; a nodeSelector must keep it to such nodes"
    return f"; its request must become {resource}: {want.count}"


def _named(option: Items) -> tuple[str, ...]:
    return tuple(item for item, _ in option if item not in (ANY_SLICE, KEPT_SLICE))


def _profile_of_any(node: str, draft: Draft) -> str:
    for gpu in draft.fleet.of_node(node):
        if gpu.offers and gpu.key not in draft.after:
            return next((i.profile for i in gpu.gpu.instances if i.state == "idle"), WHOLE)
    return WHOLE
