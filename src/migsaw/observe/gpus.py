"""The GPUs of one node with their boards, MIG modes and instances; who holds them is decided in :mod:`owners`.

Each fact is taken from who knows it best: nvidia-smi, then the exporter, then the Node object. What contradicts becomes
a note. What nobody says stays unknown: in particular a GPU of which no instance was seen is not taken for empty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from migsaw.model.boards import Board, Catalogue
from migsaw.model.layouts import UNKNOWN, Placed, seen_fault
from migsaw.model.refs import PodRef
from migsaw.model.snapshot import Gpu, Instance, Memory, Mode, Note
from migsaw.observe.cards import Sighting
from migsaw.observe.instances import (
    Draft,
    FindHolders,
    activity,
    doubt_labels,
    draft_instances,
    has_process,
    memory,
    name_the_unknown,
)
from migsaw.observe.inventory import Inventory
from migsaw.observe.mig_parted import Entry
from migsaw.observe.nodes import NodeFacts


@dataclass(frozen=True, slots=True)
class GpuDraft:
    """``gpu`` has no instances yet. ``is_layout_known``: that there are no more instances than these is a finding: the
    exporter shows the GPU and no instance of it, and the kubelet advertises none that was not seen elsewhere."""

    gpu: Gpu
    named: tuple[PodRef, ...]  # holders of the whole GPU, by the exporter
    instances: tuple[Draft, ...]
    is_layout_known: bool
    has_process: bool | None = None  # on the GPU, by who lists processes


@dataclass(frozen=True, slots=True)
class NodeSources:
    """All that was given about one node's GPUs. ``exported``: entries of `nvidia-mig-parted export`, by GPU index."""

    node: NodeFacts
    inventory: Inventory
    seen: Mapping[int, Sighting]
    exported: Mapping[int, Entry] = field(default_factory=dict)


def draft_gpus(
    sources: NodeSources, catalogue: Catalogue, find_holders: FindHolders, notes: list[Note]
) -> tuple[GpuDraft, ...]:
    """In the order of their index."""
    drafts = [_draft(sources, index, catalogue, find_holders, notes) for index in _indices(sources, notes)]
    drafts = _name_profiles(drafts, sources, notes)
    drafts = [_with_mode(draft, drafts, sources) for draft in drafts]
    for draft in drafts:
        notes += _layout_faults(sources, draft, catalogue)
    return tuple(drafts)


def _indices(sources: NodeSources, notes: list[Note]) -> list[int]:
    """Those seen, and those that the node has besides: an exporter may leave out GPUs (DRA, mixed boards)."""
    seen, count = sorted(sources.seen), sources.inventory.gpus
    if count is None:
        if not seen and (sources.inventory.slices or sources.inventory.whole):
            text = "how many GPUs it has is not known: give exporter text or `nvidia-smi -L`"
            notes.append(sources.node.note("warning", text))
        return seen
    if seen and seen != list(range(count)):
        shown = ", ".join(map(str, seen))
        notes.append(
            sources.node.note("warning", f"it has {count} GPUs by its labels or VM size, and GPU {shown} were seen")
        )
    return sorted({*seen, *range(count)}) if not seen or seen[-1] < count else seen


def _draft(
    sources: NodeSources, index: int, catalogue: Catalogue, find_holders: FindHolders, notes: list[Note]
) -> GpuDraft:
    seen = sources.seen.get(index, Sighting(index))

    def say(text: str) -> None:
        notes.append(sources.node.note("warning", f"GPU {index}: {text}"))

    board, product = _board(seen, sources.inventory, catalogue, say)
    drafts = draft_instances(seen, board, find_holders, say) or _from_totals(sources, index, board)
    card_memory = next((Memory(c.used_mib, c.total_mib) for c in seen.cards if c.total_mib), Memory())
    shown = memory(seen.board_rows, (), card_memory.capacity or (board.memory_mib if board else None))
    gpu = Gpu(
        index=index,
        uuid=seen.uuid,
        board=board.key if board else None,
        product=product,
        mig=_mode(seen, bool(seen.rows), say),
        activity=activity(seen.board_rows),
        memory_mib=replace(shown, used=card_memory.used) if shown.used is None else shown,
    )
    named = tuple(find_holders(seen.board_rows))
    known = bool(drafts) or (seen.is_exported and not seen.rows)
    return GpuDraft(gpu, named, drafts, known, has_process(seen.cards))


def _board(
    seen: Sighting, inventory: Inventory, catalogue: Catalogue, say: Callable[[str], None]
) -> tuple[Board | None, str | None]:
    """By the name that the driver gives this very GPU; without one, by the node's labels or size."""
    rows = [*seen.board_rows, *(row for rows in seen.rows.values() for row in rows)]
    names = sorted({card.name for card in seen.cards if card.name} | {model for row in rows for model in row.models})
    if not names:
        return inventory.board, inventory.product
    if len(names) > 1:
        say(f"it is called {' and '.join(names)}")
    board = catalogue.find(names[0]) or catalogue.find(f"NVIDIA {names[0]}")
    if board and inventory.board and inventory.board != board:
        say(f"the driver calls it {names[0]}, the node's labels or VM size say {inventory.board.key}")
    return board, names[0]


def _mode(seen: Sighting, has_instance_rows: bool, say: Callable[[str], None]) -> Mode:
    """GPU utilisation exists only while MIG is off; series with a GI id only while it is on."""
    told = {card.mode for card in seen.cards if card.mode}
    has_util = any("util" in row.values for row in seen.board_rows)
    exported: Mode = "on" if has_instance_rows else "off" if has_util else "unknown"
    if len(told) > 1:
        say("nvidia-smi gives different MIG modes: files of different times?")
        return "unknown"
    mode: Mode = told.pop() if told else "unknown"
    has_instances = bool(seen.placements) or any(d.gi_id is not None for d in seen.devices)
    if mode == "unknown":
        return "on" if has_instances else exported
    if mode == "off" and has_instances:
        say("MIG is off by nvidia-smi, which shows instances too: files of different times?")
        return "on"
    if mode in ("on", "off") and exported not in ("unknown", mode):
        say(f"MIG is {mode} by nvidia-smi, {exported} by the exporter: files of different times?")
        return "on" if exported == "on" else "unknown"
    return mode


def _from_totals(sources: NodeSources, index: int, board: Board | None) -> tuple[Draft, ...]:
    """Instances without ids, where an export or the totals of the node leave no doubt what this GPU holds."""
    seen = sources.seen.get(index)
    if seen and (seen.is_exported or any(card.mode == "off" for card in seen.cards)):
        return ()
    entry = sources.exported.get(index)
    if entry is not None:
        names = tuple(name for name, number in sorted(entry.counts.items()) for _ in range(number))
    else:
        names = sources.inventory.layout or ()
    found = ((board.find(name) if board else None, name) for name in names)
    return tuple(
        Draft(Instance(p.name if p else name, memory_mib=Memory(None, p.memory_mib if p else None)))
        for p, name in found
    )


def _name_profiles(drafts: Sequence[GpuDraft], sources: NodeSources, notes: list[Note]) -> list[GpuDraft]:
    """By what the node advertises, where nobody named them or the exporter's label must be wrong."""
    inventory = sources.inventory
    advertised = Counter(inventory.slices)
    every = tuple(instance for draft in drafts for instance in draft.instances)
    believed = doubt_labels(every, advertised) if inventory.is_complete else every
    named = iter(name_the_unknown(believed, advertised, inventory.board))
    found = [replace(draft, instances=tuple(next(named) for _ in draft.instances)) for draft in drafts]
    for before, after in zip(drafts, found, strict=True):
        notes += [
            sources.node.note("warning", f"GPU {before.gpu.index}: {_correction(one.instance, other.instance)}")
            for one, other in zip(before.instances, after.instances, strict=True)
            if one.instance.profile not in (UNKNOWN, other.instance.profile)
        ]
    return found


def _correction(before: Instance, after: Instance) -> str:
    result = "it may be several" if after.profile == UNKNOWN else f"taken for {after.profile}, the only one left"
    label = f"the exporter calls it {before.profile}, which the node does not advertise"
    return f"GPU instance {before.gi_id}: {label}: {result}"


def _with_mode(draft: GpuDraft, every: Sequence[GpuDraft], sources: NodeSources) -> GpuDraft:
    """What the Node object adds where nobody told the mode of this GPU."""
    gpu, inventory = draft.gpu, sources.inventory
    was_told = any(card.mode for card in sources.seen.get(gpu.index, Sighting(gpu.index)).cards)
    if gpu.mig == "unknown" and not was_told:
        if draft.instances:
            gpu = replace(gpu, mig="on")
        elif gpu.index in sources.exported:
            gpu = replace(gpu, mig="on" if sources.exported[gpu.index].enabled else "off")
        elif inventory.mig == "off":
            gpu = replace(gpu, mig="off")
        elif _all_whole_ones_are_others(gpu, every, sources):
            gpu = replace(gpu, mig="on")
    if inventory.is_complete and not draft.instances:
        known = _totals_are_reached(every, inventory)
    else:
        known = draft.is_layout_known or gpu.index in sources.exported
    return replace(draft, gpu=gpu, is_layout_known=known)


def _all_whole_ones_are_others(gpu: Gpu, every: Sequence[GpuDraft], sources: NodeSources) -> bool:
    """Mixed strategy: the plugin hands out as many whole GPUs as are known to have MIG off, so this one has it on."""
    inventory = sources.inventory
    if not inventory.is_complete or sources.node.labels.get("nvidia.com/mig.strategy") != "mixed":
        return False
    off = sum(draft.gpu.mig == "off" for draft in every if draft.gpu.index != gpu.index)
    is_exported = gpu.index in sources.seen and sources.seen[gpu.index].is_exported
    return is_exported and inventory.whole == off and bool(sources.node.labels.get("nvidia.com/mig.capable") == "true")


def _totals_are_reached(every: Sequence[GpuDraft], inventory: Inventory) -> bool:
    """The node advertises exactly the instances that were seen: there are no others."""
    seen = Counter(draft.instance.profile for gpu in every for draft in gpu.instances)
    return inventory.is_complete and seen == Counter(inventory.slices)


def _layout_faults(sources: NodeSources, draft: GpuDraft, catalogue: Catalogue) -> list[Note]:
    """Instances that cannot stand together were not there at one time."""
    board = catalogue.find(draft.gpu.board) if draft.gpu.board else None
    reason = seen_fault(board, [Placed(d.instance.profile, d.instance.start) for d in draft.instances])
    if reason is None:
        return []
    text = f"GPU {draft.gpu.index}: {reason}; were the files made at different times?"
    return [sources.node.note("warning", text)]
