"""Who holds what on one node. The planner deletes idle instances, so ``idle`` is said only where it is certain.

The exporter's label names a holder. Where it names nobody, what the node's pods ask for is counted against what is
left: if nothing is left unaccounted for, an instance is idle; if exactly as many are asked for as are left, all are
held; in between it stays unknown. What could make the count wrong (pods of one namespace only, a pod that uses GPUs
without asking, files of different times) makes it unknown too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from migsaw.fit.rules import is_idle
from migsaw.model.boards import Board
from migsaw.model.layouts import UNKNOWN
from migsaw.model.names import RESOURCE_PREFIX, WHOLE_GPU_RESOURCE, resource_name
from migsaw.model.refs import PodRef
from migsaw.model.snapshot import Activity, Gpu, Instance, Memory, Note, Pod, State
from migsaw.observe import naming
from migsaw.observe.gpus import GpuDraft
from migsaw.observe.inventory import profile_name
from migsaw.observe.nodes import NodeFacts
from migsaw.observe.pods import PodsSeen

SHARED = ".shared"
_ANY = frozenset[str]()  # the resources of a GPU of which nobody says what it holds: any
_MEMORY_OF_NOBODY = 1024  # MiB: what the driver and an idle context keep stays below


@dataclass(frozen=True, slots=True)
class Slot:
    """Something that a pod can hold: an instance, or a GPU without instances. ``resources``: under which names."""

    gpu: int
    position: int | None  # in the GPU's instances; None: the GPU itself
    resources: frozenset[str]
    named: tuple[PodRef, ...]
    doubt: str | None
    activity: Activity | None
    memory: Memory
    has_process: bool | None = None


@dataclass(frozen=True, slots=True)
class Holding:
    state: State
    owner: PodRef | None = None
    reason: str | None = None


@dataclass(slots=True)
class _Accounts:
    """What the node's pods ask for and what the exporter's labels account for."""

    holders: dict[PodRef, Mapping[str, int]] = field(default_factory=dict)  # canonical resource → number
    left: dict[str, dict[PodRef, int]] = field(default_factory=dict)  # resource → pods with so many more to hold
    over_named: set[PodRef] = field(default_factory=set)  # the exporter names them for more than they ask


def settle(
    node: NodeFacts,
    strategy: str | None,
    drafts: Sequence[GpuDraft],
    board: Board | None,
    pods: PodsSeen | None,
    *,
    names_holders: bool,
    slicer: str | None = None,
) -> tuple[tuple[Gpu, ...], list[Note]]:
    """The node's GPUs with owner, reason and state of each instance and of each GPU without instances.

    ``names_holders``: the exporters of this cluster name pods at all; some generations never do on MIG. ``slicer``: who
    cuts at arrival here (hami, das, dra), so that requests do not tell which instances they became.
    """
    slots = _slots(node, strategy, drafts)
    accounts = _accounts(node, slots, board, pods)
    blind = _blindness(node, slots, accounts, pods, slicer)
    holdings = {(s.gpu, s.position): _holding(s, node, slots, accounts, pods, blind, names_holders) for s in slots}
    notes = _notes(node, accounts, pods, slots)
    return tuple(_gpu(draft, holdings) for draft in drafts), notes


def _slots(node: NodeFacts, strategy: str | None, drafts: Sequence[GpuDraft]) -> list[Slot]:
    slots = []
    for draft in drafts:
        gpu = draft.gpu
        for position, item in enumerate(draft.instances):
            i, resources = item.instance, _resources(node, strategy, item.instance.profile)
            slots.append(
                Slot(gpu.index, position, resources, item.named, item.doubt, i.activity, i.memory_mib, item.has_process)
            )
        if not draft.instances and not (gpu.mig == "on" and draft.is_layout_known):
            resources = _ANY if gpu.mig in ("on", "unknown") else frozenset((WHOLE_GPU_RESOURCE,))
            slots.append(
                Slot(gpu.index, None, resources, draft.named, None, gpu.activity, gpu.memory_mib, draft.has_process)
            )
    return slots


def _resources(node: NodeFacts, strategy: str | None, profile: str) -> frozenset[str]:
    """Under which resource names a pod may have got an instance. An unknown profile may be any."""
    if strategy == "single":
        return frozenset((WHOLE_GPU_RESOURCE,))
    if profile == UNKNOWN:
        return frozenset(name for name in node.capacity if name.startswith(RESOURCE_PREFIX)) | {WHOLE_GPU_RESOURCE}
    if strategy == "mixed":
        return frozenset((resource_name(profile),))
    return frozenset((resource_name(profile), WHOLE_GPU_RESOURCE))


def _accounts(node: NodeFacts, slots: Sequence[Slot], board: Board | None, pods: PodsSeen | None) -> _Accounts:
    found = _Accounts()
    for pod in pods.on_node.get(node.name, ()) if pods else ():
        found.holders[PodRef(pod.namespace, pod.name)] = _canonical(pod, board)
    for ref, asks in found.holders.items():
        mine = [slot for slot in slots if ref in slot.named]
        for resource, number in asks.items():
            named = sum(resource in slot.resources for slot in mine)
            if named < number:
                found.left.setdefault(resource, {})[ref] = number - named
        is_shared = any(name.endswith(SHARED) for name in pods.pods[str(ref)].asks) if pods else False
        if len(mine) > sum(asks.values()) and not is_shared:
            found.over_named.add(ref)
    return found


def _canonical(pod: Pod, board: Board | None) -> dict[str, int]:
    """Asks by the names that slots have: ``7g.79gb`` is ``7g.80gb``; a share of a slice is held like the slice."""
    found: dict[str, int] = {}
    for name, number in pod.asks.items():
        base = name.removesuffix(SHARED)
        if base.startswith(RESOURCE_PREFIX):
            base = resource_name(profile_name(base, board))
        if _is_counted(base):
            found[base] = found.get(base, 0) + number
    return found


def _is_counted(resource: str) -> bool:
    """Whether the device plugin hands out one device for each: not so for shares of HAMi or Volcano."""
    base = resource.removesuffix(SHARED)
    return base == WHOLE_GPU_RESOURCE or base.startswith(RESOURCE_PREFIX)


def _blindness(
    node: NodeFacts, slots: Sequence[Slot], accounts: _Accounts, pods: PodsSeen | None, slicer: str | None
) -> str | None:
    """Why the count of this node cannot be trusted; None where it can."""
    if pods is None:
        return "no pods were given (--pods)"
    if not pods.is_whole_cluster:
        return "the pods given are not of the whole cluster (kubectl get pods -A)"
    if slicer:
        return f"{slicer} cuts and hands out GPUs here: requests do not tell which instances they became"
    for pod in pods.on_node.get(node.name, ()):
        if odd := next((name for name in pod.asks if not _is_counted(name)), None):
            return f"{_name(PodRef(pod.namespace, pod.name))} asks for {odd}, which does not tell what it holds"
    if askless := _askless(node, slots, pods):
        return f"the exporter names {_name(askless[0])}, which asks for no GPU: it may be the exporter itself"
    if strange := _strange(slots, pods):
        return f"the exporter names {_name(strange[0])}, which the pods files do not: they are of another time"
    if loose := pods.loose.get(node.name):
        first = min(loose, key=str)
        return f"{_name(first)} {loose[first]}"
    if accounts.over_named:
        return f"the exporter names {_name(min(accounts.over_named, key=str))} for more than it asks for"
    return None


def _holding(
    slot: Slot,
    node: NodeFacts,
    slots: Sequence[Slot],
    accounts: _Accounts,
    pods: PodsSeen | None,
    blind: str | None,
    names_holders: bool,
) -> Holding:
    if slot.named:
        return _named(slot, node, accounts, pods)
    is_alone = pods is None and node.file is None  # a machine without Kubernetes: processes tell
    if is_alone and not slot.doubt and slot.has_process is not None and slot.memory.used is not None:
        return _by_processes(slot)
    if slot.doubt or blind:
        return Holding("unknown", None, slot.doubt or blind)
    asked = [accounts.left.get(name, {}) for name in slot.resources] if slot.resources else accounts.left.values()
    left = {ref: n for mine in asked for ref, n in mine.items()}
    if not left:
        return _free(slot, names_holders)
    if _is_shared(node, slot, accounts, pods) or len(slot.resources) != 1:
        return Holding("unknown", None, f"{_names(left)} may hold it")
    rivals = [s for s in slots if not s.named and (s.resources & slot.resources or not s.resources)]
    return _counted(left, rivals)


def _by_processes(slot: Slot) -> Holding:
    """Memory in use counts too: in a container nvidia-smi lists no process of another one."""
    if slot.has_process:
        return Holding("busy", None, "nvidia-smi lists a process on it")
    if (slot.memory.used or 0) > _MEMORY_OF_NOBODY:
        return Holding("unknown", None, "nvidia-smi lists no process on it, but its memory is in use")
    return Holding("idle", None, "nvidia-smi lists no process on it")


def _named(slot: Slot, node: NodeFacts, accounts: _Accounts, pods: PodsSeen | None) -> Holding:
    """The exporter's word, unless the pods contradict it."""
    for ref in sorted(slot.named, key=str):
        if pods and str(ref) in pods.finished:
            continue
        if pods and ref in _askless(node, [slot], pods):
            return Holding("unknown", None, f"the exporter names {_name(ref)}, which asks for no GPU")
        pod = pods.pods.get(str(ref)) if pods else None
        if pod and pod.node not in (None, node.name):
            return Holding(
                "unknown", None, f"the exporter names {_name(ref)}, which runs on {naming.node(pod.node or '')}"
            )
        if ref in accounts.over_named:
            return Holding("unknown", None, f"the exporter names {_name(ref)} for more instances than it asks for")
        return Holding("busy", ref, None)
    return Holding("unknown", None, f"the exporter names {_names(slot.named)}, finished by the pods files")


def _free(slot: Slot, names_holders: bool) -> Holding:
    """Nobody asks for it. Exporters that name holders speak for the kubelet, and this one names nobody. Those that
    never do say nothing: then work in the sample means that the pods files do not show everybody."""
    if slot.has_process:
        return Holding("unknown", None, "nvidia-smi shows a process on it, but no pod is known to hold it")
    is_used = is_idle(slot.activity) is False or (slot.memory.used or 0) > _MEMORY_OF_NOBODY
    if is_used and not names_holders:
        return Holding("unknown", None, "it was at work in the sample, but no pod is known to hold it")
    return Holding("idle", None, "no pod of the node is left that could hold it")


def _counted(left: Mapping[PodRef, int], rivals: Sequence[Slot]) -> Holding:
    asked, there = sum(left.values()), len(rivals)
    if any(slot.doubt or len(slot.resources) != 1 for slot in rivals):
        return Holding("unknown", None, f"{_names(left)} may hold it")
    if asked > there:
        return Holding("unknown", None, f"{_names(left)} ask for {asked}, {there} are there: files of different times")
    if asked < there:
        return Holding(
            "unknown", None, f"{_names(left)} hold{'s' * (len(left) == 1)} {asked} of {there} such, nobody says which"
        )
    if len(left) == 1:
        return Holding("busy", next(iter(left)), "inferred: it asks for exactly those that are left")
    return Holding("busy", None, f"one of {_names(left)}: they ask for exactly those that are left")


def _is_shared(node: NodeFacts, slot: Slot, accounts: _Accounts, pods: PodsSeen | None) -> bool:
    """Several pods on one device: counting tells nothing."""
    asks = [pods.pods[str(ref)].asks for ref in accounts.holders] if pods else []
    if any(name.endswith(SHARED) for ask in asks for name in ask):
        return True
    labels = ["nvidia.com/gpu.replicas" if r == WHOLE_GPU_RESOURCE else f"{r}.replicas" for r in slot.resources]
    return any((node.number(label) or 1) > 1 for label in labels)


def _gpu(draft: GpuDraft, holdings: Mapping[tuple[int, int | None], Holding]) -> Gpu:
    gpu = draft.gpu
    instances = tuple(
        _held(item.instance, holdings[gpu.index, position]) for position, item in enumerate(draft.instances)
    )
    if instances:
        return replace(gpu, instances=instances)
    whole = holdings.get((gpu.index, None), Holding("idle", None, "MIG is on and there is no instance to hold"))
    return replace(gpu, owner=whole.owner, owner_reason=whole.reason, state=whole.state)


def _held(instance: Instance, holding: Holding) -> Instance:
    """An instance of unknown profile is never called idle: nobody could say what is deleted."""
    if instance.profile == UNKNOWN and holding.state == "idle":
        holding = Holding("unknown", None, "its profile is not known")
    return replace(instance, owner=holding.owner, owner_reason=holding.reason, state=holding.state)


def _notes(node: NodeFacts, accounts: _Accounts, pods: PodsSeen | None, slots: Sequence[Slot]) -> list[Note]:
    found = [
        node.note("warning", f"the exporter names {_name(ref)} for more instances than it asks for")
        for ref in sorted(accounts.over_named, key=str)
    ]
    for ref in _strange(slots, pods) if pods else ():
        what = "has finished" if pods and str(ref) in pods.finished else "is not in the pods files"
        found.append(node.note("warning", f"{_name(ref)}, which the exporter names, {what}"))
    for slot in slots:
        if len(slot.named) > 1:
            found.append(node.note("info", f"GPU {slot.gpu}: {_names(slot.named)} share one device"))
    return found


def _strange(slots: Sequence[Slot], pods: PodsSeen) -> list[PodRef]:
    """Holders by the exporter that no pods file shows at work."""
    named = {ref for slot in slots for ref in slot.named}
    return sorted((r for r in named if str(r) in pods.finished or r.pod not in pods.node_of), key=str)


def _askless(node: NodeFacts, slots: Sequence[Slot], pods: PodsSeen) -> list[PodRef]:
    """Holders by the exporter that the pods files show without a request for a GPU, and without another way to one."""
    named = {ref for slot in slots for ref in slot.named} - pods.loose.get(node.name, {}).keys()
    return sorted((r for r in named if str(r) not in pods.pods and r.pod in pods.node_of), key=str)


def _name(ref: PodRef) -> str:
    return f"pod {naming.pod(ref.namespace, ref.pod)}"


def _names(refs: Sequence[PodRef] | Mapping[PodRef, int]) -> str:
    """At most three names: a reason is a sentence."""
    shown = [naming.pod(ref.namespace, ref.pod) for ref in sorted(refs, key=str)]
    more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
    return f"pod{'s' * (len(shown) > 1)} {', '.join(shown[:3])}{more}"
