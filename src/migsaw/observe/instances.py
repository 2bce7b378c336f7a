"""The GPU instances of one GPU, put together from exporter, nvidia-smi and, where these are silent, the Node object.

An instance is told by its GI id, never by the parent's UUID alone. A start comes only from who printed one: a GI id
never gives it, boards number their instances differently. Who holds an instance is not decided here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from migsaw.model.boards import Board
from migsaw.model.layouts import UNKNOWN
from migsaw.model.names import parse_profile_name
from migsaw.model.refs import PodRef
from migsaw.model.snapshot import Activity, Instance, Memory
from migsaw.model.telemetry import OwnerSource
from migsaw.observe.cards import Sighting
from migsaw.observe.exporter import Row
from migsaw.observe.inventory import profile_name
from migsaw.observe.smi_facts import Card, Device

_DRA_DEVICE = re.compile(r"gpu-(\d+)-mig-[\w.]+-(?P<profile>\d+)-(?P<start>\d+)")
_NEAR = 0.03  # drivers differ by a few per cent in what they call an instance's memory

FindHolders = Callable[[Iterable[Row]], Mapping[PodRef, OwnerSource]]


@dataclass(frozen=True, slots=True)
class Draft:
    """An instance before it is known who holds it. ``doubt``: why it may not exist any more.

    ``is_only_labelled``: nothing but the exporter's label tells its profile, not even the memory that it shows.
    """

    instance: Instance
    named: tuple[PodRef, ...] = ()  # by the exporter
    doubt: str | None = None
    has_process: bool | None = None  # None: nobody lists processes
    is_only_labelled: bool = False
    shown_mib: int | None = None  # memory as the exporter or nvidia-smi shows it, not the catalogue's


def draft_instances(
    seen: Sighting, board: Board | None, find_holders: FindHolders, say: Callable[[str], None]
) -> tuple[Draft, ...]:
    """By GI id; those of which no id is known come last. ``say`` takes notes about this GPU."""
    devices = [d for d in seen.devices if d.gi_id is not None]
    sources = [
        (name, ids)
        for name, ids in (
            ("the exporter", set(seen.rows)),
            ("mig -lgi", set(seen.placements)),
            ("nvidia-smi's MIG devices", {d.gi_id for d in devices if d.gi_id is not None}),
        )
        if ids or (name == "the exporter" and seen.is_exported)
    ]
    ids = sorted(set().union(*(found for _, found in sources)))
    if not ids and not seen.rows:
        return _listed(seen, board, say)
    drafts = []
    for gi_id in ids:
        silent = [name for name, found in sources if gi_id not in found]
        doubt = f"{' and '.join(silent)} does not show it: files of different times" if silent else None
        if doubt:
            say(f"GPU instance {gi_id}: {doubt}")
        drafts.append(_draft(seen, gi_id, board, find_holders, say, doubt))
    return tuple(drafts)


def _draft(
    seen: Sighting,
    gi_id: int,
    board: Board | None,
    find_holders: FindHolders,
    say: Callable[[str], None],
    doubt: str | None,
) -> Draft:
    rows = seen.rows.get(gi_id, [])
    devices = [device for device in seen.devices if device.gi_id == gi_id]
    told, labels = _told(seen, gi_id, devices, board), _labels(rows, board)
    profile = _profile(gi_id, told, labels, devices, board, say)
    capacity = _capacity(board, profile)
    shown = memory(rows, devices, None).capacity
    is_confirmed = told is not None or (capacity and shown and _is_near(shown, capacity))
    instance = Instance(
        profile=profile,
        gi_id=gi_id,
        start=_start(seen, gi_id, rows, profile, board, say),
        activity=activity(rows),
        memory_mib=memory(rows, devices, capacity),
    )
    return Draft(
        instance,
        tuple(find_holders(rows)),
        doubt,
        has_process=has_process(devices),
        is_only_labelled=profile in labels and not is_confirmed,
        shown_mib=shown,
    )


def has_process(seen: Iterable[Card | Device]) -> bool | None:
    """None where nothing lists processes."""
    told = [item.has_process for item in seen if item.has_process is not None]
    return any(told) if told else None


def _listed(seen: Sighting, board: Board | None, say: Callable[[str], None]) -> tuple[Draft, ...]:
    """From `-L` with new UUIDs: profiles without ids. Compute instances of part of a GPU instance hide their number."""
    names = [device.profile for device in seen.devices if device.profile]
    parsed = [parse_profile_name(name) for name in names]
    if any(p is None or p.compute is not None for p in parsed):
        say("`nvidia-smi -L` shows compute instances smaller than their GPU instance: give `mig -lgi` too")
        return ()
    profiles = sorted(profile_name(name, board) for name in names)
    return tuple(Draft(Instance(p, memory_mib=Memory(None, _capacity(board, p)))) for p in profiles)


def _told(seen: Sighting, gi_id: int, devices: Sequence[Device], board: Board | None) -> str | None:
    """The driver's word: profile id, then name in `mig -lgi`, then in `-L` where its UUIDs have the id."""
    if placement := seen.placements.get(gi_id):
        by_id = board.by_id(placement.profile_id) if board else None
        return by_id.name if by_id else profile_name(placement.profile, board)
    names = {d.profile for d in devices if d.profile and (p := parse_profile_name(d.profile)) and p.compute is None}
    return profile_name(names.pop(), board) if len(names) == 1 else None


def _labels(rows: Sequence[Row], board: Board | None) -> list[str]:
    return sorted({profile_name(label, board) for row in rows for label in row.profiles if parse_profile_name(label)})


def _profile(
    gi_id: int,
    told: str | None,
    labels: Sequence[str],
    devices: Sequence[Device],
    board: Board | None,
    say: Callable[[str], None],
) -> str:
    """The driver's word, then the exporter's label, then what memory and engines tell."""
    if told:
        if labels and labels != [told]:
            say(f"GPU instance {gi_id} is {told} by nvidia-smi, {' and '.join(labels)} by the exporter's label")
        return told
    if len(labels) > 1:
        say(f"GPU instance {gi_id} is called {' and '.join(labels)} by the exporter: files of different times?")
    if labels and (board is None or not board.profiles or board.find(labels[0])):
        return labels[0]
    by_size = {fit for device in devices if (fit := _by_size(board, device))}
    if len(by_size) == 1:
        return by_size.pop()
    if labels:
        say(
            f"GPU instance {gi_id}: the exporter calls it {labels[0]}, which {board.key if board else ''} does not have"
        )
    return UNKNOWN


def _by_size(board: Board | None, device: Device) -> str | None:
    """The one profile with this memory, SM count and engines; None where several or none have them."""
    if board is None or device.memory_mib is None:
        return None
    fits = [
        p
        for p in board.profiles
        if p.memory_mib
        and _is_near(device.memory_mib, p.memory_mib)
        and device.sm_count in (None, p.sm_count)
        and all(a is None or b is None or a == b for a, b in zip(device.engines, p.engines, strict=False))
    ]
    return fits[0].name if len(fits) == 1 else None


def _is_near(shown_mib: int, memory_mib: int) -> bool:
    return abs(memory_mib - shown_mib) <= _NEAR * memory_mib


def _start(
    seen: Sighting,
    gi_id: int,
    rows: Sequence[Row],
    profile: str,
    board: Board | None,
    say: Callable[[str], None],
) -> int | None:
    known = board.find(profile) if board else None
    if placement := seen.placements.get(gi_id):
        start: int | None = placement.start
    else:
        found = [_DRA_DEVICE.fullmatch(device) for row in rows for device in row.dra_devices]
        starts = {
            int(f["start"]) for f in found if f and (known is None or known.profile_id in (None, int(f["profile"])))
        }
        start = starts.pop() if len(starts) == 1 else None
    if start is not None and known and known.starts and start not in known.starts:
        say(f"GPU instance {gi_id}: {profile} at {start}, where {board.key if board else ''} allows {known.starts}")
    return start


def _capacity(board: Board | None, profile: str) -> int | None:
    known = board.find(profile) if board else None
    return known.memory_mib if known else None


def activity(rows: Sequence[Row]) -> Activity | None:
    """One sample; None where the exporter gave none. Missing is not idle."""
    kinds = ("graphics", "sm", "tensor", "dram")
    graphics, sm, tensor, dram = (max((r.values[k] for r in rows if k in r.values), default=None) for k in kinds)
    found = Activity(graphics, sm, tensor, dram)
    return None if found == Activity() else found


def memory(rows: Sequence[Row], devices: Sequence[Device], capacity: int | None) -> Memory:
    """MiB. Capacity: used + free of the same row, else what nvidia-smi says, else ``capacity`` of the catalogue."""
    full = [row for row in rows if "used" in row.values and "free" in row.values]
    best = max(full or [row for row in rows if "used" in row.values], key=lambda r: r.values["used"], default=None)
    used = int(best.values["used"]) if best else next((d.used_mib for d in devices if d.used_mib is not None), None)
    shown = int(best.values["used"] + best.values["free"]) if best and full else None
    shown = shown or next((d.memory_mib for d in devices if d.memory_mib), None)
    return Memory(used, shown or capacity)


def doubt_labels(drafts: Sequence[Draft], advertised: Counter[str]) -> tuple[Draft, ...]:
    """Labels that must be wrong: as many instances as the node advertises, and none advertised of this profile.

    dcgm-exporter#544 and #713: GPU_I_PROFILE was rounded, stale, or of another profile until 4.8.4.
    ``advertised``: profile → instances of the whole node, all of them; ``drafts``: all instances of the node.
    """
    if len(drafts) != advertised.total():
        return tuple(drafts)
    return tuple(_unnamed(d) if d.is_only_labelled and d.instance.profile not in advertised else d for d in drafts)


def _unnamed(draft: Draft) -> Draft:
    bare = replace(draft.instance, profile=UNKNOWN, memory_mib=Memory(draft.instance.memory_mib.used, draft.shown_mib))
    return replace(draft, instance=bare)


def name_the_unknown(drafts: Sequence[Draft], advertised: Counter[str], board: Board | None) -> tuple[Draft, ...]:
    """Profiles that nobody named, where what the node advertises leaves one answer.

    ``advertised``: profile → instances of the whole node; ``drafts``: all instances of the node.
    """
    missing = advertised - Counter(d.instance.profile for d in drafts)
    unknown = sum(d.instance.profile == UNKNOWN for d in drafts)
    if not unknown or len(missing) != 1 or missing.total() != unknown:
        return tuple(drafts)
    (profile,) = missing
    return tuple(_named(d, profile, board) if d.instance.profile == UNKNOWN else d for d in drafts)


def _named(draft: Draft, profile: str, board: Board | None) -> Draft:
    shown = draft.instance.memory_mib
    full = Memory(shown.used, shown.capacity or _capacity(board, profile))
    return replace(draft, instance=replace(draft.instance, profile=profile, memory_mib=full))
