"""A trial's events → what is known of it: warm-up dropped, mean with interval, ended as soon as it is tight enough."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from migsaw.model.measurement import Outcome
from migsaw.model.trial import TrialSpec
from migsaw.trial.events import Ended, Event, InputWait, Memory, Value
from migsaw.trial.means import Mean, mean_of

# Whoever looks after every value ends by luck, when the interval happens to be too narrow. So a trial is judged only
# when it has so many times the values of the last time, and ends when its interval was tight at two looks in a row.
GROWTH = 1.1
LOOKS = 2


@dataclass(frozen=True, slots=True)
class Watched:
    """``mean``: units per second. ``message``: what people need to know of an outcome that is not steady."""

    outcome: Outcome
    mean: Mean | None
    startup_seconds: float | None
    steady_seconds: float | None
    memory_peak_mib: int | None
    input_wait: float | None
    message: str = ""
    counted: tuple[float, float] | None = None  # when the steady time began and ended


@dataclass
class Watch:
    """Takes events one by one; ``outcome`` is set when the trial is over."""

    spec: TrialSpec
    seconds: float = 0.0
    first: float | None = None  # when the first unit was done
    last: float | None = None  # of the last value, dropped ones too
    count: int = 0  # values, dropped ones too
    rates: list[float] = field(default_factory=list)
    spans: list[float] = field(default_factory=list)  # seconds that each rate covers
    counted_from: float | None = None  # when the first rate that counts began
    waits: list[float] = field(default_factory=list)
    peak: int | None = None
    mean: Mean | None = None
    judged_at: int = 0  # values
    tight: int = 0  # looks in a row at which the interval was tight enough
    outcome: Outcome | None = None
    message: str = ""

    def take(self, event: Event) -> None:
        self.seconds = max(self.seconds, event.seconds)
        if isinstance(event, Value):
            self._value(event)
        elif isinstance(event, Memory):
            self.peak = max(self.peak or 0, event.mib)
        elif isinstance(event, InputWait):
            self._wait(event)
        elif isinstance(event, Ended):
            self._end(event)
        if self.outcome is None:
            self._look_at_the_clock()

    def _value(self, event: Value) -> None:
        """The first value ends the start-up and covers a time that nobody knows: it is never counted."""
        before, self.last = self.last, event.seconds
        if self.first is None:
            self.first = event.seconds
            return
        if event.rate is None or before is None or event.seconds <= before:
            self.last = before
            return
        self.count += 1
        if self.count <= self.spec.warm_up.values or not self._is_warm(before):
            return
        self.counted_from = before if self.counted_from is None else self.counted_from
        self.rates.append(event.rate)
        self.spans.append(event.seconds - before)
        if len(self.rates) >= max(self.spec.steady.at_least_values, self.judged_at * GROWTH):
            self._judge()

    def _is_warm(self, seconds: float) -> bool:
        return self.first is not None and seconds - self.first >= self.spec.warm_up.seconds

    def _judge(self, looks: int = LOOKS) -> None:
        steady = self.spec.steady
        self.judged_at = len(self.rates)
        self.mean = mean_of(self.rates, self.spans) if self.rates else None
        is_long = len(self.rates) >= steady.at_least_values and sum(self.spans) >= steady.at_least_seconds
        is_tight = self.mean is not None and self.mean.relative <= steady.relative_half_width
        self.tight = self.tight + 1 if is_long and is_tight else 0
        if self.tight >= looks:
            self.outcome = "steady"

    def _wait(self, event: InputWait) -> None:
        if self._is_warm(event.seconds) and 0 <= event.share <= 1:
            self.waits.append(event.share)

    def _end(self, event: Ended) -> None:
        if event.out_of_memory:
            self.outcome, self.message = "out_of_memory", event.message
        elif event.is_failure:
            self.outcome, self.message = "failed", event.message
        else:
            self._close("it ended before its mean was known well enough")

    def _look_at_the_clock(self) -> None:
        limits = self.spec.steady
        if self.first is None:
            if self.seconds >= limits.start_within_seconds:
                self.outcome = "failed"
                self.message = f"no value within {limits.start_within_seconds:g} s: does `read` match what it writes?"
        elif self.seconds - self.first >= limits.at_most_seconds:
            self._close(f"not steady within {limits.at_most_seconds:g} s")

    def _close(self, message: str) -> None:
        """Time or the workload is over: what is known now is all."""
        self._judge(looks=1)
        if self.outcome is None and (self.mean is None or self.mean.value <= 0):
            self.outcome, self.message = "failed", "it gave no value after the warm-up: does `read` match?"
        elif self.outcome is None:
            self.outcome, self.message = "unsteady", message

    def result(self) -> Watched:
        has_mean = self.outcome in ("steady", "unsteady")
        return Watched(
            outcome=self.outcome or "interrupted",
            mean=self.mean if has_mean else None,
            startup_seconds=None if self.first is None else round(self.first, 3),
            steady_seconds=round(sum(self.spans), 3) if has_mean else None,
            memory_peak_mib=self.peak,
            input_wait=sum(self.waits) / len(self.waits) if self.waits else None,
            message=self.message,
            counted=(self.counted_from, self.seconds) if has_mean and self.counted_from is not None else None,
        )


def watch(events: Iterable[Event], spec: TrialSpec, seen: Callable[[Watch], None] = lambda _: None) -> Watched:
    """Follows a trial until it is known well enough, over, or out of time; ``seen`` is called after each event."""
    state = Watch(spec)
    for event in events:
        state.take(event)
        seen(state)
        if state.outcome is not None:
            break
    return state.result()
