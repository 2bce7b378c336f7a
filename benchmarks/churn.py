"""Slices that come and go without a queue: what each actuator carries of the same arrivals, by mix, load and fleet.

Poisson arrivals, lognormal lives (mean 1, sigma 1), one board. Load 1 would fill the GPUs exactly if it were packed
perfectly. After a warm-up, the compute slices held are compared with *free repack* on the same arrivals: a reference
that may move everything at any time (it still takes all it can, so it is no bound); *fluid* is the bound of long
averages for any policy. Rows of `dra`, `dra-steered` and `mig-manager` are what a cluster gets; `static` is the best
fixed partition, made for the mix, which the others are not told.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from migsaw.cli.shared import load_catalogue, load_facets
from migsaw.model.layouts import StateSpace
from migsaw.plan.packing.facets import shape
from migsaw.plan.placement import rules
from migsaw.plan.placement.graph import StateGraph
from migsaw.plan.solver import new_solver
from migsaw.simulate.actuators import Free, Repack
from migsaw.simulate.arrivals import arrivals_per_life, poisson
from migsaw.simulate.loss import Actuator, Outcome, run
from migsaw.simulate.nodes import Steered, Stock
from migsaw.simulate.partitioned import MigManager, Static
from migsaw.simulate.static import best_counts, partition

BOARD = load_catalogue().board("a100-sxm4-40gb")
NAMES = tuple(p.name for p in BOARD.profiles if p.is_plain)
GRAPH, TABLE = StateGraph(BOARD, NAMES), load_facets()
MIXES = {  # 1g, 1g with double memory, 2g, 3g, 4g, 7g
    "uniform": (1, 1, 1, 1, 1, 1),
    "small": (6, 3, 3, 1, 1, 0.5),
    "large": (0.5, 1, 1, 3, 3, 2),
    "no7g": (3, 1, 3, 2, 2, 0),
    "bimodal": (3, 1, 0.5, 0.5, 1, 3),
}
LOADS = (0.9, 1.0, 1.2)
GPUS_PER_NODE = 4
RECUT = 60 / 3600  # seconds of a re-cut, in mean lives of an hour
TOPS = sorted({StateSpace(BOARD, NAMES).counts(s) for s in StateSpace(BOARD, NAMES).maximal})


@dataclass(frozen=True, slots=True)
class Row:
    """Means over seeds; ``se``: standard error of ``of_repack`` over paired seeds."""

    gpus: int
    mix: str
    load: float
    actuator: str
    of_repack: float
    se: float
    of_fluid: float
    acceptance: float
    changes_per_accepted: float


def actuators(gpus: int, mix: dict[str, float], offered: Sequence[float]) -> dict[str, Callable[[], Actuator]]:
    creatable, layouts = rules.creatable, _best_static(offered, gpus)
    share = {name: weight / sum(mix.values()) for name, weight in mix.items()}
    free = {
        "free, driver-like": rules.driver_like,
        "free, best fit": rules.best_fit,
        "free, FGD of the mix": rules.fgd(share),
        "free, MFI (our reading)": rules.mfi,
        "free, creatable": creatable,
    }
    found: dict[str, Callable[[], Actuator]] = {
        name: (lambda rule=rule: Free(GRAPH, rule, gpus)) for name, rule in free.items()
    }
    found["free, creatable, one migration"] = lambda: Free(GRAPH, creatable, gpus, dearest=8)
    found["dra"] = lambda: Stock(GRAPH, creatable, gpus, GPUS_PER_NODE)
    found["dra-steered"] = lambda: Steered(GRAPH, creatable, gpus, GPUS_PER_NODE)
    for way in ("packed", "distributed"):
        found[f"mig-manager, {way}"] = lambda way=way: MigManager(  # type: ignore[misc]
            NAMES, layouts, GPUS_PER_NODE, way, TOPS, GRAPH.compute, RECUT
        )
    found["static, best for the mix"] = lambda: Static(NAMES, layouts, GPUS_PER_NODE, "packed")
    found["static, all 1g"] = lambda: Static(NAMES, [_full("1g.5gb")] * gpus, GPUS_PER_NODE, "packed")
    return found


def _best_static(offered: Sequence[float], gpus: int):  # type: ignore[no-untyped-def]
    return partition(BOARD, NAMES, best_counts(BOARD, NAMES, offered, gpus, TABLE), gpus, TABLE).layouts


def _full(name: str):  # type: ignore[no-untyped-def]
    space = StateSpace(BOARD, (name,))
    return space.layout(max(space.states, key=int.bit_count))


def fluid(offered: Sequence[float], gpus: int) -> float:
    """The most compute slices that any policy holds in the long run: a linear programme over the facets."""
    found, solver = shape(BOARD, NAMES, TABLE), new_solver()
    value = [float(BOARD.profile(name).compute_slices) for name in found.names]
    bounds = [offered[NAMES.index(name)] for name in found.names]
    solver.addVars(len(value), np.zeros(len(value)), np.array(bounds))
    solver.changeColsCost(len(value), np.arange(len(value), dtype=np.int32), -np.array(value))
    for weights, limit in found.facets:
        there = [n for n, w in enumerate(weights) if w]
        solver.addRow(
            -np.inf, float(limit * gpus), len(there), np.array(there, np.int32), np.array(weights, float)[there]
        )
    solver.run()
    return -float(solver.getInfo().objective_function_value)


def rows(gpus: int, seeds: Sequence[int], mixes: Sequence[str], loads: Sequence[float], only: str | None) -> list[Row]:
    warm_up, until = (10.0, 30.0) if gpus <= 1000 else (4.0, 8.0)
    found = []
    for mix_name in mixes:
        mix = {name: w for name, w in zip(NAMES, MIXES[mix_name], strict=True) if w}
        for load in loads:
            per_life = arrivals_per_life(BOARD, mix, gpus, load, TABLE)
            offered = [per_life * mix.get(name, 0.0) / sum(mix.values()) for name in NAMES]
            most = fluid(offered, gpus)
            traces = [poisson(NAMES, mix, per_life, until, seed) for seed in seeds]
            bases = [run(t, Repack(BOARD, NAMES, gpus, TABLE), GRAPH.compute, warm_up, until) for t in traces]
            for name, make in actuators(gpus, mix, offered).items():
                if only and only not in name:
                    continue
                made = [make() for _ in traces]
                outcomes = [run(t, a, GRAPH.compute, warm_up, until) for t, a in zip(traces, made, strict=True)]
                found.append(_row(gpus, mix_name, load, name, outcomes, bases, most, made))
                print(line(found[-1]), flush=True)
    return found


def _row(
    gpus: int,
    mix: str,
    load: float,
    name: str,
    outcomes: Sequence[Outcome],
    bases: Sequence[Outcome],
    most: float,
    made: Sequence[Actuator],
) -> Row:
    ratios = np.array([o.compute / b.compute for o, b in zip(outcomes, bases, strict=True)])
    changes = sum(getattr(a, "migrations", getattr(a, "changes", 0)) for a in made)
    return Row(
        gpus=gpus,
        mix=mix,
        load=load,
        actuator=name,
        of_repack=float(ratios.mean()),
        se=float(ratios.std(ddof=1) / math.sqrt(len(ratios))) if len(ratios) > 1 else math.nan,
        of_fluid=float(np.mean([o.compute for o in outcomes]) / most),
        acceptance=float(np.mean([o.acceptance for o in outcomes])),
        changes_per_accepted=changes / max(1, sum(sum(o.accepted) for o in outcomes)),
    )


def line(row: Row) -> str:
    return (
        f"{row.gpus:6d}  {row.mix:8s} {row.load:.1f}  {row.actuator:32s} {row.of_repack:.4f} ± {row.se:.4f}  "
        f"{row.of_fluid:.4f}  {row.acceptance:.4f}  {row.changes_per_accepted:.4f}"
    )


def summary(found: Sequence[Row]) -> list[str]:
    """Means over mixes and loads, and the worst of them."""
    lines = []
    for gpus in sorted({row.gpus for row in found}):
        for name in dict.fromkeys(row.actuator for row in found):
            mine = [row for row in found if (row.gpus, row.actuator) == (gpus, name)]
            of_repack = [row.of_repack for row in mine]
            mean, accepted = float(np.mean(of_repack)), float(np.mean([row.acceptance for row in mine]))
            lines.append(f"{gpus:6d}  {name:32s} {mean:.4f}  worst {min(of_repack):.4f}  accepts {accepted:.4f}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, nargs="+", default=[100])
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--mix", nargs="+", choices=list(MIXES), default=list(MIXES))
    parser.add_argument("--load", type=float, nargs="+", default=list(LOADS))
    parser.add_argument("--actuator", help="only rows whose name holds this text")
    parser.add_argument("--data", help="not needed: everything here is drawn from a seed")
    parser.add_argument("-o", choices=["table", "json"], default="table")
    asked = parser.parse_args()
    out, sys.stdout = sys.stdout, sys.stderr if asked.o == "json" else sys.stdout
    print(
        "  gpus  mix     load  actuator                         of free repack     of fluid  accepted  changes/accepted"
    )
    found = [
        r for n in asked.gpus for r in rows(n, range(9000, 9000 + asked.seeds), asked.mix, asked.load, asked.actuator)
    ]
    print("\n".join(["", "mean over mixes and loads", *summary(found)]))
    if asked.o == "json":
        json.dump([asdict(row) for row in found], out, indent=1)


if __name__ == "__main__":
    main()
