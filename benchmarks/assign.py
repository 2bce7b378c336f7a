"""The slot that `migsaw assign` gives from two trials only, against the best slot of all measured profiles.

The trials are those that anybody makes first: the smallest slot that holds the workload, and the full-size one. Every
configuration is asked with four limits: none, and a latency of at most 1.5, 3 and 6 times the full-size slot's. What is
believed of a model was learned from other models only. Beside: predicted slots taken at their median, none taken at
all (only the two measured ones), and always the full-size slot.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from _slices import Group, read_groups
from migsaw.fit.curve_prior import learn
from migsaw.fit.evidence import Evidence
from migsaw.fit.slots import SlotOption, choose, options_of
from migsaw.model.fits import Figure
from migsaw.model.measurement import Measurement, WorkloadId
from migsaw.model.slo import Objective

LIMITS = (None, 1.5, 3.0, 6.0)


@dataclass(frozen=True)
class Case:
    group: Group
    floor: float | None  # samples per second
    options: tuple[SlotOption, ...]  # of slots that the table has for the board

    def cost(self, name: str) -> float:
        return next(o.share or 1.0 for o in self.options if o.profile == name) / self.group.throughput[name]

    def meets(self, name: str) -> bool:
        return self.floor is None or self.group.throughput[name] >= self.floor

    @property
    def least(self) -> float:
        return min(self.cost(name) for name in self.group.throughput if self.meets(name))


def main() -> int:
    data = Path(os.environ.get("MIGSAW_DATA") or "../shared/data")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=data)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    args = parser.parse_args()
    groups = read_groups(args.csv or args.data / "measured_slice_performance.csv")
    groups = [g for g in groups if g.slots[-1].name in g.throughput and len(g.throughput) > 1]
    cases = _cases(groups)
    document = {
        "configurations": len(groups),
        "cases": len(cases),
        "rules": {name: _figures(cases, rule) for name, rule in RULES.items()},
    }
    print(json.dumps(document, indent=2) if args.output == "json" else _text(document))
    return 0


def _cases(groups: Sequence[Group]) -> list[Case]:
    priors = {m: learn([g.curve for g in groups if g.model != m], "held out") for m in {g.model for g in groups}}
    found = []
    for group in groups:
        names = {s.name for s in group.slots}
        for limit in LIMITS:
            floor = group.throughput[group.slots[-1].name] / limit if limit else None
            asked = Objective(throughput_per_second=floor, task="train" if group.task == "train" else "infer")
            options = options_of(_evidence(group), group.board, asked, priors[group.model])
            found.append(Case(group, floor, tuple(o for o in options if o.profile in names)))
    return found


def _evidence(group: Group) -> Evidence:
    """Slots below the smallest that holds it ran out of memory."""
    names = [s.name for s in group.slots]
    first = next(i for i, name in enumerate(names) if name in group.throughput)
    trials = {name: _trial(group, name) for name in (*names[: first + 1], names[-1])}
    return Evidence(WorkloadId({"model": group.model}), group.model, group.board.key, group.batch, 1, "samples", trials)


def _trial(group: Group, name: str) -> Measurement:
    rate, memory = group.throughput.get(name), group.memory_gb.get(name)
    return Measurement(
        WorkloadId({"model": group.model}), group.model, group.board.key, name, "mig",
        "steady" if rate else "out_of_memory", "2026-01-01T00:00:00Z", group.batch,
        throughput_per_second=Figure(rate) if rate else None, memory_peak_mib=int(memory * 1024) if memory else None,
    )  # fmt: skip


# ---- rules ------------------------------------------------------------------------------------------------------


def _ours(case: Case) -> str | None:
    chosen = choose(case.options, {})
    return chosen.profile if chosen else None


def _at_median(case: Case) -> str | None:
    """The same, every predicted slot taken for what its median says."""
    serving = [
        (o.share / o.throughput.value, o.share, o.profile)
        for o in case.options
        if o.throughput and o.share and _holds(o) and (case.floor is None or o.throughput.value >= case.floor)
    ]
    return min(serving)[2] if serving else None


def _holds(option: SlotOption) -> bool:
    return option.fits or "asked for" in option.reason  # refused for its rate alone


def _measured_only(case: Case) -> str | None:
    chosen = choose([o for o in case.options if o.is_measured], {})
    return chosen.profile if chosen else None


def _full(case: Case) -> str | None:
    return case.group.slots[-1].name


RULES: dict[str, Callable[[Case], str | None]] = {
    "migsaw": _ours,
    "predicted at the median": _at_median,
    "measured slots only": _measured_only,
    "full GPU": _full,
}


def _figures(cases: Sequence[Case], rule: Callable[[Case], str | None]) -> dict[str, float]:
    """``mean_excess``: over the cases whose limit is met."""
    chosen = [(case, rule(case)) for case in cases]
    held = [(case, name) for case, name in chosen if name in case.group.throughput and name is not None]
    served = [(case, name) for case, name in held if case.meets(name)]
    excess = [case.cost(name) / case.least - 1 for case, name in served]
    return {
        "mean_excess": round(float(np.mean(excess)), 4),
        "p90_excess": round(float(np.quantile(excess, 0.9)), 4),
        "limits_missed": round((len(held) - len(served)) / len(cases), 4),
        "slots_without_a_row": sum(name is not None and name not in case.group.throughput for case, name in chosen),
        "no_slot": sum(name is None for _, name in chosen),
    }


def _text(document: dict[str, object]) -> str:
    rules = document["rules"]
    assert isinstance(rules, dict)
    lines = [f"{document['configurations']} configurations, {document['cases']} cases, two trials each"]
    lines.append(f"{'':24}{'excess':>9}{'p90':>9}{'missed':>9}{'no row':>8}{'none':>6}")
    for name, f in rules.items():
        lines.append(
            f"{name:24}{f['mean_excess']:9.2%}{f['p90_excess']:9.2%}{f['limits_missed']:9.2%}"
            f"{f['slots_without_a_row']:8}{f['no_slot']:6}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
