"""How well throughput on unmeasured profiles is predicted from two and from three trials.

Nothing that is predicted was learned from: a whole source is held out at a time, and a whole model at a time. Beside:
g/7 (the full-size profile's throughput × slices ÷ 7), Amdahl, the hard roofline, and the soft roofline with k chosen on
what is not held out, re-run on the same rows. Two trials: smallest and largest profile; three: the one in the middle
too. Error: |predicted ÷ measured − 1|.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from _slices import Group, read_groups
from migsaw.fit.curve import believe
from migsaw.fit.curve_prior import learn

SOFT_K = (1, 1.5, 2, 3, 4, 5, 6, 8, 12, 20)
HoldOut = Callable[[Group], str]
HOLD_OUTS: dict[str, HoldOut] = {"source": lambda g: g.source, "model": lambda g: g.model}


@dataclass(frozen=True)
class Row:
    """One prediction of one profile. ``covered`` None: the rule gives no interval."""

    source: str
    task: str
    error: float
    covered: bool | None = None


def main() -> int:
    args = _arguments()
    groups = _usable(read_groups(args.csv))
    train = _usable(read_groups(args.train_csv)) if args.train_csv else None
    if not groups:
        print(f"{args.csv}: no configuration with its smallest, its largest and another profile", file=sys.stderr)
        return 2
    found: dict[str, Any] = {}
    for name, middle in (("two_trials", False), ("three_trials", True)):
        for held, key in HOLD_OUTS.items():
            found.setdefault(name, {})[held] = _summary(_ours(groups, train, key, middle))
        found[name] |= found[name]["source"]  # what the interface names: the harder of the two
    baselines = {
        name: {held: _summary(rule(groups, train, key)) for held, key in HOLD_OUTS.items()}
        for name, rule in BASELINES.items()
    }
    document = {
        **found,
        "baselines": {name: value["source"] | value for name, value in baselines.items()},
        "rows": sum(len(g.throughput) for g in groups),
        "groups": len(groups),
        "trained_on": str(args.train_csv or f"the rest of {args.csv.name}"),
    }
    print(json.dumps(document, indent=2) if args.output == "json" else _text(document))
    return 0


def _arguments() -> argparse.Namespace:
    data = Path(os.environ.get("MIGSAW_DATA") or "../shared/data")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=data)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--train-csv", type=Path, help="learn from these rows only")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    args = parser.parse_args()
    args.csv = args.csv or args.data / "measured_slice_performance.csv"
    return args


def _usable(groups: Sequence[Group]) -> list[Group]:
    """With smallest and largest slot, and one to predict."""
    return [g for g in groups if {g.slots[0].name, g.slots[-1].name} < g.throughput.keys()]


# ---- ours -------------------------------------------------------------------------------------------------------


def _ours(groups: Sequence[Group], train: Sequence[Group] | None, key: HoldOut, with_middle: bool) -> list[Row]:
    rows = []
    for held in sorted({key(g) for g in groups}):
        lessons = train if train is not None else [g for g in groups if key(g) != held]
        prior = learn([g.curve for g in lessons], "held-out benchmark")
        for group in (g for g in groups if key(g) == held):
            trials = _trials(group, with_middle)
            belief = believe(prior, group.task, trials, group.slots)
            for name in sorted(group.throughput.keys() - trials.keys()):
                low, middle, high = belief.interval(name)
                true = group.throughput[name]
                rows.append(Row(group.source, group.task, abs(middle / true - 1), low <= true <= high))
    return rows


def _trials(group: Group, with_middle: bool) -> dict[str, float]:
    names = [group.slots[0].name, group.slots[-1].name]
    between = [s.name for s in group.slots[1:-1] if s.name in group.throughput]
    if with_middle:
        names.append(between[len(between) // 2])
    return {name: group.throughput[name] for name in names}


# ---- baselines: two trials --------------------------------------------------------------------------------------


def _rule(predict: Callable[[Group, float], float]) -> Callable[..., list[Row]]:
    """A rule without parameters; ``predict`` gets a size in compute slices."""

    def run(groups: Sequence[Group], train: Sequence[Group] | None, key: HoldOut) -> list[Row]:
        return [Row(g.source, g.task, error) for g in groups for error in _errors(g, predict)]

    return run


def _errors(group: Group, predict: Callable[[Group, float], float]) -> list[float]:
    ends = {group.slots[0].name, group.slots[-1].name}
    return [
        abs(predict(group, _size(group, name)) / true - 1)
        for name, true in sorted(group.throughput.items())
        if name not in ends
    ]


def _size(group: Group, name: str) -> float:
    return group.board.profile(name).compute_slices / group.board.profile(group.slots[0].name).compute_slices


def soft_roofline(group: Group, size: float, k: float) -> float:
    """((a c)^-k + cap^-k)^(-1/k) through smallest and largest; where it has no solution, a power law."""
    first, last = group.throughput[group.slots[0].name], group.throughput[group.slots[-1].name]
    full = _size(group, group.slots[-1].name)
    gain = last / first
    work = (1 - gain**-k) / (1 - full**-k)
    cap = 1 - work
    if work <= 0 or cap <= 0:
        return first * size ** (math.log(gain) / math.log(full))
    return float(first * (work * size**-k + cap) ** (-1 / k))


def _linear(group: Group, size: float) -> float:
    return group.throughput[group.slots[-1].name] * size / _size(group, group.slots[-1].name)


def _hard(group: Group, size: float) -> float:
    return min(group.throughput[group.slots[0].name] * size, group.throughput[group.slots[-1].name])


def _soft(groups: Sequence[Group], train: Sequence[Group] | None, key: HoldOut) -> list[Row]:
    """k is the one with the least mean error on what is not held out."""
    errors = {k: [_errors(g, lambda g, c, k=k: soft_roofline(g, c, k)) for g in groups] for k in SOFT_K}
    taught = {k: [_errors(g, lambda g, c, k=k: soft_roofline(g, c, k)) for g in train or ()] for k in SOFT_K}
    rows = []
    for held in sorted({key(g) for g in groups}):
        rest = [i for i, g in enumerate(groups) if key(g) != held]

        def mean(k: float, rest: Sequence[int] = rest) -> float:
            known = taught[k] if train is not None else [errors[k][i] for i in rest]
            return float(np.mean([error for group in known for error in group]))

        best = min(SOFT_K, key=mean)
        rows += [Row(g.source, g.task, e) for i, g in enumerate(groups) if key(g) == held for e in errors[best][i]]
    return rows


BASELINES: dict[str, Callable[..., list[Row]]] = {
    "g/7": _rule(_linear),
    "amdahl": _rule(lambda g, c: soft_roofline(g, c, 1)),
    "hard_roofline": _rule(_hard),
    "soft_roofline": _soft,
}


# ---- report -----------------------------------------------------------------------------------------------------


def _summary(rows: Sequence[Row]) -> dict[str, Any]:
    sources = sorted({row.source for row in rows})
    return {
        "pooled": _figures(rows),
        "by_source": {source: _figures([row for row in rows if row.source == source]) for source in sources},
    }


def _figures(rows: Sequence[Row]) -> dict[str, float | int | None]:
    errors = np.array([row.error for row in rows])
    covered = [row.covered for row in rows if row.covered is not None]
    return {
        "mean": round(float(errors.mean()), 4),
        "median": round(float(np.median(errors)), 4),
        "p90": round(float(np.quantile(errors, 0.9)), 4),
        "coverage90": round(float(np.mean(covered)), 3) if covered else None,
        "predictions": len(rows),
    }


def _text(document: dict[str, Any]) -> str:
    lines = [f"{document['groups']} configurations, {document['rows']} rows, trained on {document['trained_on']}"]
    for held in HOLD_OUTS:
        lines.append(f"\nholding out one {held} at a time{'':18}mean  median     p90  within 90 % interval")
        entries = [(name, document[name][held]) for name in ("two_trials", "three_trials")]
        entries += [(name, value[held]) for name, value in document["baselines"].items()]
        soft = document["baselines"]["soft_roofline"][held]
        for name, value in entries:
            lines.append(_line(name, value["pooled"], soft["pooled"]))
            lines += [_line(f"  {source}", v, soft["by_source"][source]) for source, v in value["by_source"].items()]
    return "\n".join(lines)


def _line(name: str, figures: dict[str, Any], soft: dict[str, Any]) -> str:
    cover = "" if figures["coverage90"] is None else f"{figures['coverage90']:8.1%}"
    ratio = figures["mean"] / soft["mean"]
    return f"{name:44}{figures['mean']:8.2%}{figures['median']:8.2%}{figures['p90']:8.2%}{cover:10}  {ratio:.2f} × soft"


if __name__ == "__main__":
    sys.exit(main())
