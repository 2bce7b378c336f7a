"""The order of changes: replayed step by step in the worst interleaving, nothing dips below what must be there."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import replace

import pytest

from migsaw.cli.shared import load_catalogue
from migsaw.model.layouts import Placed
from migsaw.plan.repartition import DRA, MIG_MANAGER, Ask, Change, Held, MoveBudget, PoolGpu, Repartition, repartition
from migsaw.plan.repartition.steps import Floor, Schedule, Withheld, node_steps, schedule

BOARD = load_catalogue().board("a30-24gb")
ONE, TWO, FOUR = "1g.6gb", "2g.12gb", "4g.24gb"
SLICES = {ONE: 1, TWO: 2, FOUR: 4}  # of the A30's four memory slices
LAYOUTS = [
    [],
    [(ONE, 0)],
    [(FOUR, 0)],
    [(TWO, 0), (TWO, 2)],
    [(TWO, 0), (ONE, 2), (ONE, 3)],
    [(ONE, n) for n in range(4)],
]


def gpu(node: str, index: int, held: list[Held], idle: list[tuple[str, int]], actuator=MIG_MANAGER) -> PoolGpu:
    return PoolGpu(node, index, BOARD, actuator, tuple(held), tuple(Placed(*p) for p in idle))


def draw(rng: random.Random) -> tuple[list[PoolGpu], Ask, Floor]:
    gpus = []
    for n in range(rng.randint(2, 10)):
        held, idle = [], []
        for place in rng.choice(LAYOUTS):
            if rng.random() < 0.35:
                held.append(Held(Placed(*place), rng.choice(["training", "web", "web"]), f"ns/{n}-{place[1]}"))
            else:
                idle.append(place)
        gpus.append(gpu(f"node-{n // 2}", n % 2, held, idle, rng.choice([MIG_MANAGER, MIG_MANAGER, DRA])))
    demand = Counter(rng.choice([ONE, TWO, FOUR]) for _ in range(rng.randint(1, 10)))
    keep = frozenset(rng.sample([ONE, TWO, FOUR], rng.choice([0, 1, 2])))
    total = sum(SLICES[p.profile] for g in gpus for p in (*g.idle, *(h.placed for h in g.held)))
    floor = Floor(rng.choice([0, total // 2, total - 4]), rng.choice([{}, {ONE: 1}]))
    return gpus, Ask(dict(demand), {}, keep, {"web": MoveBudget(rng.choice([1, 2]))}), floor


def names(gpu: PoolGpu) -> list[str]:
    return [p.profile for p in gpu.idle] + [h.placed.profile for h in gpu.held]


def replay(gpus: list[PoolGpu], ask: Ask, floor: Floor, plan: Schedule) -> None:
    """Every subset of a wave may be at work while any other part is done or not begun."""
    content = {g.key: Counter(names(g)) for g in gpus}
    idle = {g.key: Counter(p.profile for p in g.idle) for g in gpus}
    exists = {name for name in ask.keep if any(c[name] for c in content.values())}
    enough = Counter(n for g in gpus for n in names(g))
    for wave in plan.waves:
        after = {c.gpu.key: Counter(p.profile for p in c.after) for step in wave.steps for c in step.changes}
        lowest = None
        for phases in itertools.product(("before", "during", "after"), repeat=len(wave.steps)):
            there, advertised = Counter[str](), Counter[str]()
            working = [step for step, phase in zip(wave.steps, phases, strict=True) if phase == "during"]
            done = {c.gpu.key for s, p in zip(wave.steps, phases, strict=True) if p == "after" for c in s.changes}
            nodes = {step.node for step in working if step.cordons}
            at_work = {c.gpu.key: c for step in working for c in step.changes}
            for g in gpus:
                have = after[g.key] if g.key in done else content[g.key]
                runs = have - idle[g.key] if g.key not in done else Counter()
                gone = Counter(h.placed.profile for h in at_work[g.key].evicted) if g.key in at_work else Counter()
                out = g.node in nodes or g.key in at_work
                there += (runs - gone) if out else have
                advertised += Counter() if g.node in nodes else (runs - gone) if out else have
            level = sum(SLICES[name] * n for name, n in there.items())
            lowest = level if lowest is None else min(lowest, level)
            assert level >= floor.memory_slices or not working
            for name, least in floor.instances.items():
                assert there[name] >= min(least, enough[name])
            assert all(advertised[name] >= 1 for name in exists), "queued jobs would fail"
        assert wave.lowest == lowest
        evicted = Counter(h.workload for step in wave.steps for h in step.evicted)
        assert len(wave.steps) == 1 or all(n <= ask.budgets[w or ""].at_once for w, n in evicted.items())
        for key, layout in after.items():
            change = next(c for s in wave.steps for c in s.changes if c.gpu.key == key)
            content[key] = layout
            idle[key] = layout - Counter(h.placed.profile for h in change.kept)
    changed = {c.gpu.key for wave in plan.waves for step in wave.steps for c in step.changes}
    withheld = {c.gpu.key for step, _ in plan.withheld for c in step.changes}
    assert not changed & withheld


@pytest.mark.parametrize("seed", range(80))
def test_nothing_dips_below_the_floor_at_any_moment(seed):
    rng = random.Random(seed)
    gpus, ask, floor = draw(rng)
    found = repartition(gpus, ask)
    plan = schedule(gpus, found, ask, floor, nodes_at_once=rng.choice([1, 2, 3]))
    replay(gpus, ask, floor, plan)
    assert sum(len(s.changes) for w in plan.waves for s in w.steps) + sum(
        len(s.changes) for s, _ in plan.withheld
    ) == len(found.changes)
    if not floor.memory_slices and not floor.instances and not ask.keep:
        assert not plan.withheld


def test_some_random_cases_withhold_and_some_run_side_by_side():
    """So that the replay above is not vacuous."""
    seen: Counter[str] = Counter()
    for seed in range(80):
        rng = random.Random(seed)
        gpus, ask, floor = draw(rng)
        plan = schedule(gpus, repartition(gpus, ask), ask, floor, nodes_at_once=rng.choice([1, 2, 3]))
        seen["waves"] += len(plan.waves)
        seen["side by side"] += sum(len(w.steps) > 1 for w in plan.waves)
        seen["evictions"] += sum(bool(s.evicted) for w in plan.waves for s in w.steps)
        seen.update(reason.value for _, reason in plan.withheld)
    assert min(seen[k] for k in ("waves", "side by side", "evictions", "CapacityFloor", "KeptProfileGone")) >= 3, seen


def test_the_dip_counts_every_free_slice_of_the_cordoned_node():
    """One GPU is cut, the other keeps two idle slices; the node's running 2g goes on but takes no new work's place."""
    gpus = [
        gpu("node", 0, [], [(TWO, 0), (TWO, 2)]),
        gpu("node", 1, [Held(Placed(TWO, 0), "training")], [(ONE, 2), (ONE, 3)]),
    ]
    ask = Ask({FOUR: 1})
    (wave,) = schedule(gpus, repartition(gpus, ask), ask).waves
    (step,) = wave.steps
    assert dict(step.dip) == {TWO: 2, ONE: 2}
    assert (step.dip_slices, wave.before, wave.lowest, wave.after) == (6, 8, 2, 8)
    assert step.seconds == 60
    with_part = [replace(g, actuator=DRA) for g in gpus]
    (wave,) = schedule(with_part, repartition(with_part, ask), ask).waves
    assert (wave.steps[0].dip_slices, wave.lowest) == (4, 4), "without a cordon the neighbour's slices stay in service"


def made_up(rng: random.Random, count: int) -> tuple[list[PoolGpu], Repartition]:
    """Changes with any dip and gain: idle layouts that become others, one GPU per node."""
    gpus, changes = [], []
    for n in range(count):
        before, after = rng.choice(LAYOUTS), rng.choice(LAYOUTS)
        one = gpu(f"node-{n}", 0, [], before)
        gpus.append(one)
        changes.append(Change(one, (), tuple(Placed(*p) for p in after), ()))
    return gpus, Repartition((), 0, tuple(changes), {}, {})


@pytest.mark.parametrize("seed", range(60))
def test_one_by_one_no_order_does_what_this_one_cannot(seed):
    rng = random.Random(seed)
    gpus, found = made_up(rng, 5)
    ask = Ask({})
    steps = node_steps(gpus, found, ask)
    capacity = sum(SLICES[n] for g in gpus for n in names(g))
    best = max(deepest(order, capacity) for order in itertools.permutations(steps))
    assert not schedule(gpus, found, ask, Floor(best)).withheld
    refused = schedule(gpus, found, ask, Floor(best + 1))
    assert refused.withheld
    assert {reason for _, reason in refused.withheld} == {Withheld.FLOOR}


def deepest(order: tuple, capacity: int) -> int:
    """The lowest capacity on the way, for one order."""
    low = capacity
    for step in order:
        low = min(low, capacity - step.dip_slices)
        capacity += step.gain_slices
    return low


def test_budgets_of_a_workload_hold_across_steps():
    """Four GPUs each must lose one instance of a workload of which one may be away at one time."""
    gpus = [gpu(f"node-{n}", 0, [Held(Placed(ONE, 0), "web", f"ns/web-{n}")], []) for n in range(4)]
    gpus.append(gpu("spare", 0, [], [(ONE, n) for n in range(4)]))
    ask = Ask({FOUR: 4}, budgets={"web": MoveBudget(at_once=1)})
    plan = schedule(gpus, repartition(gpus, ask), ask, nodes_at_once=4)
    assert [len(wave.steps) for wave in plan.waves] == [1, 1, 1, 1]
    assert all(wave.waiting == 0 for wave in plan.waves), "the spare GPU has a place for each"
    ask = replace(ask, budgets={"web": MoveBudget(at_once=2)})
    plan = schedule(gpus, repartition(gpus, ask), ask, nodes_at_once=4)
    assert [len(wave.steps) for wave in plan.waves] == [2, 2]


def test_a_change_of_mode_resets_the_node_and_takes_longer():
    off = replace(gpu("node", 0, [], []), changes_mode=True)
    ask = Ask({FOUR: 1})
    beside = gpu("node", 1, [], [(ONE, 0)])
    found = repartition([off, replace(beside, actuator=replace(MIG_MANAGER, reach="none"))], ask)
    (wave,) = schedule([off, beside], found, ask).waves
    assert wave.steps[0].seconds == 360
    assert dict(wave.steps[0].dip) == {ONE: 1}
    held = replace(beside, idle=(), held=(Held(Placed(ONE, 0), "training"),))
    assert repartition([off, held], ask).changes == ()
