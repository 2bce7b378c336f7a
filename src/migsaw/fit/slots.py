"""Measurements of a workload become its slots: what each profile gives, what it costs, and which one it gets.

The chosen slot reaches what is asked for at the least cost of finished work: share of the GPU × time, start-up and
what the slice strands included. A measured slot counts with what was measured, a predicted one with the low end of its
interval, so that it is chosen only where it would be worth it even then. It must not know of files or currencies' rates
beyond a number per board.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from migsaw.fit.curve import Belief, CurvePrior, believe
from migsaw.fit.evidence import WHOLE, Evidence
from migsaw.fit.rules import memory_need
from migsaw.fit.siblings import WIDER, slots_of
from migsaw.model.boards import Board
from migsaw.model.fits import Figure, MemoryNeed
from migsaw.model.layouts import Placed, fault
from migsaw.model.measurement import Measurement
from migsaw.model.money import slice_shares
from migsaw.model.slo import Objective

FILLED = 0.7  # of a slot's memory: above, a framework may have taken what there was, not what it needs
ROUNDING = 1e-9
MILLION = 1e6  # units that cost is of where nobody says what a run is


@dataclass(frozen=True, slots=True)
class SlotOption:
    """One slot of a board. ``share``: of the GPU's price, with what it strands; ``strands``: the part for that.

    ``fits``: it is known to hold the workload and to reach what is asked for; ``reason`` says why not. ``seconds`` and
    ``gpu_seconds`` (share × seconds) are of one run, or of a million units where no run is declared, at the throughput
    that it is chosen by: :attr:`counted`.
    """

    board: str
    profile: str
    fits: bool
    reason: str
    share: float | None
    strands: float | None
    memory: MemoryNeed
    throughput: Figure | None = None
    latency_ms: Figure | None = None
    startup_seconds: float | None = None  # None: not measured on any slot; counted as none
    startup_on: str | None = None  # the slot whose start-up it is
    seconds: float | None = None
    gpu_seconds: float | None = None

    @property
    def is_measured(self) -> bool:
        return self.throughput is not None and self.throughput.source != "predicted"

    @property
    def counted(self) -> float | None:
        """Units per second that it is chosen by."""
        if self.throughput is None or self.is_measured:
            return self.throughput.value if self.throughput else None
        return self.throughput.low


@dataclass(frozen=True, slots=True)
class _Seen:
    """The trials, the board they were made on, the one that is asked about, and what follows for throughput."""

    evidence: Evidence
    home: Board
    board: Board
    belief: Belief | None

    @property
    def is_sibling(self) -> bool:
        return self.board.key != self.home.key

    def own(self, name: str) -> Measurement | None:
        """The trial of this very slot."""
        return None if self.is_sibling else self.evidence.trials.get(name)


def options_of(
    evidence: Evidence, home: Board, asked: Objective, prior: CurvePrior, sibling: Board | None = None
) -> tuple[SlotOption, ...]:
    """Every plain profile by size, then the GPU without MIG, of the board ``home`` that the trials were made on, or of
    a ``sibling`` for which :func:`migsaw.fit.siblings.why_no_sibling` has nothing to say."""
    board = sibling or home
    profiles = [p for p in board.profiles if p.is_plain]
    profiles.sort(key=lambda p: (p.compute_slices, p.memory_slices or 0, p.name))
    seen = _Seen(evidence, home, board, _belief(evidence, home, asked, prior, sibling))
    return tuple(_option(name, seen, asked) for name in (*(p.name for p in profiles), WHOLE))


def choose(options: Sequence[SlotOption], usd_per_gpu_hour: Mapping[str, float | None]) -> SlotOption | None:
    """The slot of least cost among those that fit; boards are compared by their prices.

    Without prices slots of one board are compared by GPU time; boards without a price never win over one that has
    it, and of several boards none of which has a price none is chosen. Ties: less GPU time, smaller share, names.
    """
    fitting = [o for o in options if o.fits and o.profile != WHOLE and o.gpu_seconds is not None]
    priced = [o for o in fitting if usd_per_gpu_hour.get(o.board) is not None]
    if not priced and len({o.board for o in fitting}) > 1:
        return None
    rate = {o.board: usd_per_gpu_hour.get(o.board) or 1.0 for o in fitting}

    def cost(o: SlotOption) -> tuple[float, float, float, str, str]:
        return (o.gpu_seconds or 0.0) * rate[o.board], o.gpu_seconds or 0.0, o.share or 0.0, o.board, o.profile

    return min(priced or fitting, key=cost, default=None)


def finishing_seconds(rate: float, startup_seconds: float | None, units_per_run: float | None) -> float:
    """Of one run with its start-up (one that is not known counts as none), or of a million units of endless work."""
    if units_per_run is None:
        return MILLION / rate
    return (startup_seconds or 0.0) + units_per_run / rate


# ---- what a slice carries ---------------------------------------------------------------------------------------


def share_of(board: Board, name: str) -> tuple[float, float] | None:
    """(share of the GPU's price, part of it for what is stranded) of a slice on a GPU cut into as many as it holds."""
    if name == WHOLE:
        return 1.0, 0.0
    profile = board.profile(name)
    if not board.placements_known or not board.compute_slices:
        return None
    counts = range(profile.max_instances, 0, -1)
    layout = next((row for n in counts if fault(board, row := [Placed(name)] * n) is None), [])
    shares = [s.share for s in slice_shares(board, layout)]
    if not shares:
        return None
    share = sum(shares) / len(shares)
    strands = share - profile.compute_slices / board.compute_slices
    return share, strands if strands > ROUNDING else 0.0


# ---- one slot ---------------------------------------------------------------------------------------------------


def _option(name: str, seen: _Seen, asked: Objective) -> SlotOption:
    enough, memory, why = _memory(name, seen)
    share = share_of(seen.board, name)
    option = SlotOption(seen.board.key, name, False, why, share and share[0], share and share[1], memory)
    if enough is False:
        return option
    option = _timed(replace(option, throughput=_throughput(name, seen)), seen, asked)
    if enough is None:
        return option
    if fault_found := _misses(option, asked):
        return replace(option, reason=fault_found)
    said = f"{option.reason}: predicted from {seen.home.key}, unchecked" if seen.is_sibling else option.reason
    return replace(option, fits=True, reason=said)


def _timed(option: SlotOption, seen: _Seen, asked: Objective) -> SlotOption:
    """With latency, start-up and what finished work takes."""
    startup, startup_on = _startup(option.profile, seen)
    option = replace(option, latency_ms=_latency(option, seen), startup_seconds=startup, startup_on=startup_on)
    if not option.counted:
        return option
    seconds = finishing_seconds(option.counted, startup, asked.units_per_run)
    return replace(option, seconds=seconds, gpu_seconds=None if option.share is None else option.share * seconds)


def _misses(option: SlotOption, asked: Objective) -> str | None:
    """What is asked for and not reached, in words."""
    if option.counted is None or option.seconds is None:
        return "n/a (throughput is not known)"
    end = "" if option.is_measured else " at the low end of what is predicted"
    if asked.deadline_seconds is not None and option.seconds > asked.deadline_seconds:
        return f"takes {option.seconds:,.0f} s{end}, the deadline is {asked.deadline_seconds:,.0f} s"
    if asked.throughput_per_second is not None and option.counted < asked.throughput_per_second:
        return f"{option.counted:,.4g}/s{end}, {asked.throughput_per_second:,.4g}/s are asked for"
    latency = option.latency_ms
    if asked.latency_slo_ms is not None and latency is not None:
        slow = latency.value if option.is_measured else latency.high or latency.value
        if slow > asked.latency_slo_ms:
            return f"{slow:,.4g} ms{end}, the limit is {asked.latency_slo_ms:,.4g} ms"
    return None


# ---- memory -----------------------------------------------------------------------------------------------------


def _memory(name: str, seen: _Seen) -> tuple[bool | None, MemoryNeed, str]:
    """(whether it holds the workload, None: not known; need; reason). What ran out of memory refuses all that have
    no more of it; what ran proves all that have no less; between them the peak with its margin decides."""
    limit = memory_mib(seen.board, name)
    mine, trials = seen.own(name), seen.evidence.trials.values()
    sized = [(m, size) for m in trials if (size := memory_mib(seen.home, m.profile)) is not None]
    peaks = [peak for m, size in sized if (peak := m.memory_peak_mib) and _ran(m) and peak < FILLED * size]
    need = memory_need(max(peaks), limit) if peaks else MemoryNeed(limit=limit)
    if mine is not None and mine.memory_peak_mib and _ran(mine):
        need = memory_need(mine.memory_peak_mib, limit)
    if limit is None:
        return None, need, "n/a (memory of this profile is not known)"
    full = [(size, m.profile) for m, size in sized if m.outcome == "out_of_memory" and size >= limit]
    if full:
        return False, need, "out of memory" if mine and not _ran(mine) else f"out of memory on {max(full)[1]}"
    if any(_ran(m) and size <= limit for m, size in sized):
        return True, need, _tight(mine, need, limit)
    if not peaks:
        return None, need, "n/a (whether it holds the workload is not known)"
    if need.peak is not None and need.peak + (need.margin or 0) <= limit:
        return True, need, "OK"
    return False, need, f"{(need.peak or 0) + (need.margin or 0):,} MiB with margin, holds {limit:,}"


def _tight(mine: Measurement | None, need: MemoryNeed, limit: int) -> str:
    """It ran, so it holds; that little was left is worth a word, whether the framework took it or needed it."""
    if mine is None or not mine.memory_peak_mib or mine.memory_peak_mib + (need.margin or 0) <= limit:
        return "OK"
    return f"OK: it ran, with {mine.memory_peak_mib / limit:.0%} of the memory in use"


def memory_mib(board: Board, name: str) -> int | None:
    profile = board.find(name)
    return board.memory_mib if name == WHOLE else profile.memory_mib if profile else None


def _ran(m: Measurement) -> bool:
    return m.outcome != "out_of_memory" and m.throughput_per_second is not None


# ---- time -------------------------------------------------------------------------------------------------------


def _belief(
    evidence: Evidence, home: Board, asked: Objective, prior: CurvePrior, sibling: Board | None
) -> Belief | None:
    slots = slots_of(home, WHOLE)
    names = {slot.name for slot in slots}
    rates = {name: m.throughput_per_second for name, m in evidence.trials.items() if name in names and _ran(m)}
    known = {name: figure.value for name, figure in rates.items() if figure and figure.value > 0}
    if not known:
        return None
    if sibling is None:
        return believe(prior, asked.likely_task, known, slots)
    both = (*slots, *slots_of(sibling, WHOLE, like=home))
    wider = replace(prior, noise_of_slots=prior.noise_of_slots * WIDER)
    return believe(wider, asked.likely_task, known, both)


def _throughput(name: str, seen: _Seen) -> Figure | None:
    """A simulated trial's figure is estimated: nothing was measured."""
    mine, belief = seen.own(name), seen.belief
    name = f"{seen.board.key}/{name}" if seen.is_sibling else name
    if mine is not None and _ran(mine) and mine.throughput_per_second is not None:
        figure = mine.throughput_per_second
        return replace(figure, source="estimated") if mine.device == "simulated" else figure
    if belief is None or name not in {slot.name for slot in belief.slots}:
        return None
    low, middle, high = belief.interval(name)
    return Figure(middle, low, high, "predicted")


def _latency(option: SlotOption, seen: _Seen) -> Figure | None:
    """Measured where it was; else work in flight ÷ throughput (Little's law). In flight is what measured latencies
    show, the most where they differ, else one batch of each process."""
    mine, evidence = seen.own(option.profile), seen.evidence
    if mine is not None and mine.latency_ms is not None:
        return mine.latency_ms
    rate = option.throughput
    if rate is None or rate.value <= 0:
        return None
    flying = [
        m.latency_ms.value / 1000 * m.throughput_per_second.value
        for m in evidence.trials.values()
        if m.latency_ms is not None and m.throughput_per_second is not None
    ]
    work = max(flying, default=(evidence.batch or 1) * evidence.processes) * 1000.0
    low = work / rate.high if rate.high else None
    return Figure(work / rate.value, low, work / rate.low if rate.low else None, rate.source)


def _startup(name: str, seen: _Seen) -> tuple[float | None, str | None]:
    """(seconds, slot that it was measured on): its own, else the longest of any slot."""
    known = {m.profile: m.startup_seconds for m in seen.evidence.trials.values() if m.startup_seconds is not None}
    if seen.own(name) is not None and name in known:
        return known[name], name
    longest = max(known, key=lambda other: (known[other], other), default=None)
    return (known[longest], longest) if longest is not None else (None, None)
