"""Random demands for the tests, by kind. A demand depends on its seed alone."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

from migsaw import catalogue
from migsaw.cli.shared import load_catalogue
from migsaw.model.boards import Board
from migsaw.model.demand import Demand, Entry, Group, Need, Option, Scope
from migsaw.plan.packing import parse_facets

CATALOGUE = load_catalogue()
TABLE = parse_facets(catalogue.read("facets.json"))

SCOPES: tuple[Scope, ...] = ("gpu", "node", "pool", "pool_layout")


def draw(seed: str, scope: Scope, boards: int) -> Demand:
    """Up to ``boards`` entries; with several, or a scope that is not gpu, also prices, limits, rates and groups."""
    rng = random.Random(seed)
    known = [b for b in CATALOGUE.boards if b.placements_known]
    if scope == "pool":  # AKS makes nothing of the four-slice boards
        known = [b for b in known if b.memory_slices == 8]
    entries = [_entry(rng, i, rng.choice(known), scope, boards) for i in range(rng.randint(min(boards, 2), boards))]
    if rng.random() < 0.5:
        digits = rng.choice([0, 1, 2])
        entries = [replace(e, usd_per_hour=Fraction(str(round(rng.uniform(0.5, 9.9), digits)))) for e in entries]
    needs = [_instances(rng, f"i{n}", entries) for n in range(rng.randint(1, 4))]
    if boards > 1 or rng.random() < 0.5:
        needs += [_workload(rng, f"w{n}", entries) for n in range(rng.randint(0, 4))]
    groups = []
    if rng.random() < 0.3:
        groups = [_group(rng, f"g{n}", max(e.gpus_per_node for e in entries)) for n in range(rng.randint(1, 2))]
    return Demand(tuple(entries), tuple(needs), tuple(groups))


def _entry(rng: random.Random, index: int, board: Board, scope: Scope, boards: int) -> Entry:
    mixed: Scope = rng.choice(SCOPES) if boards > 1 and rng.random() < 0.3 and board.memory_slices == 8 else scope
    limit = rng.randint(2, 12) * 2 if rng.random() < 0.2 else None
    return Entry(f"e{index}", board, None, limit, rng.choice([1, 2, 4, 8]), mixed)


def _names(board: Board, entry: Entry, rng: random.Random) -> list[str]:
    plain = rng.random() < 0.6
    names = [p.name for p in board.profiles if entry.can_make(p.name) and (p.is_plain or not plain)]
    return names or [p.name for p in board.profiles if p.is_plain]


def _options(rng: random.Random, entries: list[Entry], most: int) -> list[tuple[str, str]]:
    pairs = [(e.name, name) for e in entries for name in _names(e.board, e, rng)]
    return rng.sample(pairs, min(len(pairs), rng.randint(1, most)))


def _instances(rng: random.Random, name: str, entries: list[Entry]) -> Need:
    options = tuple(Option(*pair) for pair in _options(rng, entries, 1 if rng.random() < 0.5 else len(entries)))
    return Need(name, rng.choice(["instances", "headroom"]), Fraction(rng.randint(0, rng.choice([5, 40]))), options)


def _workload(rng: random.Random, name: str, entries: list[Entry]) -> Need:
    pairs = _options(rng, entries, 5)
    if rng.random() < 0.5:
        return Need(name, "workload", Fraction(rng.randint(1, 12)), tuple(Option(*pair) for pair in pairs))
    boards = {e.name: e.board for e in entries}
    options = []
    for number, (entry, profile) in enumerate(pairs):
        speed = rng.uniform(20, 200) * boards[entry].profile(profile).compute_slices
        options.append(Option(entry, profile, Fraction(str(round(speed, 1))), number + 1, 1))
    rate = Fraction(str(round(float(max(o.gain for o in options)) * rng.uniform(0.2, 6), 1)))
    return Need(name, "workload", rate, tuple(options))


def _group(rng: random.Random, name: str, node: int) -> Group:
    tied = rng.random() < 0.6
    return Group(name, rng.randint(1, node if tied else 2 * node), rng.randint(1, 3), tied)
