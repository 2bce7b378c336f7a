"""Packing over four boards: time and certified gap, beside first-fit-decreasing and one job per GPU.

Demands are made up (the generator is printed): each class of work has a rate, and every profile that holds its memory
is an alternative. ``instances`` is about how many of the smallest such slices would serve it all.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

from migsaw import catalogue
from migsaw.cli.shared import load_catalogue
from migsaw.model.boards import Profile
from migsaw.model.demand import Demand, Entry, Need, Option, plain_demand
from migsaw.plan.packing import pack, parse_facets

TABLE = parse_facets(catalogue.read("facets.json"))
BOARDS = {  # made-up prices per GPU-hour, and speed of a compute slice beside that of an A100
    "a100-sxm4-80gb": ("3.40", 1.0),
    "h100-sxm5-80gb": ("6.98", 2.1),
    "h200-sxm5-141gb": ("8.10", 2.4),
    "a30-24gb": ("1.10", 0.9),
}
LAW = "T = base * speed * (c^-3 + cap^-3)^(-1/3) +- 10 %, c compute slices, cap 0.5 ... 8 slices, base 20 ... 200 / s"
SIZES = (10**3, 10**4, 10**5, 10**6, 10**7)
CLASSES = (6, 20, 100, 300)


def entries() -> tuple[Entry, ...]:
    boards = load_catalogue()
    return tuple(Entry(key, boards.board(key), Fraction(price)) for key, (price, _) in BOARDS.items())


def draw(instances: int, classes: int, seed: int) -> Demand:
    rng = random.Random(f"{seed} {instances} {classes}")
    supply = entries()
    return Demand(supply, tuple(draw_class(rng, f"class{n}", supply, instances / classes) for n in range(classes)))


def draw_class(rng: random.Random, name: str, supply: tuple[Entry, ...], instances: float) -> Need:
    base, cap, memory_mib = rng.uniform(20, 200), rng.uniform(0.5, 8), rng.choice([4000, 9000, 15000, 30000])
    options = []
    for entry in supply:
        for profile in entry.board.profiles:
            if profile.is_plain and (profile.memory_mib or 0) >= memory_mib:
                law = (profile.compute_slices**-3 + cap**-3) ** (-1 / 3) * rng.uniform(0.9, 1.1)
                speed = round(base * BOARDS[entry.name][1] * law, 1)
                options.append(Option(entry.name, profile.name, Fraction(str(speed))))
    rate = round(float(min(o.gain for o in options)) * instances * rng.uniform(0.3, 1.7), 1)
    return Need(name, "workload", Fraction(str(rate)), tuple(options))


# ---- what others would do -------------------------------------------------------------------------------------------


def first_fit_decreasing(demand: Demand) -> Fraction:
    """Every class takes the option that is cheapest by its share of a GPU; large instances go first, where they fit."""
    boards = {e.name: e for e in demand.entries}
    wanted: dict[str, Counter[str]] = {name: Counter() for name in boards}
    for need in demand.needs:
        best = min(need.options, key=lambda o: share(boards[o.entry], o) / o.gain)
        wanted[best.entry][best.profile] += -(-need.amount // best.gain)
    costs = (gpus(boards[name], counts) * (boards[name].usd_per_hour or 0) for name, counts in wanted.items())
    return sum(costs, Fraction(0))


def share(entry: Entry, option: Option) -> Fraction:
    profile, board = entry.board.profile(option.profile), entry.board
    compute = Fraction(profile.compute_slices, board.compute_slices or 1)
    return max(compute, Fraction(profile.memory_slices or 0, board.memory_slices or 1)) * (entry.usd_per_hour or 0)


def gpus(entry: Entry, counts: Counter[str]) -> int:
    """First fit with all GPUs of one content treated at once, which changes nothing: equal GPUs behave equally."""
    order = sorted((entry.board.profile(name) for name in counts), key=size, reverse=True)
    opened: list[tuple[Counter[str], int]] = []
    for profile in order:
        left, later = counts[profile.name], []
        for content, number in [*opened, (Counter[str](), left)]:
            room = most_beside(entry, content, profile)
            full = min(number, left // room) if room else 0
            later += [(content + Counter({profile.name: room}), full)] if full else []
            left -= full * room
            rest = number - full
            if room and 0 < left < room and rest:
                later.append((content + Counter({profile.name: left}), 1))
                left, rest = 0, rest - 1
            later += [(content, rest)] if rest and content else []
        opened = later
    return sum(number for _, number in opened)


def size(profile: Profile) -> tuple[int, int]:
    return profile.memory_slices or 0, profile.compute_slices


def most_beside(entry: Entry, content: Counter[str], profile: Profile) -> int:
    from migsaw.model.layouts import Placed, fault

    for n in range(profile.max_instances, 0, -1):
        if not fault(entry.board, [Placed(name) for name in (content + Counter({profile.name: n})).elements()]):
            return n
    return 0


def one_job_per_gpu(demand: Demand) -> Fraction:
    """Every class on whole boards: the largest profile alone on its GPU, on the board where that is cheapest."""
    total = Fraction(0)
    prices = {e.name: e.usd_per_hour or Fraction(0) for e in demand.entries}
    whole = {e.name: max(e.board.profiles, key=size).name for e in demand.entries}
    for need in demand.needs:
        costs = [prices[o.entry] * -(-need.amount // o.gain) for o in need.options if o.profile == whole[o.entry]]
        total += min(costs)
    return total


def plain_milliseconds() -> float:
    """One board, 10^12 instances of every plain profile: the closed form and the whole plan, no solver."""
    board = load_catalogue().board("a100-sxm4-80gb")
    demand = plain_demand([Entry("pool", board)], {"pool": {p.name: 10**12 for p in board.profiles if p.is_plain}})
    start = time.perf_counter()
    pack(demand, TABLE)
    return 1000 * (time.perf_counter() - start)


def measure(instances: int, classes: int, seed: int) -> dict[str, Any]:
    demand = draw(instances, classes, seed)
    start = time.perf_counter()
    found = pack(demand, TABLE)
    seconds = time.perf_counter() - start
    return {
        "instances": instances,
        "classes": classes,
        "seconds": round(seconds, 3),
        "gap": float(found.gap),
        "gpus": found.total,
        "usd_per_hour": float(found.objective),
        "first_fit_decreasing": round(float(first_fit_decreasing(demand) / found.objective), 4),
        "whole_gpu": round(float(one_job_per_gpu(demand) / found.objective), 4),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="as every benchmark; this one reads no data")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    options = parser.parse_args()
    plain = plain_milliseconds()
    pack(draw(1000, 6, 0), TABLE)  # imports and caches are not timed
    rows = [measure(n, j, options.seed) for n in SIZES for j in CLASSES]
    made = {
        "seed": options.seed,
        "boards": {k: {"usd_per_hour": p, "speed": s} for k, (p, s) in BOARDS.items()},
        "law": LAW,
    }
    if options.output == "json":
        print(json.dumps({"generator": made, "plain_milliseconds": plain, "rows": rows}, indent=2))
        return 0
    print(f"seed {options.seed}; {LAW}")
    print("boards, USD per GPU-hour, speed: " + "; ".join(f"{k} {p} {s}" for k, (p, s) in BOARDS.items()))
    print(f"one board, 10^12 instances of each of 6 plain profiles: {plain:.1f} ms")
    print("instances  classes  seconds  certified gap   GPUs      FFD/ours  whole GPU/ours")
    for row in rows:
        print(
            f"{row['instances']:>9,}{row['classes']:>9}{row['seconds']:>9.2f}{row['gap']:>15.1e}{row['gpus']:>10,}"
            f"{row['first_fit_decreasing']:>10.3f}{row['whole_gpu']:>16.3f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
