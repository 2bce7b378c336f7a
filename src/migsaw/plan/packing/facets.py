"""How instances of a board pack into GPUs: its facets, and the multisets that fit one GPU.

The facets are computed once, with a proof that they count GPUs exactly (``tools/make_facets.py``), and shipped with the
catalogue under a hash of the geometry. A geometry that is not in the table, such as one a driver reported, gets its
facets here, without the proof. See ``designs/0003-exact-packing.md``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product

from migsaw.model.boards import Board, Profile
from migsaw.model.layouts import StateSpace
from migsaw.plan.packing.hull import Vector, facets, maximal

Facet = tuple[Vector, int]  # weights.n <= limit for every multiset n that fits one GPU


@dataclass(frozen=True, slots=True)
class FacetRows:
    """One row of the table, columns in canonical order of the board's profiles."""

    facets: tuple[Facet, ...]
    maximal: tuple[Vector, ...]
    proof: str


@dataclass(frozen=True, slots=True)
class FacetTable:
    """Facets by :func:`geometry_sha256`."""

    rows: Mapping[str, FacetRows] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Shape:
    """What fits one GPU, over the profiles in play."""

    names: tuple[str, ...]
    facets: tuple[Facet, ...]
    fits: tuple[Vector, ...]  # every multiset that fits and is not empty, the fullest first
    proof: str | None  # None: the facets bound the number of GPUs, that they reach it is not proved

    def least(self, counts: Sequence[int]) -> int:
        """The fewest GPUs by the facets: exact with a proof, else a lower bound."""
        return max((-(-_dot(weights, counts) // limit) for weights, limit in self.facets), default=0)


def parse_facets(content: bytes) -> FacetTable:
    """The catalogue's ``facets.json``; it is checked by tests, not here."""
    rows: dict[str, FacetRows] = {}
    for table in json.loads(content)["tables"]:
        found = tuple((tuple(row["weights"]), row["limit"]) for row in table["facets"])
        value = FacetRows(found, tuple(tuple(v) for v in table["maximal"]), table["proof"]["method"])
        rows.update({geometry["sha256"]: value for geometry in table["geometries"]})
    return FacetTable(rows)


def canonical(board: Board) -> tuple[Profile, ...]:
    """The board's profiles in an order that its names do not decide (equal ones are interchangeable)."""
    return tuple(sorted(board.profiles, key=lambda p: (json.dumps(_traits(p)), p.name)))


def geometry_sha256(board: Board) -> str:
    """Hash of all that decides what fits: sizes, starts, counts, engines, totals. Names and memory are left out."""
    totals = [board.memory_slices, board.compute_slices, list(board.engine_totals)]
    text = json.dumps([totals, [_traits(p) for p in canonical(board)]])
    return hashlib.sha256(text.encode()).hexdigest()


def shape(board: Board, names: Iterable[str], table: FacetTable) -> Shape:
    """The shape of a board over some of its profiles (a face of the whole: its facets and proof are inherited).

    Raises InputError where the placements of the board are not known.
    """
    order = tuple(p.name for p in board.profiles if p.name in set(names))
    rows = table.rows.get(geometry_sha256(board))
    return _face(board, order, rows) if rows else _computed(board, order)


@cache
def _face(board: Board, names: tuple[str, ...], rows: FacetRows) -> Shape:
    columns = [[p.name for p in canonical(board)].index(name) for name in names]
    tops = maximal(tuple(top[c] for c in columns) for top in rows.maximal)
    cut = ((tuple(weights[c] for c in columns), limit) for weights, limit in rows.facets)
    return Shape(names, _strongest(cut), _parts(tops), rows.proof)


@cache
def _computed(board: Board, names: tuple[str, ...]) -> Shape:
    space = StateSpace(board, names)
    merged, columns = merge_alike(tuple(space.multisets))
    found = [(tuple(weights[c] for c in columns), limit) for weights, limit in facets(merged)]
    return Shape(names, _strongest(found), _parts(maximal(space.multisets)), None)


def merge_alike(multisets: Sequence[Vector]) -> tuple[tuple[Vector, ...], tuple[int, ...]]:
    """Profiles that stand for each other everywhere become one: (merged multisets, merged column per profile)."""
    known, size = set(multisets), len(multisets[0])
    first = list(range(size))
    for i in range(size):
        first[i] = next(j for j in range(i + 1) if first[j] == j and (i == j or _alike(known, j, i)))
    kept = [i for i in range(size) if first[i] == i]
    merged = {tuple(sum(v[i] for i in range(size) if first[i] == j) for j in kept) for v in multisets}
    return tuple(sorted(merged)), tuple(kept.index(j) for j in first)


def _alike(known: set[Vector], one: int, other: int) -> bool:
    """Whether any split of the two profiles' sum fits wherever one split does."""
    for v in known:
        total = v[one] + v[other]
        for n in range(total + 1):
            if tuple(n if i == one else total - n if i == other else x for i, x in enumerate(v)) not in known:
                return False
    return True


def _traits(profile: Profile) -> list[object]:
    media = "all" if profile.name.endswith("+me.all") else "none" if profile.name.endswith("-me") else ""
    starts = None if profile.starts is None else list(profile.starts)
    sizes = [profile.memory_slices, profile.compute_slices, starts, profile.max_instances]
    return [*sizes, list(profile.engines), media]


def _strongest(rows: Iterable[Facet]) -> tuple[Facet, ...]:
    """Without rows that another row implies."""
    found = {row for row in rows if any(row[0])}
    kept = [
        (w, q)
        for w, q in found
        if not any((v, r) != (w, q) and _implies((v, r), (w, q)) and not _implies((w, q), (v, r)) for v, r in found)
    ]
    return tuple(sorted(kept))


def _implies(strong: Facet, weak: Facet) -> bool:
    return all(a * weak[1] >= b * strong[1] for a, b in zip(strong[0], weak[0], strict=True))


def _parts(tops: Iterable[Vector]) -> tuple[Vector, ...]:
    found = {part for top in tops for part in product(*(range(n + 1) for n in top)) if any(part)}
    return tuple(sorted(found, key=lambda v: (-sum(v), tuple(-x for x in v))))


def _dot(weights: Sequence[int], counts: Sequence[int]) -> int:
    return sum(w * n for w, n in zip(weights, counts, strict=True))
