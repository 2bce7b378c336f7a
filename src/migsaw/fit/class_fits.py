"""A workload of which only the class is known → its fit: the class's default profile on each board.

By memory alone, from a static estimate of an example. Whatever else is known of a workload beats it.
"""

from __future__ import annotations

from collections.abc import Iterable

from migsaw.fit.estimate_classes import Default, default
from migsaw.model.boards import Board
from migsaw.model.fits import Fit, MemoryNeed, Option, WorkloadRef
from migsaw.model.policy import Policy
from migsaw.model.workload_shape import WorkloadClass


def fit_of_class(ref: WorkloadRef, work: WorkloadClass, boards: Iterable[Board], policy: Policy) -> Fit:
    """One option a board; a board on which no profile can hold the class, or whose memory is not known, has none."""
    options = tuple(
        _option(board, found) for board in boards if (found := default(board, work, policy)).advice in _NAMED
    )
    return Fit(
        ref,
        "estimated",
        options,
        confidence=f"by its class alone ({work.assumes})",
        because=f"nothing but its class is known: {work.name}",
        next_step="`migsaw estimate` with its config.json, or `migsaw profile`",
        workload_class=work.name,
    )


_NAMED = ("slice", "whole GPU", "measure first")


def _option(board: Board, found: Default) -> Option:
    row = found.profile or found.perhaps
    assert row is not None
    need = MemoryNeed(peak=row.need.high_mib, margin=0, limit=row.memory_mib)
    return Option(board.key, row.profile, found.profile is not None, need, reason=_reason(found))


def _reason(found: Default) -> str:
    if found.profile is None:
        return "may hold it: measure first"
    if found.advice == "whole GPU":
        return "OK; it takes the whole GPU"
    return "OK" if found.perhaps is None else f"OK; {found.perhaps.profile} may do"
