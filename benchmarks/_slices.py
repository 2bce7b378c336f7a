"""Measured throughput per slice from a table with the columns of ``measured_slice_performance.csv``."""

from __future__ import annotations

import csv
import re
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from migsaw.cli.shared import load_catalogue
from migsaw.fit.curve import Slot
from migsaw.fit.curve_prior import Curve
from migsaw.model.boards import Board, Catalogue

Key = tuple[str, str, str, str, int, tuple[tuple[str, str], ...]]

# what of the notes makes two rows different configurations of one model
CONDITIONS = re.compile(r"\b(procs|seq_len|sweep|streams|concurrency)=(\w+)")


@dataclass
class Group:
    """One configuration of one model on one board: what was measured on each profile."""

    source: str
    model: str
    task: str
    batch: int
    conditions: tuple[tuple[str, str], ...]
    board: Board
    throughput: dict[str, float] = field(default_factory=dict)  # profile → per second
    latency_ms: dict[str, float] = field(default_factory=dict)
    memory_gb: dict[str, float] = field(default_factory=dict)

    @property
    def slots(self) -> tuple[Slot, ...]:
        return slots_of(self.board)

    @property
    def curve(self) -> Curve:
        return Curve(self.task, self.model, self.throughput, self.slots)


def slots_of(board: Board) -> tuple[Slot, ...]:
    """1g, 2g, 3g, 4g and the full-size profile, as far as the board has them, ascending."""
    plain = [p for p in board.profiles if p.role in ("1g", "2g", "3g", "4g", "7g") and p.sm_count and p.memory_slices]
    slots = (Slot(p.name, p.sm_count or 0, p.memory_slices or 0) for p in plain)
    return tuple(sorted(slots, key=lambda s: (s.sms, s.memory_slices)))


def read_groups(path: Path) -> list[Group]:
    """Rows of boards that nobody knows, of GPUs with MIG off and without a throughput are left out."""
    if not path.is_file():
        print(f"{path} is not here", file=sys.stderr)
        sys.exit(2)
    catalogue = load_catalogue()
    alike: dict[Key, list[dict[str, str]]] = defaultdict(list)
    with path.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            conditions = tuple(sorted(set(CONDITIONS.findall(row.get("notes") or ""))))
            alike[row["source"], row["gpu"], row["model"], row["task"], int(row["batch"] or 0), conditions].append(row)
    groups = []
    for (source, gpu, model, task, batch, conditions), rows in alike.items():
        board = board_named(gpu, catalogue)
        if board is not None:
            group = Group(source, model, task, batch, conditions, board)
            for column in ("throughput", "latency_ms", "memory_gb"):
                _fill(getattr(group, column), column, rows, group)
            if group.throughput:
                groups.append(group)
    return groups


def _fill(found: dict[str, float], column: str, rows: list[dict[str, str]], group: Group) -> None:
    """The mean of the rows of a profile; 0 stands for a run that ended, and is no measurement."""
    values: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        profile = group.board.find(row["profile"])
        if profile and profile.name in {s.name for s in group.slots} and row.get(column) and float(row[column]) > 0:
            values[profile.name].append(float(row[column]))
    found.update({name: sum(mine) / len(mine) for name, mine in values.items()})


def board_named(name: str, catalogue: Catalogue) -> Board | None:
    """``A100-40GB`` names several boards with the same slices; any of them will do."""
    found = catalogue.find(name) or catalogue.find(f"NVIDIA {name}")
    words = set(re.split(r"[-_ ]", name.lower()))
    return found or next((b for b in catalogue.boards if words <= set(b.key.split("-"))), None)
