"""Throughput on every slot of a board from few trials, with its uncertainty: a mixture of soft rooflines.

One hypothesis is ``T(s) = (A·e(s)^-k + C)^(-1/k)``: work that grows with the slot's effective size ``e``, under a cap
that the slot cannot lift (host, launch rate, input). ``k`` says how sharply one gives way to the other (1: one after
the other, as Amdahl; large: the slower alone, as the roofline). ``e`` blends the slot's SMs and its memory bandwidth by
the share ``w`` of the time that SMs bound: a 3g of an A100 has three sevenths of the SMs and half of the bandwidth.

Two trials fix A and C of each hypothesis; which (k, w) are likely was learned from public measurements of other models
(:mod:`migsaw.fit.curve_prior`), by task and by how much the largest slot gains over the smallest. Further trials weigh
the hypotheses. It must not know of files, boards' names or money.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

DEGREES = 4  # of freedom of the noise: Student's t, so that one odd trial does not rule everything
INTERVAL = 0.90
SAME = 1e-9  # log sizes nearer than this are one size


@dataclass(frozen=True, slots=True)
class Slot:
    """``sms`` and ``memory_slices`` (which carry the bandwidth) of a profile, or of a GPU with MIG off."""

    name: str
    sms: int
    memory_slices: float  # parts of one where they stand for another board's bandwidth


@dataclass(frozen=True, slots=True)
class CurvePrior:
    """What is likely before a workload was measured. Weights need not add up to 1.

    ``gains``: knots of log(T(largest) ÷ T(smallest)) ÷ log(SMs of largest ÷ of smallest), 0: no gain, 1: linear.
    ``weights[task][knot][hypothesis]``; ``seen[task][knot]``: how common such a gain is.
    """

    sharpness: tuple[float, ...]  # k
    compute_shares: tuple[float, ...]  # w
    gains: tuple[float, ...]
    weights: Mapping[str, tuple[tuple[float, ...], ...]]
    seen: Mapping[str, tuple[float, ...]]
    noise_of_trials: float  # scale of log(measured ÷ hypothesis) when hypotheses are weighed
    noise_of_slots: float  # the same for a slot that was not measured
    source: str

    @property
    def hypotheses(self) -> tuple[tuple[float, float], ...]:
        return tuple((k, w) for k in self.sharpness for w in self.compute_shares)


@dataclass(frozen=True)
class Belief:
    """Log throughput of every hypothesis on every slot (shape hypotheses × slots), with the hypotheses' weights."""

    slots: tuple[Slot, ...]
    values: Floats
    weights: Floats
    noise: float
    measured: Mapping[str, float]  # slot → throughput per second

    def quantile(self, slot: str, q: float) -> float:
        """Throughput per second; of a measured slot its measurement."""
        if slot in self.measured:
            return self.measured[slot]
        column = self.values[:, [s.name for s in self.slots].index(slot)]
        return float(np.exp(_quantile(column, self.weights, self.noise, q)))

    def interval(self, slot: str) -> tuple[float, float, float]:
        """(low, median, high): 90 % lie between low and high."""
        tail = (1 - INTERVAL) / 2
        return self.quantile(slot, tail), self.quantile(slot, 0.5), self.quantile(slot, 1 - tail)


def believe(prior: CurvePrior, task: str, trials: Mapping[str, float], slots: Sequence[Slot]) -> Belief:
    """``trials``: slot → throughput per second, at least one, all of slots in ``slots``. ``task``: infer or train.

    With one trial the gain is drawn from what was seen of other models: the intervals then are wide.
    Raises ValueError for no trial, an unknown slot or a throughput that is not positive.
    """
    _check(trials, slots)
    ordered = sorted(slots, key=lambda s: (s.sms, s.memory_slices))
    sizes = effective_sizes(prior, ordered)
    known = [i for i, slot in enumerate(ordered) if slot.name in trials]
    logs = {i: float(np.log(trials[ordered[i].name])) for i in known}
    if len(known) == 1:
        values, weights = _from_one(prior, task, known[0], logs[known[0]], sizes, ordered)
    else:
        first, last = known[0], known[-1]
        values = curves(prior, sizes, (first, logs[first]), (last, logs[last]))
        weights = weights_at(prior, task, _gain(values, ordered))
        for i in known[1:]:
            weights = weights * likelihood(values[:, i] - logs[i], prior.noise_of_trials)
    weights = weights / weights.sum()
    return Belief(tuple(ordered), values, weights, prior.noise_of_slots, dict(trials))


def effective_sizes(prior: CurvePrior, slots: Sequence[Slot]) -> Floats:
    """Shape hypotheses × slots; the first slot, the smallest, has size 1."""
    sms = np.array([slot.sms / slots[0].sms for slot in slots])
    memory = np.array([slot.memory_slices / slots[0].memory_slices for slot in slots])
    w = np.array([share for _, share in prior.hypotheses])[:, None]
    sizes: Floats = 1.0 / (w / sms + (1 - w) / memory)
    return sizes


def curves(prior: CurvePrior, sizes: Floats, one: tuple[int, float], other: tuple[int, float]) -> Floats:
    """Log throughput through two points (slot's index, log throughput), shape hypotheses × slots.

    Where the larger slot gains nothing, or more than its size, no roofline goes through both: then the line between
    them in log size, which is what remains of a power law. A hypothesis to which both slots have one size goes through
    the first only.
    """
    (i, low), (j, high) = one, other
    k = np.array([sharp for sharp, _ in prior.hypotheses])
    inverse = sizes ** -k[:, None]  # e^-k
    gain = high - low
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        work = (1 - np.exp(-k * gain)) / (inverse[:, i] - inverse[:, j])
        cap = 1 - work * inverse[:, i]
        bent = -np.log(work[:, None] * inverse + cap[:, None]) / k[:, None]
    steps = np.log(sizes) - np.log(sizes[:, [i]])
    apart = np.abs(steps[:, [j]]) > SAME
    straight = np.where(apart, gain * steps / np.where(apart, steps[:, [j]], 1.0), 0.0)
    sound = ((work > 0) & (cap > 0))[:, None] & apart
    values: Floats = low + np.where(sound, bent, straight)
    return values


def weights_at(prior: CurvePrior, task: str, gains: Floats) -> Floats:
    """Each hypothesis' weight at the gain that it itself predicts, between the knots by straight lines."""
    table = np.array(prior.weights[task])
    knots = np.array(prior.gains)
    return np.array([np.interp(gain, knots, table[:, h]) for h, gain in enumerate(gains)])


def likelihood(residuals: Floats, scale: float) -> Floats:
    """Density of Student's t up to a factor."""
    density: Floats = (1 + (residuals / scale) ** 2 / DEGREES) ** (-(DEGREES + 1) / 2)
    return density


def _gain(values: Floats, slots: Sequence[Slot]) -> Floats:
    gains: Floats = (values[:, -1] - values[:, 0]) / np.log(slots[-1].sms / slots[0].sms)
    return gains


def _from_one(
    prior: CurvePrior, task: str, known: int, log: float, sizes: Floats, slots: Sequence[Slot]
) -> tuple[Floats, Floats]:
    """Every hypothesis at every gain: the curve between smallest and largest slot, moved through the one trial."""
    span = np.log(slots[-1].sms / slots[0].sms)
    values, weights = [], []
    for knot, gain in enumerate(prior.gains):
        rows = curves(prior, sizes, (0, 0.0), (len(slots) - 1, gain * span))
        values.append(rows - rows[:, [known]] + log)
        weights.append(np.array(prior.weights[task][knot]) / sum(prior.weights[task][knot]) * prior.seen[task][knot])
    return np.concatenate(values), np.concatenate(weights)


def _quantile(column: Floats, weights: Floats, scale: float, q: float) -> float:
    """Of the mixture of Student's t around the hypotheses, by bisection."""
    low, high = float(column.min() - 60 * scale), float(column.max() + 60 * scale)
    for _ in range(50):
        middle = (low + high) / 2
        if float(weights @ cdf((middle - column) / scale)) < q:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def cdf(x: Floats) -> Floats:
    """Of Student's t with four degrees of freedom: 1/2 + 3/4·(u − u³/3), u = x ÷ √(4 + x²)."""
    u = x / np.sqrt(DEGREES + x * x)
    share: Floats = 0.5 + 0.75 * (u - u**3 / 3)
    return share


def _check(trials: Mapping[str, float], slots: Sequence[Slot]) -> None:
    names = {slot.name for slot in slots}
    if not trials:
        raise ValueError("at least one trial is needed")
    if unknown := sorted(set(trials) - names):
        raise ValueError(f"{unknown[0]} is none of the slots")
    if bad := sorted(name for name, value in trials.items() if not 0 < value < float("inf")):
        raise ValueError(f"the throughput on {bad[0]} is not a positive number")
