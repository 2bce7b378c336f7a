"""The simulator of slices that come and go: against queueing theory, brute force and the geometry's written rules."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from mig_rules import is_legal
from migsaw.cli.shared import load_catalogue, load_facets
from migsaw.model.demand import Entry, plain_demand
from migsaw.model.layouts import StateSpace
from migsaw.plan.packing import pack
from migsaw.plan.placement import rules
from migsaw.plan.placement.graph import StateGraph
from migsaw.simulate.actuators import Free, Repack
from migsaw.simulate.arrivals import Arrivals, arrivals_per_life, poisson
from migsaw.simulate.loss import Actuator, run
from migsaw.simulate.nodes import Steered, Stock
from migsaw.simulate.partitioned import MigManager, Static
from migsaw.simulate.static import accepted, best_counts, partition

BOARD, A30 = load_catalogue().board("a100-sxm4-40gb"), load_catalogue().board("a30-24gb")
TABLE = load_facets()
NAMES = tuple(p.name for p in BOARD.profiles if p.is_plain)
GRAPH = StateGraph(BOARD, NAMES)
UNIFORM = dict.fromkeys(NAMES, 1.0)
TOPS = sorted({StateSpace(BOARD, NAMES).counts(s) for s in StateSpace(BOARD, NAMES).maximal})


def few(profiles: list[str], times: list[float], lives: list[float]) -> Arrivals:
    numbers = np.array([NAMES.index(name) for name in profiles])
    return Arrivals(NAMES, np.array(times, float), numbers, np.array(lives, float))


def test_a_small_trace_by_hand():
    """One GPU: a 7g from 0 to 2, a 1g at 1 is refused, another at 3 runs to 5; counted are 1 to 4."""
    trace = few(["7g.40gb", "1g.5gb", "1g.5gb"], [0, 1, 3], [2, 1, 2])
    found = run(trace, Free(GRAPH, rules.creatable, 1), GRAPH.compute, 1, 4)
    assert found.compute == pytest.approx((7 * 1 + 1 * 1) / 3)
    assert (sum(found.offered), sum(found.accepted), found.acceptance) == (2, 1, 0.5)


def test_what_departs_makes_room_at_the_same_time():
    trace = few(["7g.40gb", "7g.40gb"], [0, 2], [2, 2])
    assert run(trace, Free(GRAPH, rules.creatable, 1), GRAPH.compute, 0, 4).accepted[NAMES.index("7g.40gb")] == 2


def test_same_seed_same_arrivals():
    one, same, other = (poisson(NAMES, UNIFORM, 50, 4, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip((one.times, one.lives), (same.times, same.lives), strict=True))
    assert len(one) != len(other) or not np.array_equal(one.times, other.times)


def test_load_one_fills_the_gpus_when_packed_perfectly():
    """Only 7g: one GPU each. 3g and 4g alike: one pair a GPU. 1g and 7g alike: 8/7 GPUs a pair, by compute slices."""
    for mix, per_gpu in (
        ({"7g.40gb": 1.0}, 1),
        ({"3g.20gb": 1.0, "4g.20gb": 1.0}, 2),
        ({"1g.5gb": 1.0, "7g.40gb": 1.0}, 14 / 8),
    ):
        assert arrivals_per_life(BOARD, mix, 10, 1.0, TABLE) == pytest.approx(10 * per_gpu)


def erlang_b(offered: float, servers: int) -> float:
    terms = [offered**k / math.factorial(k) for k in range(servers + 1)]
    return terms[-1] / sum(terms)


def test_erlangs_formula_by_its_sum():
    carried = accepted(7.3, 12)
    assert [carried[k] for k in range(13)] == pytest.approx([7.3 * (1 - erlang_b(7.3, k)) for k in range(13)])


def test_whole_gpus_are_an_erlang_loss_system():
    """Of any distribution of lives: 10 servers offered 10 erlangs block 21.5 %."""
    trace = poisson(NAMES, {"7g.40gb": 1.0}, 10, 3000, 5)
    found = run(trace, Free(GRAPH, rules.creatable, 10), GRAPH.compute, 50, 3000)
    assert 1 - found.acceptance == pytest.approx(erlang_b(10, 10), abs=0.01)
    assert found.compute / 7 == pytest.approx(10 * (1 - erlang_b(10, 10)), rel=0.02)


def test_repack_accepts_exactly_what_packs():
    rng, gpus = random.Random(2), 3
    reference, held = Repack(BOARD, NAMES, gpus, TABLE), []
    answers = Counter()
    for _ in range(400):
        profile = rng.randrange(len(NAMES))
        counts = Counter(NAMES[p] for p in [*held, profile])
        fits = pack(plain_demand([Entry("x", BOARD)], {"x": counts}), TABLE).total <= gpus
        hold = reference.arrive(profile, 0)
        assert (hold is not None) == fits
        answers[fits] += 1
        if hold is not None:
            held.append(hold)
        while held and rng.random() < 0.45:
            reference.depart(held.pop(rng.randrange(len(held))), 0)
    assert min(answers.values()) > 40


CUTTING: dict[str, Callable[[], Actuator]] = {
    "free": lambda: Free(GRAPH, rules.creatable, 6),
    "one migration": lambda: Free(GRAPH, rules.creatable, 6, dearest=8),
    "dra": lambda: Stock(GRAPH, rules.creatable, 6, 2),
    "dra-steered": lambda: Steered(GRAPH, rules.creatable, 6, 2),
}


class Watched:
    """Keeps what is held by itself and holds it to the written rules at every change."""

    def __init__(self, inner: Actuator) -> None:
        self.inner, self.held, self.refused = inner, [], 0

    def start(self, later):
        self.inner.start(later)

    def arrive(self, profile, now):
        hold = self.inner.arrive(profile, now)
        if hold is None:
            self.refused += 1
            return None
        self.held.append(hold)  # a list of (GPU, place) that a migration may change
        gpus: dict[int, list[tuple[str, int]]] = {}
        for gpu, place in self.held:
            placed = GRAPH.places[place]
            gpus.setdefault(gpu, []).append((placed.profile, placed.start))
        assert all(is_legal(BOARD.key, layout) for layout in gpus.values())
        assert GRAPH.profile_of[hold[1]] == profile
        return hold

    def depart(self, hold, now):
        self.held.remove(hold)
        self.inner.depart(hold, now)


@pytest.mark.parametrize("name", CUTTING)
def test_no_actuator_places_what_the_rules_forbid(name):
    watched = Watched(CUTTING[name]())
    run(poisson(NAMES, UNIFORM, 14, 60, 7), watched, GRAPH.compute, 0, 60)
    assert watched.refused > 20
    if name == "one migration":
        assert watched.inner.migrations > 20  # type: ignore[attr-defined]


def test_the_stock_scheduler_spreads_and_takes_the_first_start():
    """Measured on a real cluster: 1g, 1g, 2g, 1g on one GPU land on memory slices 0, 1, 2 and 4."""
    stock = Stock(GRAPH, rules.creatable, 1, 1)
    wanted = ["1g.5gb", "1g.5gb", "2g.10gb", "1g.5gb"]
    starts = [GRAPH.places[stock.arrive(NAMES.index(n), 0)[1]].start for n in wanted]  # type: ignore[index]
    assert starts == [0, 1, 2, 4]
    two = Stock(GRAPH, rules.creatable, 4, 2)
    assert [two.arrive(0, 0)[0] for _ in range(4)] == [0, 2, 0, 2]  # type: ignore[index]


def test_one_migration_makes_room_where_none_is():
    """A GPU with one 1g and a full one but for one slice: the 1g moves over, and a 7g fits."""
    free = Free(GRAPH, rules.creatable, 2, dearest=8)
    for name in ("4g.20gb", "2g.10gb", "7g.40gb"):
        free.arrive(NAMES.index(name), 0)
    last = free.arrive(NAMES.index("1g.5gb"), 0)
    assert last is not None
    assert last[0] == 0
    assert free.arrive(NAMES.index("7g.40gb"), 0) is None
    other = Free(GRAPH, rules.creatable, 2, dearest=8)
    other.fleet.put(0, next(n for n, p in enumerate(GRAPH.places) if (p.profile, p.start) == ("4g.20gb", 0)))
    place = next(n for n, p in enumerate(GRAPH.places) if (p.profile, p.start) == ("1g.5gb", 2))
    other.fleet.put(1, place)
    other._holds[1, place] = moved = [1, place]
    assert other.arrive(NAMES.index("7g.40gb"), 0) == [
        1,
        GRAPH.places.index(next(p for p in GRAPH.places if p.profile == "7g.40gb")),
    ]
    assert moved[0] == 0


def test_the_best_static_counts_by_trying_all():
    """A30, two GPUs, three profiles: every count that packs, by Erlang's formula."""
    names = tuple(p.name for p in A30.profiles if p.is_plain)
    for offered in ((3.0, 1.0, 0.3), (0.5, 2.0, 0.2), (1.0, 0.5, 1.5)):
        value = [A30.profile(n).compute_slices for n in names]

        def worth(counts, offered=offered, value=value):
            return sum(v * a * (1 - erlang_b(a, n)) for v, a, n in zip(value, offered, counts, strict=True))

        fits = [
            c
            for c in itertools.product(range(9), range(5), range(3))
            if pack(plain_demand([Entry("x", A30)], {"x": dict(zip(names, c, strict=True))}), TABLE).total <= 2
        ]
        found = best_counts(A30, names, offered, 2, TABLE)
        assert found in fits
        assert worth(found) == pytest.approx(max(map(worth, fits)))


def test_a_partition_holds_its_counts_on_legal_layouts():
    counts = best_counts(BOARD, NAMES, [5.0] * 6, 12, TABLE)
    found = partition(BOARD, NAMES, counts, 12, TABLE)
    assert len(found.layouts) == 12
    assert all(have >= want for have, want in zip(found.counts, counts, strict=True))
    assert all(is_legal(BOARD.key, [(p.profile, p.start) for p in layout]) for layout in found.layouts)


@pytest.mark.parametrize(("way", "gpus"), [("packed", [0, 0]), ("distributed", [0, 1])])
def test_the_plugin_picks_the_fullest_or_the_emptiest_gpu(way, gpus):
    layout = GRAPH.layout(GRAPH.drops.index(max(GRAPH.drops, key=len)))  # seven 1g
    static = Static(NAMES, [layout, layout], 2, way)
    assert [static.arrive(NAMES.index("1g.5gb"), 0)[0] for _ in range(2)] == gpus  # type: ignore[index]


def test_only_idle_gpus_are_recut_and_nothing_is_lost():
    part = partition(BOARD, NAMES, best_counts(BOARD, NAMES, [1.0, 0.1, 0.1, 0.1, 0.1, 2.0], 8, TABLE), 8, TABLE)
    manager = MigManager(NAMES, part.layouts, 2, "packed", TOPS, GRAPH.compute, 0.02)
    seen = []
    done = manager._done

    def checked(gpu, counts):
        assert manager.gpus[gpu].held == 0
        assert tuple(counts) in TOPS
        seen.append(gpu)
        done(gpu, counts)

    manager._done = checked  # type: ignore[method-assign]
    trace = poisson(NAMES, {"2g.10gb": 1.0, "3g.20gb": 1.0}, 16, 40, 3)  # a mix that the partition was not made for
    before = run(trace, Static(NAMES, part.layouts, 2, "packed"), GRAPH.compute, 10, 40)
    after = run(trace, manager, GRAPH.compute, 10, 40)
    assert len(seen) > 4
    assert after.acceptance > before.acceptance + 0.3
