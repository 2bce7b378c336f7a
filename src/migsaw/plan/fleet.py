"""The snapshot as the planner sees it: what each GPU offers, and whether the target may cut it anew.

A GPU may be cut anew only if nothing that runs could notice: every instance on it is known to be idle, and so is all
that the change would reset. What nobody can name counts as held (design: safety of a change).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

from migsaw.errors import TargetError
from migsaw.model.boards import Board, Catalogue
from migsaw.model.layouts import UNKNOWN, Layout, Placed, seen_fault
from migsaw.model.names import RESOURCE_PREFIX, WHOLE_GPU_RESOURCE
from migsaw.model.plan import Target
from migsaw.model.policy import Policy
from migsaw.model.reasons import Because, Reason
from migsaw.model.snapshot import Gpu, Node, Pod, Snapshot
from migsaw.plan.items import ANY_SLICE, KEPT_SLICE, WHOLE, is_single, item_of
from migsaw.plan.kubelet import unseen_instances, unwell, within_allocatable

# which owners a target can change; None: it changes nothing itself and follows what each owner can do
REACH: Mapping[Target | None, tuple[str, ...]] = {
    None: ("gpu-operator",),
    "mig-manager": ("gpu-operator",),
    "kubernetes": ("gpu-operator",),
    "azureml": ("gpu-operator",),
    "device-plugin": ("gpu-operator",),
    "nvidia-smi": ("unknown",),
    "aks": (),
    "dra": (),
}
# which owners a plan for the target must find at least one node of
NEEDS: Mapping[Target | None, tuple[str, ...]] = {
    "mig-manager": ("gpu-operator",),
    "nvidia-smi": ("unknown",),
    "aks": ("aks", "aks-managed"),
    "dra": ("dra",),
}


@dataclass(frozen=True, slots=True)
class FleetGpu:
    node: Node
    gpu: Gpu
    board: Board | None
    layout: Layout  # as seen; starts may be unknown
    offers: Mapping[str, int]  # item → free instances: a profile or WHOLE; single strategy: ANY and KEPT_SLICE too
    blocked: Because | None  # why it cannot be cut anew; None: it can
    is_seen: bool = True  # ``layout`` is all that it has

    @property
    def key(self) -> tuple[str, int]:
        return self.node.name, self.gpu.index

    @property
    def geometry(self) -> str:
        """What tells its geometry from others: the board, or what this driver reported in its stead."""
        is_own = self.board is not None and self.board.evidence == "reported"
        return (self.gpu.geometry if is_own else self.board.key if self.board else None) or ""

    @property
    def is_known(self) -> bool:
        """Whether its board has placements, and every instance on it is a profile of the board."""
        if self.board is None or not self.board.placements_known:
            return False
        found = all(self.board.find(placed.profile) for placed in self.layout)
        return found and seen_fault(self.board, self.layout) is None


@dataclass(frozen=True)
class Fleet:
    gpus: tuple[FleetGpu, ...]  # by node name, then index
    nodes: tuple[Node, ...]  # with GPUs, by name
    notes: tuple[str, ...] = ()

    def of_node(self, name: str) -> tuple[FleetGpu, ...]:
        return self._by_node.get(name, ())

    @cached_property
    def _by_node(self) -> dict[str, tuple[FleetGpu, ...]]:
        return {name: tuple(gpus) for name, gpus in groupby(self.gpus, lambda g: g.node.name)}


def build_fleet(snapshot: Snapshot, catalogue: Catalogue, policy: Policy, target: Target | None) -> Fleet:
    """Raises :class:`TargetError` when the target fits no node of the snapshot."""
    pods: dict[str, list[Pod]] = {}
    for pod in snapshot.pods:
        pods.setdefault(pod.node or "", []).append(pod)
    boards = {(n.name, gpu.index): _board(gpu, snapshot, catalogue) for n in snapshot.nodes for gpu in n.gpus}
    seen = (_with_doubts(n, pods.get(n.name, ()), boards) for n in snapshot.nodes if n.gpus)
    nodes = tuple(sorted(seen, key=lambda n: n.name))
    _check_target(nodes, target, policy)
    gpus: list[FleetGpu] = []
    notes: list[str] = []
    for node in nodes:
        mine = {gpu.index: boards[node.name, gpu.index] for gpu in node.gpus}
        node_block, unseen = _node_block(node, catalogue, target), unseen_instances(node, mine)
        own = sorted(node.gpus, key=lambda g: g.index)
        offers, note = within_allocatable([_offers(node, g) for g in own], node, pods.get(node.name, ()), mine)
        notes += [note] if note else []
        for gpu, offer in zip(own, offers, strict=True):
            board = mine[gpu.index]
            doubt = unseen or (unwell(node, note) if note else None)
            block = node_block or _gpu_block(gpu, board) or doubt or _neighbour_block(node, gpu, mine)
            is_seen = unseen is None and _is_seen(gpu, board)
            gpus.append(FleetGpu(node, gpu, board, _layout(gpu), offer, block, is_seen))
    return Fleet(tuple(gpus), nodes, tuple(notes))


def _with_doubts(node: Node, pods: Sequence[Pod], boards: Mapping[tuple[str, int], Board | None]) -> Node:
    """What nobody can be sure of counts as perhaps held, whatever the snapshot says.

    Instances that cannot have been there at one time; and all that a running pod may hold for whose request no holding
    is named (``observe`` settles this itself, a snapshot that was written or merged by other hands may not have).
    """
    named = Counter(str(i.owner) for g in node.gpus for i in g.instances if i.owner)
    named.update(str(g.owner) for g in node.gpus if g.owner)
    unnamed: dict[str, Pod] = {}
    for pod in pods:
        asks = {r: n for r, n in pod.asks.items() if r == WHOLE_GPU_RESOURCE or r.startswith(RESOURCE_PREFIX)}
        if named[pod.key] < sum(asks.values()):
            unnamed |= dict.fromkeys(asks, pod)
    known = ((gpu, boards[node.name, gpu.index]) for gpu in node.gpus)
    doubted = (_gpu_with_doubts(_if_possible(gpu, board), node, unnamed, board) for gpu, board in known)
    return replace(node, gpus=tuple(doubted))


def _if_possible(gpu: Gpu, board: Board | None) -> Gpu:
    wrong = seen_fault(board, _layout(gpu))
    if wrong is None:
        return gpu
    why = f"what was shown cannot all be there: {wrong}"
    doubted = (replace(i, state="unknown", owner_reason=why) if i.state == "idle" else i for i in gpu.instances)
    return replace(gpu, instances=tuple(doubted))


def _gpu_with_doubts(gpu: Gpu, node: Node, unnamed: Mapping[str, Pod], board: Board | None) -> Gpu:
    holders = {item_of(resource, board): pod for resource, pod in unnamed.items()}

    def doubt(item: str) -> str | None:
        pod = holders.get(WHOLE if is_single(node) else item)
        return f"pod {pod.key} runs here, and nobody says what it holds" if pod else None

    instances = tuple(
        replace(i, state="unknown", owner_reason=why) if i.state == "idle" and (why := doubt(i.profile)) else i
        for i in gpu.instances
    )
    why = doubt(WHOLE)
    if not instances and gpu.mig != "on" and gpu.state == "idle" and why:
        return replace(gpu, state="unknown", owner_reason=why)
    return replace(gpu, instances=instances)


def _check_target(nodes: tuple[Node, ...], target: Target | None, policy: Policy) -> None:
    owners = sorted({n.owner for n in nodes})
    needed = NEEDS.get(target)
    if needed and not set(needed) & set(owners):
        found = ", ".join(owners) or "none"
        hint = {"gpu-operator": "mig-manager", "aks": "aks", "aks-managed": "aks", "dra": "dra"}
        others = sorted({hint[o] for o in owners if o in hint})
        advice = f"plan --for {' or '.join(others)}" if others else "check who owns the GPUs with `migsaw observe`"
        raise TargetError(
            f"no node here is for {target}: it needs owner {' or '.join(needed)}, found {found}", hint=advice
        )
    if target == "azureml" and not any(is_single(n) for n in nodes):
        raise TargetError(
            "no node has the single strategy, and the documented InstanceType asks for nvidia.com/gpu: 1",
            hint="plan without --for, then render --for azureml --allow-mixed after a live probe",
        )


def _board(gpu: Gpu, snapshot: Snapshot, catalogue: Catalogue) -> Board | None:
    board = catalogue.find(gpu.board) if gpu.board else None
    reported = snapshot.geometries.get(gpu.geometry) if gpu.geometry else None
    if board and reported:
        return board.with_reported({p.profile_id: p.starts for p in reported})
    return board


def _node_block(node: Node, catalogue: Catalogue, target: Target | None) -> Because | None:
    if node.owner in ("aks", "aks-managed"):
        text = f"{node.owner} pools keep the layout they were made with; only a new pool can differ"
        return Because(Reason.OWNER_CANNOT_RECUT, text)
    if node.owner not in REACH[target]:
        who = "nobody known owns its MIG layout" if node.owner == "unknown" else f"its GPUs are owned by {node.owner}"
        return Because(Reason.OUT_OF_SCOPE, f"{who}; {target or 'a plan without target'} does not reach it")
    size = catalogue.azure_sizes.get(node.azure_size or "")
    if size is not None and not size.repartitionable:
        return Because(Reason.HOST_OWNS_MIG, f"on {size.name} the host owns MIG, a guest cannot change it")
    if node.mig_config_state in ("pending", "rebooting"):
        return Because(Reason.NODE_UNAVAILABLE, f"mig-manager is at work here (state {node.mig_config_state})")
    if not node.schedulable:
        return Because(Reason.NODE_UNAVAILABLE, "cordoned or not ready")
    if node.strategy == "none":
        return Because(Reason.OUT_OF_SCOPE, "its device plugin has the strategy none and would offer no slice")
    if target == "azureml" and not is_single(node):
        return Because(Reason.OUT_OF_SCOPE, "Azure ML's documented InstanceTypes need the single strategy")
    return None


def _gpu_block(gpu: Gpu, board: Board | None) -> Because | None:
    if board is None:
        return Because(Reason.BOARD_UNKNOWN, f"no geometry for {gpu.product or gpu.board or 'this board'}")
    if not board.placements_known:
        return Because(Reason.BOARD_UNKNOWN, f"the placements of {board.key} are not known ({board.evidence})")
    if gpu.mig == "pending":
        return Because(Reason.REBOOT_PENDING, "a mode change waits for a GPU reset or reboot")
    if held := _holder_block(gpu):
        return held
    if gpu.mig == "unknown" and not gpu.instances:
        return Because(Reason.MODE_UNKNOWN, "nothing says whether MIG is on: give exporter text or `nvidia-smi -L`")
    return None


def _holder_block(gpu: Gpu) -> Because | None:
    """Held itself, or perhaps held."""
    busy = [i for i in gpu.instances if i.state == "busy"]
    if busy:
        names = sorted({str(i.owner) for i in busy if i.owner}) or ["a pod that nobody can name"]
        return Because(
            Reason.HELD, f"{', '.join(names)} hold{'s' if len(names) == 1 else ''} {_count(len(busy))} on it"
        )
    unsure = [i for i in gpu.instances if i.state == "unknown"]
    if unsure:
        why = next((i.owner_reason for i in unsure if i.owner_reason), "not known")
        return Because(Reason.MAY_BE_HELD, f"the holder of {_count(len(unsure))} is not known: {why}")
    if gpu.instances or (gpu.mig == "on" and gpu.state == "idle"):
        return None
    if gpu.mig == "on" and gpu.state == "unknown":  # MIG is on, and nobody showed which instances there are
        return Because(Reason.MAY_BE_HELD, f"what it holds is not known: {gpu.owner_reason or 'nobody shows it'}")
    if gpu.owner or gpu.state == "busy":
        return Because(Reason.HELD, f"{gpu.owner or 'a pod that nobody can name'} holds the whole GPU")
    if gpu.state == "unknown":
        return Because(
            Reason.MAY_BE_HELD, f"whether a pod holds the whole GPU is not known: {gpu.owner_reason or 'no pods given'}"
        )
    return None


def _neighbour_block(node: Node, gpu: Gpu, boards: Mapping[int, Board | None]) -> Because | None:
    """Free itself, but the change would touch others: a mode change, the single strategy, or a GPU nobody looked into.

    A mig-parted config names every GPU of its node, so what an unseen neighbour holds would have to be guessed.
    """
    unseen = [g for g in node.gpus if g.index != gpu.index and not _is_seen(g, boards[g.index])]
    if unseen and node.owner == "gpu-operator":
        text = f"what GPU {unseen[0].index} of the node holds is not known, and mig-manager's config must name it"
        return Because(Reason.NODE_HELD, text)
    resets = gpu.mig != "on" and not gpu.instances
    if not resets and not is_single(node):
        return None
    held = [other for other in node.gpus if other.index != gpu.index and _holder_block(other)]
    if not held:
        return None
    why = "the single strategy needs one profile on all GPUs" if is_single(node) else "a mode change resets every GPU"
    block = _holder_block(held[0])
    assert block is not None
    return Because(Reason.NODE_HELD, f"{why} of the node, and on GPU {held[0].index} {block.text}")


def _is_seen(gpu: Gpu, board: Board | None) -> bool:
    """Whether its mode is known, and with MIG on also which instances it has, or that it has none."""
    if gpu.instances:
        return seen_fault(board, _layout(gpu)) is None and all(i.profile != UNKNOWN for i in gpu.instances)
    return gpu.mig in ("off", "pending") or (gpu.mig == "on" and gpu.state != "unknown")


def _count(n: int) -> str:
    return "1 instance" if n == 1 else f"{n} instances"


def _layout(gpu: Gpu) -> Layout:
    return tuple(Placed(i.profile, i.start) for i in gpu.instances)


def _offers(node: Node, gpu: Gpu) -> dict[str, int]:
    """Free instances by item. On a node that takes no pods nothing is offered."""
    if not node.schedulable:
        return {}
    found = Counter(i.profile for i in gpu.instances if i.state == "idle" and node.strategy != "none")
    if not gpu.instances and gpu.mig == "off" and gpu.state == "idle":
        found[WHOLE] = 1
    if is_single(node):
        found[ANY_SLICE] = found[KEPT_SLICE] = found.total()
    return {item: n for item, n in sorted(found.items()) if n}


def in_use(gpu: FleetGpu) -> bool:
    """Something on it is held, or may be."""
    if gpu.gpu.instances:
        return any(i.state != "idle" for i in gpu.gpu.instances)
    return gpu.gpu.owner is not None or gpu.gpu.state != "idle"
