"""Slots chosen together: against every choice there is, packed one by one with a counting of my own."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction

import pytest

from migsaw.cli.shared import load_catalogue, load_facets
from migsaw.model.demand import Entry, Group, Option
from migsaw.plan.joint import Claim, choose_together

CATALOGUE, FACETS = load_catalogue(), load_facets()
A100 = Entry("a100", CATALOGUE.board("a100-sxm4-80gb"), Fraction("3.4"))
H100 = Entry("h100", CATALOGUE.board("h100-sxm5-80gb"), Fraction("6.1"))


def gpus_by_published_facets(counts: dict[str, int]) -> int:
    """A100 and H100, plain profiles: the four ceilings, worked out by hand in the public proof."""
    n1, n1d, n2, n3, n4, n7 = (
        counts.get(p, 0) for p in ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")
    )
    ceilings = (
        Fraction(n4 + n7),
        Fraction(n2 + n3 + 2 * n4 + 3 * n7 + 0, 3),
        Fraction(n1 + 2 * n1d + 2 * n2 + 4 * n3 + 4 * n4 + 8 * n7, 8),
        Fraction(n1 + n1d + 2 * n2 + 3 * n3 + 4 * n4 + 7 * n7, 7),
    )
    return max(-(-c.numerator // c.denominator) for c in ceilings)


def cost_of(claims: list[Claim], choice: tuple[Option, ...], groups: list[Group]) -> Fraction:
    total = Fraction(0)
    for entry in (A100, H100):
        counts: dict[str, int] = {}
        for claim, option in zip(claims, choice, strict=True):
            if option.entry == entry.name:
                counts[option.profile] = counts.get(option.profile, 0) + claim.count
        total += gpus_by_published_facets(counts) * (entry.usd_per_hour or 0)
    whole = sum(group.gpus * group.count for group in groups)
    return total + whole * (A100.usd_per_hour or 0)


def random_claims(rng: random.Random) -> list[Claim]:
    names = ("1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")
    claims = []
    for number in range(rng.randint(1, 5)):
        smallest = rng.randrange(4)
        wide = [Option("a100", name) for name in names[smallest : smallest + rng.randint(1, 3)]]
        wide += [Option("h100", names[smallest])] * (rng.random() < 0.3)
        claims.append(Claim(f"w{number}", rng.randint(1, 6), tuple(wide)))
    return claims


@pytest.mark.parametrize("seed", range(60))
def test_no_choice_beats_the_bound_and_the_answer_is_near_the_best(seed):
    rng = random.Random(f"joint {seed}")
    claims = random_claims(rng)
    best = min(cost_of(claims, choice, []) for choice in itertools.product(*(c.options for c in claims)))
    joint = choose_together([A100, H100], claims, [], FACETS)
    assert joint.lower_bound <= best <= joint.packing.objective <= joint.alone.objective
    assert joint.packing.objective == cost_of(claims, tuple(joint.slots[c.name] for c in claims), [])
    assert joint.packing.objective <= best * Fraction(5, 4)


def test_what_is_best_alone_stays_where_it_costs_nothing():
    claims = [Claim("a", 3, (Option("a100", "2g.20gb"), Option("a100", "3g.40gb")))]
    joint = choose_together([A100], claims, [], FACETS)
    assert joint.slots["a"].profile == "2g.20gb"
    assert joint.packing.total == 1


def test_a_larger_slot_is_taken_where_the_set_then_needs_fewer_gpus():
    # two 4g need two GPUs whatever stands beside; as 3g two of them share one
    claims = [
        Claim("a", 2, (Option("a100", "4g.40gb"), Option("a100", "3g.40gb"))),
    ]
    joint = choose_together([A100], claims, [], FACETS)
    assert (joint.alone.total, joint.packing.total, joint.slots["a"].profile) == (2, 1, "3g.40gb")


def test_whole_gpus_stand_beside():
    joint = choose_together([A100], [Claim("a", 1, (Option("a100", "1g.10gb"),))], [Group("ddp", 2, 1, False)], FACETS)
    assert joint.packing.total == 3
