"""From a fleet as it was observed to what repartition is asked: what nobody can be sure of is pinned, never idle.

Nodes of the single strategy are left out: they change as a whole, which ``plan/assign.py`` decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from migsaw.model.layouts import Placed
from migsaw.model.reasons import Reason
from migsaw.model.snapshot import Instance, Snapshot
from migsaw.plan.fleet import Fleet, FleetGpu
from migsaw.plan.items import WHOLE, is_single, item_of
from migsaw.plan.repartition.values import AKS_POOL, MIG_MANAGER, Actuator, Held, PoolGpu

# by owner; others change nothing, and a DRA driver cuts at arrival by itself
ACTUATORS: Mapping[str, Actuator] = {"gpu-operator": MIG_MANAGER}
HOLDING = {Reason.HELD, Reason.MAY_BE_HELD}  # reasons that repartition weighs itself, instance by instance


def pool_of(fleet: Fleet, snapshot: Snapshot, actuators: Mapping[str, Actuator] = ACTUATORS) -> tuple[PoolGpu, ...]:
    """GPUs of which every instance is known, by node and index."""
    workloads = {pod.key: str(pod.workload) for pod in snapshot.pods if pod.workload}
    nothing = {name: Actuator(a.name, "none") for name, a in actuators.items()}
    found = []
    for gpu in fleet.gpus:
        if is_single(gpu.node) or not gpu.is_known:
            continue
        owner = gpu.node.owner
        source = actuators if _may_change(gpu) else nothing
        found.append(_pool_gpu(gpu, source.get(owner, AKS_POOL), workloads))
    return tuple(found)


def demand_of(fleet: Fleet, snapshot: Snapshot) -> dict[str, int]:
    """Instances that pods wait for, by canonical profile. Whole GPUs are not among them."""
    boards = list({gpu.board.key: gpu.board for gpu in fleet.gpus if gpu.board}.values())
    found: Counter[str] = Counter()
    for pod in snapshot.pods:
        for resource, count in pod.asks.items() if pod.node is None else ():
            known = (item for board in boards if board.find(item := item_of(resource, board)))
            name = next(known, item_of(resource, None))
            if name != WHOLE:
                found[name] += count
    return {name: n for name, n in sorted(found.items()) if n}


def _may_change(gpu: FleetGpu) -> bool:
    """Held instances do not stand in the way by themselves; a neighbour does only for a change of mode."""
    if gpu.blocked is None or gpu.blocked.reason in HOLDING:
        return True
    return gpu.blocked.reason is Reason.NODE_HELD and _is_off(gpu)


def _is_off(gpu: FleetGpu) -> bool:
    return gpu.gpu.mig != "on" and not gpu.layout


def _pool_gpu(gpu: FleetGpu, actuator: Actuator, workloads: Mapping[str, str]) -> PoolGpu:
    assert gpu.board is not None
    name, index = gpu.key
    if _is_off(gpu) or (not gpu.layout and gpu.gpu.state != "idle"):
        if gpu.gpu.state == "idle" and gpu.gpu.owner is None:
            return PoolGpu(name, index, gpu.board, actuator, changes_mode=True)
        whole = Held(Placed(WHOLE), None, str(gpu.gpu.owner) if gpu.gpu.owner else None)
        return PoolGpu(name, index, gpu.board, Actuator(actuator.name, "none"), (whole,))
    held = tuple(_held(i, gpu, workloads) for i in gpu.gpu.instances if i.state != "idle")
    idle = tuple(_placed(i, gpu) for i in gpu.gpu.instances if i.state == "idle" and gpu.node.schedulable)
    return PoolGpu(name, index, gpu.board, actuator, held, idle)


def _held(instance: Instance, gpu: FleetGpu, workloads: Mapping[str, str]) -> Held:
    """An instance whose holder is not certain has no workload, so no budget lets it move."""
    pod = str(instance.owner) if instance.owner else None
    workload = workloads.get(pod or "") if instance.state == "busy" else None
    return Held(_placed(instance, gpu), workload, pod)


def _placed(instance: Instance, gpu: FleetGpu) -> Placed:
    assert gpu.board is not None
    return Placed(gpu.board.profile(instance.profile).name, instance.start)
