"""Where a fleet's compute goes after a plan: in use, idle in use, promised, free and stranded are kept apart.

The unit is the board's compute slice. What cannot be known (a board without geometry) is n/a, never 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from migsaw.model.boards import Board, Catalogue
from migsaw.model.layouts import Placed, parse_placed
from migsaw.model.plan import GpuPlan, Plan, PodPlan
from migsaw.report.table import Column, Table, na

OFF = "off"
COLUMNS = (
    Column("board", whole=True),
    Column("GPUs", right=True),
    Column("slices", right=True),
    Column("in use", right=True),
    Column("idle in use", right=True),
    Column("promised", right=True),
    Column("free", right=True),
    Column("stranded", right=True),
)


@dataclass(slots=True)
class Sums:
    """Compute slices of one board."""

    gpus: int = 0
    slices: int = 0
    in_use: int = 0
    idle: int = 0
    promised: int = 0
    stranded: int = 0
    boards_unknown: bool = False
    stranded_unknown: bool = False

    @property
    def free(self) -> int:
        return self.slices - self.in_use - self.idle - self.promised - self.stranded


def capacity_table(plan: Plan, catalogue: Catalogue) -> Table:
    """One row for each board, and what the columns mean."""
    promised, wholes = _promises(plan.pods)
    sums: dict[str, Sums] = {}
    for gpu in sorted(plan.gpus, key=lambda g: (g.node, g.index)):
        board = catalogue.find(gpu.board or "")
        mine = sums.setdefault(gpu.board or "not known", Sums())
        mine.gpus += 1
        if board is None or not board.compute_slices:
            mine.boards_unknown = True
        elif gpu.after == (OFF,):
            _add_whole(mine, board, gpu, wholes)
        else:
            _add_cut(mine, board, gpu, promised)
    rows = tuple(_row(board, found) for board, found in sorted(sums.items()))
    footer = (
        "In compute slices. in use: a pod holds it or may; idle in use: held, no activity seen;",
        "promised: to pods that wait; stranded: no profile can use it.",
    )
    return Table(COLUMNS, rows, "Capacity after the plan", footer)


def _row(board: str, found: Sums) -> tuple[str, ...]:
    seen = [str(n) for n in (found.slices, found.in_use, found.idle, found.promised)]
    if found.boards_unknown:
        return (board, str(found.gpus), na("no geometry"), *["n/a"] * 5)
    rest = [na("not computed"), "n/a"] if found.stranded_unknown else [str(found.free), str(found.stranded)]
    return (board, str(found.gpus), *seen, *rest)


def _add_whole(sums: Sums, board: Board, gpu: GpuPlan, wholes: Counter[str]) -> None:
    slices = board.compute_slices or 0
    sums.slices += slices
    if OFF in gpu.idle_in_use:
        sums.idle += slices
    elif OFF in gpu.pinned:
        sums.in_use += slices
    elif wholes[gpu.node] > 0:
        sums.promised += slices
        wholes[gpu.node] -= 1


def _add_cut(sums: Sums, board: Board, gpu: GpuPlan, promised: Counter[tuple[str, str]]) -> None:
    compute = {name: _compute(board, name) for name in (*gpu.after, *gpu.pinned, *gpu.idle_in_use)}
    idle = sum(compute[name] for name in gpu.idle_in_use)
    sums.slices += board.compute_slices or 0
    if not gpu.after and not gpu.is_layout_known:  # nobody showed which instances there are
        sums.in_use += board.compute_slices or 0
        return
    sums.idle += idle
    sums.in_use += sum(compute[name] for name in gpu.pinned) - idle
    for name in (Counter(gpu.after) - Counter(gpu.pinned)).elements():
        key = gpu.node, parse_placed(name).profile
        if promised[key] > 0:
            promised[key] -= 1
            sums.promised += compute[name]
    if gpu.stranded is None:
        sums.stranded_unknown = True
    else:
        sums.stranded += gpu.stranded[0]


def _compute(board: Board, text: str) -> int:
    found = board.find(parse_placed(text).profile) if text != OFF else None
    return found.compute_slices if found else 0


def _promises(pods: Iterable[PodPlan]) -> tuple[Counter[tuple[str, str]], Counter[str]]:
    """Instances by node and profile, and whole GPUs by node, that the plan gives to pods that wait."""
    slices: Counter[tuple[str, str]] = Counter()
    wholes: Counter[str] = Counter()
    for pod in pods:
        if pod.after is None or pod.before is not None or pod.after == pod.before:
            continue
        number = sum(pod.asks.values()) or 1
        if pod.after.profile == OFF:
            wholes[pod.after.node] += number
        else:
            slices[pod.after.node, pod.after.profile] += number
    return slices, wholes


def instance_words(texts: Iterable[str]) -> str:
    """``2 × 1g.10gb, 1 × 3g.40gb``: instances by profile, without their places."""
    counts = Counter("whole GPU" if text == OFF else str(Placed(parse_placed(text).profile)) for text in texts)
    return ", ".join(f"{count} × {name}" for name, count in sorted(counts.items()))
