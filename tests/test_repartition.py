"""Repartition against exhaustive search over every layout of every GPU, by rules written from the geometry alone."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import pytest

from mig_rules import all_layouts, is_legal, raw_profiles
from migsaw.cli.shared import load_catalogue
from migsaw.errors import InputError
from migsaw.model.layouts import Placed
from migsaw.plan.repartition import (
    AKS_POOL,
    DRA,
    MIG_MANAGER,
    Ask,
    Held,
    MoveBudget,
    PoolGpu,
    Repartition,
    repartition,
)
from migsaw.plan.repartition.search import Search, rounded

BOARDS = load_catalogue()
A100, A30, RTX = "a100-sxm4-80gb", "a30-24gb", "rtx-pro-6000-blackwell-server"
NAMES = {
    A100: ["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"],
    A30: ["1g.6gb", "1g.6gb+me", "2g.12gb", "2g.12gb+me", "4g.24gb"],
    RTX: ["1g.24gb", "1g.24gb+me", "1g.24gb-me", "2g.48gb", "2g.48gb+me.all", "4g.96gb"],
}
WORKLOADS = ["training", "web", "batch"]  # training has no budget


@cache
def layouts(key: str) -> list[frozenset[tuple[str, int]]]:
    return all_layouts(key, NAMES[key])


def draw_gpu(rng: random.Random, key: str, node: str, index: int) -> PoolGpu:
    layout = sorted(rng.choice(layouts(key)))
    held, idle = [], []
    for name, start in layout:
        placed = Placed(name, None if rng.random() < 0.03 else start)
        if rng.random() < 0.6:
            held.append(Held(placed, rng.choice(WORKLOADS), f"ns/{node}-{index}-{start}"))
        else:
            idle.append(placed)
    actuator = rng.choice([DRA, DRA, MIG_MANAGER, AKS_POOL])
    changes_mode = not layout and rng.random() < 0.5
    return PoolGpu(node, index, BOARDS.board(key), actuator, tuple(held), tuple(idle), changes_mode)


def draw(rng: random.Random, keys: list[str]) -> tuple[list[PoolGpu], Ask]:
    gpus = [draw_gpu(rng, key, f"node-{n // 2}", n) for n, key in enumerate(keys)]
    names = sorted({name for key in keys for name in NAMES[key]})

    def counts(most: int) -> dict[str, int]:
        return dict(Counter(rng.choice(names) for _ in range(rng.randint(0, most))))

    budgets = {"web": MoveBudget(), "batch": MoveBudget(price=rng.choice([1, 3]))}
    keep = frozenset(rng.sample(names, rng.choice([0, 0, 1])))
    return gpus, Ask(counts(6), counts(2), keep, budgets, rng.choice([None, None, 1]))


@dataclass(frozen=True)
class Way:
    """One thing that can be done to one GPU: what is then free, what was evicted, at what price; what exists."""

    free: tuple[tuple[str, int], ...]
    evicted: tuple[tuple[str, int], ...]
    price: int
    touched: int
    seconds: int
    exists: tuple[tuple[str, int], ...]


def frozen(names: Iterator[str] | list[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(Counter(names).items()))


def ways(gpu: PoolGpu, ask: Ask, node_is_held: bool) -> set[Way]:
    idle, held = [p.profile for p in gpu.idle], [h.placed.profile for h in gpu.held]
    found = {Way(frozen(idle), (), 0, 0, 0, frozen(idle + held))}
    if gpu.actuator.reach == "none" or (gpu.changes_mode and node_is_held):
        return found
    seconds = gpu.actuator.seconds + (gpu.actuator.mode_seconds if gpu.changes_mode else 0)
    for size in range(len(gpu.held) + 1):
        for gone in itertools.combinations(gpu.held, size):
            stays = [h for h in gpu.held if h not in gone]
            if any(h.workload not in ask.budgets for h in gone) or any(h.placed.start is None for h in stays):
                continue
            if gpu.actuator.reach == "gpu" and stays:
                continue
            kept = {(h.placed.profile, h.placed.start) for h in stays}
            price = sum(ask.budgets[h.workload or ""].price for h in gone)
            evicted = frozen([h.placed.profile for h in gone])
            for layout in layouts(gpu.board.key):
                if kept <= layout:
                    names = [name for name, _ in layout]
                    free = frozen(list((Counter(names) - Counter(n for n, _ in kept)).elements()))
                    found.add(Way(free, evicted, price, 1, seconds, frozen(names)))
    return undominated(found)


def undominated(found: set[Way]) -> set[Way]:
    """Of ways that differ only in what is free, the largest; a smaller one can do nothing more."""
    rest: dict[object, list[Way]] = {}
    for way in found:
        rest.setdefault((way.evicted, way.price, way.touched, way.seconds), []).append(way)
    kept = set()
    for group in rest.values():
        for way in group:
            mine = (Counter(dict(way.free)), Counter(dict(way.exists)))
            others = [(Counter(dict(o.free)), Counter(dict(o.exists))) for o in group if o != way]
            if not any(mine[0] <= free and mine[1] <= exists and mine != (free, exists) for free, exists in others):
                kept.add(way)
    return kept


def slices(name: str, keys: list[str]) -> int:
    found = [raw_profiles(key)[name]["memory_slices"] for key in keys if name in raw_profiles(key)]
    return min(found, default=1)


def best(gpus: list[PoolGpu], ask: Ask) -> tuple[int, ...]:
    keys = [g.board.key for g in gpus]
    weight = {name: slices(name, keys) for name in {*ask.demand, *ask.headroom}}
    held = {g.node for g in gpus if g.held}
    now = Counter(p.profile for g in gpus for p in (*g.idle, *(h.placed for h in g.held)))
    found: tuple[int, ...] | None = None
    for combo in itertools.product(*(sorted(ways(g, ask, g.node in held), key=repr) for g in gpus)):
        free, gone, exists = Counter[str](), Counter[str](), Counter[str]()
        for way in combo:
            free.update(dict(way.free))
            gone.update(dict(way.evicted))
            exists.update(dict(way.exists))
        if not gone <= free or (ask.evictions is not None and gone.total() > ask.evictions):
            continue
        if any(now[name] and not exists[name] for name in ask.keep):
            continue
        left = free - gone
        spare = left - Counter(ask.demand)
        value = (
            sum(weight[n] * max(0, k - left[n]) for n, k in ask.demand.items()),
            sum(w.price for w in combo),
            sum(weight[n] * max(0, k - spare[n]) for n, k in ask.headroom.items()),
            sum(w.touched for w in combo),
            sum(w.seconds for w in combo),
        )
        found = value if found is None else min(found, value)
    assert found is not None
    return found


def check(gpus: list[PoolGpu], ask: Ask, found: Repartition) -> None:
    """What a plan promises, beyond its numbers."""
    for change in found.changes:
        gone, after = list(change.evicted), Counter(change.after)
        assert all(h in change.gpu.held and h.workload in ask.budgets for h in gone)
        pinned = Counter(h.placed for h in change.gpu.held if h not in gone)
        assert pinned <= after, "what stays is where it was"
        assert change.gpu.actuator.reach == "part" or (change.gpu.actuator.reach == "gpu" and not pinned)
        if all(p.start is not None for p in change.after):
            assert is_legal(change.gpu.board.key, [(p.profile, p.start or 0) for p in change.after])
        assert not (change.gpu.changes_mode and any(g.held for g in gpus if g.node == change.gpu.node))


CASES = [
    *((seed, [A30] * (1 + seed % 3)) for seed in range(80)),
    *((seed, [A100] * (1 + seed % 2)) for seed in range(24)),
    *((seed, [RTX] * (1 + seed % 2)) for seed in range(30)),
    *((seed, [A30, A100, A30][: 2 + seed % 2]) for seed in range(12)),
]


@pytest.mark.parametrize(
    ("seed", "keys"), CASES, ids=lambda v: "-".join(k.split("-")[0] for k in v) if isinstance(v, list) else v
)
def test_every_level_equals_exhaustive_search(seed, keys):
    gpus, ask = draw(random.Random(f"{seed} {keys}"), keys)
    found = repartition(gpus, ask)
    assert tuple(level.value for level in found.levels) == best(gpus, ask)
    assert all(level.lower_bound == level.value for level in found.levels), "the bound must meet what search proved"
    check(gpus, ask, found)


# ---- what exhaustive search does not reach ---------------------------------------------------------------------------


def one(held: list[Held], idle: list[tuple[str, int]], **more) -> PoolGpu:
    fields = {"node": "node", "index": 0, "actuator": DRA, **more}
    return PoolGpu(
        fields["node"],
        fields["index"],
        BOARDS.board(A100),
        fields["actuator"],
        tuple(held),
        tuple(Placed(*p) for p in idle),
    )


def values(found: Repartition) -> tuple[int, ...]:
    return tuple(level.value for level in found.levels)


def test_a_gpu_whose_idle_instances_serve_as_they_are_is_not_touched():
    found = repartition([one([], [("1g.10gb", n) for n in range(7)])], Ask({"1g.10gb": 7}))
    assert found.changes == ()
    assert values(found) == (0, 0, 0, 0, 0)


def test_running_work_moves_only_with_a_budget_and_only_if_something_is_unmet_otherwise():
    gpus = [
        one([Held(Placed("1g.10gb", 0), "web", "ns/web")], []),
        one([Held(Placed("1g.10gb", 0), "training", "ns/fit")], [], index=1),
    ]
    small, large = Ask({"3g.40gb": 2}), Ask({"7g.80gb": 1})
    assert values(repartition(gpus, large)) == (8, 0, 0, 0, 0)
    budgets = {"web": MoveBudget(price=5)}
    with_budget = Ask(large.demand, budgets=budgets)
    assert values(repartition(gpus, with_budget)) == (0, 5, 0, 2, 10)
    assert values(repartition(gpus, Ask(large.demand, budgets=budgets, evictions=0))) == (8, 0, 0, 0, 0)
    assert values(repartition(gpus, Ask(small.demand, budgets=budgets))) == (0, 0, 0, 2, 10)


def test_nobody_is_evicted_for_headroom():
    gpus = [one([Held(Placed("1g.10gb", 0), "web")], []), one([], [], index=1, actuator=AKS_POOL)]
    ask = Ask({}, {"7g.80gb": 1}, budgets={"web": MoveBudget()})
    assert values(repartition(gpus, ask)) == (0, 0, 8, 0, 0)


def test_a_profile_that_queued_jobs_name_does_not_disappear():
    gpus = [one([], [("2g.20gb", 0)])]
    assert values(repartition(gpus, Ask({"7g.80gb": 1}))) == (0, 0, 0, 1, 5)
    assert values(repartition(gpus, Ask({"7g.80gb": 1}, keep=frozenset({"2g.20gb"})))) == (8, 0, 0, 0, 0)
    assert values(repartition(gpus, Ask({"7g.80gb": 1}, keep=frozenset({"3g.40gb"})))) == (0, 0, 0, 1, 5)


def test_names_are_resolved_and_counts_below_zero_refused():
    assert values(repartition([one([], [])], Ask({"7g.79gb": 1}))) == (0, 0, 0, 1, 5)
    nowhere = repartition([one([], [])], Ask({"9g.9gb": 2}))
    assert (nowhere.unmet, nowhere.unmet_before, nowhere.changes) == ({"9g.9gb": 2}, 2, ())
    with pytest.raises(InputError) as error:
        repartition([], Ask({"1g.10gb": -1}))
    assert error.value.hint


@pytest.mark.parametrize("seed", range(12))
def test_larger_fleets_keep_every_promise_whatever_the_order_of_input(seed):
    rng = random.Random(seed)
    keys = [rng.choice([A30, A100, RTX]) for _ in range(40)]
    gpus, ask = draw(rng, keys)
    names = sorted({name for key in keys for name in NAMES[key]})
    demand = Counter(rng.choice(names) for _ in range(rng.randint(20, 150)))
    ask = Ask(dict(demand), ask.headroom, ask.keep, ask.budgets, None)
    found = repartition(gpus, ask)
    check(gpus, ask, found)
    assert all(level.gap <= Fraction(1, 100) for level in found.levels)
    assert [level.gap for level in found.levels[:2]] == [0, 0]
    shuffled = rng.sample(gpus, len(gpus))
    assert values(repartition(shuffled, ask)) == values(found)
    assert repartition(gpus, ask) == found, "same input, same plan"


@pytest.mark.parametrize("seed", range(60))
def test_programmes_are_solved_as_exhaustive_search_does(seed):
    """Small random programmes with parity traps, of which relaxations are weak: value and bound, level after level."""
    rng = random.Random(seed)
    upper = [rng.randint(1, 3) for _ in range(4)]
    rows = [({j: rng.randint(-3, 3) for j in range(4)}, rng.randint(0, 5)) for _ in range(rng.randint(1, 4))]
    costs = [{j: rng.randint(-5, 5) for j in range(4)} for _ in range(2)]
    points = [
        x
        for x in itertools.product(*(range(u + 1) for u in upper))
        if all(sum(a * x[j] for j, a in terms.items()) <= right for terms, right in rows)
    ]
    search, start = Search(upper, rows), (0, 0, 0, 0)
    for cost in costs:
        least = min(sum(c * x[j] for j, c in cost.items()) for x in points)
        answer = search.minimise(cost, start)
        assert (answer.value, answer.lower_bound) == (least, least)
        assert answer.x in points
        points = [x for x in points if sum(c * x[j] for j, c in cost.items()) <= least]
        search.at_most(cost, least)
        start = answer.x


@pytest.mark.parametrize("seed", range(40))
def test_rounding_cuts_off_no_whole_point(seed):
    rng = random.Random(seed)
    low = tuple(rng.randint(0, 1) for _ in range(4))
    high = tuple(n + rng.randint(0, 2) for n in low)
    rows = [({j: rng.randint(-4, 4) for j in range(4)}, rng.randint(0, 9)) for _ in range(3)]
    points = [
        x
        for x in itertools.product(*(range(a, b + 1) for a, b in zip(low, high, strict=True)))
        if all(sum(a * x[j] for j, a in terms.items()) <= right for terms, right in rows)
    ]
    for _ in range(20):
        corner = [rng.uniform(a, b) for a, b in zip(low, high, strict=True)]
        terms, right = rounded(rows, [rng.uniform(-3, 3) for _ in rows], (low, high), corner)
        assert all(sum(a * x[j] for j, a in terms.items()) <= right for x in points)
