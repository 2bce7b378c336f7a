"""From a demand to a packing: settles what needs no choice, searches the rest, proves and verifies."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from migsaw.errors import InfeasibleError, MigsawError
from migsaw.model.demand import Demand, Need
from migsaw.model.policy import recommended
from migsaw.plan.packing.answer import Packing, packing, scope_cost
from migsaw.plan.packing.build import Task, build
from migsaw.plan.packing.facets import FacetTable
from migsaw.plan.packing.programme import Counts
from migsaw.plan.packing.verify import check


def pack(demand: Demand, table: FacetTable) -> Packing:
    """The fewest GPUs, or the least cost where the entries have prices, with a certified bound.

    Raises InfeasibleError with the first reason where nothing serves the demand, InputError where placements of a board
    are not known.
    """
    found = _packed(demand, table)
    if all(entry.scope == "gpu" for entry in demand.entries):
        return found
    free = _packed(replace(demand, entries=tuple(replace(entry, scope="gpu") for entry in demand.entries)), table)
    if free.objective > found.objective:
        free = found  # neither is proved: the narrow plan is one that cuts freely, too
    return replace(found, scope_cost=scope_cost(demand, found, free))


def pack_by_rule(demand: Demand, table: FacetTable) -> Packing | None:
    """The packing if every workload takes the recommended slot of each board (2g and 3g slices first).

    None where no workload has a choice of profiles, or the rule cannot serve the demand.
    """
    ruled = replace(demand, needs=tuple(_by_rule(demand, need) for need in demand.needs))
    if ruled == demand:
        return None
    try:
        return _packed(ruled, table)
    except InfeasibleError:
        return None


def _by_rule(demand: Demand, need: Need) -> Need:
    if need.kind != "workload":
        return need
    wanted = set()
    for entry in demand.entries:
        names = {
            option.profile for option in need.options if option.entry == entry.name and entry.can_make(option.profile)
        }
        slot = recommended(entry.board, tuple(entry.board.profile(name) for name in sorted(names)))
        wanted |= {(entry.name, slot.name)} if slot else set()
    return replace(need, options=tuple(o for o in need.options if (o.entry, o.profile) in wanted))


def _packed(demand: Demand, table: FacetTable) -> Packing:
    task = build(demand, table)
    if task.programme.blocks:
        choices, least = _searched(task, table)
    else:
        cost, fewest = _counted(task, task.programme.fixed)
        if cost is None or fewest is None:
            raise _too_much(demand, table)
        choices, least = (), fewest
    found = _with_count_bound(packing(task, choices, least), demand, table)
    check(demand, found)
    return found


def _with_count_bound(found: Packing, demand: Demand, table: FacetTable) -> Packing:
    """So many GPUs are needed whatever they cost, and none is cheaper than the cheapest.

    Where prices are nearly the same this proves what the search cannot: it would have to tell many equal plans apart.
    """
    prices = [entry.usd_per_hour for entry in demand.entries if entry.usd_per_hour is not None]
    if found.optimal or len(prices) < 2 or found.total * min(prices) <= found.lower_bound:
        return found
    fewest = _packed(replace(demand, entries=tuple(replace(e, usd_per_hour=None) for e in demand.entries)), table)
    return replace(found, lower_bound=max(found.lower_bound, ceil(fewest.lower_bound) * min(prices)))


def _searched(task: Task, table: FacetTable) -> tuple[tuple[Counts, ...], int]:
    from migsaw.plan.packing.search import Search  # the solver is loaded only where it is needed

    programme = task.programme
    most = programme.taken([block.most for block in programme.blocks])
    ceiling = 1 + sum(unit.cost * unit.most for unit in programme.units) + sum(map(int.__mul__, programme.costs, most))
    found = Search(programme, lambda taken: _counted(task, taken), ceiling).run()
    if found.choices is None and found.least is None:
        raise _too_much(task.demand, table)
    if found.choices is None or found.least is None:
        raise MigsawError(
            "no plan was found, and it is not proved that there is none", hint="raise at_most, or offer more profiles"
        )
    return found.choices, found.least


def _counted(task: Task, taken: Counts) -> tuple[int | None, int | None]:
    """(cost, certified least cost) in grains of what is taken; None: beyond at_most."""
    cost: int | None = 0
    least: int | None = 0
    for scheme in task.schemes:
        gpus, fewest = scheme.gpus(taken)
        most = scheme.entry.at_most
        cost = None if cost is None or (most is not None and gpus > most) else cost + gpus * scheme.cost
        least = None if least is None or (most is not None and fewest > most) else least + fewest * scheme.cost
    return cost, least


# ---- why nothing is feasible ----------------------------------------------------------------------------------------


def _too_much(demand: Demand, table: FacetTable) -> InfeasibleError:
    """Only at_most can be in the way: the first need that it refuses alone, else the demand as a whole."""
    limits = ", ".join(f"{e.name}: at_most {e.at_most}" for e in demand.entries if e.at_most is not None)
    parts = [
        *((f"{need.kind} {need.name}", replace(demand, needs=(need,), groups=())) for need in demand.needs),
        *((f"whole_gpus {group.name}", replace(demand, needs=(), groups=(group,))) for group in demand.groups),
    ]
    for what, part in parts:
        if len(parts) == 1 or not _is_feasible(part, table):
            return InfeasibleError(f"{what} takes {_unlimited(part, table)}; {limits}", hint="raise at_most")
    return InfeasibleError(f"the demand as a whole takes {_unlimited(demand, table)}; {limits}", hint="raise at_most")


def _is_feasible(demand: Demand, table: FacetTable) -> bool:
    try:
        _packed(demand, table)
    except InfeasibleError:
        return False
    return True


def _unlimited(demand: Demand, table: FacetTable) -> str:
    free = _packed(replace(demand, entries=tuple(replace(entry, at_most=None) for entry in demand.entries)), table)
    used = ", ".join(f"{n} GPU{'s' * (n != 1)} of {name}" for name, n in free.gpus.items() if n)
    return f"{used} where there is no limit"
