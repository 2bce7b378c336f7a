"""Trials replayed from a table of measured throughputs, with noise: the same code path without a GPU.

The table has the columns of ``measured_slice_performance.csv`` (gpu, model, task, batch, profile, throughput,
memory_gb; ``procs=N`` in notes). A profile without a row did not fit: its trial runs out of memory. The same seed gives
the same values.
"""

from __future__ import annotations

import csv
import math
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from migsaw.errors import InputError, Where
from migsaw.model.boards import Board, Catalogue
from migsaw.model.measurement import DeviceKind
from migsaw.model.trial import TrialSpec
from migsaw.observe.reading import decode, read_bytes
from migsaw.trial.events import Ended, Event, Memory, Running, Value

COLUMNS = ("gpu", "model", "task", "batch", "profile", "throughput")
NOISE = 0.03  # standard deviation of a second's throughput, as part of the mean
MEMORY_OF_NOISE = 0.5  # correlation of neighbouring seconds
STARTUP_SECONDS = 5.0
WARM_SECONDS = 10  # in which the throughput rises from half
GIB = 1024


@dataclass(frozen=True)
class SimulatedBackend:
    """``throughput`` per second and ``memory_mib`` by profile; trials differ by ``seed`` and profile."""

    throughput: Mapping[str, float]
    memory_mib: Mapping[str, int]
    profiles: tuple[str, ...]
    seed: int = 0
    noise: float = NOISE
    device: DeviceKind = "simulated"

    def slots(self) -> tuple[str, ...]:
        return self.profiles

    @contextmanager
    def trial(self, profile: str) -> Iterator[Running]:
        yield Running(self._events(profile), "simulated", "unknown", {"seed": str(self.seed)})

    def _events(self, profile: str) -> Iterator[Event]:
        """One value a second, without end, by a clock that nobody waits for."""
        if profile not in self.throughput:
            yield Ended(STARTUP_SECONDS, True, True, f"out of memory: the table has no row for {profile}")
            return
        chance = random.Random(f"{self.seed} {profile}")
        level, second = chance.gauss(0, 1), 0
        while True:
            now = STARTUP_SECONDS + second
            if profile in self.memory_mib:
                yield Memory(now, self.memory_mib[profile])
            warm = min(1.0, 0.5 + second / WARM_SECONDS / 2)
            yield Value(now, self.throughput[profile] * warm * max(0.0, 1 + self.noise * level))
            level = MEMORY_OF_NOISE * level + math.sqrt(1 - MEMORY_OF_NOISE**2) * chance.gauss(0, 1)
            second += 1


def simulated_backend(
    spec: TrialSpec, board: Board, catalogue: Catalogue, table: Path, seed: int = 0
) -> SimulatedBackend:
    """What the table says of the spec's model (fact ``model``, else its name), board, task, batch and processes.

    Raises :class:`InputError` where it says nothing, or speaks of several configurations.
    """
    rows = [row for row in _rows(table) if _is_of(row, spec, board, catalogue)]
    model = spec.workload.get("model", spec.name)
    if not rows:
        raise InputError(
            f"no row for model {model}, {spec.task}, batch {spec.batch}, {spec.processes} processes on {board.key}",
            where=Where(str(table)),
            hint="the spec's `workload: {model: …}`, `task`, `batch` and `processes` must be those of the table",
        )
    kinds = sorted({_configuration(row) for row in rows})
    if len(kinds) > 1:
        said = "; ".join(" ".join(kind) for kind in kinds)
        raise InputError(
            f"rows of {len(kinds)} configurations: {said}", where=Where(str(table)), hint="keep the rows of one"
        )
    memory = _means(rows, "memory_gb", board)
    return SimulatedBackend(
        throughput=_means(rows, "throughput", board),
        memory_mib={name: math.ceil(gib * GIB) for name, gib in memory.items()},
        profiles=tuple(p.name for p in board.profiles if p.is_plain),
        seed=seed,
    )


def _rows(table: Path) -> list[dict[str, str]]:
    reader = csv.DictReader(decode(read_bytes(table), str(table)).splitlines())
    if missing := [name for name in COLUMNS if name not in (reader.fieldnames or ())]:
        raise InputError(f"no column {missing[0]}", where=Where(str(table), "1"), hint=f"needed: {', '.join(COLUMNS)}")
    rows = [{key: value or "" for key, value in row.items() if key} for row in reader]
    for number, row in enumerate(rows, start=2):
        for name in ("batch", "throughput", "memory_gb"):
            if not re.fullmatch(r"|\d+(\.\d*)?([eE][-+]?\d+)?", row.get(name, "")):
                raise InputError(f"{row[name]!r} is no number", where=Where(str(table), str(number), name))
    return rows


def _is_of(row: Mapping[str, str], spec: TrialSpec, board: Board, catalogue: Catalogue) -> bool:
    processes = re.search(r"\bprocs=(\d+)", row.get("notes", ""))
    return (
        row["model"] == spec.workload.get("model", spec.name)
        and row["task"] == spec.task
        and (float(row["batch"] or 0) or None) == spec.batch
        and (int(processes[1]) if processes else 1) == spec.processes
        and _is_board(row["gpu"], board, catalogue)
    )


def _is_board(name: str, board: Board, catalogue: Catalogue) -> bool:
    """``A100-40GB`` names several boards with the same slices; any of them will do."""
    found = catalogue.find(name) or catalogue.find(f"NVIDIA {name}")
    words = set(re.split(r"[-_ ]", name.lower()))
    return found is board if found else words <= set(board.key.split("-"))


def _configuration(row: Mapping[str, str]) -> tuple[str, ...]:
    """What else makes rows of one model different things."""
    kinds = re.findall(r"\b(?:seq_len|sweep|streams|concurrency)=\w+", row.get("notes", ""))
    return (row.get("source", ""), *sorted(set(kinds)))


def _means(rows: Sequence[Mapping[str, str]], column: str, board: Board) -> dict[str, float]:
    """0 stands for a run that ended, and is no measurement."""
    values: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        profile = board.find(row["profile"])
        if profile and row.get(column) and float(row[column]) > 0:
            values[profile.name].append(float(row[column]))
    return {name: sum(mine) / len(mine) for name, mine in values.items()}
