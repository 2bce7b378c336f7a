"""Learns from measured curves which hypotheses are likely: the weights that :mod:`migsaw.fit.curve` starts from.

Every model counts once, however many of its batch sizes were measured: a curve is evidence about its model. A share of
ignorance (``IGNORANCE`` models' worth of equal weights) stays everywhere, so that a task of which little was seen keeps
wide intervals.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from migsaw.fit.curve import CurvePrior, Floats, Slot, curves, effective_sizes, likelihood

SHARPNESS = (0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0, 16.0)
COMPUTE_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
GAINS = tuple(round(-0.3 + 0.05 * step, 2) for step in range(34))  # −0.3 … 1.35
REACH = 0.1  # how far a measured gain speaks for its neighbours (standard deviation, in gains)
IGNORANCE = 3.0  # models
NOISE_OF_TRIALS = 0.06
NOISE_OF_SLOTS = 0.027
TASKS = ("infer", "train")


@dataclass(frozen=True, slots=True)
class Curve:
    """Measured throughput per slot of one configuration of a model; smallest and largest slot must be there."""

    task: str
    model: str
    throughput: Mapping[str, float]
    slots: tuple[Slot, ...]  # of its board, ascending


def learn(measured: Sequence[Curve], source: str) -> CurvePrior:
    """Curves without their smallest or largest slot, or with no other, teach nothing and are left out."""
    empty = CurvePrior(SHARPNESS, COMPUTE_SHARES, GAINS, {}, {}, NOISE_OF_TRIALS, NOISE_OF_SLOTS, source)
    lessons = [(c, *lesson) for c in measured if (lesson := _lesson(empty, c)) is not None]
    weights, seen = {}, {}
    for task in TASKS:
        mine = [(c.model, gain, share) for c, gain, share in lessons if c.task == task]
        weights[task] = tuple(_at_knot(mine, knot, len(empty.hypotheses)) for knot in GAINS)
        seen[task] = _seen(mine)
    return CurvePrior(SHARPNESS, COMPUTE_SHARES, GAINS, weights, seen, NOISE_OF_TRIALS, NOISE_OF_SLOTS, source)


def _lesson(prior: CurvePrior, curve: Curve) -> tuple[float, Floats] | None:
    """(gain, how likely each hypothesis is by the slots between)."""
    logs = [float(np.log(curve.throughput[s.name])) if s.name in curve.throughput else None for s in curve.slots]
    first, last = logs[0], logs[-1]
    between = [(i, log) for i, log in enumerate(logs[1:-1], start=1) if log is not None]
    if first is None or last is None or not between:
        return None
    values = curves(prior, effective_sizes(prior, curve.slots), (0, first), (len(logs) - 1, last))
    share = np.ones(len(values))
    for i, log in between:
        share = share * likelihood(values[:, i] - log, prior.noise_of_trials)
    gain = (last - first) / float(np.log(curve.slots[-1].sms / curve.slots[0].sms))
    return gain, share / share.sum()


def _at_knot(lessons: Sequence[tuple[str, float, Floats]], knot: float, hypotheses: int) -> tuple[float, ...]:
    total = np.full(hypotheses, IGNORANCE / hypotheses)
    for model in sorted({model for model, _, _ in lessons}):
        near = _near(np.array([gain - knot for name, gain, _ in lessons if name == model]))
        weight = float(near.sum())
        if weight > 1e-9:
            mean = near @ np.array([share for name, _, share in lessons if name == model]) / weight
            total = total + min(1.0, weight) * mean
    return tuple(round(float(value), 5) for value in total)


def _seen(lessons: Sequence[tuple[str, float, Floats]]) -> tuple[float, ...]:
    """How common a gain is, every model counting once."""
    total = np.full(len(GAINS), 1.0 / len(GAINS))
    for model in sorted({model for model, _, _ in lessons}):
        gains = np.array([gain for name, gain, _ in lessons if name == model])
        near = _near(gains[:, None] - np.array(GAINS)).sum(axis=0)
        total = total + near / near.sum()
    return tuple(round(float(value), 5) for value in total)


def _near(distance: Floats) -> Floats:
    weight: Floats = np.exp(-(distance**2) / (2 * REACH**2))
    return weight


def parse_prior(content: bytes) -> CurvePrior:
    """The package's own file, written by ``tools/make_curves.py``."""
    data = json.loads(content)
    return CurvePrior(
        sharpness=tuple(data["sharpness"]),
        compute_shares=tuple(data["compute_shares"]),
        gains=tuple(data["gains"]),
        weights={task: tuple(map(tuple, rows)) for task, rows in data["weights"].items()},
        seen={task: tuple(row) for task, row in data["seen"].items()},
        noise_of_trials=data["noise_of_trials"],
        noise_of_slots=data["noise_of_slots"],
        source=data["source"],
    )
