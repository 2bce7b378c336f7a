"""The shipped facets: against multisets enumerated here, against published figures, and their proof once more."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import product

import pytest
from ortools.linear_solver import pywraplp
from packing_oracle import multisets

from migsaw import catalogue
from migsaw.cli.shared import load_catalogue
from migsaw.plan.packing import parse_facets
from migsaw.plan.packing.facets import Shape, canonical, geometry_sha256, shape
from migsaw.plan.packing.hull import facets

CATALOGUE = load_catalogue()
KNOWN = [board for board in CATALOGUE.boards if board.placements_known]
TABLE = parse_facets(catalogue.read("facets.json"))
FAMILIES = ("a30-24gb", "a100-sxm4-80gb", "h100-sxm5-80gb", "b300-269gb", "rtx-pro-6000-blackwell-server")


def whole(key: str) -> Shape:
    board = CATALOGUE.board(key)
    return shape(board, [p.name for p in board.profiles], TABLE)


def plain(key: str) -> Shape:
    board = CATALOGUE.board(key)
    return shape(board, [p.name for p in board.profiles if p.is_plain], TABLE)


def dot(weights: tuple[int, ...], counts: tuple[int, ...]) -> int:
    return sum(w * n for w, n in zip(weights, counts, strict=True))


def test_every_board_with_known_placements_has_a_proof() -> None:
    assert {board.key for board in KNOWN if geometry_sha256(board) not in TABLE.rows} == set()


def test_names_do_not_enter_the_hash() -> None:
    """Boards of one silicon share a row, whatever their memory is called."""
    hashes = {
        key: geometry_sha256(CATALOGUE.board(key)) for key in ("a100-sxm4-40gb", "a100-pcie-80gb", "h100-nvl-94gb")
    }
    assert hashes["a100-sxm4-40gb"] == hashes["a100-pcie-80gb"] != hashes["h100-nvl-94gb"]


def test_published_closed_form_of_eight_slice_boards() -> None:
    """N = max(n4+n7, (n2+n3+2 n4+3 n7)/3, memory slices/8, compute slices/7), over 1g, double 1g, 2g, 3g, 4g, 7g."""
    expected = {
        ((0, 0, 0, 0, 1, 1), 1),
        ((0, 0, 1, 1, 2, 3), 3),
        ((1, 2, 2, 4, 4, 8), 8),
        ((1, 1, 2, 3, 4, 7), 7),
    }
    for key in ("a100-sxm4-80gb", "h200-sxm5-141gb", "b200-180gb", "b300-269gb"):
        assert set(plain(key).facets) == expected


def test_published_closed_form_of_four_slice_boards() -> None:
    for key in ("a30-24gb", "rtx-pro-6000-blackwell-server"):
        assert plain(key).facets == (((1, 2, 4), 4),)


@pytest.mark.parametrize(("key", "count"), [("a100-sxm4-80gb", 7), ("h100-sxm5-80gb", 7), ("a30-24gb", 3)])
def test_number_of_facets_with_media_engines(key: str, count: int) -> None:
    assert len(whole(key).facets) == count


@pytest.mark.parametrize("key", FAMILIES)
def test_lattice_points_of_the_facets_are_what_fits(key: str) -> None:
    found = whole(key)
    every = multisets(CATALOGUE.board(key), found.names)
    assert {(0,) * len(found.names), *found.fits} == every
    assert set(inside(found, 1)) == every


@pytest.mark.parametrize("key", FAMILIES)
def test_facets_are_the_hull_and_not_more(key: str) -> None:
    """The linear programme over the facets and the best multiset agree for any values, so no vertex is a fraction."""
    found, rng = whole(key), random.Random(key)
    solver = pywraplp.Solver.CreateSolver("GLOP")
    counts = [solver.NumVar(0, solver.infinity(), name) for name in found.names]
    for weights, limit in found.facets:
        solver.Add(sum(w * n for w, n in zip(weights, counts, strict=True)) <= limit)
    for _ in range(200):
        values = tuple(rng.randint(0, 100) for _ in found.names)
        solver.Maximize(sum(value * n for value, n in zip(values, counts, strict=True)))
        assert solver.Solve() == solver.OPTIMAL
        assert solver.Objective().Value() == pytest.approx(max(dot(values, v) for v in found.fits))


@pytest.mark.parametrize("key", FAMILIES)
def test_integer_decomposition(key: str, soak: bool) -> None:
    """A lattice point of k times the polytope is a multiset plus one of k-1 times it: for k = 2 all, else some."""
    found, rng = whole(key), random.Random(key)
    small = merged(found)
    for k in range(2, len(small.names) + 1):
        if soak or k == 2:
            shown, points = small, inside(small, k)
        else:
            shown = found
            points = (some_point(found, k, rng) for _ in range(300))
        for point in points:
            assert any(splits(shown, point, part, k) for part in shown.fits) or not any(point), (k, point)


def merged(found: Shape) -> Shape:
    """Without profiles whose column is that of another: any split of their sum is as good."""
    columns = [tuple(weights[i] / limit for weights, limit in found.facets) for i in range(len(found.names))]
    keep = [i for i, column in enumerate(columns) if column not in columns[:i]]
    keep.sort(key=lambda i: -sum(columns[i]))  # the least demanding last: fewer points to try

    def cut(row: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(row[i] for i in keep)

    fits = {cut(v) for v in found.fits if not any(n for i, n in enumerate(v) if i not in keep)}
    return Shape(cut_names(found, keep), tuple((cut(w), q) for w, q in found.facets), tuple(fits), found.proof)


def cut_names(found: Shape, keep: list[int]) -> tuple[str, ...]:
    return tuple(found.names[i] for i in keep)


def splits(found: Shape, point: tuple[int, ...], part: tuple[int, ...], k: int) -> bool:
    rest = tuple(a - b for a, b in zip(point, part, strict=True))
    return min(rest) >= 0 and all(dot(w, rest) <= (k - 1) * q for w, q in found.facets)


def inside(found: Shape, k: int) -> Iterator[tuple[int, ...]]:
    """All lattice points n >= 0 with weights.n <= k * limit, the last count the largest possible where k > 1."""

    def grow(head: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(head) == len(found.names):
            yield head
            return
        column = len(head)
        most = min((k * q - dot(w[:column], head)) // w[column] for w, q in found.facets if w[column])
        last = column == len(found.names) - 1 and k > 1
        for n in range(most if last else 0, most + 1):
            yield from grow((*head, n))

    yield from grow(())


def some_point(found: Shape, k: int, rng: random.Random) -> tuple[int, ...]:
    """A random point to which nothing can be added."""
    point = [0] * len(found.names)
    open_ones = list(range(len(point)))
    while open_ones:
        i = rng.choice(open_ones)
        point[i] += 1
        if any(dot(w, tuple(point)) > k * q for w, q in found.facets):
            point[i] -= 1
            open_ones.remove(i)
    return tuple(point)


def test_proof_record_says_what_was_tried() -> None:
    for row in json.loads(catalogue.read("facets.json"))["tables"]:
        proof = row["proof"]
        assert proof["exceptions"] == 0
        assert [int(k) for k in proof["points_tried"]] == list(range(2, proof["dimension"] + 1))


def test_a_geometry_without_a_row_gets_the_same_facets_without_a_proof() -> None:
    for key in ("a100-sxm4-80gb", "a30-24gb"):
        board = CATALOGUE.board(key)
        names = [p.name for p in board.profiles if p.is_plain]
        computed = shape(board, names, parse_facets(b'{"tables": []}'))
        assert computed.proof is None
        assert (computed.facets, set(computed.fits)) == (plain(key).facets, set(plain(key).fits))


def test_hull_of_a_square_cut_at_a_corner() -> None:
    points = [p for p in product(range(4), repeat=2) if sum(p) <= 5]
    assert facets(points) == (((0, 1), 3), ((1, 0), 3), ((1, 1), 5))


def test_canonical_order_ignores_names() -> None:
    first, second = CATALOGUE.board("a100-sxm4-40gb"), CATALOGUE.board("a800-80gb")
    assert [p.role for p in canonical(first)] == [p.role for p in canonical(second)]
