"""What is known of a board's slots after some trials, which trial comes next, and what the series came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from migsaw.fit.choose import Decision, Question, decide, first_trial
from migsaw.fit.curve import Belief, CurvePrior, Slot, believe
from migsaw.model.boards import Board
from migsaw.model.fits import Figure
from migsaw.model.measurement import DeviceKind, Measurement
from migsaw.model.money import dominant_share
from migsaw.model.trial import SlotRow, Trials, TrialSpec, Verdict

MARGIN = 1.15  # on a memory peak, as right-sizing adds
FILLED = 0.7  # of a slot's memory
ROLES = ("1g", "2g", "3g", "4g", "7g")


@dataclass(frozen=True, slots=True)
class Series:
    """``slots``: of the board, ascending; ``open_slots``: those that a trial can be run on here and may be."""

    spec: TrialSpec
    board: Board
    device: DeviceKind
    slots: tuple[Slot, ...]
    open_slots: tuple[str, ...]
    prior: CurvePrior
    measured: Mapping[str, Measurement] = field(default_factory=dict)

    @property
    def shares(self) -> dict[str, float]:
        return {slot.name: share_of(slot.name, self.board) or 1.0 for slot in self.slots}

    def next_trial(self) -> str | None:
        """None: no trial is worth its time, or none is left."""
        if self.device == "cpu":
            return next((name for name in self.open_slots if name not in self.measured), None)
        if not self._trials():
            slots = [slot for slot in self.slots if self._may_be_tried(slot.name)]
            return first_trial(slots, {}) if slots else None
        return self._decision().trial

    def _may_be_tried(self, name: str) -> bool:
        return name in self.open_slots and name not in self.measured and self.holds().get(name) is not False

    def holds(self) -> dict[str, bool]:
        """By trials, and by the memory that one took: a slot with no less memory than one that held it, holds it."""
        memory = {slot.name: slot.memory_slices for slot in self.slots}
        held = [memory[name] for name, m in self.measured.items() if m.throughput_per_second and name in memory]
        full = [memory[name] for name, m in self.measured.items() if m.outcome == "out_of_memory" and name in memory]
        peaks = [m.memory_peak_mib for m in self.measured.values() if m.memory_peak_mib and self._is_need(m)]
        found: dict[str, bool] = {}
        for name, size in memory.items():
            if (known := self.measured.get(name)) is not None:
                found[name] = known.throughput_per_second is not None
            elif any(size >= other for other in held):
                found[name] = True
            elif any(size <= other for other in full):
                found[name] = False
            elif peaks and (limit := _memory_mib(name, self.board)):
                found[name] = max(peaks) * MARGIN <= limit
        return found

    def _is_need(self, m: Measurement) -> bool:
        """Whether its peak is what it needs: frameworks that fill a slot (JAX 75 %, vLLM 90 %) do not tell."""
        limit = _memory_mib(m.profile, self.board)
        return bool(m.throughput_per_second and limit and (m.memory_peak_mib or 0) < FILLED * limit)

    def _trials(self) -> dict[str, float]:
        figures = {name: m.throughput_per_second for name, m in self.measured.items()}
        names = {slot.name for slot in self.slots}
        return {name: figure.value for name, figure in figures.items() if figure and name in names}

    def _belief(self) -> Belief:
        return believe(self.prior, self.spec.task, self._trials(), self.slots)

    def _decision(self) -> Decision:
        """A slot that cannot be tried here is asked for as one that does not hold it: it is only predicted."""
        closed = {slot.name: False for slot in self.slots if slot.name not in self.open_slots}
        return decide(self._belief(), Question(self.shares, self.spec.floor, {**self.holds(), **closed}))

    # ---- what it came to ----------------------------------------------------------------------------------------

    def trials(self, made: int, resumed: frozenset[str]) -> Trials:
        chosen, verdict, because = self._verdict()
        rows = self._rows(resumed)
        name, board, unit = self.spec.name, self.board.key, self.spec.unit
        return Trials(name, board, self.device, unit, rows, made, chosen, verdict, because, self.spec.floor)

    def _verdict(self) -> tuple[str | None, Verdict, str]:
        failed = next((name for name, m in self.measured.items() if m.outcome == "failed"), None)
        if failed is not None:
            return None, Verdict.FAILED, f"on {failed}: {self.measured[failed].conditions.get('message', '')}"
        if self.device == "cpu":
            return None, Verdict.REHEARSED, "numbers of the CPU say nothing of a slice"
        decision = self._decision() if self._trials() else None
        if decision is None or decision.choice is None:
            return None, Verdict.NONE_SERVES, self._why_none()
        return decision.choice, Verdict.CHOSEN, self._why(decision)

    def _why(self, decision: Decision) -> str:
        figure = self.measured[str(decision.choice)].throughput_per_second
        assert figure is not None
        reaches = "costs least per unit of work of what was measured"
        if self.spec.floor is not None:
            reaches += f" and reaches {self.spec.floor:.4g} {self.spec.unit}/s"
            if figure.low is not None and figure.low < self.spec.floor:
                reaches += " (its 95 % interval begins below)"
        left = f"; a further trial would save {decision.gain:.1%} on average, not worth it" if decision.gain else ""
        return reaches + left

    def _why_none(self) -> str:
        if not self._trials():
            return "no slot that could be tried holds it"
        return f"no slot that could be tried reaches {self.spec.floor or 0:.4g} {self.spec.unit}/s"

    def _rows(self, resumed: frozenset[str]) -> tuple[SlotRow, ...]:
        can_predict = self.device != "cpu" and bool(self._trials())
        holds, belief = self.holds(), self._belief() if can_predict else None
        names = [slot.name for slot in self.slots]
        shown = names if belief else [name for name in names if name in self.open_slots or name in self.measured]
        if self.device == "cpu":
            shown = list(self.open_slots)
        return tuple(self._row(name, holds.get(name), belief, name in resumed) for name in shown)

    def _row(self, name: str, holds: bool | None, belief: Belief | None, is_resumed: bool) -> SlotRow:
        known, share = self.measured.get(name), share_of(name, self.board)
        figure = known.throughput_per_second if known else None
        if self.device == "cpu":
            return SlotRow(name, None, None, figure, None, known, is_resumed)
        if known is None and belief is not None and holds is not False:
            low, middle, high = belief.interval(name)
            figure = Figure(middle, low, high, "predicted")
        cost = share / figure.value if share and figure and figure.value > 0 else None
        return SlotRow(name, share, holds, figure, cost, known, is_resumed)


def slots_of(spec: TrialSpec, board: Board, here: tuple[str, ...] | None) -> tuple[tuple[Slot, ...], tuple[str, ...]]:
    """(slots of the board to think about, those to try). ``here``: what the back end has, None: anything."""
    plain = {p.name for p in board.profiles if p.role in ROLES}
    asked = set(spec.profiles or ())
    names = plain | asked | ({"off"} & set(here or ()))
    slots = [slot for name in sorted(names) if (slot := _slot(name, board)) is not None]
    slots.sort(key=lambda slot: (slot.sms, slot.memory_slices))
    able = [slot.name for slot in slots if here is None or slot.name in here]
    return tuple(slots), tuple(name for name in able if not asked or name in asked)


def share_of(name: str, board: Board) -> float | None:
    return dominant_share(board, None if name == "off" else board.profile(name))


def _slot(name: str, board: Board) -> Slot | None:
    if name == "off":
        return Slot(name, board.sm_count or 0, board.memory_slices or 0) if board.sm_count else None
    profile = board.profile(name)
    return Slot(name, profile.sm_count, profile.memory_slices) if profile.sm_count and profile.memory_slices else None


def _memory_mib(name: str, board: Board) -> int | None:
    return board.memory_mib if name == "off" else board.profile(name).memory_mib
