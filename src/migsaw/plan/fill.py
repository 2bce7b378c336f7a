"""The layout of a GPU that is cut anew: what is needed, then what it offered before, then 2g and 3g slices first."""

from __future__ import annotations

from collections.abc import Iterable

from migsaw.model.boards import Board, Profile
from migsaw.model.layouts import Layout, Placed, arrange, by_start, fault
from migsaw.model.policy import Policy

PREFERENCE = ("3g", "2g", "1g2m", "1g")  # the recommended order for slices that nobody asked for by name


def layout_for(board: Board, needed: Iterable[str], before: Layout, policy: Policy) -> Layout:
    """``needed`` must be feasible. Nothing is left uncut that a further slice could use."""
    names = sorted(needed)
    kept = [p.profile for p in by_start(before)]
    for name in _without(kept, names):
        profile = board.find(name)
        if profile and policy.allows(profile):
            names = _with(board, names, profile)
    for role in PREFERENCE:
        for profile in (p for p in board.profiles if p.role == role and policy.allows(p)):
            while (more := _with(board, names, profile)) != names:
                names = more
    found = arrange(board, [Placed(name) for name in names])
    assert found is not None and fault(board, found) is None
    return found


def uniform_layout(board: Board, name: str, count: int) -> Layout:
    found = arrange(board, [Placed(name)] * count)
    assert found is not None
    return found


def _with(board: Board, names: list[str], profile: Profile) -> list[str]:
    more = [*names, profile.name]
    return more if fault(board, [Placed(n) for n in more]) is None else names


def _without(names: list[str], taken: list[str]) -> list[str]:
    """The names left when each taken one has used up one equal."""
    rest = list(names)
    for name in taken:
        if name in rest:
            rest.remove(name)
    return rest
