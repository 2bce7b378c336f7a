"""Series with every sample known, as OpenMetrics text, and the same arithmetic as the server's, in numpy.

Sampling rule: at each whole multiple of the step in (start, end] the newest sample of at most five minutes of each
series counts. What is dropped is dropped before devices are joined; the largest of a device's series is its value.
"""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

LOOK_BACK_SECONDS = 300
START = 1_700_000_000 - 1_700_000_000 % 7200  # a block of Prometheus begins here
BLANKS = (2147483632.0, 2147483635.0, 9.223372036854776e18, 140737488355328.0, math.nan, -1.0)


@dataclass(frozen=True)
class Made:
    family: str
    labels: Mapping[str, str]
    samples: tuple[tuple[float, float], ...]  # (Unix seconds, value)


def every(
    seconds: float, start: float, end: float, value: Callable[[int], float], offset: float = 1.0
) -> tuple[tuple[float, float], ...]:
    """A scrape each so many seconds, ``offset`` after the grid so that no sample lies on a step."""
    count = int((end - start) / seconds)
    return tuple((start + offset + n * seconds, value(n)) for n in range(count))


def write_blocks(series: Iterable[Made], folder: Path) -> None:
    """A data folder of Prometheus, by `promtool tsdb create-blocks-from openmetrics`."""
    folder.mkdir(parents=True, exist_ok=True)
    text = folder.with_suffix(".om")
    families: dict[str, list[Made]] = {}
    for made in series:
        families.setdefault(made.family, []).append(made)
    with text.open("w") as out:
        for family, members in families.items():
            out.write(f"# TYPE {family} gauge\n")
            for made in members:
                labels = ",".join(f'{key}="{value}"' for key, value in made.labels.items())
                out.writelines(f"{family}{{{labels}}} {_number(value)} {when:.3f}\n" for when, value in made.samples)
        out.write("# EOF\n")
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "--quiet", str(text), str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    text.unlink()


def _number(value: float) -> str:
    return "NaN" if math.isnan(value) else repr(value)


# ---- the oracle ------------------------------------------------------------------------------------------------------


def at_steps(made: Made, start: float, end: float, step: float) -> list[float | None]:
    found: list[float | None] = []
    for n in range(1, round((end - start) / step) + 1):
        when = start + n * step
        seen = [v for t, v in made.samples if when - LOOK_BACK_SECONDS <= t <= when]
        found.append(seen[-1] if seen else None)
    return found


def joined(series: Iterable[Made], start: float, end: float, step: float, most: float) -> np.ndarray:
    """The device's values at the steps where any of its series has one within 0 … ``most``."""
    columns = [at_steps(made, start, end, step) for made in series]
    rows = [[v for v in row if v is not None and 0 <= v <= most] for row in zip(*columns, strict=True)]
    return np.array([max(row) for row in rows if row])


def statistics(values: np.ndarray) -> dict[str, float]:
    return {
        "mean": float(values.mean()),
        "low": float(np.quantile(values, 0.05)),
        "median": float(np.quantile(values, 0.5)),
        "high": float(np.quantile(values, 0.95)),
        "peak": float(values.max()),
        "deviation": float(values.std()),
    }


def steps_with(series: Iterable[Made], start: float, end: float, step: float) -> int:
    """Steps where the device shows anything at all."""
    columns = [at_steps(made, start, end, step) for made in series]
    return sum(any(v is not None for v in row) for row in zip(*columns, strict=True))


def changes(values: np.ndarray) -> int:
    return int((np.diff(values) != 0).sum())
