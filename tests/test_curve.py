"""Throughput curves from few trials, and which trial comes next: closed forms, invariants, and the published table."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from migsaw import catalogue
from migsaw.cli.shared import load_catalogue
from migsaw.fit.choose import Question, decide, first_trial
from migsaw.fit.curve import Slot, believe, cdf, curves, effective_sizes
from migsaw.fit.curve_prior import Curve, learn, parse_prior

PRIOR = parse_prior(catalogue.read("curves.json"))
SLOTS = tuple(
    Slot(p.name, p.sm_count or 0, p.memory_slices or 0)
    for p in load_catalogue().board("a100-sxm4-80gb").profiles
    if p.role in ("1g", "2g", "3g", "4g", "7g")
)
NAMES = [slot.name for slot in SLOTS]
ROOT = Path(__file__).resolve().parents[1]


def test_slots_are_those_of_the_published_geometry():
    assert [(s.sms, s.memory_slices) for s in SLOTS] == [(14, 1), (28, 2), (42, 4), (56, 4), (98, 8)]


@pytest.mark.parametrize(("k", "w"), [(1.0, 1.0), (2.0, 0.5), (16.0, 0.0)])
def test_a_curve_of_the_family_is_found_again_by_its_own_hypothesis(k, w):
    """T = (A e^-k + C)^(-1/k) with A = 1, C = 0.3^k, written out here once more."""
    sms, memory = np.array([1, 2, 3, 4, 7.0]), np.array([1, 2, 4, 4, 8.0])
    true = ((1 / (w / sms + (1 - w) / memory)) ** -k + 0.3**k) ** (-1 / k)
    rows = curves(PRIOR, effective_sizes(PRIOR, SLOTS), (0, math.log(true[0])), (4, math.log(true[4])))
    mine = PRIOR.hypotheses.index((k, w))
    assert np.exp(rows[mine]) == pytest.approx(true, rel=1e-9)


def test_every_hypothesis_goes_through_both_trials():
    for gain in (0.7, 1.0, 1.5, 4.0, 7.0, 9.0):
        rows = curves(PRIOR, effective_sizes(PRIOR, SLOTS), (0, 0.0), (4, math.log(gain)))
        assert rows[:, 0] == pytest.approx(0.0, abs=1e-9)
        assert rows[:, 4] == pytest.approx(math.log(gain), abs=1e-3)
        assert np.isfinite(rows).all()


def test_predictions_scale_with_the_unit_and_lie_in_order():
    one = believe(PRIOR, "infer", {"1g.10gb": 100.0, "7g.80gb": 420.0}, SLOTS)
    other = believe(PRIOR, "infer", {"1g.10gb": 1.0, "7g.80gb": 4.2}, SLOTS)
    for name in NAMES:
        low, middle, high = one.interval(name)
        assert low <= middle <= high
        assert other.quantile(name, 0.5) * 100 == pytest.approx(middle, rel=1e-6)
    assert one.interval("1g.10gb") == (100.0, 100.0, 100.0), "what was measured is not predicted"


def test_intervals_shrink_with_trials():
    def width(**trials: float) -> float:
        given = {name: trials[name[:2]] for name in NAMES if name[:2] in trials}
        low, _, high = believe(PRIOR, "train", given, SLOTS).interval("2g.20gb")
        return math.log(high / low)

    given = ({"1g": 100.0}, {"1g": 100.0, "7g": 400.0}, {"1g": 100.0, "3g": 270.0, "7g": 400.0})
    one, two, three = (width(**trials) for trials in given)
    assert one > two > three


def test_the_share_of_students_t_is_that_of_its_table():
    """Quantiles of Student's t with four degrees of freedom, from any table: 2.132 (95 %), 4.604 (99.5 %)."""
    assert cdf(np.array([0.0, 2.132, 4.604, -2.132])) == pytest.approx([0.5, 0.95, 0.995, 0.05], abs=1e-4)


@pytest.mark.parametrize(
    ("trials", "says"),
    [
        ({}, "at least one"),
        ({"9g.1gb": 1.0}, "9g.1gb"),
        ({"1g.10gb": 0.0}, "1g.10gb"),
        ({"1g.10gb": math.nan}, "1g.10gb"),
    ],
)
def test_trials_that_are_none_are_refused(trials, says):
    with pytest.raises(ValueError, match=says):
        believe(PRIOR, "infer", trials, SLOTS)


def test_a_task_of_which_nothing_was_seen_keeps_wide_intervals():
    ideal = dict(zip(NAMES, [1.0, 2.0, 3.4, 4.0, 7.0], strict=True))
    prior = learn([Curve("infer", f"model-{n}", ideal, SLOTS) for n in range(10)], "a test")
    seen, unseen = (
        believe(prior, task, {"1g.10gb": 1.0, "7g.80gb": 7.0}, SLOTS).interval("3g.40gb") for task in ("infer", "train")
    )
    assert seen[1] == pytest.approx(3.4, rel=0.05)
    assert unseen[2] / unseen[0] > seen[2] / seen[0]


SHARES = {"1g.10gb": 1 / 7, "2g.20gb": 2 / 7, "3g.40gb": 1 / 2, "4g.40gb": 4 / 7, "7g.80gb": 1.0}


def test_the_first_trial_is_the_smallest_slot_that_may_hold_it():
    assert first_trial(SLOTS, {}) == "1g.10gb"
    assert first_trial(SLOTS, {"1g.10gb": False, "2g.20gb": False}) == "3g.40gb"


def test_without_a_limit_the_smallest_slot_that_holds_it_needs_no_second_trial():
    decision = decide(
        believe(PRIOR, "infer", {"1g.10gb": 100.0}, SLOTS), Question(SHARES, None, dict.fromkeys(NAMES, True))
    )
    assert (decision.choice, decision.trial) == ("1g.10gb", None)


def test_a_limit_far_above_a_trial_asks_for_a_larger_slot_and_one_that_was_tried_is_chosen():
    asked = Question(SHARES, 250.0, dict.fromkeys(NAMES, True))
    first = decide(believe(PRIOR, "infer", {"1g.10gb": 100.0}, SLOTS), asked)
    assert first.choice is None
    assert first.trial in ("3g.40gb", "4g.40gb"), "two 1g are too few, and seven more than needed"
    then = decide(believe(PRIOR, "infer", {"1g.10gb": 100.0, "3g.40gb": 310.0}, SLOTS), asked)
    assert then.choice == "3g.40gb"
    assert then.trial in (None, "4g.40gb"), "2g would give about 200, and 7g costs twice as much"


@pytest.mark.parametrize("seed", range(40))
def test_a_choice_was_measured_reaches_the_limit_and_is_the_cheapest_that_does(seed):
    rng = random.Random(f"choose {seed}")
    k, cap = rng.choice([1, 2, 4, 8]), rng.uniform(0.5, 9)
    true = {s.name: 50 * ((s.sms / 14) ** -k + cap**-k) ** (-1 / k) for s in SLOTS}
    floor = rng.choice([None, true["7g.80gb"] / rng.uniform(1.01, 6)])
    smallest = rng.randrange(5)
    holds = {name: i >= smallest for i, name in enumerate(NAMES)}
    trials, trial = {}, first_trial(SLOTS, holds)
    while trial is not None:
        trials[trial] = true[trial]
        decision = decide(believe(PRIOR, "infer", trials, SLOTS), Question(SHARES, floor, holds))
        trial = decision.trial
        assert len(trials) <= 5
    assert decision.choice is not None
    served = [n for n in trials if floor is None or true[n] >= floor]
    assert decision.choice == min(served, key=lambda n: SHARES[n] / true[n])
    best = min(SHARES[n] / true[n] for n in NAMES if holds[n] and (floor is None or true[n] >= floor))
    assert SHARES[decision.choice] / true[decision.choice] <= 2.2 * best


def benchmark(name: str, data_dir: Path) -> dict[str, Any]:
    words = [sys.executable, ROOT / f"benchmarks/{name}.py", "--data", data_dir, "-o", "json"]
    found: dict[str, Any] = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    return found


def test_held_out_predictions_reach_their_goals(data_dir):
    """Against the soft roofline on the same rows: 0.85 of its error pooled, 0.7 on the training source."""
    found = benchmark("predictor", data_dir)
    for held in ("source", "model"):
        ours, soft = found["two_trials"][held], found["baselines"]["soft_roofline"][held]
        assert ours["pooled"]["mean"] <= 0.85 * soft["pooled"]["mean"]
        assert all(0.85 <= v["coverage90"] <= 0.95 for v in (ours["pooled"], *ours["by_source"].values()))
    ours, soft = found["two_trials"]["by_source"], found["baselines"]["soft_roofline"]["by_source"]
    assert ours["MISO-SoCC22"]["mean"] <= 0.7 * soft["MISO-SoCC22"]["mean"]


def test_slots_found_by_few_trials_reach_their_goals(data_dir):
    found = benchmark("slots", data_dir)
    assert found["mean_excess"] <= 0.03
    assert found["with_misses"] <= 0.5 * found["rules"]["smallest that fits"]["with_misses"]
    assert found["limits_missed"] <= 0.01
    assert found["trials"] <= 2.2
    assert found["slots_without_a_row"] == 0
