"""What a Node object alone says of its GPUs: labels of GPU feature discovery, the VM size, and advertised resources.

It gives totals of the node. Which GPU holds what is concluded only where there is one answer: one GPU, or every GPU
full of the same profile. It must not know of exporters or pods.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from migsaw.model.boards import Board, Catalogue
from migsaw.model.layouts import Placed, fault
from migsaw.model.names import RESOURCE_PREFIX, WHOLE_GPU_RESOURCE, parse_profile_name
from migsaw.model.snapshot import Mode, Note
from migsaw.observe.nodes import SIZE_LABELS, NodeFacts

PRODUCT, COUNT = "nvidia.com/gpu.product", "nvidia.com/gpu.count"
MOST_GPUS = 256  # of one node: what counts more is a slip
_MIG_PRODUCT = re.compile(r"(?P<board>.+)-MIG-(?P<profile>.+)")
_ROUNDING = 0.03
_COUNT_LABEL = re.compile(r"nvidia\.com/mig-(?P<profile>.+)\.count")


@dataclass(frozen=True, slots=True)
class Inventory:
    """Of one node. None and empty mean that the Node object does not say."""

    board: Board | None = None
    product: str | None = None
    gpus: int | None = None  # physical ones
    slices: Mapping[str, int] = field(default_factory=dict)  # profile → instances on the whole node
    whole: int | None = None  # GPUs handed out whole
    layout: tuple[str, ...] | None = None  # profiles of the instances of every GPU, where that is certain
    mig: Mode = "unknown"  # of every GPU, where that is certain
    is_complete: bool = False  # ``slices`` and ``whole`` are all that the plugin advertises
    notes: tuple[Note, ...] = ()


def is_gpu_node(node: NodeFacts, catalogue: Catalogue) -> bool:
    marked = node.label("nvidia.com/gpu.present", PRODUCT, COUNT, "nvidia.com/mig.config")
    return bool(marked or any(node.capacity.values()) or (node.label(*SIZE_LABELS) or "") in catalogue.azure_sizes)


def take_inventory(node: NodeFacts, catalogue: Catalogue) -> Inventory:
    notes: list[Note] = []
    product, suffix = _product(node)
    board = _board(node, product, catalogue, notes)
    slices, whole = _advertised(node, suffix, board)
    gpus = _physical(node, catalogue, board, suffix, slices, whole, notes)
    strategy = node.labels.get("nvidia.com/mig.strategy")
    sound = _is_possible(node, board, gpus, slices, whole, notes)
    layout = _layout(board, gpus, slices, whole, strategy) if sound else None
    mig = _mode(node, strategy, suffix, gpus, slices, whole, layout) if sound else "unknown"
    complete = sound and strategy in ("single", "mixed") and bool(node.capacity)
    return Inventory(board, product, gpus, slices, whole, layout, mig, complete, tuple(notes))


def _product(node: NodeFacts) -> tuple[str | None, str | None]:
    """Product without, and profile of, the suffix that the single strategy adds; ``INVALID`` is a suffix too."""
    label = node.label(PRODUCT)
    label = label.removesuffix("-SHARED") if label else None  # time-slicing says so here too
    found = _MIG_PRODUCT.fullmatch(label or "")
    return (found["board"], found["profile"]) if found else (label, None)


def _board(node: NodeFacts, product: str | None, catalogue: Catalogue, notes: list[Note]) -> Board | None:
    """By product, else by VM size. A product that nobody knows is not overruled by the size."""
    size = node.label(*SIZE_LABELS)
    by_size = catalogue.find(size) if size and size in catalogue.azure_sizes else None
    if product is None:
        return by_size
    board = catalogue.find(product) or catalogue.find(f"NVIDIA {product}")
    if board and by_size and board != by_size:
        notes.append(node.note("warning", f"its product is {board.key}, but a {size} has {by_size.key}"))
    return board


def _advertised(node: NodeFacts, suffix: str | None, board: Board | None) -> tuple[dict[str, int], int | None]:
    """(slices by profile, whole GPUs). Capacity, not allocatable: an unhealthy slice exists. Zeros are history."""
    slices: Counter[str] = Counter()
    whole: int | None = None
    for shown, amount in node.capacity.items():
        name = shown.removesuffix(".shared")
        number = devices(node, shown, amount)
        if name == WHOLE_GPU_RESOURCE:
            whole = (whole or 0) + number
        elif name.startswith(RESOURCE_PREFIX) and number:
            slices[profile_name(name, board)] += number
    if not node.capacity:
        slices = labelled_slices(node, board)
    if suffix and parse_profile_name(suffix):
        total = whole if whole is not None else node.number(COUNT)
        return ({profile_name(suffix, board): total} if total else {}), 0
    return dict(sorted(slices.items())), whole


def labelled_slices(node: NodeFacts, board: Board | None) -> Counter[str]:
    """Profile → number by GPU feature discovery's labels (mixed strategy)."""
    found: Counter[str] = Counter()
    for key in node.labels:
        match = _COUNT_LABEL.fullmatch(key)
        if match and parse_profile_name(match["profile"]) and (number := node.number(key)):
            found[profile_name(match["profile"], board)] += number
    return found


def profile_name(text: str, board: Board | None) -> str:
    """The catalogue's name of a profile in any notation; where the board has none such, the name as it is written.

    Tools round the memory in different ways (3g.21gb and 3g.20gb, 7g.79gb and 7g.80gb): the same slices with a
    gigabyte more or less are the same profile.
    """
    known, parsed = board.find(text) if board else None, parse_profile_name(text)
    if known or parsed is None or board is None:
        return known.name if known else str(parsed or text)
    names = ((p.name, parse_profile_name(p.name)) for p in board.profiles)
    near = [
        name
        for name, own in names
        if own
        and (own.slices, own.attribute, own.compute) == (parsed.slices, parsed.attribute, parsed.compute)
        and abs(own.gigabytes - parsed.gigabytes) <= max(1, _ROUNDING * own.gigabytes)
    ]
    return near[0] if len(near) == 1 else str(parsed)


def devices(node: NodeFacts, resource: str, amount: int) -> int:
    """How many devices an advertised amount is."""
    return amount // _replicas(node, resource.removesuffix(".shared"))


def _replicas(node: NodeFacts, resource: str) -> int:
    """Time-slicing and MPS advertise one device so many times. 0 is written where there is no such device."""
    label = "nvidia.com/gpu.replicas" if resource == WHOLE_GPU_RESOURCE else f"{resource}.replicas"
    return node.number(label) or 1


def _physical(
    node: NodeFacts,
    catalogue: Catalogue,
    board: Board | None,
    suffix: str | None,
    slices: Mapping[str, int],
    whole: int | None,
    notes: list[Note],
) -> int | None:
    """Under the single strategy the count label counts slices; then the VM size or a full GPU of the profile tells."""
    if (whole or 0) > MOST_GPUS and not suffix:
        notes.append(node.note("warning", f"the kubelet advertises {whole} whole GPUs: not believed"))
        whole = None
    size = catalogue.azure_sizes.get(node.label(*SIZE_LABELS) or "")
    labelled = None if suffix else _counted(node, notes)
    if labelled and whole is not None and not slices and whole != labelled:
        text = f"labels count {labelled} GPUs, the kubelet advertises {whole}"
        notes.append(node.note("warning", f"{text}: stale labels, unhealthy GPUs, or GPUs with MIG on and no instance"))
    if size and labelled and labelled != size.gpus:
        notes.append(node.note("warning", f"labels count {labelled} GPUs, but a {size.name} has {size.gpus}"))
    if labelled or size:
        return labelled or (size.gpus if size else None)
    if suffix and board and len(slices) == 1:
        ((name, number),) = slices.items()
        most = most_of(board, name)
        return number // most if most and number % most == 0 else None
    return whole or None if not slices else None


def _counted(node: NodeFacts, notes: list[Note]) -> int | None:
    """Physical GPUs by the count label; None where it says none, or what cannot be."""
    shown, number = node.label(COUNT), node.number(COUNT)
    if shown and (number is None or number > MOST_GPUS):
        notes.append(node.note("warning", f"its label {COUNT} is {shown[:40]!r}, which counts no GPUs: not believed"))
        return None
    return number or None


def most_of(board: Board, name: str) -> int:
    """How many instances of one profile a GPU holds; 0 where that is not known."""
    profile = board.find(name)
    number = profile.max_instances if profile and profile.starts else 0
    while number and fault(board, [Placed(name)] * number):
        number -= 1
    return number


def _is_possible(
    node: NodeFacts,
    board: Board | None,
    gpus: int | None,
    slices: Mapping[str, int],
    whole: int | None,
    notes: list[Note],
) -> bool:
    """Whether what is advertised fits the GPUs. The kubelet keeps resources of an earlier layout until it restarts."""
    if board is None or gpus is None or board.compute_slices is None:
        return True
    unknown = [name for name in slices if board.find(name) is None]
    if unknown:
        names = ", ".join(p.name for p in board.profiles)
        notes.append(node.note("warning", f"it advertises {', '.join(unknown)}; {board.key} has {names}"))
        return False
    used = sum(board.profile(name).compute_slices * number for name, number in slices.items())
    free = (gpus - (whole or 0)) * board.compute_slices
    if used <= free:
        return True
    parts = [f"{number} x {name}" for name, number in sorted(slices.items())]
    shown = " and ".join([*([", ".join(parts)] if parts else []), *([f"{whole} whole GPUs"] if whole else [])])
    message = f"it advertises {shown}, more than {gpus} x {board.key} can hold: stale, restart the device plugin"
    notes.append(node.note("warning", message))
    return False


def _layout(
    board: Board | None, gpus: int | None, slices: Mapping[str, int], whole: int | None, strategy: str | None
) -> tuple[str, ...] | None:
    if board is None or gpus is None or not slices or whole:
        return None
    if gpus == 1 and strategy in ("single", "mixed"):
        names = tuple(name for name, number in sorted(slices.items()) for _ in range(number))
        return names if fault(board, [Placed(name) for name in names]) is None else None
    (name, number), *others = slices.items()
    most = most_of(board, name)
    return (name,) * most if not others and most and number == gpus * most else None


def _mode(
    node: NodeFacts,
    strategy: str | None,
    suffix: str | None,
    gpus: int | None,
    slices: Mapping[str, int],
    whole: int | None,
    layout: tuple[str, ...] | None,
) -> Mode:
    if node.labels.get("nvidia.com/mig.capable") == "false":
        return "off"
    if layout is not None:
        return "on"
    is_told = strategy in ("single", "mixed") and suffix is None and not slices
    return "off" if is_told and gpus and whole == gpus else "unknown"
