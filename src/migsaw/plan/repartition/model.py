"""The programme of a repartition over kinds, variants and classes of fills, and its levels in order.

Variables: GPUs of a kind touched by an option; GPUs of a variant touched; GPUs of a class given a fill; instances
unmet; head-room met. What is evicted must find a place, so a plan moves work and never drops it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from migsaw.plan.repartition.groups import Grouped, Kind, Option, Variant
from migsaw.plan.repartition.search import Search, Terms
from migsaw.plan.repartition.values import Ask

UNMET, EVICTIONS, HEADROOM, TOUCHED, SECONDS = (
    "memory slices of demand unmet",
    "price of evictions",
    "memory slices of head-room unmet",
    "GPUs touched",
    "seconds of change",
)
SLACK = {TOUCHED: Fraction(1, 200), SECONDS: Fraction(1, 100)}  # gaps that the search is content with; else none


@dataclass
class Model:
    grouped: Grouped
    upper: list[int] = field(default_factory=list)
    rows: list[tuple[Terms, int]] = field(default_factory=list)
    option: dict[tuple[Kind, Option], int] = field(default_factory=dict)
    variant: dict[tuple[Kind, Variant], int] = field(default_factory=dict)
    fill: dict[tuple[int, tuple[int, ...]], int] = field(default_factory=dict)  # (class, fill) → variable
    unmet: dict[str, int] = field(default_factory=dict)
    headroom: dict[str, int] = field(default_factory=dict)  # met
    closed: dict[int, int] = field(default_factory=dict)  # variables of evictions → their upper bound
    costs: dict[str, dict[int, int]] = field(default_factory=dict)
    offset: dict[str, int] = field(default_factory=dict)

    def add(self, upper: int) -> int:
        self.upper.append(upper)
        return len(self.upper) - 1


@dataclass(frozen=True, slots=True)
class Solved:
    x: tuple[int, ...]
    bounds: tuple[tuple[str, int], ...]  # level → certified lower bound, in order


def solve(model: Model, ask: Ask) -> Solved:
    """Without evictions first; with them only if something is unmet."""
    search, x = Search(model.upper, model.rows), _nothing(model, ask)
    bounds = []
    first = search.minimise(model.costs[UNMET], x)
    x = first.x
    for name, cost in model.costs.items():
        if name == UNMET and (first.value == 0 or not model.closed):
            answer = first
        else:
            if name == UNMET:
                search.open(model.closed)
            answer = search.minimise(cost, x, SLACK.get(name, Fraction(0)))
        x = answer.x
        bounds.append((name, answer.lower_bound + model.offset.get(name, 0)))
        search.at_most(cost, answer.value)
    return Solved(x, tuple(bounds))


def build(grouped: Grouped, ask: Ask, weights: Mapping[str, int]) -> Model:
    """``weights``: memory slices of an instance, by item."""
    model = Model(grouped)
    model.costs = {name: {} for name in (UNMET, EVICTIONS, HEADROOM, TOUCHED, SECONDS)}
    number = {name: n for n, name in enumerate(grouped.items)}
    need: list[dict[int, int]] = [{} for _ in grouped.items]  # of each item: what takes from it, less what gives
    gone: list[dict[int, int]] = [
        {} for _ in grouped.items
    ]  # of each item: instances that cease to exist, less new ones
    open_: dict[int, dict[int, int]] = {}
    for kind, variants in grouped.kinds.items():
        _add_kind(model, kind, {v: grouped.size(kind, v) for v in variants}, number, need, gone, open_)
    _add_fills(model, open_, need, gone)
    for n, name in enumerate(grouped.items):
        wanted, spare = ask.demand.get(name, 0), ask.headroom.get(name, 0)
        if wanted:
            model.unmet[name] = j = model.add(wanted)
            need[n][j] = -1
            model.costs[UNMET][j] = weights[name]
        if spare:
            model.headroom[name] = j = model.add(spare)
            need[n][j] = 1
            model.costs[HEADROOM][j] = -weights[name]
        model.rows.append((need[n], grouped.offers[n] - wanted))
        if name in ask.keep and grouped.there[n]:
            model.rows.append((gone[n], grouped.there[n] - 1))
    model.offset[HEADROOM] = sum(weights[name] * n for name, n in ask.headroom.items())
    if ask.evictions is not None:
        evictions = {j: len(option[0]) for (_, option), j in model.option.items() if option[0]}
        model.rows.append((evictions, ask.evictions))
    return model


def _add_kind(
    model: Model,
    kind: Kind,
    counts: Mapping[Variant, int],
    number: Mapping[str, int],
    need: list[dict[int, int]],
    gone: list[dict[int, int]],
    open_: dict[int, dict[int, int]],
) -> None:
    touched: dict[int, int] = {}
    for option in kind:
        moves, future = option
        j = model.add(0 if moves else sum(counts.values()))
        if moves:
            model.closed[j] = sum(counts.values())
            model.costs[EVICTIONS][j] = sum(price for price, _ in moves)
        for _, name in moves:
            for terms in (need, gone):
                terms[number[name]][j] = terms[number[name]].get(j, 0) + 1
        model.option[kind, option] = j
        open_.setdefault(future, {})[j] = -1
        touched[j] = 1
    for variant, count in counts.items():
        j = model.add(count)
        model.variant[kind, variant] = j
        model.costs[TOUCHED][j], model.costs[SECONDS][j] = 1, variant.seconds
        for n, idle in enumerate(variant.idle):
            if idle:
                need[n][j] = gone[n][j] = idle
        touched[j] = -1
    model.rows.append((touched, 0))


def _add_fills(
    model: Model, open_: Mapping[int, dict[int, int]], need: list[dict[int, int]], gone: list[dict[int, int]]
) -> None:
    most = sum(model.grouped.size(kind, variant) for kind, variant in model.variant)
    for future, terms in sorted(open_.items()):
        for fill in model.grouped.futures[future]:
            j = model.add(most)
            model.fill[future, fill] = j
            terms[j] = 1
            for n, made in enumerate(fill):
                if made:
                    need[n][j] = gone[n][j] = -made
        model.rows.append((terms, 0))


def _nothing(model: Model, ask: Ask) -> tuple[int, ...]:
    """Every GPU as it is: unmet is what idle instances do not serve, and what remains of them is head-room."""
    x = [0] * len(model.upper)
    for name, offered in zip(model.grouped.items, model.grouped.offers, strict=True):
        wanted = ask.demand.get(name, 0)
        if name in model.unmet:
            x[model.unmet[name]] = max(0, wanted - offered)
        if name in model.headroom:
            x[model.headroom[name]] = min(ask.headroom[name], max(0, offered - wanted))
    return tuple(x)
