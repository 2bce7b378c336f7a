"""A snapshot as a table: what is there, with busy, idle in use, free and stranded kept apart, and what is in doubt.

The unit is the board's compute slice. What cannot be known (a board without geometry, a layout that nobody showed) is
n/a or counted as not known, never as free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple
from itertools import groupby

from migsaw.fit.rules import is_idle
from migsaw.model.boards import Board, Catalogue
from migsaw.model.layouts import Placed
from migsaw.model.snapshot import Gpu, Instance, Node, Note, Snapshot
from migsaw.plan.shares import Shares, shares_of
from migsaw.report.glyphs import UNSURE, glyph, legend
from migsaw.report.plan import ranges
from migsaw.report.table import Column, Table, na

MOST_NOTES = 12  # shown below the table; the snapshot has all


def snapshot_table(snapshot: Snapshot, catalogue: Catalogue) -> Table:
    """GPUs of a node that look alike share a row; the last line counts."""
    rows: list[tuple[str, ...]] = []
    total, unmeasured = Shares(), 0
    for node in snapshot.nodes:
        lines = [_line(node, gpu, catalogue) for gpu in node.gpus]
        total = sum((shares for _, shares, _ in lines if shares), total)
        unmeasured += sum(shares is None for _, shares, _ in lines)
        for alike, group in groupby(lines, key=lambda line: (line[1], line[2])):
            rows.append(_row(node, [index for index, _, _ in group], *alike))
    boards = {row[2] for row in rows}
    columns = (
        Column("node"),
        Column("GPU", right=True),
        Column("board", wide=len(boards) == 1, whole=True),
        Column("owner"),
        Column("MIG"),
        Column("layout", whole=True),
        Column("busy", right=True),
        Column("idle in use", right=True),
        Column("free", right=True),
        Column("stranded", right=True),
        Column("not known", right=True),
        Column("held by", wide=True),
    )
    title = f"What is there, all {next(iter(boards))}" if len(boards) == 1 else "What is there"
    footer = _footer(snapshot, [row[5] for row in rows], total, unmeasured)
    return Table(columns, tuple(rows), title, footer)


def _line(node: Node, gpu: Gpu, catalogue: Catalogue) -> tuple[int, Shares | None, tuple[str, ...]]:
    board = catalogue.find(gpu.board or "")
    name = gpu.board or gpu.product or na("not known")
    return gpu.index, shares_of(gpu, board), (name, node.owner, gpu.mig, layout_glyph(gpu, board), _holders(gpu))


def _row(node: Node, indices: Sequence[int], shares: Shares | None, words: tuple[str, ...]) -> tuple[str, ...]:
    """GPUs that look alike: their slices are added up."""
    amounts = [str(n * len(indices)) for n in astuple(shares)] if shares else [na("no geometry"), *["n/a"] * 4]
    return (node.name, ranges(indices), *words[:-1], *amounts, words[-1])


def layout_glyph(gpu: Gpu, board: Board | None) -> str:
    """``[3g*|1g|1g?]``; ``[off*]`` a whole GPU; ``[?]`` where what it holds is not known."""
    if gpu.instances:
        words = {state: [_word(i) for i in gpu.instances if i.state == state] for state in ("busy", "unknown")}
        idle = [_word(i) for i in gpu.instances if i.state == "busy" and is_idle(i.activity)]
        return glyph(board, tuple(_word(i) for i in gpu.instances), words["busy"], idle, words["unknown"])
    if gpu.mig == "on" and gpu.state == "idle":
        return glyph(board, ())
    if gpu.mig in ("off", "pending"):
        is_idle_in_use = gpu.state == "busy" and is_idle(gpu.activity)
        word = ("off",)
        return glyph(
            board,
            word,
            word if gpu.state == "busy" else (),
            word if is_idle_in_use else (),
            word if gpu.state == "unknown" else (),
        )
    return f"[{UNSURE}]"


def _word(instance: Instance) -> str:
    return str(Placed(instance.profile, instance.start))


def _holders(gpu: Gpu) -> str:
    owners = [item.owner for item in gpu.instances if item.owner] + ([gpu.owner] if gpu.owner else [])
    return ", ".join(sorted({str(owner) for owner in owners}))


def _footer(snapshot: Snapshot, glyphs: Sequence[str], total: Shares, unmeasured: int) -> tuple[str, ...]:
    signs = legend(glyphs)
    lines = [signs] if signs else []
    lines.append("In compute slices. free: nobody holds it; stranded: no profile can use it.")
    loud = [note for note in snapshot.notes if note.severity != "info"]
    lines += [_note_line(note) for note in loud[:MOST_NOTES]]
    if len(loud) > MOST_NOTES:
        lines.append(f"… and {len(loud) - MOST_NOTES} more notes in the snapshot")
    return (*lines, _counts(snapshot, total, unmeasured))


def _note_line(note: Note) -> str:
    where = f"{note.file}, {note.where}: " if note.file and note.where else f"{note.file}: " if note.file else ""
    return f"{note.severity}: {where}{note.text}"


def _counts(snapshot: Snapshot, total: Shares, unmeasured: int) -> str:
    gpus = sum(len(node.gpus) for node in snapshot.nodes)
    waiting = sum(pod.node is None for pod in snapshot.pods)
    severities = Counter(note.severity for note in snapshot.notes)
    slices = (
        f"{sum(astuple(total))} slices: {total.busy} busy, {total.idle_in_use} idle in use, {total.free} free, "
        f"{total.stranded} stranded, {total.unknown} not known"
    )
    without = f" and {_n(unmeasured, 'GPU')} of no known geometry" if unmeasured else ""
    notes = ", ".join(_n(severities[s], s) for s in ("error", "warning") if severities[s]) or "no warnings"
    return (
        f"{_n(gpus, 'GPU')} on {_n(len(snapshot.nodes), 'node')}, {slices}{without}. "
        f"Pods that ask for GPUs: {len(snapshot.pods) - waiting} placed, {waiting} waiting. {notes}."
    )


def _n(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
