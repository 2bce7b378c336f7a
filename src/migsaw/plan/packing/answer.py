"""The answer of packing as a value, and how it is put together from what was chosen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from migsaw.model.demand import Demand, Entry, Option
from migsaw.model.layouts import Layout, Placed, arrange
from migsaw.plan.packing.build import Task, best_options
from migsaw.plan.packing.programme import Block, Counts
from migsaw.plan.packing.schemes import Sheet


@dataclass(frozen=True, slots=True)
class LayoutRow:
    """``count`` GPUs of an entry with the same placements; MIG off where ``mig_on`` is False."""

    entry: str
    mig_on: bool
    layout: Layout
    count: int


@dataclass(frozen=True, slots=True)
class AssignmentRow:
    workload: str
    option: Option
    instances: int


@dataclass(frozen=True, slots=True)
class ScopeCost:
    """What the narrower scopes cost beyond cutting every GPU freely. ``usd_per_hour`` None: no prices."""

    gpus: int
    usd_per_hour: Fraction | None


@dataclass(frozen=True, slots=True)
class Packing:
    """``objective`` and the certified ``lower_bound`` are in USD per hour where there are prices, else in GPUs."""

    gpus: Mapping[str, int]  # every entry of the demand
    usd_per_hour: Fraction | None
    objective: Fraction
    lower_bound: Fraction
    layouts: tuple[LayoutRow, ...]
    assignment: tuple[AssignmentRow, ...]
    scope_cost: ScopeCost | None = None

    @property
    def total(self) -> int:
        return sum(self.gpus.values())

    @property
    def optimal(self) -> bool:
        return self.lower_bound == self.objective

    @property
    def gap(self) -> Fraction:
        return (self.objective - self.lower_bound) / self.objective if self.objective else Fraction(0)


def packing(task: Task, choices: Sequence[Counts], least: int) -> Packing:
    """``choices`` of the programme's blocks, ``least`` the certified bound in grains."""
    taken = task.programme.taken(choices)
    gpus = {scheme.entry.name: scheme.gpus(taken)[0] for scheme in task.schemes}
    prices = {entry.name: entry.usd_per_hour for entry in task.demand.entries}
    money = sum((Fraction(n) * (prices[name] or 0) for name, n in gpus.items()), Fraction(0))
    objective = money if task.demand.priced else Fraction(sum(gpus.values()))
    return Packing(
        gpus=gpus,
        usd_per_hour=money if task.demand.priced else None,
        objective=objective,
        lower_bound=min(objective, least * task.grain),
        layouts=tuple(row for scheme in task.schemes for row in _rows(scheme.entry, scheme.sheets(taken))),
        assignment=tuple(_assignment(task, choices)),
    )


def _rows(entry: Entry, sheets: Iterable[Sheet]) -> list[LayoutRow]:
    counts: dict[tuple[bool, Layout], int] = {}
    for sheet in sheets:
        placed = arrange(entry.board, [Placed(name) for name, n in sheet.content for _ in range(n)])
        assert placed is not None, f"{sheet.content} fits by the table, not by the placements"
        counts[sheet.mig_on, placed] = counts.get((sheet.mig_on, placed), 0) + sheet.gpus
    return [LayoutRow(entry.name, on, layout, n) for (on, layout), n in counts.items()]


def _assignment(task: Task, choices: Sequence[Counts]) -> Iterable[AssignmentRow]:
    """Instances of every workload, in the order of the demand."""
    blocks = [*zip(task.programme.blocks, choices, strict=True), *((b, b.most) for b in task.settled)]
    shares: dict[int, dict[int, int]] = {}
    for block, counts in blocks:
        for member, share in _shared(block, counts):
            shares[member] = share
    for index, need in enumerate(task.demand.needs):
        if need.kind == "workload" and index in shares:
            options = {(o.entry, o.profile): o for o in best_options(task.demand, need)}
            for slot, n in shares[index].items():
                place = task.programme.slots[slot]
                option = options[task.demand.entries[place.entry].name, place.profile or ""]
                yield AssignmentRow(need.name, option, n)


def _shared(block: Block, counts: Counts) -> Iterable[tuple[int, dict[int, int]]]:
    """Splits what a block took among its members, in order; several members count in whole instances."""
    if len(block.members) == 1:
        yield block.members[0][0], {slot: n for slot, n in zip(block.slots, counts, strict=True) if n}
        return
    left = list(counts)
    for member, amount in block.members:
        share: dict[int, int] = {}
        for k, slot in enumerate(block.slots):
            n = min(left[k], amount - sum(share.values()))
            left[k] -= n
            if n:
                share[slot] = n
        yield member, share


def scope_cost(demand: Demand, narrow: Packing, free: Packing) -> ScopeCost:
    money = None
    if demand.priced:
        money = (narrow.usd_per_hour or Fraction(0)) - (free.usd_per_hour or Fraction(0))
    return ScopeCost(narrow.total - free.total, money)
