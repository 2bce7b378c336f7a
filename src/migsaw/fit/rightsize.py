"""From a window of telemetry: what each workload needs, which slices would do, and whether it holds the right one.

Memory by its peak and a margin, never by a percentile. Throughput on another slice by the capacity in use
(:mod:`migsaw.fit.capacity`), against what the workload has now: a slot is acceptable where at most ``tolerance`` of it
would be lost. ``chosen`` is the cheapest acceptable slot by its share of a GPU. It differs from what is held only where
that is too big, or where memory runs out: who starves, is idle or is not known keeps what it holds, and a saturated
slice keeps its size too (a full slice is the best used one; that more speed is worth more money is not in the data).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from migsaw.fit.capacity import Size, Use, binding, brief, size_of, throughput, uses_of
from migsaw.fit.capacity import shown as shown_use
from migsaw.fit.ceilings import ceiling_of
from migsaw.fit.held import Work, telemetry_of, works_of
from migsaw.fit.rules import MARGIN_MIB, MARGIN_SHARE, declared_options
from migsaw.fit.starvation import Neighbours, Signs, Starvation, find_starvation, nic_share, sentence
from migsaw.model.boards import Board, Catalogue, Profile
from migsaw.model.fits import Choice, Figure, Fit, Fits, MemoryNeed, Option, Verdict
from migsaw.model.money import dominant_share
from migsaw.model.refs import PodRef
from migsaw.model.snapshot import Snapshot
from migsaw.model.telemetry import RATIOS, Device, Telemetry

IDLE = 0.01  # 95th percentile of activity
LOWER = 0.7  # share of the capacity in use under which a smaller slice is thought of
UPPER = 0.9  # of the ceiling, as mean: above, the slice bounds the work
UPPER_DRAM = 0.8  # no kernel was seen to keep the memory bus busier for long
NEAR_FULL = 0.95  # of the memory
OOM_NEAR = 0.9  # of the memory: where a pod that was restarted is taken to have run out of it
NO_PROFILING = "turn on DCGM's profiling series (SM_ACTIVE, DRAM_ACTIVE): `migsaw render --for telemetry`"


@dataclass(frozen=True, slots=True)
class Wish:
    """``tolerance``: share of the throughput that may be lost; ``points_required``: fewest samples of each signal."""

    tolerance: float = 0.10
    points_required: int = 100


@dataclass(frozen=True, slots=True)
class Holding:
    """A device with what the catalogue knows of it. ``profile`` None: a GPU with MIG off."""

    device: Device
    board: Board
    profile: Profile | None
    size: Size
    uses: tuple[Use, ...]

    @property
    def limit_mib(self) -> int | None:
        return self.profile.memory_mib if self.profile else self.board.memory_mib

    @property
    def cost(self) -> float:
        return share_of(self.board, self.profile)

    @property
    def key(self) -> tuple[str, int, int]:
        d = self.device
        return d.node or "", -1 if d.index is None else d.index, -1 if d.gi_id is None else d.gi_id


@dataclass(frozen=True, slots=True)
class Finding:
    """``is_hungry``: what it needs shows only when what starves it, or may, is mended."""

    verdict: Verdict
    because: str
    next_step: str | None = None
    is_hungry: bool = False
    measured_by: str = ""


def right_size(snapshot: Snapshot, catalogue: Catalogue, wish: Wish = Wish()) -> Fits:
    """One fit per workload (or bare pod) that holds or asks for a GPU, in the order of their names."""
    telemetry = telemetry_of(snapshot)
    return Fits(tuple(_fit(work, snapshot, telemetry, catalogue, wish) for work in works_of(snapshot)))


def share_of(board: Board, profile: Profile | None) -> float:
    """Of the GPU's price; all of it where the slices of the board are not known."""
    return dominant_share(board, profile) or 1.0


def _fit(work: Work, snapshot: Snapshot, telemetry: Telemetry, catalogue: Catalogue, wish: Wish) -> Fit:
    held = [h for d in work.devices if (h := _holding(d, catalogue, telemetry.dcgm_version))]
    if not held:
        boards = [b for key in sorted({d.board for d in work.devices if d.board}) if (b := catalogue.find(key))]
        why = "no device of it is known" if work.devices else "it holds no device"
        options = declared_options(work.pods, boards)
        return Fit(work.ref, "declared", options, confidence="declared request only, nothing measured", because=why)
    need = _memory(held, telemetry)
    options = tuple(
        _option(board, p, held, need, wish)
        for board in sorted({h.board.key: h.board for h in held}.values(), key=lambda b: b.key)
        for p in board.profiles
        if p.is_plain
    )
    points = _points(held)
    found = _verdict(work, held, options, snapshot, telemetry, catalogue, wish)
    if found.is_hungry:
        options = tuple(_withheld(o, held) for o in options)
    return Fit(
        work.ref,
        "predicted",
        options,
        _chosen(found.verdict, held, options),
        found.verdict,
        _confidence(held, points, telemetry),
        because=found.because,
        measured_by=found.measured_by,
        next_step=found.next_step,
        points=points,
    )


def _holding(device: Device, catalogue: Catalogue, version: str | None) -> Holding | None:
    board = catalogue.find(device.board) if device.board else None
    if board is None:
        return None
    profile = board.find(device.profile) if device.profile else None
    if profile is None and (device.gi_id is not None or device.profile is not None):
        return None
    size = size_of(board, profile)
    role = profile.role[:2] if profile else None
    return Holding(device, board, profile, size, uses_of(device.series, role, version)) if size else None


# ---- memory -----------------------------------------------------------------------------------------------------


def _memory(held: Sequence[Holding], telemetry: Telemetry) -> MemoryNeed:
    """The largest peak of all devices, and a margin. A pod that ended or was ended near full memory doubles it."""
    peaks = [math.ceil(s.values.peak) for h in held if (s := h.device.series.get("used")) and s.values]
    if not any(peaks):  # 0 is no figure of anything that runs
        return MemoryNeed()
    margin = max(MARGIN_MIB, math.ceil(max(peaks) * MARGIN_SHARE))
    return MemoryNeed(max(peaks), margin * 2 if _ended_full(held, telemetry) else margin)


def _ended_full(held: Sequence[Holding], telemetry: Telemetry) -> bool:
    ended = {p.pod for p in telemetry.pods if (p.oom_kills or 0) + (p.restarts or 0) > 0}
    return any(h.device.owner in ended and _fullness(h) >= OOM_NEAR for h in held)


def _fullness(holding: Holding) -> float:
    used = holding.device.series.get("used")
    return used.values.peak / holding.limit_mib if used and used.values and holding.limit_mib else 0.0


def _fits_memory(need: MemoryNeed, profile: Profile) -> bool | None:
    if need.peak is None or profile.memory_mib is None:
        return None
    return need.peak + (need.margin or 0) <= profile.memory_mib


# ---- what another slice would give ------------------------------------------------------------------------------


def _option(board: Board, profile: Profile, held: Sequence[Holding], need: MemoryNeed, wish: Wish) -> Option:
    need = replace(need, limit=profile.memory_mib)
    enough = _fits_memory(need, profile)
    ratio, why = _ratio(board, profile, held)
    option = Option(board.key, profile.name, False, need, throughput_ratio=ratio, reason=why)
    if enough is None:
        return replace(option, reason="n/a (memory in use, or memory of this profile, is not known)")
    if not enough:
        total = (need.peak or 0) + (need.margin or 0)
        return replace(option, reason=f"{total} MiB with margin, holds {need.limit}")
    if ratio is not None and ratio.value < 1 - wish.tolerance:
        return option
    return replace(option, fits=True)


def _withheld(option: Option, held: Sequence[Holding]) -> Option:
    """No cheaper slot counts as fitting while it starves: what it takes when fed was not seen."""
    board = next(h.board for h in held if h.board.key == option.board)
    if not option.fits or share_of(board, board.find(option.profile)) >= max(h.cost for h in held):
        return option
    return replace(option, fits=False, reason="it starves, or may: what it would take when fed is n/a")


def _ratio(board: Board, profile: Profile, held: Sequence[Holding]) -> tuple[Figure | None, str]:
    """Throughput there over throughput here, of the device that would lose most, and what bounds it."""
    other = size_of(board, profile)
    mine = [h for h in held if h.board.key == board.key]
    if other is None or not mine or not all(h.uses for h in mine):
        return None, "memory holds; throughput n/a (no profiling series)"
    figure, holding = min(
        ((throughput(h.uses, h.size, other), h) for h in mine), key=lambda pair: (pair[0].value, pair[1].key)
    )
    use = binding(holding.uses, holding.size, other)
    return figure, f"{figure.value:.0%} of the throughput ({brief(use)})"


def _chosen(verdict: Verdict, held: Sequence[Holding], options: Sequence[Option]) -> Choice | None:
    current = _current(held)
    if current is None:
        return _cheapest(held, options) if verdict == "too_big" else None
    if verdict not in ("too_big", "too_small"):
        return current
    stays = any((o.board, o.profile, o.fits) == (current.board, current.profile, True) for o in options)
    if verdict == "too_small" and stays:
        return current
    return _cheapest(held, options) or current


def _current(held: Sequence[Holding]) -> Choice | None:
    """The one profile that is held, the dearest where there are several; None with a whole GPU among them."""
    if any(h.profile is None for h in held):
        return None
    dearest = max(held, key=lambda h: (h.cost, h.profile.name if h.profile else ""))
    return Choice(dearest.board.key, dearest.profile.name) if dearest.profile else None


def _cheapest(held: Sequence[Holding], options: Sequence[Option]) -> Choice | None:
    boards = {h.board.key: h.board for h in held}
    fitting = [
        (share_of(boards[o.board], p), p.sm_count or 0, o.board, p.name)
        for o in options
        if o.fits and (p := boards[o.board].find(o.profile))
    ]
    return Choice(*min(fitting)[2:]) if fitting else None


# ---- verdict ----------------------------------------------------------------------------------------------------


def _verdict(
    work: Work,
    held: Sequence[Holding],
    options: Sequence[Option],
    snapshot: Snapshot,
    telemetry: Telemetry,
    catalogue: Catalogue,
    wish: Wish,
) -> Finding:
    points = _points(held)
    if points is None or points < wish.points_required:
        return Finding("unknown", f"n/a ({points or 0} of the {wish.points_required} samples that are required)")
    if _is_idle(held):
        return Finding("idle", "no activity in the whole window", "release it, or find out why nobody uses it")
    if full := _near_full(held, telemetry):
        return Finding("too_small", full, "a larger slice, or less memory (batch, cache, sequence length)")
    if not all(h.uses for h in held):
        return Finding("unknown", "n/a (no valid sample of SM_ACTIVE or GR_ENGINE_ACTIVE)", NO_PROFILING)
    if hungry := _starvation(work, held, snapshot, telemetry, catalogue):
        verdicts: dict[str, Verdict] = {"cpu": "starved_cpu", "input": "starved_input", "suspected": "unknown"}
        return Finding(verdicts[hungry.cause], sentence(hungry), hungry.mend, is_hungry=True)
    if use := _saturated(held):
        text = f"saturated: {brief(use)}"
        return Finding("too_small", text, _faster(held, options), measured_by=shown_use(use))
    if all(o.memory_mib.peak is None for o in options):
        return Finding("unknown", "n/a (memory in use is not known, so nothing says which slice would hold it)")
    return _sized(held, options, wish)


def _sized(held: Sequence[Holding], options: Sequence[Option], wish: Wish) -> Finding:
    use = max((u for h in held for u in h.uses), key=lambda u: (u.share, u.signal))
    now, rule = f"{min(use.share, 1):.0%} of its capacity is in use ({brief(use)})", shown_use(use)
    least = _cheapest(held, options)
    boards = {h.board.key: h.board for h in held}
    if least is None or share_of(boards[least.board], boards[least.board].find(least.profile)) >= max(
        h.cost for h in held
    ):
        return Finding("right", f"{now}; {_why_no_cheaper(held, options, wish)}", measured_by=rule)
    if use.share >= LOWER:
        return Finding("right", f"{now}; under {LOWER:.0%} a smaller slice would be thought of", measured_by=rule)
    return Finding("too_big", f"{now}; {least.profile} would do", measured_by=rule)


def _why_no_cheaper(held: Sequence[Holding], options: Sequence[Option], wish: Wish) -> str:
    """Memory, where a cheaper slice would be fast enough; else throughput."""
    boards, cost = {h.board.key: h.board for h in held}, max(h.cost for h in held)
    for option in options:
        need, ratio = option.memory_mib, option.throughput_ratio
        is_cheaper = share_of(boards[option.board], boards[option.board].find(option.profile)) < cost
        if is_cheaper and not option.fits and need.peak and ratio and ratio.value >= 1 - wish.tolerance:
            return f"no cheaper slice holds {need.peak + (need.margin or 0):,} MiB with margin"
    return f"no cheaper slice keeps {1 - wish.tolerance:.0%} of the throughput"


def _is_idle(held: Sequence[Holding]) -> bool:
    """No signal of any device shows work, and one that would show any is there: graphics or SM activity, on a whole GPU
    GPU_UTIL (percent), which means nothing on a GPU instance."""
    return all(_shows_no_work(h.device) for h in held)


def _shows_no_work(device: Device) -> bool:
    seen = {name: s.values.high for name, s in device.series.items() if s.values and name in RATIOS}
    util = device.series.get("util")
    if device.gi_id is None and device.profile is None and util and util.values:
        seen["util"] = util.values.high / 100
    return bool(seen.keys() & {"graphics", "sm", "util"}) and max(seen.values()) < IDLE


def _near_full(held: Sequence[Holding], telemetry: Telemetry) -> str | None:
    worst = max(held, key=lambda h: (_fullness(h), h.key))
    share, ended = _fullness(worst), _ended_full(held, telemetry)
    if share < NEAR_FULL and not ended:
        return None
    what = "and the pod ended in the window" if ended else f"{NEAR_FULL:.0%} counts as full"
    return f"memory reached {share:.0%} of {worst.limit_mib} MiB; {what}"


def _saturated(held: Sequence[Holding]) -> Use | None:
    """The first signal whose mean lies at the ceiling."""
    for h in held:
        for use in h.uses:
            values = h.device.series[use.signal].values
            upper = UPPER_DRAM if use.signal == "dram" else UPPER
            if values is not None and values.mean >= upper * use.ceiling.value:
                return use
    return None


def _faster(held: Sequence[Holding], options: Sequence[Option]) -> str:
    """What a larger slice would give at most, and cost: a decision for whoever pays."""
    boards = {h.board.key: h.board for h in held}
    now = max(held, key=lambda h: (h.cost, h.key))
    larger = [
        (share_of(boards[o.board], p), o.board, p.name, p.sm_count / now.size.sms)
        for o in options
        if o.fits and (p := boards[o.board].find(o.profile)) and p.sm_count and p.sm_count > now.size.sms
    ]
    if not larger:
        return "nothing larger on this board would hold it"
    cost, _, name, gain = min(larger)
    return f"if it must be faster: {name}, at most ×{gain:.1f} for ×{cost / now.cost:.1f} the price"


def _starvation(
    work: Work, held: Sequence[Holding], snapshot: Snapshot, telemetry: Telemetry, catalogue: Catalogue
) -> Starvation | None:
    """Of the first pod that starves; a suspicion only where no pod does."""
    found = [
        s
        for owner in work.owners
        if (s := _of_pod(owner, [h for h in held if h.device.owner == owner], snapshot, telemetry, catalogue))
    ]
    return min(found, key=lambda s: (s.cause == "suspected", not s.is_sure), default=None)


def _of_pod(
    owner: PodRef, held: Sequence[Holding], snapshot: Snapshot, telemetry: Telemetry, catalogue: Catalogue
) -> Starvation | None:
    signs = []
    for h in held:
        name = "graphics" if "graphics" in h.device.series else "sm"
        series, used = h.device.series.get(name), h.device.series.get("used")
        if series and series.values:
            role = h.profile.role[:2] if h.profile else None
            full = ceiling_of(name, role, telemetry.dcgm_version, series).value
            signs.append(Signs(series.values, full, used.values if used else None))
    node = next((h.device.node for h in held if h.device.node), None)
    beside = Neighbours(
        next((p for p in telemetry.pods if p.pod == owner), None),
        next((n for n in telemetry.nodes if n.node == node), None),
        _nic(held, node, snapshot, catalogue),
    )
    return find_starvation(signs, beside) if signs else None


def _nic(held: Sequence[Holding], node: str | None, snapshot: Snapshot, catalogue: Catalogue) -> float | None:
    name = next((n.azure_size for n in snapshot.nodes if n.name == node), None)
    size = catalogue.azure_sizes.get(name or "")
    if size is None:
        return None
    of = held[0].board.compute_slices or 0
    mine = sum(h.profile.compute_slices if h.profile else of for h in held)
    return nic_share(size.nic_mbps, size.gpus, mine, of)


# ---- how sure ---------------------------------------------------------------------------------------------------


def _points(held: Sequence[Holding]) -> int | None:
    """Samples of the scarcest signal: memory, and each that tells activity."""
    counts = [
        s.samples
        for h in held
        for name in ("used", *(u.signal for u in h.uses))
        if (s := h.device.series.get(name)) is not None and s.values is not None
    ]
    return min(counts, default=None)


def _confidence(held: Sequence[Holding], points: int | None, telemetry: Telemetry) -> str:
    if not points:
        return "n/a (no sample)"
    devices = f"{len(held)} device{'s' * (len(held) > 1)}"
    if telemetry.window is None:
        return "one sample" if len(held) == 1 else f"one sample of each of {len(held)} instances"
    hours = (telemetry.window.end - telemetry.window.start) / 3600
    missing = [name for name in ("SM_ACTIVE", "DRAM_ACTIVE") if not all(_has(h, name) for h in held)]
    signals = f"; {' and '.join(missing)} missing: how many SMs and how much bandwidth it fills is inferred"
    partial = "; partial answers" if telemetry.partial else ""
    return f"{points} samples in {hours:.3g} h, {devices}{signals if missing else ''}{partial}"


def _has(holding: Holding, name: str) -> bool:
    return {"SM_ACTIVE": "sm", "DRAM_ACTIVE": "dram"}[name] in holding.device.series
