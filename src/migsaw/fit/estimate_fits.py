"""A static estimate as the fit that a plan reads, and how it joins what a fits file already knows.

The upper end of the memory range decides: what only may hold the work is named, and never given.
"""

from __future__ import annotations

from collections.abc import Sequence

from migsaw.fit.estimate import doubled, profiles, total
from migsaw.model.boards import Board
from migsaw.model.fits import Fit, Fits, MemoryNeed, Option, WorkloadRef
from migsaw.model.workload_shape import Estimate, ProfileNeed


def fit_of_estimate(found: Estimate, ref: WorkloadRef, boards: Sequence[Board], asked: str) -> Fit:
    """``asked``: the set-up in words. Every plain profile of the boards is an option, smallest first."""
    need = total(found)
    options = tuple(_option(found, row, board) for board in boards for row in profiles(found, board))
    return Fit(
        ref,
        "estimated",
        options,
        confidence=f"by the configuration of {found.model.name} ({asked})",
        because=f"needs {need.low_mib} to {need.high_mib} MiB over all slices; the upper end decides",
        next_step="`migsaw profile` measures it",
    )


def _option(found: Estimate, row: ProfileNeed, board: Board) -> Option:
    need = MemoryNeed(peak=row.need.high_mib, margin=0, limit=row.memory_mib)
    is_slow = row.profile in doubled(board, found.setup)
    fits = row.verdict == "holds" and not is_slow
    return Option(board.key, row.profile, fits, need, reason=_reason(row, is_slow))


def _reason(row: ProfileNeed, is_slow: bool) -> str:
    shown = f"{row.need.low_mib} to {row.need.high_mib} MiB in {row.memory_mib}"
    if row.verdict == "holds":
        return "holds it, with about half the SMs of the 2g: not for training" if is_slow else "OK"
    if row.verdict == "may hold":
        return f"may hold it ({shown}): measure first"
    return f"too small ({shown})" if row.verdict == "too small" else "memory of this profile or need is not known"


def merged(known: Fits, fit: Fit) -> tuple[Fits, Fit | None]:
    """The fits with this one in place of an estimate of the same workload, else at the end.

    A row that rests on anything else than an estimate stays as it is: then it is the second value.
    """
    same = [n for n, row in enumerate(known.fits) if row.workload == fit.workload]
    better = next((known.fits[n] for n in same if known.fits[n].source != "estimated"), None)
    if better is not None:
        return known, better
    place = same[0] if same else len(known.fits)
    after = [row for n, row in enumerate(known.fits) if n > place and n not in same]
    return Fits((*known.fits[:place], fit, *after)), None
