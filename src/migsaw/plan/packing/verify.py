"""Counts a packing again from the demand and the placements alone; knows nothing of how it was found."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from migsaw.errors import MigsawError
from migsaw.model.demand import Demand, Entry
from migsaw.model.layouts import fault
from migsaw.plan.packing.answer import Packing

Slot = tuple[str, str]  # entry, profile
Path = list[tuple[int, Slot]]


def check(demand: Demand, found: Packing) -> None:
    """Raises MigsawError if the packing breaks anything that was asked; that would be a fault of this program."""
    supply, bare = Counter[Slot](), Counter[str]()
    faults = [
        *_layout_faults(demand, found, supply, bare),
        *_need_faults(demand, found, supply),
        *_group_faults(demand, bare),
        *_money_faults(demand, found),
    ]
    if faults:
        raise MigsawError(f"a plan failed its own check: {faults[0]}", hint="please report this with the demand file")


def _layout_faults(demand: Demand, found: Packing, supply: Counter[Slot], bare: Counter[str]) -> list[str]:
    faults, entries, seen = [], {entry.name: entry for entry in demand.entries}, Counter[str]()
    for row in found.layouts:
        entry = entries[row.entry]
        seen[row.entry] += row.count
        kinds = {placed.profile for placed in row.layout}
        if reason := fault(entry.board, row.layout):
            faults.append(f"{row.entry}: {reason}")
        if not all(entry.can_make(name) for name in kinds) or (len(kinds) > 1 and entry.scope in ("node", "pool")):
            faults.append(f"{row.entry}: scope {entry.scope} cannot express {row.layout}")
        if entry.scope != "gpu" and row.count % entry.gpus_per_node:
            faults.append(f"{row.entry}: {row.count} GPUs are no whole nodes")
        for placed in row.layout:
            supply[row.entry, placed.profile] += row.count
        bare[row.entry] += 0 if row.mig_on else row.count
    faults += [f"{name}: gpus and layouts differ" for name in entries if found.gpus.get(name, 0) != seen[name]]
    faults += [f"{e.name}: more than at_most" for e in demand.entries if seen[e.name] > _limit(e)]
    return faults


def _limit(entry: Entry) -> float:
    return float("inf") if entry.at_most is None else entry.at_most


def _need_faults(demand: Demand, found: Packing, supply: Counter[Slot]) -> list[str]:
    """Workloads take what the assignment says; of what is left, every other need takes its share (a flow)."""
    left, served = Counter(supply), {need.name: Fraction(0) for need in demand.needs}
    by_name = {need.name: need for need in demand.needs if need.kind == "workload"}
    faults = []
    for row in found.assignment:
        left[row.option.entry, row.option.profile] -= row.instances
        if row.option not in by_name[row.workload].options:
            faults.append(f"{row.workload} may not use {row.option}")
        served[row.workload] += Fraction(row.instances) * row.option.gain
    faults += [f"{name} is not served" for name, need in by_name.items() if served[name] < need.amount]
    faults += [f"more {slot} assigned than there are" for slot, n in left.items() if n < 0]
    others = [need for need in demand.needs if need.kind != "workload" and need.amount > 0]
    places = [{(o.entry, o.profile) for o in need.options} for need in others]
    if not _spread([int(need.amount) for need in others], places, left):
        faults.append("instances are missing")
    return faults


def _spread(amounts: list[int], places: list[set[Slot]], supply: Counter[Slot]) -> bool:
    """Whether every amount can be taken from its places: augmenting paths."""
    given = [Counter[Slot]() for _ in amounts]
    for start, amount in enumerate(amounts):
        missing = amount
        while missing > 0:
            path = _augment(start, places, supply, given)
            if path is None:
                return False
            most = min([missing, supply[path[-1][1]], *(given[i][slot] for i, slot in _returns(path))])
            for i, slot in path:
                given[i][slot] += most
            for i, slot in _returns(path):
                given[i][slot] -= most
            supply[path[-1][1]] -= most
            missing -= most
    return True


def _returns(path: Path) -> Path:
    """What the needs on a path give back: each the slot that the need before it takes."""
    return [(path[n + 1][0], path[n][1]) for n in range(len(path) - 1)]


def _augment(start: int, places: list[set[Slot]], supply: Counter[Slot], given: list[Counter[Slot]]) -> Path | None:
    """The shortest chain from a need to a free slot: (need, slot it takes), each slot held by the next need."""
    paths: list[tuple[int, Path]] = [(start, [])]
    seen = {start}
    for need, path in paths:
        for slot in sorted(places[need]):
            if supply[slot] > 0:
                return [*path, (need, slot)]
            for other, held in enumerate(given):
                if held[slot] > 0 and other not in seen:
                    seen.add(other)
                    paths.append((other, [*path, (need, slot)]))
    return None


def _group_faults(demand: Demand, bare: Counter[str]) -> list[str]:
    """Whole GPUs are counted; that groups with same_node do not split is the scheme's own rule of whole nodes."""
    wanted = sum(group.gpus * group.count for group in demand.groups)
    faults = [] if sum(bare.values()) >= wanted else [f"{wanted} whole GPUs are asked, {sum(bare.values())} are there"]
    if demand.strict and all(e.scope == "gpu" for e in demand.entries) and sum(bare.values()) > wanted:
        faults.append("strict, and GPUs are left whole")
    return faults


def _money_faults(demand: Demand, found: Packing) -> list[str]:
    price = {e.name: Fraction(1) if e.usd_per_hour is None else e.usd_per_hour for e in demand.entries}
    value = sum((n * price[name] for name, n in found.gpus.items()), Fraction(0))
    faults = [] if value == found.objective else ["the objective is not what the GPUs cost"]
    return faults if found.lower_bound <= value else [*faults, "the bound is above the plan"]
