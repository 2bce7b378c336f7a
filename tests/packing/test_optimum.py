"""The optimum of random demands, against an integer programme written from the geometry (``packing_oracle.py``).

A fixed part runs always. ``make soak`` runs the full size: for each scope 600 demands on one board and 250 on several.
"""

from __future__ import annotations

from collections import Counter

import pytest
from packing_draw import SCOPES, TABLE, draw
from packing_oracle import Oracle, fits_together

from migsaw.errors import InfeasibleError
from migsaw.model.demand import Demand
from migsaw.plan.packing import Packing, pack


def packed(demand: Demand) -> Packing | None:
    try:
        return pack(demand, TABLE)
    except InfeasibleError:
        return None


def judge(seed: str, scope, boards: int) -> str:
    """Compares one demand; returns what kind of answer it was."""
    demand = draw(seed, scope, boards)
    found, best = packed(demand), Oracle(demand).optimum()
    if best is None or found is None:
        assert best is found is None, seed
        return "infeasible"
    assert found.lower_bound <= best <= found.objective, seed
    assert found.optimal, f"{seed}: {found.objective}, at least {found.lower_bound}; the optimum is {best}"
    assert_legal(demand, found)
    return "priced" if demand.priced else "counted"


def assert_legal(demand: Demand, found: Packing) -> None:
    boards, supply = {e.name: e.board for e in demand.entries}, Counter()
    for row in found.layouts:
        assert fits_together(boards[row.entry], tuple((p.profile, p.start) for p in row.layout))
        supply.update({(row.entry, p.profile): 0 for p in row.layout})
        for placed in row.layout:
            supply[row.entry, placed.profile] += row.count
    used = Counter()
    for row in found.assignment:
        used[row.option.entry, row.option.profile] += row.instances
    assert all(n <= supply[slot] for slot, n in used.items())


@pytest.mark.parametrize("scope", SCOPES)
def test_one_board(scope, soak: bool) -> None:
    kinds = Counter(judge(f"one {scope} {i}", scope, 1) for i in range(600 if soak else 60))
    assert kinds["counted"] > 10


@pytest.mark.parametrize("scope", SCOPES)
def test_several_boards(scope, soak: bool) -> None:
    kinds = Counter(judge(f"several {scope} {i}", scope, 3) for i in range(250 if soak else 30))
    assert kinds["counted"] > 5
    assert kinds["priced"] > 5
