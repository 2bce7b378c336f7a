"""Acting only when it pays, and without flapping; budgets by pool, purpose and schedule."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migsaw.cli.shared import load_catalogue
from migsaw.errors import InputError
from migsaw.model.layouts import Placed
from migsaw.plan.budgets import WEEK_MINUTES, Budget, Purpose, Window, nodes_left
from migsaw.plan.repartition import MIG_MANAGER, Ask, PoolGpu, repartition
from migsaw.plan.repartition.steps import schedule
from migsaw.plan.score import Memory, Patience, Verdict, Weighing, decide, weigh

HALF = Fraction(1, 2)
PAYS = Weighing(Fraction(1), Fraction(10), Fraction(1), Fraction(10))  # as large a share is saved as is disturbed
NOT = Weighing(Fraction(1), Fraction(10), Fraction(3), Fraction(10))  # a third


@pytest.mark.parametrize(
    ("saving", "disruption", "ratio", "pays"),
    [
        # worked by hand: shares of a pool of 100 on both sides, threshold 1/2
        (10, 10, Fraction(1), True),
        (10, 20, Fraction(1, 2), True),  # exactly on the threshold
        (10, 21, Fraction(10, 21), False),
        (0, 0, None, False),  # nothing saved
        (1, 0, None, True),  # nothing disturbed
        (0, 5, Fraction(0), False),
    ],
)
def test_saving_share_is_weighed_against_disruption_share(saving, disruption, ratio, pays):
    weighing = Weighing(Fraction(saving), Fraction(100), Fraction(disruption), Fraction(100))
    assert weighing.ratio == ratio
    assert weighing.pays(HALF) is pays


def test_a_repartition_is_weighed_in_slice_seconds():
    """An idle A100 in seven 1g for a waiting 7g: 8 slices served for an hour; 7 idle slices are away for 60 seconds."""
    board = load_catalogue().board("a100-sxm4-80gb")
    gpus = [PoolGpu("node", 0, board, MIG_MANAGER, (), tuple(Placed("1g.10gb", n) for n in range(7)))]
    ask = Ask({"7g.80gb": 1})
    found = repartition(gpus, ask)
    weighing = weigh(found, schedule(gpus, found, ask), pool_slices=8, lasting_seconds=3600)
    assert weighing.saving_share == 1
    assert weighing.disruption_share == Fraction(7 * 60, 8 * 3600)
    assert weighing.pays(HALF)
    brief = weigh(found, schedule(gpus, found, ask), pool_slices=8, lasting_seconds=20)
    assert not brief.pays(HALF), "for 20 seconds of work nobody cuts a GPU for a minute"


def test_it_must_pay_for_a_while_and_then_settle():
    patience = Patience(persist_seconds=300, settle_seconds=1800)
    verdict, memory = decide(PAYS, "a", "b", Memory(), patience, 0)
    assert verdict is Verdict.NOT_YET
    verdict, memory = decide(PAYS, "a", "b", memory, patience, 299)
    assert verdict is Verdict.NOT_YET
    verdict, broken = decide(NOT, "a", "b", memory, patience, 299)
    assert (verdict, broken.paying_since) == (Verdict.DOES_NOT_PAY, None)
    verdict, memory = decide(PAYS, "a", "b", memory, patience, 300)
    assert verdict is Verdict.ACT
    for now in (301, 1000, 2099):
        verdict, memory = decide(PAYS, "b", "c", memory, patience, now)
        assert verdict is Verdict.SETTLING
    assert decide(PAYS, "b", "c", memory, patience, 2100)[0] is Verdict.ACT


def test_a_layout_left_lately_is_taken_up_again_only_for_twice_as_much():
    patience = Patience(persist_seconds=0, settle_seconds=0, back_seconds=1000)
    _, memory = decide(PAYS, "a", "b", Memory(), patience, 0)
    weak = Weighing(Fraction(6), Fraction(10), Fraction(10), Fraction(10))  # 0.6: above 1/2, below 1
    assert decide(weak, "b", "a", memory, patience, 500)[0] is Verdict.WOULD_FLAP
    assert decide(PAYS, "b", "a", memory, patience, 500)[0] is Verdict.ACT  # 1: twice the threshold
    assert decide(weak, "b", "c", memory, patience, 500)[0] is Verdict.ACT  # not back
    assert decide(weak, "b", "a", memory, patience, 1000)[0] is Verdict.ACT  # long ago


@given(
    st.lists(st.tuples(st.integers(0, 900), st.booleans(), st.sampled_from("ab")), max_size=60),
    st.integers(0, 600),
    st.integers(0, 3000),
)
def test_no_two_changes_come_sooner_than_it_settles_and_none_without_persistence(events, persist, settle):
    patience = Patience(persist_seconds=persist, settle_seconds=settle)
    memory, now, layout = Memory(), 0, "a"
    acts: list[int] = []
    last_bad = 0  # the last time at which it did not pay, or was acted on
    seen_good: int | None = None
    for wait, pays, wanted in events:
        now += wait
        verdict, memory = decide(PAYS if pays else NOT, layout, wanted, memory, patience, now)
        if not pays:
            seen_good, last_bad = None, now
            assert verdict is Verdict.DOES_NOT_PAY
            continue
        seen_good = now if seen_good is None else seen_good
        if verdict is Verdict.ACT:
            assert now - seen_good >= persist
            assert seen_good >= last_bad
            assert not acts or now - acts[-1] >= settle
            acts.append(now)
            layout, seen_good = wanted, None


def test_demand_that_swings_faster_than_it_persists_changes_nothing():
    memory, acted = Memory(), 0
    for n in range(1000):
        verdict, memory = decide(PAYS if n % 2 else NOT, "a", "b", memory, Patience(persist_seconds=120), n * 60)
        acted += verdict is Verdict.ACT
    assert acted == 0


NIGHT = Window(22 * 60, 8 * 60)  # Monday 22:00 to Tuesday 06:00
WEEKEND = Window(5 * 24 * 60, 2 * 24 * 60)
LATE = Window(WEEK_MINUTES - 60, 120)  # Sunday 23:00 to Monday 01:00


@pytest.mark.parametrize(
    ("window", "minute", "holds"),
    [
        (NIGHT, 22 * 60 - 1, False),
        (NIGHT, 22 * 60, True),
        (NIGHT, 30 * 60 - 1, True),
        (NIGHT, 30 * 60, False),
        (LATE, WEEK_MINUTES - 1, True),
        (LATE, 59, True),
        (LATE, 60, False),
    ],
)
def test_windows_are_half_open_and_go_round_the_week(window, minute, holds):
    assert window.holds(minute) is holds


def test_the_smallest_budget_in_force_counts():
    budgets = [
        Budget(share=Fraction(1, 10)),  # 10 % of 25 nodes, rounded up: 3
        Budget(nodes=0, purposes=frozenset({Purpose.DEFRAGMENT}), windows=(WEEKEND,)),
        Budget(nodes=1, pool="a100"),
    ]

    def left(pool: str, purpose: Purpose, minute: int, **busy: int) -> int:
        return nodes_left(budgets, pool, purpose, minute, 25, {Purpose[k]: n for k, n in busy.items()})

    monday, saturday = 0, 5 * 24 * 60
    assert left("h100", Purpose.SERVE_PENDING, monday) == 3
    assert left("a100", Purpose.SERVE_PENDING, monday) == 1
    assert left("h100", Purpose.DEFRAGMENT, monday) == 3
    assert left("h100", Purpose.DEFRAGMENT, saturday) == 0
    assert left("h100", Purpose.SERVE_PENDING, saturday) == 3
    assert left("h100", Purpose.SERVE_PENDING, monday, DEFRAGMENT=2) == 1
    assert left("h100", Purpose.SERVE_PENDING, monday, DEFRAGMENT=5) == 0
    assert nodes_left([], "any", Purpose.HEADROOM, 0, 25, {}) == 25


def test_a_window_outside_of_the_week_is_refused():
    with pytest.raises(InputError) as error:
        Window(WEEK_MINUTES, 5)
    assert error.value.hint
