"""GPU allocation on the openb traces, by the published protocol of FGD, beside the published results.

A pod that fits somewhere is placed at once; nothing placed is moved, nothing refused comes again. The arrival orders of
the seeds are shared by all policies; they are not those of the artefact, so means are compared. ``allocated`` is % of
all GPUs when 130 % (and 100 %) of them have been asked for.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from migsaw.errors import InputError
from migsaw.plan.placement.shared.cluster import Cluster
from migsaw.plan.placement.shared.placer import Policy
from migsaw.plan.placement.shared.priced import Priced, Weights
from migsaw.plan.placement.shared.rules import BestFit, Fgd, RandomFit
from migsaw.plan.placement.shared.values import Request
from migsaw.simulate import openb
from migsaw.simulate.replay import Replay, replay

Mix = Mapping[Request, int]
Maker = Callable[[Cluster, Mix, int], Policy]

ARTEFACT = {"01-Random": "random", "05-BestFit": "best-fit", "06-FGD": "fgd"}
POLICIES: dict[str, Maker] = {
    "migsaw": lambda cluster, mix, seed: Priced(cluster, mix),
    "fgd": lambda cluster, mix, seed: Fgd(cluster, mix),
    "best-fit": lambda cluster, mix, seed: BestFit(),
    "random": lambda cluster, mix, seed: RandomFit(random.Random(f"random fit {seed}")),
}
WITHOUT: dict[str, Weights] = {
    "sizes for prices": replace(Weights(), prices=0.0),
    "prices of the empty cluster": replace(Weights(), renewed=False),
    "prices not hedged": replace(Weights(), prices=1.0),
    "no stranding of CPU": replace(Weights(), stranding=0.0),
    "no bonus for idle GPUs": replace(Weights(), idle=0.0),
    "no bonus for blocks": replace(Weights(), blocks=()),
    "no prices of models": replace(Weights(), models=0.0),
}


def main() -> int:
    args = _arguments()
    makers = {name: POLICIES[name] for name in args.policy}
    if args.ablation:
        makers |= {f"migsaw, {name}": _weighed(weights) for name, weights in WITHOUT.items()}
    try:
        document = measure(args.data, args.trace, makers, args.seeds)
    except InputError as error:
        print(f"{error}{f' ({error.hint})' if error.hint else ''}", file=sys.stderr)
        return 2
    print(json.dumps(document, indent=2) if args.output == "json" else text(document))
    return 0


def _weighed(weights: Weights) -> Maker:
    return lambda cluster, mix, seed: Priced(cluster, mix, weights)


def _arguments() -> argparse.Namespace:
    data = Path(os.environ.get("MIGSAW_DATA") or "../shared/data")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=data)
    parser.add_argument("--trace", default="default")
    parser.add_argument("--policy", type=_policies, default=list(POLICIES), help=f"of {','.join(POLICIES)}")
    parser.add_argument("--seeds", type=_seeds, default=range(42, 52), metavar="42-51")
    parser.add_argument("--ablation", action="store_true", help="also migsaw with one part left out at a time")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    return parser.parse_args()


def _policies(names: str) -> list[str]:
    found = names.split(",")
    if unknown := [name for name in found if name not in POLICIES]:
        raise argparse.ArgumentTypeError(f"no policy {unknown[0]!r}: {', '.join(POLICIES)}")
    return found


def _seeds(words: str) -> range:
    first, _, last = words.partition("-")
    try:
        return range(int(first), int(last or first) + 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{words!r} is not like 42-51") from None


def measure(data: Path, trace: str, makers: Mapping[str, Maker], seeds: Sequence[int]) -> dict[str, Any]:
    nodes = openb.read_nodes(data / "openb" / openb.NODES)
    pods = openb.read_requests(openb.find(data / "openb", trace))
    mix = openb.mix(pods)
    runs: dict[str, list[tuple[Replay, float]]] = {name: [] for name in makers}
    for seed in seeds:
        arrivals = openb.arrive(nodes, pods, seed)
        for name, make in makers.items():
            start = time.perf_counter()
            run = replay(arrivals, tuple(mix), lambda cluster, make=make, seed=seed: make(cluster, mix, seed))
            runs[name].append((run, time.perf_counter() - start))
    return {
        "trace": trace,
        "seeds": list(seeds),
        "policies": {name: summary(found) for name, found in runs.items()},
        "published": published(data / "fgd_results" / "analysis_allo_discrete.csv.gz", trace),
    }


def summary(runs: Sequence[tuple[Replay, float]]) -> dict[str, Any]:
    """``accepted``: % of the arrivals of a class over all seeds, the mean; a class that never came is left out."""
    at_130, at_100 = ([run.allocated(percent) for run, _ in runs] for percent in (130, 100))
    accepted = [run.accepted() for run, _ in runs]
    classes = sorted(set().union(*accepted))
    return {
        "mean": round(statistics.mean(at_130), 3),
        "se": standard_error(at_130),
        "per_seed": [round(value, 2) for value in at_130],
        "at_100": {"mean": round(statistics.mean(at_100), 3), "se": standard_error(at_100)},
        "accepted": {c: round(statistics.mean(a[c] for a in accepted if c in a), 2) for c in classes},
        "seconds": round(statistics.mean(seconds for _, seconds in runs), 2),
    }


def standard_error(values: Sequence[float]) -> float | None:
    return round(statistics.stdev(values) / len(values) ** 0.5, 3) if len(values) > 1 else None


def published(path: Path, trace: str) -> dict[str, Any]:
    """Mean and standard deviation over the artefact's ten seeds, for each policy that is reproduced here."""
    if not path.is_file():
        raise InputError(f"{path} is not here")
    rows: dict[str, list[tuple[float, float]]] = {}
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            if row["workload"] == f"openb_pod_list_{trace}" and row["sc_policy"] in ARTEFACT:
                rows.setdefault(ARTEFACT[row["sc_policy"]], []).append((float(row["130"]), float(row["100"])))
    return {name: _published(values) for name, values in rows.items()}


def _published(values: Sequence[tuple[float, float]]) -> dict[str, Any]:
    at_130, at_100 = zip(*values, strict=True)
    found = {"mean": round(statistics.mean(at_130), 3), "sd": round(statistics.stdev(at_130), 3)}
    return found | {"at_100": {"mean": round(statistics.mean(at_100), 3), "sd": round(statistics.stdev(at_100), 3)}}


def text(document: Mapping[str, Any]) -> str:
    known = document["published"]
    lines = [
        f"trace {document['trace']}, seeds {document['seeds'][0]} ... {document['seeds'][-1]}: % of GPUs allocated\n",
        f"{'':38} {'at 130 %':>14} {'published':>14} {'at 100 %':>9} {'published':>14}"
        f"   accepted: {'cpu':>6} {'fraction':>8} {'whole':>6} {'multi':>6}  seconds",
    ]
    for name, row in document["policies"].items():
        then, classes = known.get(name), ("cpu", "fractional", "whole", "multi")
        error = f" ± {row['se']:.3f}" if row["se"] is not None else ""
        accepted = (f"{row['accepted'][c]:.1f}" if c in row["accepted"] else "none" for c in classes)
        lines.append(
            f"{name:38} {row['mean']:.2f}{error:8} {_known(then):>14} {row['at_100']['mean']:9.2f} "
            f"{_known(then and then['at_100']):>14}             "
            + " ".join(f"{a:>{w}}" for a, w in zip(accepted, (6, 8, 6, 6), strict=True))
            + f"  {row['seconds']:7.2f}"
        )
        lines.append("     " + " ".join(f"{value:.2f}" for value in row["per_seed"]))
    return "\n".join([*lines, "\npublished: mean and standard deviation of the artefact's ten runs"])


def _known(row: Mapping[str, Any] | None) -> str:
    return f"{row['mean']:.2f} sd {row['sd']:.2f}" if row else "n/a"


if __name__ == "__main__":
    sys.exit(main())
