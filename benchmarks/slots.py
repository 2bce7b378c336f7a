"""The slot that few trials find, against the best slot of all measured profiles.

A finished sample costs share ÷ throughput, share = max(compute slices, memory slices) as parts of the board's totals.
Every configuration is asked with four limits: none, and a latency of at most 1.5, 3 and 6 times the full GPU's at the
same batch. A profile without a row in its configuration did not fit; a trial on it counts as one trial. What is
believed of a model was learned from other models only.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from _slices import Group, read_groups
from migsaw.fit.choose import Question, decide, first_trial
from migsaw.fit.curve import CurvePrior, believe
from migsaw.fit.curve_prior import learn

LIMITS = (None, 1.5, 3.0, 6.0)
MARGIN = 1.15  # on a memory peak, as right-sizing adds


@dataclass(frozen=True)
class Case:
    group: Group
    floor: float | None  # samples per second

    @property
    def shares(self) -> dict[str, float]:
        board = self.group.board
        compute, memory = board.compute_slices or 1, board.memory_slices or 1
        return {
            s.name: max(board.profile(s.name).compute_slices / compute, s.memory_slices / memory)
            for s in self.group.slots
        }

    @property
    def best(self) -> str:
        found = self.group.throughput
        return min((n for n in found if self.meets(n)), key=lambda n: (self.shares[n] / found[n], self.shares[n]))

    def meets(self, name: str) -> bool:
        return self.floor is None or self.group.throughput[name] >= self.floor

    def excess(self, name: str) -> float:
        found = self.group.throughput
        return self.shares[name] / found[name] / (self.shares[self.best] / found[self.best]) - 1


@dataclass(frozen=True)
class Outcome:
    """``slot`` None: the rule chose a profile without a row."""

    case: Case
    slot: str | None
    trials: int


def main() -> int:
    data = Path(os.environ.get("MIGSAW_DATA") or "../shared/data")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=data)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    args = parser.parse_args()
    groups = read_groups(args.csv or args.data / "measured_slice_performance.csv")
    groups = [g for g in groups if g.slots[-1].name in g.throughput and len(g.throughput) > 1]
    cases = [Case(g, g.throughput[g.slots[-1].name] / limit if limit else None) for g in groups for limit in LIMITS]
    rules = {"migsaw": _ours(cases), **{name: [rule(case) for case in cases] for name, rule in RULES.items()}}
    found = {name: _figures(outcomes) for name, outcomes in rules.items()}
    document = {**found.pop("migsaw"), "rules": found, "configurations": len(groups), "cases": len(cases)}
    print(json.dumps(document, indent=2) if args.output == "json" else _text(document))
    return 0


def _ours(cases: Sequence[Case]) -> list[Outcome]:
    models = sorted({case.group.model for case in cases})
    groups = list({id(case.group): case.group for case in cases}.values())
    priors = {m: learn([g.curve for g in groups if g.model != m], "held out") for m in models}
    return [_found(case, priors[case.group.model]) for case in cases]


def _found(case: Case, prior: CurvePrior) -> Outcome:
    """The smallest slot first, then what is worth a trial; one that does not hold it counts as a trial too."""
    group, trials, failed = case.group, dict[str, float](), set[str]()
    trial: str | None = first_trial(group.slots, {})
    choice: str | None = None
    while trial is not None:
        if trial in group.throughput:
            trials[trial] = group.throughput[trial]
        else:
            failed.add(trial)
        holds = _holds(group, trials, failed)
        if not trials:
            trial = first_trial(group.slots, holds)
            continue
        decision = decide(believe(prior, group.task, trials, group.slots), Question(case.shares, case.floor, holds))
        trial, choice = decision.trial, decision.choice
    return Outcome(case, choice if choice in group.throughput else None, len(trials) + len(failed))


def _holds(group: Group, trials: dict[str, float], failed: set[str]) -> dict[str, bool]:
    """Memory by the peak that a trial showed; a slot with no less memory than one that held it, holds it."""
    memory = {s.name: s.memory_slices for s in group.slots}
    holds = {}
    peak = max((group.memory_gb[n] for n in trials if n in group.memory_gb), default=None)
    for slot in group.slots:
        limit = (group.board.profile(slot.name).memory_mib or 0) / 1024
        if slot.name in failed:
            holds[slot.name] = False
        elif any(memory[slot.name] >= memory[name] for name in trials):
            holds[slot.name] = True
        elif any(memory[slot.name] <= memory[name] for name in failed):
            holds[slot.name] = False
        elif peak is not None:
            holds[slot.name] = peak * MARGIN <= limit
    return holds


# ---- simple rules -----------------------------------------------------------------------------------------------


def _smallest(case: Case) -> Outcome:
    """Tried from the smallest up until one holds it."""
    names = [s.name for s in case.group.slots]
    first = next(n for n in names if n in case.group.throughput)
    return Outcome(case, first, names.index(first) + 1)


def _always(role: str) -> Callable[[Case], Outcome]:
    """That profile, or the next larger that holds it."""

    def rule(case: Case) -> Outcome:
        names = [s.name for s in case.group.slots if case.group.board.profile(s.name).role >= role]
        return Outcome(case, next(n for n in names if n in case.group.throughput), 0)

    return rule


def _all(case: Case) -> Outcome:
    return Outcome(case, case.best, len(case.group.slots))


RULES: dict[str, Callable[[Case], Outcome]] = {
    "smallest that fits": _smallest,
    "always 2g": _always("2g"),
    "always 3g": _always("3g"),
    "full GPU": _always("7g"),
    "all profiles tried": _all,
}


def _figures(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """``mean_excess…``: over the cases whose limit is met; ``with_misses``: a case that misses it is run again on the
    full GPU, and costs that."""
    served = [o for o in outcomes if o.slot is not None and o.case.meets(o.slot)]
    missed = sum(o.slot is not None and not o.case.meets(o.slot) for o in outcomes)
    limited = [o for o in served if o.case.floor is not None]
    excess, tight = ([o.case.excess(o.slot) for o in rows if o.slot] for rows in (served, limited))
    return {
        "mean_excess": round(float(np.mean(excess)), 4),
        "p90_excess": round(float(np.quantile(excess, 0.9)), 4),
        "mean_excess_with_limit": round(float(np.mean(tight)), 4),
        "with_misses": round(float(np.mean([_paid(o) for o in outcomes if o.case.floor is not None])), 4),
        "limits_missed": round(missed / len(outcomes), 4),
        "slots_without_a_row": sum(o.slot is None for o in outcomes),
        "trials": round(float(np.mean([o.trials for o in outcomes])), 3),
        "best_slot": round(sum(o.slot == o.case.best for o in outcomes) / len(outcomes), 3),
    }


def _paid(outcome: Outcome) -> float:
    case = outcome.case
    is_met = outcome.slot is not None and case.meets(outcome.slot)
    return case.excess(outcome.slot if is_met and outcome.slot else case.group.slots[-1].name)


WIDTHS = (8, 8, 9, 11, 8, 8, 8, 7)


def _text(document: dict[str, Any]) -> str:
    titles = zip(("excess", "p90", "limited", "w. misses", "missed", "no row", "trials", "best"), WIDTHS, strict=True)
    head = f"{'':22}{''.join(title.rjust(width) for title, width in titles)}"
    rows = {"migsaw": document, **document["rules"]}
    lines = [f"{document['configurations']} configurations, {document['cases']} cases", head]
    for name, f in rows.items():
        lines.append(
            f"{name:22}{f['mean_excess']:8.2%}{f['p90_excess']:8.2%}{f['mean_excess_with_limit']:9.2%}{f['with_misses']:11.2%}"
            f"{f['limits_missed']:8.2%}{f['slots_without_a_row']:8}{f['trials']:8.2f}{f['best_slot']:7.1%}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
