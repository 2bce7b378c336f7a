"""Slots for many workloads at once: what each could have, and what of it fits together on the fewest or cheapest GPUs.

All instances of a claim get one slot, since their pods have one template. Packing alone may split a claim; then the
split is rounded and improved by exact re-packing, and the bound stays that of the free choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from migsaw.model.demand import Demand, Entry, Group, Need, Option
from migsaw.plan.packing import FacetTable, Packing, pack

MOST_TRIES = 64  # packings to bring claims back to what would be best for them alone


@dataclass(frozen=True, slots=True)
class Claim:
    """``count`` instances with one slot among ``options``; the first would be best if nothing had to fit together."""

    name: str
    count: int
    options: tuple[Option, ...]


@dataclass(frozen=True, slots=True)
class Joint:
    """``lower_bound`` is certified for every choice of slots; ``alone``: the packing of all first options."""

    slots: Mapping[str, Option]
    packing: Packing
    alone: Packing
    lower_bound: Fraction


def choose_together(
    entries: Sequence[Entry], claims: Sequence[Claim], groups: Sequence[Group], facets: FacetTable
) -> Joint:
    """What is best alone stays wherever that costs nothing. Raises InfeasibleError where nothing can hold a claim."""

    def packed(slots: Mapping[str, Option]) -> Packing:
        needs = tuple(Need(c.name, "workload", Fraction(c.count), (slots[c.name],)) for c in claims)
        return pack(Demand(tuple(entries), needs, tuple(groups)), facets)

    first = {claim.name: claim.options[0] for claim in claims}
    alone = packed(first)
    needs = tuple(Need(c.name, "workload", Fraction(c.count), c.options) for c in claims)
    free = pack(Demand(tuple(entries), needs, tuple(groups)), facets)
    bound = min(free.lower_bound, alone.objective)
    if alone.objective <= free.objective:
        return Joint(first, alone, alone, bound)
    slots = _rounded(claims, free)
    best = packed(slots)
    for claim in [c for c in claims if slots[c.name] != c.options[0]][:MOST_TRIES]:
        tried = slots | {claim.name: claim.options[0]}
        if (answer := packed(tried)).objective <= best.objective:
            slots, best = tried, answer
    return Joint(slots, best, alone, bound) if best.objective < alone.objective else Joint(first, alone, alone, bound)


def _rounded(claims: Sequence[Claim], free: Packing) -> dict[str, Option]:
    """Each claim's slot with most instances; ties go to the one that is better alone."""
    shares: dict[str, dict[Option, int]] = {}
    for row in free.assignment:
        mine = shares.setdefault(row.workload, {})
        mine[row.option] = mine.get(row.option, 0) + row.instances
    return {
        claim.name: max(claim.options, key=lambda o: (shares[claim.name].get(o, 0), -claim.options.index(o)))
        for claim in claims
    }
