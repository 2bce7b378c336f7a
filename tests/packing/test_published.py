"""The published scenarios of ParvaGPU (SC'24): optima known from an independent programme and the published system."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KNOWN = {
    "1": [2, 3, 5, 7, 17],
    "3": [2, 3, 5, 7, 16],
    "5": [2, 3, 5, 7, 15],
}  # the published system needs 16 in the last


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "benchmarks/parvagpu.py", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_gpus_per_scenario(data_dir: Path) -> None:
    done = run("--data", data_dir, "-o", "json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["scenarios"]
    assert [row["scenario"] for row in rows] == [1, 2, 3, 4, 5]
    for most, gpus in KNOWN.items():
        assert [row["gpus"][most] for row in rows] == gpus
        assert [row["lower_bound"][most] for row in rows] == gpus


def test_missing_data_is_said_plainly(tmp_path: Path) -> None:
    done = run("--data", tmp_path)
    assert done.returncode == 2
    assert "missing" in done.stderr
    assert "Traceback" not in done.stderr
