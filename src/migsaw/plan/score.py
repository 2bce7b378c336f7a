"""Whether a change pays, and whether it is time: a decision is taken seldom and for good reasons, so no layout flaps.

The weighing is that of Karpenter's balanced consolidation (``designs/balanced-consolidation.md`` there): the share of
the pool that is saved over the share that is disturbed, against 1/k. Time comes in as an argument, in whole seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction

from migsaw.plan.repartition.steps import Schedule
from migsaw.plan.repartition.values import Repartition


@dataclass(frozen=True, slots=True)
class Weighing:
    """``saving`` and ``pool_saving`` in one unit, ``disruption`` and ``pool_disruption`` in one unit; all >= 0."""

    saving: Fraction
    pool_saving: Fraction
    disruption: Fraction
    pool_disruption: Fraction

    @property
    def saving_share(self) -> Fraction:
        return self.saving / self.pool_saving if self.pool_saving else Fraction(0)

    @property
    def disruption_share(self) -> Fraction:
        return self.disruption / self.pool_disruption if self.pool_disruption else Fraction(0)

    @property
    def ratio(self) -> Fraction | None:
        """Saving share over disruption share; None: nothing is disturbed."""
        return self.saving_share / self.disruption_share if self.disruption_share else None

    def pays(self, threshold: Fraction) -> bool:
        """Something is saved, and its share is at least ``threshold`` times the share disturbed."""
        return self.saving > 0 and self.saving_share >= threshold * self.disruption_share


def weigh(found: Repartition, steps: Schedule, pool_slices: int, lasting_seconds: int) -> Weighing:
    """In memory-slice-seconds: demand that gets its place, for as long as it is expected to last, against what is out
    of service while steps run."""
    served = max(0, found.unmet_before - found.levels[0].value)
    dip = sum(step.dip_slices * step.seconds for wave in steps.waves for step in wave.steps)
    pool = Fraction(pool_slices * lasting_seconds)
    return Weighing(Fraction(served * lasting_seconds), pool, Fraction(dip), pool)


# ---- hysteresis ------------------------------------------------------------------------------------------------------


class Verdict(StrEnum):
    ACT = "Act"
    DOES_NOT_PAY = "DoesNotPay"
    NOT_YET = "NotYet"  # it pays, but has not done so for long enough
    SETTLING = "Settling"  # the last change is too recent
    WOULD_FLAP = "WouldFlap"  # it goes back to a layout that was left lately, and does not pay enough for that


@dataclass(frozen=True, slots=True)
class Patience:
    """``threshold``: Karpenter's 1/k. ``persist_seconds``: a change must pay for so long without a break.
    ``settle_seconds``: none follows another one sooner. ``back_seconds``: a layout left less than this ago is taken up
    again only above ``back_factor`` times the threshold."""

    threshold: Fraction = Fraction(1, 2)
    persist_seconds: int = 300
    settle_seconds: int = 1800
    back_seconds: int = 86400
    back_factor: Fraction = Fraction(2)


@dataclass(frozen=True, slots=True)
class Memory:
    """What is kept between decisions. ``left``: (time, layout) of layouts that were given up, oldest first."""

    paying_since: int | None = None
    acted_at: int | None = None
    left: tuple[tuple[int, str], ...] = ()


def decide(
    weighing: Weighing, now_layout: str, new_layout: str, memory: Memory, patience: Patience, now: int
) -> tuple[Verdict, Memory]:
    """The verdict and what to remember. Layouts are told apart by any text, such as a hash; ``now`` never runs back."""
    left = tuple((at, layout) for at, layout in memory.left if now - at < patience.back_seconds)
    memory = replace(memory, left=left)
    if not weighing.pays(patience.threshold):
        return Verdict.DOES_NOT_PAY, replace(memory, paying_since=None)
    since = now if memory.paying_since is None else memory.paying_since
    memory = replace(memory, paying_since=since)
    if memory.acted_at is not None and now - memory.acted_at < patience.settle_seconds:
        return Verdict.SETTLING, memory
    if now - since < patience.persist_seconds:
        return Verdict.NOT_YET, memory
    goes_back = any(layout == new_layout for _, layout in left)
    if goes_back and not weighing.pays(patience.threshold * patience.back_factor):
        return Verdict.WOULD_FLAP, memory
    return Verdict.ACT, Memory(None, now, (*left, (now, now_layout)))
