"""The layout of a GPU that is cut anew: what is needed, then what it offered before, then the recommended fill.

The recommended fill leaves no compute or memory unused that slices could use, in as few and large slices as that
allows: 2g and 3g slices first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

from migsaw.model.boards import Board
from migsaw.model.layouts import Layout, Placed, StateSpace, arrange, by_start, fault
from migsaw.model.policy import Policy


def layout_for(board: Board, needed: Mapping[str, int], before: Layout, policy: Policy) -> Layout:
    """``needed`` must be feasible on the board."""
    names = sorted(Counter(needed).elements())
    kept = Counter(p.profile for p in before if board.find(p.profile)) - Counter(names)
    for name in sorted(kept.elements()):
        more = [*names, name]
        if policy.allows(board.profile(name)) and fault(board, [Placed(n) for n in more]) is None:
            names = more
    allowed = {p.name for p in board.profiles if p.is_plain and policy.allows(p)}
    filled = _best_completion(board, tuple(sorted(allowed | set(names))), tuple(sorted(names)), frozenset(allowed))
    found = arrange(board, [Placed(name) for name in filled])
    assert found is not None
    return found


def uniform_layout(board: Board, name: str, count: int) -> Layout:
    found = arrange(board, [Placed(name)] * count)
    assert found is not None
    return by_start(found)


@lru_cache(maxsize=32)
def _space(board: Board, names: tuple[str, ...]) -> StateSpace:
    return StateSpace(board, names)


@lru_cache(maxsize=1024)
def _best_completion(
    board: Board, names: tuple[str, ...], base: tuple[str, ...], allowed: frozenset[str]
) -> tuple[str, ...]:
    """The feasible multiset around ``base`` that uses most compute, then most memory, in the fewest instances."""
    start = Counter(base)
    best = min(
        (m for m in _space(board, names).multisets if _completes(dict(zip(names, m, strict=True)), start, allowed)),
        key=lambda m: _rank(board, names, m),
    )
    return tuple(Counter(dict(zip(names, best, strict=True))).elements())


def _completes(counts: Mapping[str, int], base: Counter[str], allowed: frozenset[str]) -> bool:
    return all(counts[name] == base[name] or (counts[name] > base[name] and name in allowed) for name in counts)


def _rank(board: Board, names: Iterable[str], counts: tuple[int, ...]) -> tuple[int, int, int, tuple[int, ...]]:
    profiles = [(board.profile(name), n) for name, n in zip(names, counts, strict=True)]
    compute = sum(p.compute_slices * n for p, n in profiles)
    memory = sum((p.memory_slices or 0) * n for p, n in profiles)
    return -compute, -memory, sum(counts), tuple(-n for n in counts)
