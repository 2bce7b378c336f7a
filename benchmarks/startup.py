"""How long `migsaw --help` takes beside the help of a bare click app, and `migsaw demo`: whole processes.

The house allows a ratio of 1.3 and 5 seconds. It reads no data but takes ``--data`` as every benchmark does.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BARE = '''import click

@click.group()
def group() -> None:
    """A bare click app."""

@group.command()
def verb() -> None:
    """One verb."""

group()
'''


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    return time.perf_counter() - start


def measure(runs: int) -> dict[str, float]:
    """Medians in seconds of processes run in turn, after one warm-up each, and their ratio; ``demo`` is run once."""
    with tempfile.TemporaryDirectory() as folder:
        bare = Path(folder, "bare.py")
        bare.write_text(BARE, encoding="utf-8")
        commands = {"bare_click": [sys.executable, str(bare), "--help"]}
        program = str(Path(sys.executable).with_name("migsaw"))
        commands["migsaw"] = [program, "--help"]
        times: dict[str, list[float]] = {name: [] for name in commands}
        for turn in range(runs + 1):
            for name, command in commands.items():
                took = seconds(command)
                times[name] += [took] if turn else []
        demo = seconds([program, "demo", "--out", folder])
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    return {"runs": runs, **medians, "ratio": medians["migsaw"] / medians["bare_click"], "demo": demo}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="not needed here")
    parser.add_argument("--runs", type=int, default=21)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    given = parser.parse_args()
    found = measure(given.runs)
    if given.output == "json":
        print(json.dumps([found]))
        return
    print(f"migsaw --help {found['migsaw'] * 1000:.0f} ms, bare click app {found['bare_click'] * 1000:.0f} ms")
    print(f"ratio {found['ratio']:.2f} (medians of {given.runs} runs in turn; goal: at most 1.3)")
    print(f"migsaw demo {found['demo']:.1f} s (goal: under 5 s)")


if __name__ == "__main__":
    main()
