"""Computes ``src/migsaw/catalogue/facets.json``: the facets of every board's packing polytope, with their proof.

    python tools/make_facets.py            writes the file (half a minute)
    python tools/make_facets.py --check    exit 1 if it differs from what is there

Everything is in exact integers. The proof, per table, is recorded in the file and re-made by tests/packing:

1. the facets are those of the hull of all feasible multisets (double description), and the vertices of what they
   describe are feasible multisets (double description once more, the other way round);
2. integer decomposition: every lattice point of k times the polytope is a feasible multiset plus a lattice point of k-1
   times it. Tried for k = 2 ... d at every point whose last count is the largest possible (a smaller count is served by
   taking instances away). For k > d a point is a combination of at most d+1 vertices whose weights sum to k, so one
   weight is at least 1 and that vertex can be taken off (Caratheodory). Profiles that can always stand for each other
   count as one (d is their number).

So ceil(max of the facets) GPUs are needed and enough, for any number of instances.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from migsaw.cli.shared import load_catalogue
from migsaw.model.boards import Board
from migsaw.model.layouts import StateSpace
from migsaw.plan.packing.facets import Facet, canonical, geometry_sha256, merge_alike
from migsaw.plan.packing.hull import Vector, facets, maximal, vertices

TARGET = Path(__file__).resolve().parents[1] / "src/migsaw/catalogue/facets.json"


def main() -> int:
    text = document()
    if sys.argv[1:] == ["--check"]:
        return int(TARGET.read_text(encoding="utf-8") != text)
    TARGET.write_text(text, encoding="utf-8")
    return 0


def document() -> str:
    tables: dict[str, dict[str, Any]] = {}
    for board, label in variants():
        multisets = tuple(StateSpace(board, tuple(p.name for p in canonical(board))).multisets)
        key = json.dumps(sorted(multisets))
        if key not in tables:
            tables[key] = table(board, multisets)
        geometry = {"sha256": geometry_sha256(board), "first": label}
        if all(known["sha256"] != geometry["sha256"] for known in tables[key]["geometries"]):
            tables[key]["geometries"].append(geometry)
    rows = ",\n".join(written(row) for row in tables.values())
    return f'{{"schema": "migsaw/facets/v1", "tables": [\n{rows}\n]}}\n'


def variants() -> Iterator[tuple[Board, str]]:
    """Every board whose placements are known: all its profiles, and the plain ones (what older drivers report)."""
    for board in load_catalogue().boards:
        if board.placements_known:
            yield board, f"{board.key}, all profiles"
            yield (
                replace(board, profiles=tuple(p for p in board.profiles if p.is_plain)),
                f"{board.key}, plain profiles",
            )


def table(board: Board, multisets: tuple[Vector, ...]) -> dict[str, Any]:
    merged, columns = merge_alike(multisets)
    rows = facets(merged)
    tops, known = vertices(rows), set(merged)
    assert all(denominator == 1 and top in known for top, denominator in tops), "a vertex is no feasible multiset"
    counts = {k: check_decomposition(rows, merged, k) for k in range(2, len(merged[0]) + 1)}
    found = sorted((tuple(weights[c] for c in columns), limit) for weights, limit in rows)
    return {
        "roles": [p.role for p in canonical(board)],
        "facets": [{"weights": list(weights), "limit": limit} for weights, limit in found],
        "maximal": [list(top) for top in maximal(multisets)],
        "proof": {
            "method": "integer decomposition, enumerated",
            "feasible_multisets": len(multisets),
            "dimension": len(merged[0]),
            "points_tried": {str(k): n for k, n in counts.items()},
            "exceptions": 0,
        },
        "geometries": [],
    }


def check_decomposition(rows: Sequence[Facet], multisets: Sequence[Vector], k: int) -> int:
    """How many points were tried; raises at the first that cannot be taken apart."""
    order = sorted(range(len(multisets[0])), key=lambda i: -sum(w[i] / q for w, q in rows))
    turned = [(tuple(w[i] for i in order), q) for w, q in rows]
    parts = sorted((tuple(v[i] for i in order) for v in multisets if any(v)), key=lambda v: (-sum(v), v))
    loads = [tuple(dot(w, part) for w, _ in turned) for part in parts]
    tried = 0
    for point in top_points(turned, k):
        tried += 1
        over = [dot(w, point) - (k - 1) * q for w, q in turned]
        if not any(
            all(a <= b for a, b in zip(over, load, strict=True))
            and all(a <= b for a, b in zip(part, point, strict=True))
            for part, load in zip(parts, loads, strict=True)
        ):
            raise AssertionError(f"k = {k}: {point} in the order {order} cannot be taken apart")
    return tried


def top_points(rows: Sequence[Facet], k: int) -> Iterator[Vector]:
    """Lattice points of k times the polytope whose last count cannot be raised."""
    size = len(rows[0][0])

    def grow(head: Vector, left: list[int]) -> Iterator[Vector]:
        most = min(room // w[len(head)] for (w, _), room in zip(rows, left, strict=True) if w[len(head)])
        if len(head) == size - 1:
            yield (*head, most)
            return
        for n in range(most + 1):
            yield from grow((*head, n), [room - n * w[len(head)] for (w, _), room in zip(rows, left, strict=True)])

    yield from grow((), [k * q for _, q in rows])


def dot(weights: Vector, counts: Vector) -> int:
    return sum(w * n for w, n in zip(weights, counts, strict=True))


def written(row: dict[str, Any]) -> str:
    """One key a line, so that a change can be read."""
    lines = [f' "{key}": {json.dumps(value)}' for key, value in row.items()]
    return "{\n" + ",\n".join(lines) + "\n}"


if __name__ == "__main__":
    sys.exit(main())
