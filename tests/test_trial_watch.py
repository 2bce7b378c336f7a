"""A trial's events and what is made of them: warm-up, early end, time limits, memory, failure. Clocks are made up."""

from __future__ import annotations

import random

import pytest

from migsaw.model.trial import JsonLinesReading, Read, RegexReading, Steady, TrialSpec, WarmUp
from migsaw.trial.events import Ended, InputWait, Memory, Tick, Value
from migsaw.trial.readers import JsonLinesReader, Rates, RegexReader, Together
from migsaw.trial.watch import watch


def spec(**changes) -> TrialSpec:
    steady = Steady(0.03, 20, 10.0, 300.0, 60.0)
    return TrialSpec("t", "a100-sxm4-80gb", ("x",), Read(regex=RegexReading("(x)")), **{"steady": steady, **changes})


def values(rate, first=10.0, until=10_000):
    """One value a second."""
    for n in range(until):
        yield Value(first + n, rate(n))


def test_a_steady_rate_ends_as_soon_as_enough_values_are_there():
    """The first value is at 10 s and covers an unknown time; 20 more are wanted, and a second look a tenth later."""
    found = watch(values(lambda n: 50.0), spec())
    assert (found.outcome, found.mean.value, found.mean.half_width) == ("steady", 50.0, 0.0)
    assert (found.startup_seconds, found.steady_seconds) == (10.0, 22.0)


def test_warm_up_is_left_out_by_seconds_and_by_values():
    slow_then_fast = lambda n: 10.0 if n <= 30 else 50.0  # noqa: E731
    by_seconds = watch(values(slow_then_fast), spec(warm_up=WarmUp(seconds=30)))
    by_values = watch(values(slow_then_fast), spec(warm_up=WarmUp(values=30)))
    assert by_seconds.mean.value == by_values.mean.value == 50.0
    too_short = watch(values(slow_then_fast), spec(warm_up=WarmUp(values=10)))
    assert too_short.mean.value < 50.0


def test_a_tighter_interval_takes_longer_and_noise_that_never_settles_ends_at_the_limit():
    def noisy(n, rng=random.Random(5)):  # noqa: B008 - one stream of chance for all values
        return 50.0 * (1 + rng.gauss(0, 0.1))

    loose = watch(values(noisy), spec(steady=Steady(0.06, 20, 10.0, 5000.0)))
    tight = watch(values(noisy), spec(steady=Steady(0.01, 20, 10.0, 5000.0)))
    never = watch(values(noisy), spec(steady=Steady(0.0001, 20, 10.0, 300.0)))
    assert loose.outcome == tight.outcome == "steady"
    assert tight.steady_seconds > 4 * loose.steady_seconds
    assert loose.steady_seconds < 300 / 4, "an early end saves most of the time"
    assert (never.outcome, never.steady_seconds) == ("unsteady", 300.0)
    assert never.mean.value == pytest.approx(50.0, rel=0.05)
    assert "300 s" in never.message


def test_a_rate_that_comes_in_waves_is_not_judged_by_its_first_calm():
    """30 s at 10, 30 s at 90, and so on: the first 20 values are all alike."""
    waves = lambda n: 10.0 if n // 30 % 2 == 0 else 90.0  # noqa: E731
    hasty = watch(values(waves), spec(steady=Steady(0.05, 20, 0.0, 3000.0)))
    patient = watch(values(waves), spec(steady=Steady(0.05, 20, 60.0, 3000.0)))
    assert (hasty.outcome, hasty.mean.value) == ("steady", 10.0)
    assert patient.mean.value == pytest.approx(50.0, rel=0.1)


def test_a_silent_trial_is_ended_and_says_what_to_look_at():
    found = watch((Tick(n) for n in range(10_000)), spec())
    assert (found.outcome, found.mean) == ("failed", None)
    assert "no value within 60 s" in found.message


def test_a_trial_that_falls_silent_after_its_first_values_ends_at_the_limit():
    events = [*values(lambda n: 5.0, until=5), *(Tick(n) for n in range(20, 400))]
    found = watch(events, spec())
    assert (found.outcome, found.mean.value) == ("unsteady", 5.0)


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (Ended(9, True, True, "CUDA out of memory"), "out_of_memory"),
        (Ended(9, True, False, "exit code 3"), "failed"),
        (Ended(9), "failed"),
    ],
)
def test_how_a_trial_ends_without_values(end, outcome):
    found = watch([Tick(1), end], spec())
    assert (found.outcome, found.mean) == (outcome, None)
    assert found.message


def test_running_out_of_memory_after_values_is_no_throughput():
    found = watch([*values(lambda n: 5.0, until=10), Ended(30, True, True, "OOM")], spec())
    assert (found.outcome, found.mean) == ("out_of_memory", None)


def test_an_end_after_enough_values_is_as_good_as_a_stop():
    noisy = random.Random(2)
    events = [*values(lambda n: 50 + noisy.gauss(0, 20), until=12), Ended(30)]
    found = watch(events, spec())
    assert (found.outcome, found.mean.values) == ("unsteady", 11)


def test_memory_is_the_peak_and_waiting_the_mean_after_warm_up():
    events = [Value(1, 1), InputWait(2, 1.0), Memory(3, 500), Memory(4, 300), InputWait(12, 0.5), InputWait(13, 0.3)]
    found = watch([*events, *values(lambda n: 5.0, first=14)], spec(warm_up=WarmUp(seconds=10)))
    assert found.memory_peak_mib == 500
    assert found.input_wait == pytest.approx(0.4)


def test_counts_become_rates_and_a_count_that_begins_anew_is_no_loss():
    rates = Rates("count")
    seen = [e for at, n in [(1.0, 10), (3.0, 30), (3.0, 31), (4.0, 41), (5.0, 2), (6.0, 8)] for e in rates.value(at, n)]
    assert [(e.seconds, e.rate) for e in seen] == [(1, None), (3, 10.0), (4, 11.0), (5, None), (6, 6.0)]


def test_numbers_are_found_in_lines_as_people_write_them():
    reader = RegexReader(RegexReading(r"speed: (\S+)"))
    lines = ["speed: 1,234.5 samples", "speed: nan", "speed: 12e3", "speed: fast", "none", "speed: -4"]
    assert [e.rate for text in lines for e in reader.line(1.0, text)] == [1234.5, 12000.0]


def test_processes_are_added_up_when_each_has_spoken():
    both = Together(2)
    said = [(0, 1.0), (0, 5.0), (1, 9.0), (0, 10.0), (0, 20.0), (1, 2.0), (1, 3.0), (0, 4.0)]
    found = [e for n, (process, rate) in enumerate(said) for e in both.value(process, Value(n, rate))]
    assert [(e.seconds, e.rate) for e in found] == [(2, None), (5, 15.0 + 2.0), (7, 3.0 + 4.0)]


def test_lines_of_a_file_that_come_together_are_one_value(tmp_path):
    path = tmp_path / "log.jsonl"
    rates = JsonLinesReader(JsonLinesReading("log.jsonl", "r"), path)
    counts = JsonLinesReader(JsonLinesReading("log.jsonl", "n", "count"), path)
    assert list(rates.poll(0.5)) == [], "the file is not there yet"
    path.write_text('{"r": 10, "n": 1}\n{"r": 20, "n": 2}\nno json\n[1]\n{"r": true}\n{"r": 99')
    assert [(e.seconds, e.rate) for e in rates.poll(1.0)] == [(1.0, 15.0)]
    assert [(e.seconds, e.rate) for e in counts.poll(1.0)] == [(1.0, None)]
    with path.open("a") as file:
        file.write(', "n": 10}\n')
    assert [e.rate for e in rates.poll(3.0)] == [99.0]
    assert [e.rate for e in counts.poll(3.0)] == [4.0], "8 units in 2 s"
    path.write_text('{"r": 5}\n')
    assert [e.rate for e in rates.poll(4.0)] == [5.0], "a file that begins anew is read from its start"
