"""The door of repartition: GPUs and what is asked → changes, with a certified gap at every level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from migsaw.errors import InputError, MigsawError
from migsaw.model.policy import Policy
from migsaw.plan.repartition import model as programme
from migsaw.plan.repartition.groups import group
from migsaw.plan.repartition.realise import realise
from migsaw.plan.repartition.values import Ask, Level, PoolGpu, Repartition
from migsaw.plan.repartition.verify import Counted, count


def repartition(gpus: Sequence[PoolGpu], ask: Ask, policy: Policy = Policy()) -> Repartition:  # noqa: B008 - frozen
    """The best partition around what runs: lexicographic by unmet demand, price of evictions, unmet head-room, GPUs
    touched, seconds of change. Nobody is evicted unless something is unmet otherwise.

    Raises InputError for counts below 0, KeyError for a held instance at a start that its board has not.
    """
    ask = _canonical(gpus, ask)
    weights = slices_of(gpus, (*ask.demand, *ask.headroom))
    grouped = group(gpus, ask)
    model = programme.build(grouped, ask, weights)
    solved = programme.solve(model, ask)
    changes = realise(model, solved.x, policy)
    counted = count(gpus, ask, changes)
    values = _values(counted, weights)
    levels = tuple(Level(name, values[name], bound) for name, bound in solved.bounds)
    if any(level.lower_bound > level.value for level in levels):
        raise MigsawError("a repartition is better than its own bound", hint="please report this")
    unmet, spare = (dict(sorted(counts.items())) for counts in (counted.unmet, counted.headroom_unmet))
    offers = dict(zip(grouped.items, grouped.offers, strict=True))
    before = sum(weights[name] * max(0, n - offers[name]) for name, n in ask.demand.items())
    return Repartition(levels, before, changes, unmet, spare)


def slices_of(gpus: Sequence[PoolGpu], names: Sequence[str]) -> dict[str, int]:
    """Memory slices of an instance of each profile, the fewest of any board here; 1 where no board has it."""
    boards = {id(g.board): g.board for g in gpus}.values()
    found = {name: [p.memory_slices or 1 for b in boards if (p := b.find(name))] for name in names}
    return {name: min(slices, default=1) for name, slices in found.items()}


def _values(counted: Counted, weights: Mapping[str, int]) -> dict[str, int]:
    return {
        programme.UNMET: sum(weights[name] * n for name, n in counted.unmet.items()),
        programme.EVICTIONS: counted.evictions,
        programme.HEADROOM: sum(weights[name] * n for name, n in counted.headroom_unmet.items()),
        programme.TOUCHED: counted.touched,
        programme.SECONDS: counted.seconds,
    }


def _canonical(gpus: Sequence[PoolGpu], ask: Ask) -> Ask:
    """The boards' own names for aliases, zero counts dropped."""
    if wrong := [name for counts in (ask.demand, ask.headroom) for name, n in counts.items() if n < 0]:
        raise InputError(f"a count below 0 is asked of {wrong[0]}", hint="give 0 or more instances")
    boards = list({id(g.board): g.board for g in gpus}.values())

    def own(name: str) -> str:
        return next((p.name for b in boards if (p := b.find(name))), name)

    def merged(counts: Mapping[str, int]) -> dict[str, int]:
        found: dict[str, int] = {}
        for name, n in sorted(counts.items()):
            found[own(name)] = found.get(own(name), 0) + n
        return {name: n for name, n in found.items() if n}

    keep = frozenset(own(name) for name in ask.keep)
    return replace(ask, demand=merged(ask.demand), headroom=merged(ask.headroom), keep=keep)
