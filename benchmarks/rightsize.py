"""Right sizes from real MIG telemetry against what was measured: MIGPerf, every configuration on every profile it ran.

The window of one run (1 Hz, graphics activity and used memory only) goes through the real ``right_size``; its choice,
among the profiles that were measured, is compared with the cheapest one whose measured throughput is within the
tolerance of that run's and which did not run out of memory.

Money: shares of a GPU. ``lost`` is what the choices cost beyond the best ones, as a share of what the best ones cost,
over all rows; ``lost_per_row`` is the mean of the rows' own ratios.

What is missing here: SM_ACTIVE would tell how many SMs the kernels fill, which the power of the size only guesses (most
misses hold 7g, the longest way to guess over); DRAM_ACTIVE would tell 2g's quarter of the bandwidth from its 28 SMs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from _migperf import Configuration, Run, device_of, read_configurations, window_of
from migsaw.cli.shared import load_catalogue
from migsaw.fit import capacity
from migsaw.fit.rightsize import Wish, right_size, share_of
from migsaw.model.boards import Catalogue
from migsaw.model.fits import Fit
from migsaw.model.refs import PodRef
from migsaw.model.snapshot import Snapshot
from migsaw.model.telemetry import Telemetry

TOLERANCES = (0.05, 0.10, 0.20)
OUTSIDE = 0.10  # loss of throughput beyond the tolerance that must not happen
GRID = tuple(product((0.4, 0.45, 0.5, 0.55, 0.6), np.arange(0.25, 0.351, 0.01)))  # growth, knee
SAME_FAMILY = 0.05  # models whose throughputs differ by less everywhere are one architecture


@dataclass(frozen=True)
class Judged:
    """One run, what was best and what was chosen."""

    configuration: Configuration
    run: Run
    best: str
    chosen: str

    @property
    def ratio(self) -> float:
        """Measured throughput of the choice over that of the run; 0 where it ran out of memory or was not measured."""
        chosen = self.configuration.runs.get(self.chosen)
        return chosen.throughput / self.run.throughput if chosen else 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("MIGSAW_DATA") or "../shared/data"))
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--held-out", action="store_true", help="also with constants fitted without the family judged")
    args = parser.parse_args()
    folder, catalogue = args.data / "migperf", load_catalogue()
    configurations = read_configurations(folder, catalogue) if folder.is_dir() else []
    if not configurations:
        print(f"{folder}: no dcgm.csv with its tables is here", file=sys.stderr)
        return 2
    document: dict[str, Any] = {"boards": {}, "constants": constants()}
    for key in sorted({c.board.key for c in configurations}):
        mine = [c for c in configurations if c.board.key == key]
        document["boards"][key] = board_document(mine, measured_only(mine), args.held_out)
    print(json.dumps(document, indent=2) if args.output == "json" else text(document))
    return 0


def constants() -> dict[str, float]:
    return {
        "target": capacity.TARGET,
        "knee_averaged": capacity.KNEE_AVERAGED,
        "growth": capacity.GROWTH,
        "sharpness": capacity.SHARPNESS,
    }


def board_document(configurations: Sequence[Configuration], catalogue: Catalogue, held_out: bool) -> dict[str, Any]:
    document: dict[str, Any] = {"configurations": len(configurations), "tolerances": {}}
    for tolerance in TOLERANCES:
        judged = judge(configurations, catalogue, tolerance)
        document["tolerances"][f"{tolerance:.2f}"] = summary(judged, tolerance) | {"confusion": confusion(judged)}
        document["tolerances"][f"{tolerance:.2f}"]["misses"] = [miss(j) for j in judged if j.chosen != j.best]
    document["interval_coverage"] = coverage(configurations, catalogue)
    document["ideas"] = ideas(configurations, catalogue)
    if held_out:
        document["held_out"] = held_out_document(configurations, catalogue)
    return document


def measured_only(configurations: Sequence[Configuration]) -> Catalogue:
    """The board with the profiles that somebody tried: of the others nobody knows what would have been right."""
    names = {name for c in configurations for name in c.runs}
    board = configurations[0].board
    return Catalogue((replace(board, profiles=tuple(p for p in board.profiles if p.name in names)),))


# ---- one run ----------------------------------------------------------------------------------------------------


def judge(
    configurations: Sequence[Configuration], catalogue: Catalogue, tolerance: float, mode: str = "ours"
) -> list[Judged]:
    found = []
    for configuration in configurations:
        for run in measured(configuration):
            fit = fit_of(configuration, run, catalogue, tolerance, mode)
            chosen = fit.chosen.profile if fit.chosen and mode != "keep" else run.profile
            found.append(Judged(configuration, run, best_of(configuration, run, tolerance), chosen))
    return found


def measured(configuration: Configuration) -> list[Run]:
    return [run for _, run in sorted(configuration.runs.items()) if run.throughput > 0]


def fit_of(configuration: Configuration, run: Run, catalogue: Catalogue, tolerance: float, mode: str = "ours") -> Fit:
    owner = PodRef("migperf", "run")
    device = device_of(configuration, run, node="node", index=0, owner=owner, owner_source="label")
    if mode in ("mean", "p95"):  # the other statistics, through the same code
        graphics = device.series["graphics"]
        assert graphics.values is not None
        low = None if mode == "mean" else graphics.values.high / 1.06
        graphics = replace(graphics, values=replace(graphics.values, low=low))
        device = replace(device, series={**device.series, "graphics": graphics})
    telemetry = Telemetry("prometheus", window_of(run), (device,))
    return right_size(Snapshot(telemetry=telemetry), catalogue, Wish(tolerance)).fits[0]


def best_of(configuration: Configuration, run: Run, tolerance: float) -> str:
    enough = [r for r in measured(configuration) if r.throughput >= (1 - tolerance) * run.throughput]
    return min(enough, key=lambda r: (cost(configuration, r.profile), r.profile)).profile


def cost(configuration: Configuration, profile: str) -> float:
    return share_of(configuration.board, configuration.board.find(profile))


# ---- all runs ---------------------------------------------------------------------------------------------------


def summary(judged: Sequence[Judged], tolerance: float) -> dict[str, Any]:
    best = np.array([cost(j.configuration, j.best) for j in judged])
    more = np.maximum(0, [cost(j.configuration, j.chosen) - cost(j.configuration, j.best) for j in judged])
    return {
        "rows": len(judged),
        "equal": float(np.mean([j.chosen == j.best for j in judged])),
        "lost": float(more.sum() / best.sum()),
        "lost_per_row": float((more / best).mean()),
        "out_of_memory": sum(j.ratio == 0 for j in judged),
        "outside": sum(j.ratio < 1 - tolerance - OUTSIDE for j in judged),
        "worst_loss": float(max(1 - j.ratio for j in judged)),
    }


def confusion(judged: Sequence[Judged]) -> list[dict[str, Any]]:
    counts = Counter((j.run.profile, j.best, j.chosen) for j in judged)
    return [{"held": h, "best": b, "chosen": c, "rows": n} for (h, b, c), n in sorted(counts.items())]


def miss(judged: Judged) -> str:
    return (
        f"{judged.configuration.label} on {judged.run.profile}: best {judged.best}, chosen {judged.chosen} "
        f"with {judged.ratio:.0%} of the throughput"
    )


def coverage(configurations: Sequence[Configuration], catalogue: Catalogue) -> float:
    """Share of measured ratios, on every other profile, that lie in the predicted interval (± 2 % of measurement)."""
    inside = []
    for configuration in configurations:
        for run in measured(configuration):
            for option in fit_of(configuration, run, catalogue, 0.1).options:
                other, ratio = configuration.runs.get(option.profile), option.throughput_ratio
                if other and other.throughput and other is not run and ratio and ratio.low and ratio.high:
                    true = other.throughput / run.throughput
                    inside.append(0.98 * ratio.low <= true <= 1.02 * ratio.high)
    return float(np.mean(inside))


# ---- what each idea gains, and what is left without the family judged -------------------------------------------


@contextmanager
def with_constants(growth: float, knee: float) -> Iterator[None]:
    before = capacity.GROWTH, capacity.KNEE_AVERAGED
    capacity.GROWTH, capacity.KNEE_AVERAGED = growth, knee
    try:
        yield
    finally:
        capacity.GROWTH, capacity.KNEE_AVERAGED = before


def ideas(configurations: Sequence[Configuration], catalogue: Catalogue) -> dict[str, Any]:
    """At the default tolerance. Every rival gets the knee that serves it best among those that break no bound."""
    found = {"keep what is held": summary(judge(configurations, catalogue, 0.1, "keep"), 0.1)}
    for name, mode, growth in (
        ("mean activity, linear in SMs", "mean", 1.0),
        ("95th percentile, linear in SMs", "p95", 1.0),
        ("mean activity, power of SMs", "mean", capacity.GROWTH),
        ("95th percentile, power of SMs", "p95", capacity.GROWTH),
    ):
        rivals = []
        for knee in np.arange(0.24, 0.61, 0.02):
            with with_constants(growth, float(knee)):
                rivals.append(summary(judge(configurations, catalogue, 0.1, mode), 0.1))
        safe = [r for r in rivals if not r["outside"]] or rivals
        found[name] = min(safe, key=lambda r: (r["lost"], -r["equal"]))
    found["lower steps, power of SMs (ours)"] = summary(judge(configurations, catalogue, 0.1), 0.1)
    return found


def held_out_document(configurations: Sequence[Configuration], catalogue: Catalogue) -> dict[str, Any]:
    """Growth and knee that lose least money on the other families without breaking a bound there."""
    families = families_of(configurations)
    table: dict[tuple[float, float], dict[float, list[Judged]]] = {}
    for growth, knee in GRID:
        with with_constants(growth, float(knee)):
            table[growth, float(knee)] = {t: judge(configurations, catalogue, t) for t in TOLERANCES}
    chosen, kept = {}, {t: [] for t in TOLERANCES}  # type: dict[str, Any], dict[float, list[Judged]]
    for family in sorted(set(families.values())):
        best = min(table, key=lambda point: _training_score(table[point], families, family))
        chosen[family] = {"growth": best[0], "knee": round(best[1], 3)}
        for t in TOLERANCES:
            kept[t] += [j for j in table[best][t] if families[j.configuration.model] == family]
    return {"constants": chosen, "tolerances": {f"{t:.2f}": summary(kept[t], t) for t in TOLERANCES}}


def _training_score(judged: dict[float, list[Judged]], families: dict[str, str], family: str) -> tuple[float, float]:
    sums = [summary([j for j in rows if families[j.configuration.model] != family], t) for t, rows in judged.items()]
    return sum(s["outside"] for s in sums), sum(s["lost"] for s in sums)


def families_of(configurations: Sequence[Configuration]) -> dict[str, str]:
    """Model → first model (by name) of the same architecture, told by its throughputs."""
    curves: dict[str, dict[tuple[Any, ...], float]] = {}
    for c in configurations:
        for run in measured(c):
            curves.setdefault(c.model, {})[c.sweep, c.batch, c.sequence, run.profile] = run.throughput
    found: dict[str, str] = {}
    for model in sorted(curves):
        found[model] = next((f for f in sorted(set(found.values())) if _alike(curves[f], curves[model])), model)
    return found


def _alike(one: dict[tuple[Any, ...], float], other: dict[tuple[Any, ...], float]) -> bool:
    both = one.keys() & other.keys()
    return bool(both) and float(np.median([abs(one[k] / other[k] - 1) for k in both])) < SAME_FAMILY


# ---- text -------------------------------------------------------------------------------------------------------


def text(document: dict[str, Any]) -> str:
    lines = [f"constants: {', '.join(f'{k} {v}' for k, v in document['constants'].items())}"]
    for board, found in document["boards"].items():
        lines.append(f"\n{board}: {found['configurations']} configurations")
        for tolerance, row in found["tolerances"].items():
            lines += [f"\n tolerance {float(tolerance):.0%}: {_line(row)}", *_confusion_text(row["confusion"])]
            lines += [f"   {line}" for line in row["misses"]]
        lines.append(f"\n predicted interval holds the measured ratio: {found['interval_coverage']:.0%}")
        lines += ["\n ideas (tolerance 10 %)", *(f"   {name:42} {_line(row)}" for name, row in found["ideas"].items())]
        if held := found.get("held_out"):
            lines += ["\n constants fitted without the family judged"]
            lines += [f"   {family}: {values}" for family, values in held["constants"].items()]
            lines += [f"   tolerance {float(t):.0%}: {_line(row)}" for t, row in held["tolerances"].items()]
    return "\n".join(lines)


def _line(row: dict[str, Any]) -> str:
    return (
        f"{row['equal']:.1%} of {row['rows']} equal, money lost {row['lost']:.1%} (per row {row['lost_per_row']:.1%}), "
        f"{row['outside']} beyond 10 points, {row['out_of_memory']} out of memory, worst loss {row['worst_loss']:.0%}"
    )


def _confusion_text(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Best profile down, chosen profile across."""
    names = sorted({row[k] for row in rows for k in ("best", "chosen")})
    counts: Counter[tuple[str, str]] = Counter()
    for row in rows:
        counts[row["best"], row["chosen"]] += row["rows"]
    head = "   best \\ chosen " + "".join(f"{name:>9}" for name in names)
    return [head, *(f"   {b:14} " + "".join(f"{counts[b, c]:9}" for c in names) for b in names)]


if __name__ == "__main__":
    sys.exit(main())
