"""Whether a plan still holds for a newer snapshot. Each way in which it may not is a value of an enum.

Only what the plan touches is looked at: GPUs whose layout changes, their nodes, and the pods for which they change.
A plan with failures is not patched up but made anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from migsaw.model.layouts import Placed, by_start
from migsaw.model.plan import GpuPlan, NodePlan, Plan
from migsaw.model.snapshot import Gpu, Instance, Node, Snapshot


class Failure(StrEnum):
    NODE_GONE = "NodeGone"
    NODE_UNAVAILABLE = "NodeUnavailable"  # cordoned or not ready
    NODE_BUSY = "NodeBusy"  # mig-manager is at work
    OWNER_CHANGED = "OwnerChanged"
    STRATEGY_CHANGED = "StrategyChanged"
    GPU_GONE = "GpuGone"
    GPU_REPLACED = "GpuReplaced"  # another UUID, or another board
    LAYOUT_CHANGED = "LayoutChanged"  # not the instances that the plan was made from
    NOW_HELD = "NowHeld"  # something that the plan would cut away, or whose node it resets, is held
    MAY_BE_HELD = "MayBeHeld"  # nobody can say whether it is
    DEMAND_GONE = "DemandGone"  # no pod waits any more for which anything changes
    POD_MOVED = "PodMoved"  # a pod that a step disturbs is not where it was


@dataclass(frozen=True, slots=True)
class Fault:
    """``gpu`` None: of the node, ``node`` None: of the plan."""

    failure: Failure
    text: str
    node: str | None = None
    gpu: int | None = None


def validate(plan: Plan, snapshot: Snapshot) -> tuple[Fault, ...]:
    """Empty: the plan still holds. In the order of the plan's nodes and GPUs."""
    nodes = {node.name: node for node in snapshot.nodes}
    owners = {node.name: node for node in plan.nodes}
    changed = [gpu for gpu in plan.gpus if gpu.before != gpu.after]
    reset = {gpu.node for gpu in changed if ("off",) in (gpu.before, gpu.after)}
    faults: list[Fault] = []
    for name in dict.fromkeys(gpu.node for gpu in changed):
        if name not in nodes:
            faults.append(Fault(Failure.NODE_GONE, "the node is not there any more", name))
            continue
        faults += _node_faults(nodes[name], owners.get(name))
        if name in reset:
            faults += _neighbour_faults(nodes[name], {gpu.index for gpu in changed if gpu.node == name}, plan)
    for gpu in changed:
        if gpu.node in nodes:
            faults += _gpu_faults(gpu, nodes[gpu.node], _disturbed(plan, gpu.node))
    return (*faults, *_pod_faults(plan, snapshot, bool(changed)))


def _node_faults(node: Node, planned: NodePlan | None) -> Iterator[Fault]:
    if not node.schedulable:
        yield Fault(Failure.NODE_UNAVAILABLE, "the node is cordoned or not ready", node.name)
    if node.mig_config_state in ("pending", "rebooting"):
        yield Fault(Failure.NODE_BUSY, f"mig-manager is at work (state {node.mig_config_state})", node.name)
    if planned is None:
        return
    if node.owner != planned.owner:
        text = f"the owner of its GPUs was {planned.owner} and is {node.owner}"
        yield Fault(Failure.OWNER_CHANGED, text, node.name)
    if node.strategy != planned.strategy:
        text = f"the strategy was {planned.strategy or 'not known'} and is {node.strategy or 'not known'}"
        yield Fault(Failure.STRATEGY_CHANGED, text, node.name)


def _neighbour_faults(node: Node, changed: set[int], plan: Plan) -> Iterator[Fault]:
    """A change of mode resets every GPU of the node, so nothing on the others may be held either."""
    gone = _disturbed(plan, node.name)
    for gpu in sorted(node.gpus, key=lambda g: g.index):
        if gpu.index not in changed:
            yield from _holder_faults(node, gpu, gpu.instances, gone)


def _gpu_faults(planned: GpuPlan, node: Node, disturbed: frozenset[str]) -> Iterator[Fault]:
    at = (node.name, planned.index)
    gpu = next((g for g in node.gpus if g.index == planned.index), None)
    if gpu is None:
        yield Fault(Failure.GPU_GONE, "the GPU is not there any more", *at)
        return
    if planned.uuid and gpu.uuid and planned.uuid != gpu.uuid:
        yield Fault(Failure.GPU_REPLACED, f"its UUID was {planned.uuid} and is {gpu.uuid}", *at)
    elif planned.board and planned.board not in (gpu.board, gpu.product):
        yield Fault(Failure.GPU_REPLACED, f"its board was {planned.board} and is {gpu.board or 'not known'}", *at)
    now = _layout_of(gpu)
    if Counter(now) != Counter(planned.before):
        text = f"it had {_listed(planned.before)} and has {_listed(now)}"
        yield Fault(Failure.LAYOUT_CHANGED, text, *at)
    yield from _holder_faults(node, gpu, _not_pinned(gpu, planned), disturbed)


def _holder_faults(node: Node, gpu: Gpu, instances: tuple[Instance, ...], disturbed: frozenset[str]) -> Iterator[Fault]:
    at = (node.name, gpu.index)
    for instance in instances:
        what = Placed(instance.profile, instance.start)
        if instance.state == "unknown":
            yield Fault(Failure.MAY_BE_HELD, f"whether {what} is held is not known", *at)
        elif instance.state == "busy" and str(instance.owner) not in disturbed:
            yield Fault(Failure.NOW_HELD, f"{what} is held by {instance.owner or 'a pod that nobody can name'}", *at)
    if not gpu.instances and gpu.state != "idle" and str(gpu.owner) not in disturbed:
        is_held = gpu.owner is not None or gpu.state == "busy"
        failure = Failure.NOW_HELD if is_held else Failure.MAY_BE_HELD
        who = f"held by {gpu.owner or 'a pod that nobody can name'}" if is_held else "perhaps held"
        yield Fault(failure, f"the GPU is {who}", *at)


def _not_pinned(gpu: Gpu, planned: GpuPlan) -> tuple[Instance, ...]:
    """Instances that the plan did not count as held; held ones first make use of the pins."""
    pins = Counter(planned.pinned)
    rest = []
    for instance in sorted(gpu.instances, key=lambda i: (i.state == "idle", str(Placed(i.profile, i.start)))):
        text = str(Placed(instance.profile, instance.start))
        if pins[text]:
            pins[text] -= 1
        else:
            rest.append(instance)
    return tuple(rest)


def _layout_of(gpu: Gpu) -> tuple[str, ...]:
    if gpu.instances:
        return tuple(str(p) for p in by_start(Placed(i.profile, i.start) for i in gpu.instances))
    return ("off",) if gpu.mig in ("off", "pending") else ()


def _listed(layout: tuple[str, ...]) -> str:
    return " ".join(layout) or "no instances"


def _disturbed(plan: Plan, node: str) -> frozenset[str]:
    """Pods that a step of the node may end, as namespace/name."""
    return frozenset(pod for step in plan.steps if step.node == node for pod in step.disrupts)


def _pod_faults(plan: Plan, snapshot: Snapshot, changes: bool) -> Iterator[Fault]:
    where = {pod.key: pod.node for pod in snapshot.pods}
    for step in plan.steps:
        for pod in step.disrupts:
            if where.get(pod) not in (None, step.node):
                yield Fault(Failure.POD_MOVED, f"{pod} runs on {where[pod]} now, not on {step.node}", step.node)
    served = [f"{p.namespace}/{p.name}" for p in plan.pods if p.before is None and p.after is not None]
    if changes and served and not any(name in where and where[name] is None for name in served):
        yield Fault(Failure.DEMAND_GONE, "none of the pods that the plan makes room for waits any more")
