"""MIGPerf's measurements with the 1 Hz DCGM series that ran beside them (github.com/MLSysOps/MIGProfiler, MIT).

Tables are read by their columns, not by their names. Throughput is batch ÷ latency: the throughput column is wrong in
some of the published tables. A configuration that ran out of memory has latency 0. The series has one row per second
and GPU instance (``EntityId``, which means another instance in every sweep): a row's instance is the one whose mean
activity and memory in its window are those that its authors joined to it, else the one that held most memory.

The load of a window is constant, a closed loop over one batch for two minutes, but the readings are not: they move in
steps of some ten seconds between about half and all of a level, and hold a share of the idle minutes before.
"""

from __future__ import annotations

import csv
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from migsaw.model.boards import Board, Catalogue, Profile
from migsaw.model.telemetry import Device, Distribution, Series, Window

Floats = NDArray[np.float64]
PROFILE_IDS = re.compile(r"profile_(\d+)")
FILE_MEMORY = re.compile(r"_0*(\d+)g(?:_|\.)")
MEMORY_COLUMNS = ("instance_memory", "mig", "mig_profile", "profile", "gpu_instance", "instance")
SAME_MIB, SAME_ACTIVITY = 0.02, 0.02  # how near a window's means must be to the published ones


@dataclass(frozen=True)
class Run:
    """One configuration on one profile. ``activity`` and ``used_mib`` are empty where it ran out of memory."""

    profile: str
    throughput: float  # 0: out of memory
    start: float
    end: float
    activity: Floats
    used_mib: Floats


@dataclass(frozen=True)
class Configuration:
    """``runs``: by profile."""

    board: Board
    sweep: str
    model: str
    batch: int
    sequence: int
    runs: Mapping[str, Run]

    @property
    def label(self) -> str:
        return f"{self.sweep} {self.model} batch {self.batch}" + (f" seq {self.sequence}" if self.sequence else "")


def read_configurations(folder: Path, catalogue: Catalogue) -> list[Configuration]:
    """Sorted. Rows without a series, and rows whose window shows other means than published, are counted and left."""
    found: dict[tuple[str, str, str, int, int], dict[str, Run]] = defaultdict(dict)
    boards: dict[str, Board] = {}
    lost = 0
    for file in sorted(folder.rglob("dcgm.csv")):
        board = _board(file.relative_to(folder).parts[0], catalogue)
        if board is None:
            continue
        series, sweep = _series(file), str(file.parent.relative_to(folder))
        for table in sorted(file.parent.rglob("*.csv")):
            for row in _rows(table) if table != file else ():
                profile = _profile(board, row, table.name)
                if profile is None:
                    continue
                run = _run(row, profile, series)
                lost += run is None
                key = (board.key, sweep, row["model_name"], int(float(row["batch_size"])), _int(row, "seq_length"))
                boards[board.key] = board
                if run is not None and (row.get("gract_mean") or profile.name not in found[key]):
                    found[key][profile.name] = run
    if lost:
        print(f"{lost} rows whose window does not show what was published beside them are left out", file=sys.stderr)
    return [Configuration(boards[k[0]], k[1], k[2], k[3], k[4], runs) for k, runs in sorted(found.items())]


def device_of(configuration: Configuration, run: Run, **place: object) -> Device:
    """What an exporter would have told of the window: graphics activity and used memory, nothing else."""
    series = {
        "graphics": Series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", len(run.activity), distribution(run.activity)),
        "used": Series("DCGM_FI_DEV_FB_USED", len(run.used_mib), distribution(run.used_mib)),
    }
    return Device(
        gi_id=0, board=configuration.board.key, profile=run.profile, series=series, **place  # type: ignore[arg-type]
    )  # fmt: skip


def window_of(run: Run) -> Window:
    return Window(run.start, run.end, 1.0)


def distribution(values: Floats) -> Distribution:
    low, median, high = np.percentile(values, (5, 50, 95))
    return Distribution(
        float(values.mean()), float(low), float(median), float(high), float(values.max()), float(values.std())
    )


def _rows(table: Path) -> Iterator[dict[str, str]]:
    with table.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            if row.get("latency") and row.get("batch_size") and row.get("model_name") and "start_timestamp" in row:
                yield row


def _run(row: dict[str, str], profile: Profile, series: Mapping[int, Floats]) -> Run | None:
    latency, start, end = float(row["latency"]), float(row["start_timestamp"]), float(row["end_timestamp"])
    if not latency > 0 or float(row.get("throughput") or 1) <= 0 or start <= 0:
        return Run(profile.name, 0.0, start, end, np.empty(0), np.empty(0))
    windows = [s[(s[:, 0] >= start) & (s[:, 0] <= end)] for _, s in sorted(series.items())]
    windows = [w for w in windows if len(w)]
    if not windows:
        return None
    memory, activity = (float(row.get(name) or 0) for name in ("fb_used_mean", "gract_mean"))
    if memory > 0:
        best = min(windows, key=lambda w: abs(w[:, 2].mean() / memory - 1) + abs(w[:, 1].mean() - activity))
        if abs(best[:, 2].mean() / memory - 1) > SAME_MIB or abs(best[:, 1].mean() - activity) > SAME_ACTIVITY:
            return None
    else:
        best = max(windows, key=lambda w: w[:, 2].mean())
    batch = float(row["batch_size"])
    return Run(profile.name, batch / latency, start, end, best[:, 1], best[:, 2])


def _series(file: Path) -> dict[int, Floats]:
    """EntityId → rows of (Unix seconds, activity, MiB)."""
    rows: dict[int, list[tuple[float, float, float]]] = defaultdict(list)
    with file.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            try:
                values = (float(row["TimeStamp"]), float(row["GRACT"]), float(row["FBUSD"]))
            except (KeyError, ValueError):  # N/A: DCGM had no value in that second
                continue
            rows[int(row["EntityId"])].append(values)
    return {entity: np.array(values) for entity, values in rows.items()}


def _profile(board: Board, row: Mapping[str, str], name: str) -> Profile | None:
    """By a column, else by the file's name: a name, a role, GB (of 3g where 4g has as much) or a profile id."""
    text = next((row[c] for c in MEMORY_COLUMNS if row.get(c)), None)
    if text is None and (found := PROFILE_IDS.search(name)):
        return board.by_id(int(found.group(1)))
    if text is None:
        found = FILE_MEMORY.search(name)
        text = found.group(1) if found else ""
    plain = [p for p in board.profiles if p.is_plain and p.role in ("1g", "2g", "3g", "7g")]
    if named := re.search(r"\dg\.\d+gb", text):
        return board.find(named.group())
    if role := re.fullmatch(r"\s*(\dg)\s*", text):
        return next((p for p in plain if p.role == role.group(1)), None)
    digits = re.search(r"(\d+)\s*(?:gb|g)?$", text.strip().lower().removesuffix(".0"))
    number = int(digits.group(1)) if digits else -1
    return next((p for p in plain if p.name.endswith(f".{number}gb")), None) or board.by_id(number)


def _board(name: str, catalogue: Catalogue) -> Board | None:
    memory = re.search(r"(\d+)g", name.lower())
    return catalogue.find(f"a100-sxm4-{memory.group(1)}gb") if memory and "a100" in name.lower() else None


def _int(row: Mapping[str, str], column: str) -> int:
    return int(float(row.get(column) or 0))
