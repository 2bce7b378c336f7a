"""A demand → its programme: options without use are dropped, needs that are alike are joined, scopes become rows.

Raises InfeasibleError where a need has no option at all; that is the first reason a person should read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from math import gcd, lcm

from migsaw.errors import InfeasibleError
from migsaw.model.demand import Demand, Entry, Group, Need, Option
from migsaw.plan.packing.facets import FacetTable, Shape, shape
from migsaw.plan.packing.programme import Block, Counts, Programme, Row, Slot, Unit
from migsaw.plan.packing.schemes import Scheme


@dataclass(frozen=True, slots=True)
class Task:
    """A demand in the language of the programme. ``settled`` blocks have one slot, their choice is ``programme.fixed``.

    ``grain``: the objective is a multiple of it, in money or GPUs; the programme counts in grains. A member's index
    counts the needs of the demand first, then its groups.
    """

    demand: Demand
    programme: Programme
    schemes: tuple[Scheme, ...]
    settled: tuple[Block, ...]
    grain: Fraction


def build(demand: Demand, table: FacetTable) -> Task:
    blocks, slots = _blocks(demand, table)
    settled = tuple(block for block in blocks if len(block.slots) == 1)
    open_blocks = tuple(block for block in blocks if len(block.slots) > 1)
    fixed, most = [0] * len(slots), [0] * len(slots)
    for block in blocks:
        for slot, n in zip(block.slots, block.most, strict=True):
            most[slot] += n
            fixed[slot] += n if len(block.slots) == 1 else 0
    grain = _grain(demand)
    schemes = tuple(_schemes(demand, slots, grain, table))
    costs = [0] * len(slots)
    units: list[Unit] = []
    rows: list[Row] = []
    for scheme in schemes:
        for i, cost in scheme.slot_costs().items():
            costs[i] = cost
        more_units, more_rows = scheme.units_and_rows(len(units), tuple(most))
        units += more_units
        rows += more_rows
    programme = Programme(tuple(slots), tuple(costs), tuple(fixed), open_blocks, tuple(units), tuple(rows))
    return Task(demand, programme, schemes, settled, grain)


def _schemes(demand: Demand, slots: Sequence[Slot], grain: Fraction, table: FacetTable) -> Iterable[Scheme]:
    for e, entry in enumerate(demand.entries):
        names = [p.name for p in entry.board.profiles if any(s.entry == e and s.profile == p.name for s in slots)]
        mine = [(i, s) for i, s in enumerate(slots) if s.entry == e]
        mine.sort(key=lambda pair: names.index(pair[1].profile) if pair[1].profile else len(names))
        found = shape(entry.board, names, table) if names else Shape((), (), (), "nothing to cut")
        cost = (Fraction(1) if entry.usd_per_hour is None else entry.usd_per_hour) / grain if grain else Fraction(0)
        yield Scheme(entry, int(cost), found, tuple(mine))


def _grain(demand: Demand) -> Fraction:
    """The greatest common divisor of the prices per GPU; 1 where GPUs are counted."""
    prices = [Fraction(1) if e.usd_per_hour is None else e.usd_per_hour for e in demand.entries]
    common = lcm(*(price.denominator for price in prices))
    return Fraction(gcd(*(int(price * common) for price in prices)), common)


# ---- blocks ---------------------------------------------------------------------------------------------------------


def _blocks(demand: Demand, table: FacetTable) -> tuple[tuple[Block, ...], list[Slot]]:
    numbers: dict[Slot, int] = {}
    joined: dict[tuple[tuple[int, ...], Counts, int], Block] = {}
    faces = _faces(demand, table)
    for index, need in enumerate(demand.needs):
        if need.amount > 0:
            options = useful_options(demand, need, faces)
            chosen = {Slot(_entry_index(demand, o), o.profile): o.gain for o in options}
            _join(joined, _block(need.amount, chosen, index, numbers))
    for index, group in enumerate(demand.groups, start=len(demand.needs)):
        if group.count and group.gpus:
            places = {Slot(e, None, group.gpus, group.same_node): Fraction(1) for e in _homes(demand, group)}
            _join(joined, _block(Fraction(group.count), places, index, numbers))
    return tuple(joined.values()), list(numbers)


def _block(amount: Fraction, chosen: dict[Slot, Fraction], member: int, numbers: dict[Slot, int]) -> Block:
    """Amounts and gains in whole numbers; equal gains become 1."""
    common = lcm(amount.denominator, *(gain.denominator for gain in chosen.values()))
    gains, need = [int(gain * common) for gain in chosen.values()], int(amount * common)
    if len(set(gains)) == 1:
        gains, need = [1] * len(gains), -(-need // gains[0])
    slots = tuple(numbers.setdefault(slot, len(numbers)) for slot in chosen)
    return Block(need, slots, tuple(gains), ((member, need),))


def _join(joined: dict[tuple[tuple[int, ...], Counts, int], Block], block: Block) -> None:
    """Needs that count the same slots are one need; a need with unequal gains stays alone: its rounding is its own."""
    alone = 0 if set(block.gains) == {1} else 1 + block.members[0][0]
    key = (block.slots, block.gains, alone)
    known = joined.get(key)
    joined[key] = (
        block if known is None else replace(block, need=known.need + block.need, members=known.members + block.members)
    )


def _homes(demand: Demand, group: Group) -> list[int]:
    homes = [e for e, entry in enumerate(demand.entries) if group.fits(entry)]
    homes = [e for e in homes if (most := demand.entries[e].at_most) is None or most >= group.gpus]
    if not homes:
        names = ", ".join(f"{e.name} (at_most {e.at_most})" for e in demand.entries if group.fits(e))
        raise InfeasibleError(
            f"whole_gpus {group.name}: {group.gpus} GPUs, more than any board has: {names or 'no node is that large'}",
            hint="raise at_most, or ask for smaller groups",
        )
    return homes


# ---- options --------------------------------------------------------------------------------------------------------


def best_options(demand: Demand, need: Need) -> tuple[Option, ...]:
    """Per entry and profile that the scope can make, the option that gains most."""
    entries = {entry.name: entry for entry in demand.entries}
    if not need.options:
        raise InfeasibleError(f"{need.kind} {need.name}: {need.why_none or 'no profile can serve it'}")
    best: dict[tuple[str, str], Option] = {}
    for option in sorted(need.options, key=lambda o: (-o.gain, o.processes or 0, o.batch or 0)):
        if option.gain > 0 and entries[option.entry].can_make(option.profile):
            best.setdefault((option.entry, option.profile), option)
    if not best:
        names = ", ".join(sorted({o.profile for o in need.options}))
        raise InfeasibleError(
            f"{need.kind} {need.name}: the layout_scope of its boards cannot make {names}",
            hint="AKS pools are cut into 1g, 2g, 3g, 4g or 7g only; another layout_scope can make more",
        )
    order = {(e.name, p.name): (i, j) for i, e in enumerate(demand.entries) for j, p in enumerate(e.board.profiles)}
    return tuple(sorted(best.values(), key=lambda o: order[o.entry, o.profile]))


def useful_options(demand: Demand, need: Need, faces: dict[str, Shape]) -> tuple[Option, ...]:
    """Without options that another one on the same entry beats: it gains as much and fits wherever this one does."""
    options = best_options(demand, need)
    return tuple(o for o in options if not any(_beats(b, o, faces) for b in options if b.entry == o.entry and b != o))


def _beats(one: Option, other: Option, faces: dict[str, Shape]) -> bool:
    face = faces.get(one.entry)
    if face is None or one.gain < other.gain:
        return False
    small, large, fits = face.names.index(one.profile), face.names.index(other.profile), _stand_ins(face)
    if one.gain == other.gain and (small, large) in fits:  # they stand for each other, or the other one is smaller
        return (large, small) in fits and small < large
    return (large, small) in fits


@cache
def _stand_ins(face: Shape) -> frozenset[tuple[int, int]]:
    """(large, small): wherever the one fits, the other fits in its place."""
    known, size = set(face.fits), len(face.names)
    found = {(a, b) for a in range(size) for b in range(size) if a != b}
    for part in face.fits:
        for a, b in list(found):
            if part[a]:
                swapped = list(part)
                swapped[a], swapped[b] = part[a] - 1, part[b] + 1
                if tuple(swapped) not in known:
                    found.discard((a, b))
    return frozenset(found)


def _faces(demand: Demand, table: FacetTable) -> dict[str, Shape]:
    """Shapes over every profile that is asked for, of entries that are cut freely."""
    asked: dict[str, set[str]] = {}
    for need in demand.needs:
        for option in need.options:
            asked.setdefault(option.entry, set()).add(option.profile)
    free: dict[str, Entry] = {e.name: e for e in demand.entries if e.scope == "gpu" and e.name in asked}
    return {name: shape(entry.board, asked[name], table) for name, entry in free.items()}


def _entry_index(demand: Demand, option: Option) -> int:
    return next(i for i, entry in enumerate(demand.entries) if entry.name == option.entry)
