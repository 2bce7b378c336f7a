"""Repartition of 10 … 10^5 GPUs around running work: seconds and certified gaps, beside first-fit.

Clusters are made up (the law is printed). First-fit takes instances by falling size: a free instance of the profile
where there is one, else the first GPU that can be cut, lowest start; it evicts nobody.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from migsaw.cli.shared import load_catalogue
from migsaw.model.layouts import Layout, StateSpace
from migsaw.plan.repartition import DRA, MIG_MANAGER, Actuator, Ask, Held, MoveBudget, PoolGpu, repartition
from migsaw.plan.repartition.make import slices_of
from migsaw.plan.repartition.steps import schedule

LAW = (
    "nodes of 8 A100-80GB; a GPU is a random maximal layout of the six plain profiles of which each instance is held"
    " (55 %), idle (15 %) or gone; 15 % of GPUs hold nothing (70 % of their instances idle); 40 % of held instances are"
    " services that may move (two budgets), the others training, pinned; demand: random profiles, fill x free memory"
)
SIZES = (10, 100, 10**3, 10**4, 10**5)
FILLS = (0.35, 0.8, 0.97)
ACTUATORS = (DRA, MIG_MANAGER)
BUDGETS = {"service-a": MoveBudget(at_once=8), "service-b": MoveBudget(at_once=8)}


@cache
def space() -> StateSpace:
    board = load_catalogue().board("a100-sxm4-80gb")
    return StateSpace(board, tuple(p.name for p in board.profiles if p.is_plain))


@cache
def additions(state: int) -> tuple[int, ...]:
    return tuple(space().additions(state))


def draw(count: int, fill: float, seed: int, actuator: Actuator) -> tuple[list[PoolGpu], Ask]:
    rng, board = random.Random(f"{seed} {count} {fill}"), space().board
    slices = {name: board.profile(name).memory_slices or 0 for name in space().names}
    gpus, free = [], 0
    for n in range(count):
        held, idle = draw_gpu(rng)
        free += (board.memory_slices or 0) - sum(slices[h.placed.profile] for h in held)
        gpus.append(PoolGpu(f"node-{n // 8:05d}", n % 8, board, actuator, held, idle))
    left, demand = int(free * fill), Counter[str]()
    while fitting := [name for name in slices if slices[name] <= left]:
        name = rng.choice(fitting)
        demand[name] += 1
        left -= slices[name]
    return gpus, Ask(dict(demand), budgets=BUDGETS)


def draw_gpu(rng: random.Random) -> tuple[tuple[Held, ...], Layout]:
    state = 0
    while bits := additions(state):
        state |= rng.choice(bits)
    empty = rng.random() < 0.15
    held, idle = [], []
    for placed in space().layout(state):
        chance = rng.random()
        if chance < 0.55 and not empty:
            workload = rng.choice(("service-a", "service-b")) if rng.random() < 0.4 else "training"
            held.append(Held(placed, workload))
        elif chance < 0.7:
            idle.append(placed)
    return tuple(held), tuple(idle)


# ---- what others would do -------------------------------------------------------------------------------------------


def first_fit(gpus: list[PoolGpu], ask: Ask) -> tuple[int, int]:
    """(memory slices unmet, GPUs touched)."""
    board = space().board
    taken = [space().state(h.placed for h in gpu.held) for gpu in gpus]
    touched: set[int] = set()
    used: set[int] = set()  # GPUs of which an idle instance is used
    unmet = 0
    for name in sorted(ask.demand, key=lambda n: -(board.profile(n).memory_slices or 0)):
        left = ask.demand[name]
        for n, gpu in enumerate(gpus):
            for placed in gpu.idle if n not in touched else ():
                bit = space().state([placed])
                if left and placed.profile == name and not taken[n] & bit:
                    taken[n] |= bit
                    used.add(n)
                    left -= 1
        own = sum(1 << k for k, placed in enumerate(space().placements) if placed.profile == name)
        for n, gpu in enumerate(gpus):
            if left and (gpu.actuator.reach == "part" or not (gpu.held or n in used)):
                while left and (bits := [bit for bit in additions(taken[n]) if bit & own]):
                    taken[n] |= min(bits)
                    touched.add(n)
                    left -= 1
        unmet += left * (board.profile(name).memory_slices or 0)
    return unmet, len(touched)


def timed(gpus: list[PoolGpu], ask: Ask) -> float:
    gc.collect()
    start = time.perf_counter()
    repartition(gpus, ask)
    return time.perf_counter() - start


def measure(count: int, fill: float, seed: int, actuator: Actuator) -> dict[str, Any]:
    gpus, ask = draw(count, fill, seed, actuator)
    collecting = timed(gpus, ask)
    gc.disable()  # as timeit does: the collector walks the cluster again and again, which is not what is timed
    seconds = timed(gpus, ask)
    gc.enable()
    found = repartition(gpus, ask)
    start = time.perf_counter()
    steps = schedule(gpus, found, ask, nodes_at_once=max(1, count // 80))
    ordering = time.perf_counter() - start
    unmet, touched = first_fit(gpus, ask)
    weights = slices_of(gpus, tuple(ask.demand))
    return {
        "gpus": count,
        "fill": fill,
        "actuator": actuator.name,
        "seconds": round(seconds, 3),
        "seconds_with_collector": round(collecting, 3),
        "demand_slices": sum(weights[name] * n for name, n in ask.demand.items()),
        "levels": [
            {"name": v.name, "value": v.value, "lower_bound": v.lower_bound, "gap": float(v.gap)} for v in found.levels
        ],
        "first_fit": {"unmet_slices": unmet, "gpus_touched": touched},
        "steps": {
            "waves": len(steps.waves),
            "seconds": steps.seconds,
            "deepest_dip_slices": max((w.before - w.lowest for w in steps.waves), default=0),
            "withheld": len(steps.withheld),
            "ordering_seconds": round(ordering, 3),
        },
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="as every benchmark; this one reads no data")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, default=SIZES[-1], help="the largest number of GPUs")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    options = parser.parse_args()
    measure(10, 0.8, 0, DRA)  # imports and caches are not timed
    sizes = [n for n in SIZES if n <= options.most]
    rows = [measure(n, fill, options.seed, a) for a in ACTUATORS for n in sizes for fill in FILLS]
    if options.output == "json":
        print(json.dumps({"generator": {"seed": options.seed, "law": LAW}, "rows": rows}, indent=2))
        return 0
    print(f"seed {options.seed}; {LAW}")
    print("s: garbage collector paused, as timeit does; s (gc): with it, over the objects of the whole cluster")
    print("each level: value (certified gap); first-fit evicts nobody; dip: memory slices out of service at once")
    print(
        f"{'actuator':<12}{'GPUs':>8}{'fill':>6}{'s':>6}{'s (gc)':>8}{'unmet':>14}{'evicted':>14}{'touched':>17}"
        f"{'FF unmet':>10}{'FF touched':>11}{'waves':>7}{'dip':>7}"
    )
    for row in rows:
        unmet, evicted, _, touched, _ = (
            f"{v['value']:,} ({v['gap']:.1e})".replace("0.0e+00", "0") for v in row["levels"]
        )
        print(
            f"{row['actuator']:<12}{row['gpus']:>8,}{row['fill']:>6.0%}{row['seconds']:>6.2f}{row['seconds_with_collector']:>8.2f}"
            f"{unmet:>14}{evicted:>14}{touched:>17}{row['first_fit']['unmet_slices']:>10,}"
            f"{row['first_fit']['gpus_touched']:>11,}{row['steps']['waves']:>7}{row['steps']['deepest_dip_slices']:>7,}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
