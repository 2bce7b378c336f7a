"""Decisions per second: an arrival and a departure on a full fleet of 100, 10^4 and 10^6 GPUs, beside a scan of all.

Both run in this process on the same random operations; the scan looks at every GPU's best move, as a scheduler without
an index would. On machines that others use, compare the columns of one run, not runs.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from dataclasses import asdict, dataclass

from migsaw.cli.shared import load_catalogue
from migsaw.plan.placement import rules
from migsaw.plan.placement.fleet import RankedFleet, rank
from migsaw.plan.placement.graph import StateGraph

BOARD = load_catalogue().board("a100-sxm4-40gb")
GRAPH = StateGraph(BOARD, [p.name for p in BOARD.profiles if p.is_plain])
SIZES = (100, 10_000, 1_000_000)


@dataclass(frozen=True, slots=True)
class Row:
    """Per second; an operation is an arrival or a departure, the scan's is an arrival."""

    gpus: int
    instances: int
    operations_per_second: float
    scans_per_second: float


def filled(gpus: int, rng: random.Random) -> tuple[RankedFleet, list[tuple[int, int]]]:
    """Requests of random profiles until one is refused."""
    fleet, live = RankedFleet(GRAPH, rules.creatable, gpus), []
    while (done := fleet.place(rng.randrange(len(GRAPH.names)))) is not None:
        live.append(done)
    return fleet, live


def measure(gpus: int, operations: int, seed: int) -> Row:
    rng = random.Random(seed)
    fleet, live = filled(gpus, rng)
    number = len(live)
    asked = [(rng.randrange(len(GRAPH.names)), rng.random()) for _ in range(operations)]
    began = time.perf_counter()
    for profile, draw in asked:
        done = fleet.place(profile)
        if done is not None:
            live.append(done)
        at = int(draw * len(live))
        live[at], live[-1] = live[-1], live[at]
        fleet.release(*live.pop())
    seconds = time.perf_counter() - began
    return Row(gpus, number, 2 * operations / seconds, _scans(fleet, asked))


def _scans(fleet: RankedFleet, asked: list[tuple[int, float]]) -> float:
    """The same answer by looking at every GPU; as many as take half a second."""
    ranks = [r.rank for r in rank(GRAPH, rules.creatable)]
    began, number = time.perf_counter(), 0
    while time.perf_counter() - began < 0.5:
        ranking = ranks[asked[number % len(asked)][0]]
        min((ranking[state], gpu) for gpu, state in enumerate(fleet.state) if ranking[state]) if any(
            map(ranking.__getitem__, fleet.state)
        ) else None
        number += 1
    return number / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operations", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", help="not needed: everything here is drawn from a seed")
    parser.add_argument("-o", choices=["table", "json"], default="table")
    asked = parser.parse_args()
    found = [measure(gpus, asked.operations, asked.seed) for gpus in SIZES]
    if asked.o == "json":
        print(json.dumps([asdict(row) for row in found], indent=1))
        return
    print("     GPUs  instances  operations/s  scans/s")
    for row in found:
        print(f"{row.gpus:9,d}  {row.instances:9,d}  {row.operations_per_second:12,.0f}  {row.scans_per_second:7,.1f}")


if __name__ == "__main__":
    main()
