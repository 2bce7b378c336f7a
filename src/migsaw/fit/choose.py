"""Which slot, and which trial next: a trial is worth what it is expected to change in the decision.

The best slot costs least per finished unit of work (share of the GPU ÷ throughput) among those that hold the workload
and reach the least throughput that is asked for (a deadline, or a latency limit put as throughput). Only a slot that
was measured is chosen: what is believed of the others decides which of them is tried, and when to stop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from migsaw.fit.curve import Belief, Floats, Slot, cdf

WORTH = 0.022  # a trial must be expected to save this share of the cost per unit of work
OUTCOMES = 9  # equally likely ones that a trial is imagined to have
UNSERVED = 1.25  # while nothing serves: the largest slot's cost, so many times
CHANCE = 0.9  # that a slot holds the workload of which nothing was seen


@dataclass(frozen=True, slots=True)
class Question:
    """``shares``: slot → share of a GPU, 0..1. ``floor``: least throughput per second, None: none.

    ``holds``: slots of which a trial, or the memory that a trial took, tells whether they hold the workload.
    """

    shares: Mapping[str, float]
    floor: float | None = None
    holds: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision:
    """``choice`` None: no measured slot serves. ``trial`` None: none is worth its time, so the choice is final."""

    choice: str | None
    cost: float | None  # share ÷ throughput of the choice
    trial: str | None
    gain: float  # share of the cost that the trial is expected to save


def first_trial(slots: Sequence[Slot], holds: Mapping[str, bool]) -> str:
    """The smallest slot that may hold it: it is the cheapest where it is fast enough, and shows what a unit takes."""
    ordered = sorted(slots, key=lambda s: (s.sms, s.memory_slices))
    return next((s.name for s in ordered if holds.get(s.name) is not False), ordered[-1].name)


def decide(belief: Belief, asked: Question) -> Decision:
    """Deterministic: ties go to the smaller slot."""
    choice, cost = _best(belief, asked)
    reference = cost if cost is not None else UNSERVED * _expected_cost(belief, asked, belief.slots[-1].name)
    open_slots = [
        s.name for s in belief.slots if s.name not in belief.measured and asked.holds.get(s.name) is not False
    ]
    gains = {name: _gain(belief, asked, name, reference) for name in open_slots}
    trial = max(gains, key=lambda name: (round(gains[name], 9), -asked.shares[name]), default=None)
    if trial is None or (gains[trial] < WORTH and cost is not None):
        return Decision(choice, cost, None, gains[trial] if trial else 0.0)
    return Decision(choice, cost, trial, gains[trial])


def _best(belief: Belief, asked: Question) -> tuple[str | None, float | None]:
    found = [
        (asked.shares[name] / known, asked.shares[name], name)
        for name, known in belief.measured.items()
        if asked.floor is None or known >= asked.floor
    ]
    cost, _, name = min(found, default=(None, 0.0, None))
    return name, cost


def _expected_cost(belief: Belief, asked: Question, name: str) -> float:
    known = belief.measured.get(name)
    return asked.shares[name] / (known if known is not None else float(np.exp(_outcomes(belief, name).mean())))


def _gain(belief: Belief, asked: Question, name: str, reference: float) -> float:
    """Expected saving of a trial: over its outcomes, what it would cost if it serves, against what is best now."""
    chance = 1.0 if asked.holds.get(name) else CHANCE
    speed = np.exp(_outcomes(belief, name))
    serves = np.ones_like(speed) if asked.floor is None else _reaches(belief, name, asked.floor)
    return chance * float(np.mean(serves * np.maximum(0.0, 1 - asked.shares[name] / speed / reference)))


def _reaches(belief: Belief, name: str, floor: float) -> Floats:
    """Chance of each outcome to reach the limit, the noise of an unmeasured slot taken into account."""
    return 1 - cdf((np.log(floor) - _outcomes(belief, name)) / belief.noise)


def _outcomes(belief: Belief, name: str) -> Floats:
    """Log throughput at equally likely points of what is believed."""
    column = belief.values[:, [slot.name for slot in belief.slots].index(name)]
    order = np.argsort(column, kind="stable")
    total = np.cumsum(belief.weights[order])
    places = np.searchsorted(total, (np.arange(OUTCOMES) + 0.5) / OUTCOMES * total[-1])
    outcomes: Floats = column[order[np.minimum(places, len(order) - 1)]]
    return outcomes
