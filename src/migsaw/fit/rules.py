"""First rules: what one scrape and a declared request say about the profiles that can hold a workload.

One sample is no peak. Every fit made here says so (``confidence``), and its options are ``declared`` where only the
request speaks and ``predicted`` where the sample's memory was used.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from migsaw.model.boards import Board, Catalogue, Profile
from migsaw.model.fits import Choice, Fit, Fits, MemoryNeed, Option, Verdict, WorkloadRef
from migsaw.model.names import RESOURCE_PREFIX, WHOLE_GPU_RESOURCE, parse_profile_name
from migsaw.model.snapshot import Activity, Gpu, Instance, Pod, Snapshot

MARGIN_SHARE = 0.15  # on top of the largest memory seen, as KRR adds to its maximum
MARGIN_MIB = 512  # at least the size of a CUDA context
IDLE = 0.01  # activity below one per cent of the instance in the sample


@dataclass(frozen=True, slots=True)
class Seen:
    """What one holder was seen to use on one GPU or instance."""

    board: str | None
    profile: str | None  # None: a whole GPU with MIG off
    used_mib: int | None
    activity: Activity | None


def fits_of_snapshot(snapshot: Snapshot, catalogue: Catalogue) -> Fits:
    """One fit per workload (or bare pod) that holds or asks for a GPU, in the order of their names."""
    seen = holdings(snapshot)
    groups: dict[tuple[str, str, str], list[Pod]] = {}
    for pod in snapshot.pods:
        w = pod.workload
        key = (w.namespace, w.kind, w.name) if w else (pod.namespace, "Pod", pod.name)
        groups.setdefault(key, []).append(pod)
    rows = []
    for (namespace, kind, name), pods in sorted(groups.items()):
        mine = [s for pod in pods for s in seen.get(pod.key, ())]
        rows.append(_fit(WorkloadRef(namespace, kind, name), pods, mine, catalogue))
    return Fits(tuple(rows))


def holdings(snapshot: Snapshot) -> Mapping[str, tuple[Seen, ...]]:
    """Pod (``namespace/name``) → what it holds, as far as an owner is known."""
    found: dict[str, list[Seen]] = {}
    for node in snapshot.nodes:
        for gpu in node.gpus:
            if gpu.owner:
                found.setdefault(str(gpu.owner), []).append(_whole(gpu))
            for instance in gpu.instances:
                if instance.owner:
                    found.setdefault(str(instance.owner), []).append(_slice(gpu, instance))
    return {key: tuple(value) for key, value in found.items()}


def is_idle(activity: Activity | None) -> bool | None:
    """Whether a sample shows no work; None where nothing tells.

    Any signal can show work. Only graphics or SM activity can show that there is none: the others are of some work.
    """
    if activity is None:
        return None
    values = [v for v in (activity.graphics, activity.sm, activity.tensor, activity.dram) if v is not None]
    if any(value >= IDLE for value in values):
        return False
    return None if activity.graphics is None and activity.sm is None else True


def memory_need(used_mib: int, limit_mib: int | None) -> MemoryNeed:
    margin = max(MARGIN_MIB, math.ceil(used_mib * MARGIN_SHARE))
    return MemoryNeed(peak=used_mib, margin=margin, limit=limit_mib)


def holds(profile: Profile, need: MemoryNeed) -> bool | None:
    """Whether peak + margin fit into the profile; None where either is not known."""
    if profile.memory_mib is None or need.peak is None:
        return None
    return need.peak + (need.margin or 0) <= profile.memory_mib


def _whole(gpu: Gpu) -> Seen:
    return Seen(gpu.board, None, gpu.memory_mib.used, gpu.activity)


def _slice(gpu: Gpu, instance: Instance) -> Seen:
    return Seen(gpu.board, instance.profile, instance.memory_mib.used, instance.activity)


def _fit(ref: WorkloadRef, pods: list[Pod], seen: list[Seen], catalogue: Catalogue) -> Fit:
    used = [s.used_mib for s in seen if s.used_mib is not None]
    boards = _boards(seen, catalogue)
    if not used or not boards:
        return Fit(
            ref, "declared", declared_options(pods, boards), confidence="declared request only, nothing measured"
        )
    options = tuple(_option(board, p, max(used), seen) for board in boards for p in board.profiles if p.is_plain)
    count = len(used)
    confidence = "one sample" if count == 1 else f"one sample of each of {count} instances"
    return Fit(ref, "predicted", options, _held(seen), _verdict(seen, options), confidence)


def _boards(seen: Iterable[Seen], catalogue: Catalogue) -> list[Board]:
    keys = sorted({s.board for s in seen if s.board})
    return [board for key in keys if (board := catalogue.find(key)) is not None]


def declared_options(pods: Iterable[Pod], boards: Iterable[Board]) -> tuple[Option, ...]:
    names = sorted({r.removeprefix(RESOURCE_PREFIX) for pod in pods for r in pod.asks if r != WHOLE_GPU_RESOURCE})
    asked = {str(parsed) for name in names if (parsed := parse_profile_name(name))}
    rows = [(board, p) for board in boards for p in board.profiles if p.name in asked]
    return tuple(
        Option(b.key, p.name, True, MemoryNeed(limit=p.memory_mib), reason="declared request") for b, p in rows
    )


def _option(board: Board, profile: Profile, used_mib: int, seen: list[Seen]) -> Option:
    need = memory_need(used_mib, profile.memory_mib)
    enough = holds(profile, need)
    if enough is None:
        return Option(board.key, profile.name, False, need, reason="memory of this profile is not known")
    if not enough:
        total = used_mib + (need.margin or 0)
        return Option(
            board.key, profile.name, False, need, reason=f"{total} MiB with margin, holds {profile.memory_mib}"
        )
    sms = needed_sms(board, seen)
    if sms is not None and profile.sm_count is not None and sms > profile.sm_count:
        text = f"{sms:.0f} SMs were active in the sample, has {profile.sm_count}"
        return Option(board.key, profile.name, False, need, reason=text)
    return Option(board.key, profile.name, True, need)


def needed_sms(board: Board, seen: Iterable[Seen]) -> float | None:
    """SMs active on average in the sample: SM_ACTIVE × SMs of what is held; None where not measured."""
    values = []
    for s in seen:
        held = board.sm_count if s.profile is None else (p.sm_count if (p := board.find(s.profile)) else None)
        if s.board == board.key and s.activity and s.activity.sm is not None and held:
            values.append(s.activity.sm * held)
    return max(values, default=None)


def _held(seen: list[Seen]) -> Choice | None:
    held = sorted({(s.board, s.profile) for s in seen if s.board and s.profile})
    return Choice(*held[0]) if len(held) == 1 and held[0][0] and held[0][1] else None


def _verdict(seen: list[Seen], options: tuple[Option, ...]) -> Verdict:
    """Only what one sample allows: idle where nothing moved, else unknown. Right-sizing needs a history."""
    states = [is_idle(s.activity) for s in seen]
    return "idle" if states and all(states) else "unknown"
