"""Contradictions that a node shows by itself. Each was met by somebody: reports in NVIDIA's and Azure's trackers.

Every check is a function of facts → notes. None of them changes what was observed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from migsaw.model.boards import Board, Catalogue
from migsaw.model.names import RESOURCE_PREFIX, WHOLE_GPU_RESOURCE, parse_profile_name
from migsaw.model.snapshot import Gpu, Note
from migsaw.observe import naming
from migsaw.observe.inventory import PRODUCT, Inventory, devices, labelled_slices, most_of
from migsaw.observe.mig_parted import Entry, MigParted
from migsaw.observe.nodes import NodeFacts
from migsaw.observe.partitioner import MIG_CONFIG, MIG_MANAGER, Partitioner
from migsaw.observe.pods import PodsSeen

_PAUSED = "paused-for-mig-change"


def check_node(node: NodeFacts, inventory: Inventory, partitioner: Partitioner, gpus: Sequence[Gpu]) -> list[Note]:
    return [
        *_board_notes(node, inventory, gpus),
        *_owner_notes(node, partitioner),
        *_state_notes(node, inventory.board),
        *_count_notes(node, inventory),
        *_seen_notes(node, inventory, gpus),
        *_telemetry_notes(node, gpus),
    ]


def _board_notes(node: NodeFacts, inventory: Inventory, gpus: Sequence[Gpu]) -> list[Note]:
    found = []
    unknown = {gpu.product: [str(g.index) for g in gpus if g.product == gpu.product] for gpu in gpus if not gpu.board}
    if not gpus and inventory.board is None and inventory.product:
        unknown = {inventory.product: []}
    for product, indices in sorted(unknown.items(), key=lambda row: str(row[0])):
        where = f"GPU {', '.join(indices)}: " if indices else ""
        named = f"{product} is no board with MIG that migsaw knows" if product else "nobody says which board it is"
        found.append(node.note("warning", f"{where}{named}: nothing can be planned on it"))
    return found


def _owner_notes(node: NodeFacts, partitioner: Partitioner) -> list[Note]:
    found = []
    if partitioner.others:
        text = (
            f"taken for {partitioner.owner} ({partitioner.reason}), but there is more: {'; '.join(partitioner.others)}"
        )
        found.append(node.note("warning", text))
    if "run.ai/mig.config" in node.annotations:
        found.append(node.note("warning", "annotation run.ai/mig.config: Run:ai cuts GPUs here too"))
    has_operator = any(key.startswith("nvidia.com/gpu.deploy.") for key in node.labels)
    if has_operator and node.labels.get("nvidia.com/mig.capable") == "true" and not node.label(MIG_MANAGER):
        found.append(node.note("warning", f"it can do MIG, but has no label {MIG_MANAGER}: nobody will re-cut it"))
    return found


def _state_notes(node: NodeFacts, board: Board | None) -> list[Note]:
    """gpu-operator#2833 (stuck), #603 (success without devices), #2670 (asked for, not yet done)."""
    found = []
    config, state = node.label(MIG_CONFIG), node.label("nvidia.com/mig.config.state")
    strategy = node.label("nvidia.com/mig.strategy")
    if shared := sorted(name for name in node.capacity if devices(node, name, 1) == 0 or name.endswith(".shared")):
        text = (
            f"{', '.join(shared)}: time-slicing or MPS lets several pods share one; migsaw counts devices, one pod each"
        )
        found.append(node.note("warning", text))
    if strategy not in (None, "single", "mixed", "none"):
        text = f"its label nvidia.com/mig.strategy is {strategy!r}, none of single, mixed and none: not believed"
        found.append(node.note("warning", text))
    paused = sorted(key for key, shown in node.labels.items() if shown == _PAUSED)
    if state in ("pending", "rebooting", "failed"):
        severity = "error" if state == "failed" else "warning"
        text = f"nvidia.com/mig.config.state is {state}: what it shows may be of before or after the change"
        found.append(node.note(severity, text))
    if paused:
        text = f"{len(paused)} operator daemons are {_PAUSED}; where that lasts, set their labels back to true"
        found.append(node.note("warning", text))
    if (node.label(PRODUCT) or "").endswith("-MIG-INVALID"):
        said = " although the state is success" if state == "success" else ""
        text = f"GPU feature discovery calls its layout invalid for the single strategy{said}"
        found.append(node.note("error", text + _right_profile(config, board)))
    if config and state is None:
        found.append(
            node.note("warning", f"{MIG_CONFIG} is set, but there is no state: the change has not been made yet")
        )
    return found


def _right_profile(config: str | None, board: Board | None) -> str:
    wished = parse_profile_name((config or "").removeprefix("all-"))
    if wished is None or board is None or board.find(str(wished)) is not None:
        return ""
    near = [p.name for p in board.profiles if p.is_plain and p.compute_slices == wished.slices]
    return f"; {board.key} has no {wished}, but {', '.join(near)}" if near else f"; {board.key} has no {wished}"


def _count_notes(node: NodeFacts, inventory: Inventory) -> list[Note]:
    """gpu-operator#981: labels are outputs, and people edit them. k8s-device-plugin#225: gone after a reboot."""
    if not node.capacity or node.label("nvidia.com/mig.strategy") != "mixed":
        return []
    labelled = labelled_slices(node, inventory.board)
    advertised = Counter(inventory.slices)
    if not labelled or labelled == advertised:
        return []
    text = f"labels count {_shown(labelled)}, the kubelet advertises {_shown(advertised)}: labels are not believed"
    return [node.note("warning", text)]


def _seen_notes(node: NodeFacts, inventory: Inventory, gpus: Sequence[Gpu]) -> list[Note]:
    found = []
    seen = Counter(i.profile for gpu in gpus for i in gpu.instances)
    is_shown = any(gpu.uuid for gpu in gpus)  # by the exporter or nvidia-smi, not only by the Node object
    if is_shown and inventory.is_complete and seen != Counter(inventory.slices):
        text = f"{_shown(seen)} were seen, the kubelet advertises {_shown(Counter(inventory.slices))}"
        found.append(node.note("warning", f"{text}: files of different times, or the device plugin has not noticed"))
    modes = {gpu.mig for gpu in gpus}
    if node.label("nvidia.com/mig.strategy") == "single" and {"on", "off"} <= modes:
        found.append(
            node.note("warning", "single strategy, but MIG is on for some GPUs only: the plugin may refuse to start")
        )
    pending = [str(gpu.index) for gpu in gpus if gpu.mig == "pending"]
    if pending:
        text = (
            f"GPU {', '.join(pending)}: MIG mode changes with the next reset or reboot; until then nothing can be cut"
        )
        found.append(node.note("warning", text))
    unknown = [
        str(g.index)
        for g in gpus
        if not g.instances and (g.mig == "unknown" or (g.mig == "on" and g.state == "unknown"))
    ]
    if unknown:
        totals = f"; the node advertises {_shown(Counter(inventory.slices))}" if inventory.slices else ""
        text = (
            f"GPU {', '.join(unknown)}: what it holds is not known{totals}: give exporter text or `nvidia-smi mig -lgi`"
        )
        found.append(node.note("warning", text))
    return found


def _telemetry_notes(node: NodeFacts, gpus: Sequence[Gpu]) -> list[Note]:
    """dcgm-exporter#507 (some slices without profiling), #380 (no memory per slice): no data is not idle."""
    items = [i for gpu in gpus for i in gpu.instances if i.gi_id is not None]
    silent = [i for i in items if i.activity is None]
    blind = [i for i in items if i.memory_mib.used is None]
    found = []
    if silent and len(silent) < len(items):
        text = f"no activity of {len(silent)} of {len(items)} instances: that is no data, not idleness"
        found.append(node.note("info", text))
    if blind and len(blind) < len(items):
        found.append(node.note("info", f"no memory use of {len(blind)} of {len(items)} instances"))
    return found


def check_pods(nodes: Mapping[str, NodeFacts], gpu_nodes: Collection[str], pods: PodsSeen) -> list[Note]:
    """What the pods file says of nodes, where the nodes file says otherwise: files of different times or clusters."""
    found = []
    if not gpu_nodes:
        text = (
            "no node here shows a GPU: no label nvidia.com/gpu.present, no capacity nvidia.com/gpu, no Azure GPU size"
        )
        found.append(Note("warning", text, next(iter(nodes.values())).file))
    for name, mine in sorted(pods.on_node.items()):
        number = f"{len(mine)} pod{'s' * (len(mine) != 1)} with GPUs"
        if name not in gpu_nodes:
            known = "shows no GPU" if name in nodes else "is not among the nodes"
            found.append(Note("warning", f"{number} on node {naming.node(name)}, which {known}"))
        elif name in nodes and (capacity := nodes[name].capacity):
            asked = sum((Counter(pod.asks) for pod in mine), Counter[str]())
            plain = {r: n for r, n in asked.items() if r == WHOLE_GPU_RESOURCE or r.startswith(RESOURCE_PREFIX)}
            over = [f"{n} x {r} of {capacity.get(r, 0)}" for r, n in sorted(plain.items()) if n > capacity.get(r, 0)]
            if over:
                text = f"{number} ask for more than the kubelet advertises: {', '.join(over)}"
                found.append(nodes[name].note("warning", f"{text}: files of different times"))
    return found


def check_wish(node: NodeFacts, gpus: Sequence[Gpu], parted: Sequence[MigParted], catalogue: Catalogue) -> list[Note]:
    """What the node's label asks mig-manager for, beside what was seen. A wish never becomes an observation."""
    config = node.label(MIG_CONFIG)
    if config is None:
        return []
    files = [p for p in parted if config in p.configs]
    if parted and not files and not all(p.is_export for p in parted):
        name = naming.mark("config", config)
        return [node.note("warning", f"its label names the config {name}, which no --mig-parted file has")]
    found = []
    for gpu in gpus:
        board = catalogue.find(gpu.board) if gpu.board else None
        wish = files[0].wish(config, gpu.index, board.pci_ids if board else ()) if files else _by_name(config, board)
        if wish is not None:
            found += _differences(node, gpu, board, wish, files[0].file if files else None)
    return found


def _by_name(config: str, board: Board | None) -> Entry | None:
    """Names that mig-parted's own configuration gives: all-disabled, all-1g.10gb."""
    if config == "all-disabled":
        return Entry((), None, False, {})
    name = re.sub(r"\.(me|gfx)", r"+\1", config.removeprefix("all-"))
    known = board.find(name) if board and config.startswith("all-") else None
    return Entry((), None, True, {known.name: most_of(board, known.name)}) if board and known else None


def _differences(node: NodeFacts, gpu: Gpu, board: Board | None, wish: Entry, file: str | None) -> list[Note]:
    config = naming.mark("config", node.label(MIG_CONFIG) or "")
    where = f"GPU {gpu.index}: the config {config}"
    unknown = sorted(name for name in wish.counts if board and board.profiles and board.find(name) is None)
    if unknown and board:
        return [_about(node, f"{where} asks for {', '.join(unknown)}, which {board.key} does not have", "error", file)]
    wished = Counter({(board.find(n).name if board and board.find(n) else n): k for n, k in wish.counts.items() if k})  # type: ignore[union-attr]
    seen = Counter(i.profile for i in gpu.instances)
    if wish.enabled and gpu.mig == "on" and gpu.instances and wished != seen:
        return [_about(node, f"{where} asks for {_shown(wished)}, and it has {_shown(seen)}", "warning", file)]
    if gpu.mig in ("on", "off") and wish.enabled != (gpu.mig == "on"):
        return [
            _about(
                node, f"{where} asks for MIG {'on' if wish.enabled else 'off'}, and it is {gpu.mig}", "warning", file
            )
        ]
    return []


def _about(node: NodeFacts, text: str, severity: str, file: str | None) -> Note:
    note = node.note(severity, text)
    return Note(note.severity, note.text, file or note.file, None if file else note.where)


def _shown(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} x {name}" for name, number in sorted(counts.items()) if number) or "no instances"
