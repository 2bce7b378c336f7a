"""From a demand to a packing: settles what needs no choice, searches the rest, proves and verifies."""

from __future__ import annotations

from dataclasses import replace

from migsaw.errors import InfeasibleError, MigsawError
from migsaw.model.demand import Demand
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
    if any(entry.scope != "gpu" for entry in demand.entries):
        free = replace(demand, entries=tuple(replace(entry, scope="gpu") for entry in demand.entries))
        found = replace(found, scope_cost=scope_cost(demand, found, _packed(free, table)))
    return found


def _packed(demand: Demand, table: FacetTable) -> Packing:
    task = build(demand, table)
    if task.programme.blocks:
        choices, least = _searched(task)
    else:
        choices, least = (), _counted(task, task.programme.fixed)[1]
        if _counted(task, task.programme.fixed)[0] is None or least is None:
            raise _too_much(task)
    found = packing(task, choices, least)
    check(demand, found)
    return found


def _searched(task: Task) -> tuple[tuple[Counts, ...], int]:
    from migsaw.plan.packing.search import Effort, Search  # the solver is loaded only where it is needed

    programme = task.programme
    most = programme.taken([block.most for block in programme.blocks])
    ceiling = 1 + sum(unit.cost * unit.most for unit in programme.units) + sum(map(int.__mul__, programme.costs, most))
    found = Search(programme, lambda taken: _counted(task, taken), ceiling).run(Effort(regions=4000, pivots=400_000))
    if found.choices is None and found.least is None:
        raise _too_much(task)
    if found.choices is None or found.least is None:
        raise MigsawError("no plan was found within the limits of the search, and it is not proved that there is none")
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


def _too_much(task: Task) -> InfeasibleError:
    return InfeasibleError("beyond at_most")
