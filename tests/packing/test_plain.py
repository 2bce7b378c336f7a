"""Plain instances on one board: the closed form, the peeled plan at any size, and no solver."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from fractions import Fraction

from packing_draw import CATALOGUE, TABLE
from packing_oracle import CLOSED_FORM, DIVISORS, Oracle, fits_together

from migsaw.model.boards import Board
from migsaw.model.demand import Entry, plain_demand
from migsaw.plan.packing import pack

EIGHT = ("a100-sxm4-80gb", "h100-nvl-94gb", "h200-sxm5-141gb", "b200-180gb")


def closed_form(board: Board, counts: dict[str, int]) -> int:
    rows = [(CLOSED_FORM[board.profile(name).role], n) for name, n in counts.items()]
    return max(-(-sum(weights[k] * n for weights, n in rows) // d) for k, d in enumerate(DIVISORS))


def test_closed_form_up_to_a_million_million_instances() -> None:
    rng = random.Random(4)
    for _ in range(300):
        board = CATALOGUE.board(rng.choice(EIGHT))
        most = 10 ** rng.randint(1, 12)
        counts = {p.name: rng.randint(0, most) for p in board.profiles if p.is_plain}
        found = pack(plain_demand([Entry("pool", board)], {"pool": counts}), TABLE)
        assert found.optimal
        assert found.gpus == {"pool": closed_form(board, counts)}
        made: Counter[str] = Counter()
        for row in found.layouts:
            assert fits_together(board, tuple((p.profile, p.start) for p in row.layout))
            for placed in row.layout:
                made[placed.profile] += row.count
        assert made == Counter({name: n for name, n in counts.items() if n})
        assert sum(row.count for row in found.layouts) == found.total
        assert len(found.layouts) <= 30


def test_rows_of_equal_placements_are_one() -> None:
    board = CATALOGUE.board("a100-sxm4-80gb")
    found = pack(plain_demand([Entry("pool", board)], {"pool": {"1g.10gb": 700, "3g.40gb": 90}}), TABLE)
    layouts = [row.layout for row in found.layouts]
    assert len(layouts) == len(set(layouts))


def test_no_solver_is_loaded_for_plain_instances() -> None:
    code = """
import sys
from migsaw import catalogue
from migsaw.cli.shared import load_catalogue
from migsaw.model.demand import Entry, plain_demand
from migsaw.plan.packing import pack, parse_facets
board = load_catalogue().board("a100-sxm4-80gb")
counts = {p.name: 10**12 for p in board.profiles}
pack(plain_demand([Entry("pool", board)], {"pool": counts}), parse_facets(catalogue.read("facets.json")))
assert not {"highspy", "numpy", "pydantic"} & set(sys.modules), "a solver was loaded"
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_geometry_that_a_driver_reported_is_packed_without_a_proof() -> None:
    """Starts that no board of the table has: the plan stands, and the bound holds, by another programme."""
    rng = random.Random(5)
    for number in range(40):
        board = CATALOGUE.board("a100-sxm4-80gb")
        starts = {p.profile_id: p.starts for p in board.profiles if p.is_plain and rng.random() < 0.8}
        starts = {i: tuple(s for s in found if rng.random() < 0.8) or found[:1] for i, found in starts.items()}
        reported = board.with_reported(starts)
        counts = {p.name: rng.randint(0, 20) for p in reported.profiles}
        demand = plain_demand([Entry("pool", reported, Fraction(2))], {"pool": counts})
        found, best = pack(demand, TABLE), Oracle(replace(demand)).optimum()
        assert found.lower_bound <= best <= found.objective, number
        assert found.objective <= best + 2, number
