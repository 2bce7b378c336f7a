"""Writes src/migsaw/catalogue/curves.json: what throughput curves of public measurements look like.

    python tools/make_curves.py ../shared/data/measured_slice_performance.csv

The table is learned from all rows; ``benchmarks/predictor.py`` measures how well it predicts what it has not seen.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from _slices import read_groups
from migsaw.fit.curve_prior import learn

TARGET = Path(__file__).resolve().parents[1] / "src/migsaw/catalogue/curves.json"
SOURCE = (
    "learned from public measurements of MIG slices: ParvaGPU (SC'24, MIT), MISO (SoCC'22, MIT), MIGPerf (2023, MIT); "
    "A100, 5 profiles"
)


def main(path: str) -> None:
    prior = learn([group.curve for group in read_groups(Path(path))], SOURCE)
    TARGET.write_text(json.dumps(asdict(prior), indent=None, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"written: {TARGET.name}, {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1])
