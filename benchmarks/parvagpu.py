"""GPUs that the published ParvaGPU scenarios need, beside the published system (SC'24, MunQ-Lee/ParvaGPU_SC24).

Eleven models on A100-80GB slices, each with a request rate and a latency limit. A point of the profiles (slice, batch,
processes) is usable when its latency is below 0.45 of the limit, the artefact's own rule; the throughput column is per
process. Rows of the SLO files are scenarios 1-4 and 6 of the paper; ``N/A`` is not demanded.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from migsaw import catalogue
from migsaw.cli.shared import load_catalogue
from migsaw.model.demand import Demand, Entry, Need, Option
from migsaw.plan.packing import pack, parse_facets

BOARD = "a100-sxm4-80gb"
PROFILES = {"1": "1g.10gb", "2": "2g.20gb", "3": "3g.40gb", "4": "4g.40gb", "7": "7g.80gb"}
USABLE = Fraction(45, 100)
PROCESSES = (1, 3, 5)  # most processes per slice
PUBLISHED = (2, 3, 5, 7, 16)  # GPUs of the published deployments of these rows


def points(file: Path, most: int) -> Iterator[tuple[Fraction, Option]]:
    """(latency in ms, option) of every profiled point with at most so many processes. Throughput 0: it did not fit."""
    with file.open(newline="", encoding="utf-8") as table:
        for row in csv.DictReader(table):
            processes, gain = int(row["Workload Number"]), Fraction(row["Throughput"])
            if processes <= most and gain:
                profile, batch = PROFILES[row["Mig instance"]], int(row["Batch size"])
                yield 1000 * Fraction(row["Latency"]), Option(BOARD, profile, gain * processes, batch, processes)


def scenarios(folder: Path, most: int) -> Iterator[tuple[Need, ...]]:
    models = sorted((folder / "prof_data").glob("*.csv"))
    known = {model.stem: list(points(model, most)) for model in models}
    rates, limits = (
        [*csv.reader((folder / "SLO" / name).read_text(encoding="utf-8").splitlines())]
        for name in ("SLO_req_rate.csv", "SLO_latency.csv")
    )
    for rate_row, limit_row in zip(rates, limits, strict=True):
        yield tuple(
            need(model.stem, known[model.stem], rate, limit)
            for model, rate, limit in zip(models, rate_row, limit_row, strict=True)
            if rate != "N/A"
        )


def need(name: str, known: list[tuple[Fraction, Option]], rate: str, limit: str) -> Need:
    usable = tuple(option for latency, option in known if latency < USABLE * Fraction(limit))
    return Need(name, "workload", Fraction(rate), usable, "no point is fast enough")


def measure(folder: Path) -> list[dict[str, Any]]:
    table, entry = parse_facets(catalogue.read("facets.json")), Entry(BOARD, load_catalogue().board(BOARD))
    rows: list[dict[str, Any]] = []
    for most in PROCESSES:
        for number, needs in enumerate(scenarios(folder, most), start=1):
            if len(rows) < number:
                rows.append({"scenario": number, "gpus": {}, "lower_bound": {}, "seconds": {}})
            start = time.perf_counter()
            found = pack(Demand((entry,), needs), table)
            rows[number - 1]["seconds"][str(most)] = round(time.perf_counter() - start, 3)
            rows[number - 1]["gpus"][str(most)] = found.total
            rows[number - 1]["lower_bound"][str(most)] = int(found.lower_bound)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("MIGSAW_DATA") or "../shared/data"))
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    options = parser.parse_args()
    folder = options.data / "parvagpu"
    for needed in (folder / "prof_data", folder / "SLO/SLO_req_rate.csv", folder / "SLO/SLO_latency.csv"):
        if not needed.exists():
            print(f"{needed} is missing: give --data or set MIGSAW_DATA", file=sys.stderr)
            return 2
    rows = measure(folder)
    if options.output == "json":
        print(json.dumps({"scenarios": rows}, indent=2))
        return 0
    print("GPUs by the most processes per slice (certified least number in brackets)")
    print("scenario   " + "".join(f"{f'<= {most}':>12}" for most in PROCESSES) + "   published   seconds")
    for row, published in zip(rows, PUBLISHED, strict=True):
        counts = [f"{n} ({row['lower_bound'][most]})" for most, n in row["gpus"].items()]
        cells = "".join(f"{text:>12}" for text in counts)
        print(f"{row['scenario']:<11}{cells}{published:>12}{sum(row['seconds'].values()):>10.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
