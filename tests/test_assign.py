"""The fixed slot of a workload: against all profiles tried by hand, and what must hold whatever was measured."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from measured import BOARD, CATALOGUE, PLAIN, PRIOR, assigned, trial
from migsaw.fit.assigned import fit_of
from migsaw.fit.evidence import evidence_of
from migsaw.fit.slots import share_of
from migsaw.model.fits import AzureMlRef, Choice, WorkloadRef
from migsaw.model.measurement import Measurement, WorkloadId
from migsaw.model.slo import Objective, Slos
from migsaw.model.trial import Limit, Read, RegexReading, TrialSpec
from migsaw.store import open_store
from migsaw.trial.runner import Profiling
from migsaw.trial.simulated import SimulatedBackend

# Of a GPU cut into as many as it holds: seven 1g; four 1g.10gb, which take all memory and leave three compute slices
# to nobody; three 2g with a seventh left that a 1g can use; two 3g with a seventh that nothing can use; one 4g beside
# which a 3g stands.
SHARES = {
    "1g.5gb": Fraction(1, 7), "1g.10gb": Fraction(1, 4), "2g.10gb": Fraction(2, 7), "3g.20gb": Fraction(1, 2),
    "4g.20gb": Fraction(4, 7), "7g.40gb": Fraction(1),
}  # fmt: skip
STRANDS = {"1g.10gb": Fraction(1, 4) - Fraction(1, 7), "3g.20gb": Fraction(1, 2) - Fraction(3, 7)}


def options(found):
    return {o.profile: o for o in found.options}


def fitting(found) -> set[str]:
    return {o.profile for o in found.options if o.fits and o.profile != "off"}


# ---- shares and times -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PLAIN)
def test_a_slice_carries_its_part_and_what_it_strands(profile):
    share, strands = share_of(CATALOGUE.board(BOARD), profile)
    assert share == pytest.approx(float(SHARES[profile]))
    assert strands == pytest.approx(float(STRANDS.get(profile, 0)), abs=1e-12)


@pytest.mark.parametrize(("profile", "share"), [("1g.6gb", 1 / 4), ("2g.12gb", 1 / 2), ("4g.24gb", 1.0), ("off", 1.0)])
def test_another_board_has_its_own_shares(profile, share):
    assert share_of(CATALOGUE.board("a30-24gb"), profile) == pytest.approx((share, 0.0))


def test_a_run_takes_its_start_and_its_units():
    found = assigned([trial("2g.10gb", 100.0, startup_seconds=60.0)], Objective(units_per_run=360_000))
    two = options(found)["2g.10gb"]
    assert two.seconds == pytest.approx(60 + 3600)
    assert two.gpu_seconds == pytest.approx(2 / 7 * 3660)
    seven = options(found)["7g.40gb"]
    assert (seven.startup_seconds, seven.startup_on) == (60.0, "2g.10gb")
    assert seven.throughput.source == "predicted"
    assert seven.seconds == pytest.approx(60 + 360_000 / seven.throughput.low)


def test_without_a_run_a_million_units_count():
    one = options(assigned([trial("1g.5gb", 50.0, startup_seconds=60.0)]))["1g.5gb"]
    assert one.seconds == pytest.approx(20_000)
    assert one.gpu_seconds == pytest.approx(20_000 / 7)


# ---- the choice -------------------------------------------------------------------------------------------------

RATES = st.fixed_dictionaries({p: st.floats(1, 1000) for p in PLAIN})
STARTS = st.fixed_dictionaries({p: st.floats(0, 600) for p in PLAIN})
UNITS = st.floats(1, 1e6)


def all_measured(rates, starts=None, **more):
    return [trial(p, rate, startup_seconds=starts[p] if starts else None, **more) for p, rate in rates.items()]


def by_hand(rates, starts, units, deadline):
    """(cost in GPU-seconds, seconds) of every profile that is in time."""
    seconds = {p: starts[p] + units / rates[p] for p in PLAIN}
    return {p: (float(SHARES[p]) * s, s) for p, s in seconds.items() if s <= deadline}


@given(rates=RATES, starts=STARTS, units=UNITS, deadline=st.floats(1, 1e5))
def test_the_slot_is_the_cheapest_of_all_profiles_in_time(rates, starts, units, deadline):
    found = assigned(all_measured(rates, starts), Objective(units_per_run=units, deadline_seconds=deadline))
    right = by_hand(rates, starts, units, deadline)
    assert fitting(found) == set(right)
    if not right:
        assert found.chosen is None
        assert "no slot" in found.because
        return
    assert found.chosen.gpu_seconds == pytest.approx(min(cost for cost, _ in right.values()))
    assert found.chosen.gpu_seconds == pytest.approx(right[found.chosen.profile][0])


@given(rates=RATES, starts=STARTS, units=UNITS, deadline=st.floats(1, 1e5), tighter=st.floats(0.01, 1))
def test_a_tighter_deadline_never_makes_the_run_slower_or_cheaper(rates, starts, units, deadline, tighter):
    trials = all_measured(rates, starts)
    wide, tight = (
        assigned(trials, Objective(units_per_run=units, deadline_seconds=d)).chosen
        for d in (deadline, deadline * tighter)
    )
    if tight is not None:
        assert wide is not None
        assert tight.seconds <= wide.seconds
        assert tight.gpu_seconds >= wide.gpu_seconds


@given(
    rates=st.dictionaries(st.sampled_from(PLAIN), st.floats(1, 1000), min_size=1),
    price=st.floats(1e-3, 1e3),
    more=st.floats(1.01, 1e3),
)
def test_a_price_never_changes_the_choice_on_one_board(rates, price, more):
    trials = all_measured(rates)
    chosen = {p and assigned(trials, usd={BOARD: p}).chosen.profile for p in (price, price * more)}
    assert chosen == {assigned(trials).chosen.profile}


def test_a_predicted_slot_counts_with_its_low_end():
    """1g and 7g measured: what lies between is chosen only where even its low end costs less than both."""
    found = assigned([trial("1g.5gb", 40.0, memory_peak_mib=2000), trial("7g.40gb", 400.0)])
    guessed = [o for o in found.options if o.throughput.source == "predicted" and o.profile != "off"]
    assert len(guessed) == 4
    for o in guessed:
        assert o.gpu_seconds == pytest.approx(float(SHARES[o.profile]) * 1e6 / o.throughput.low)
        assert o.throughput.low < o.throughput.value < o.throughput.high
    costs = {o.profile: o.gpu_seconds for o in found.options if o.profile != "off"}
    assert found.chosen.profile == min(costs, key=costs.__getitem__)


@pytest.mark.parametrize(
    ("usd", "chosen"),
    [
        ({BOARD: 3.0, "a30-24gb": 1.0}, ("a30-24gb", "4g.24gb")),  # 100/s: 1e6 × 1/100 × 1 USD against 3/200
        ({BOARD: 3.0, "a30-24gb": 2.0}, (BOARD, "7g.40gb")),  # 2/100 against 3/200
        ({BOARD: 3.0, "a30-24gb": None}, (BOARD, "7g.40gb")),
        ({BOARD: None, "a30-24gb": 9.0}, ("a30-24gb", "4g.24gb")),
        ({BOARD: None, "a30-24gb": None}, None),
    ],
)
def test_boards_are_compared_by_their_prices(usd, chosen):
    trials = [trial("7g.40gb", 200.0, memory_peak_mib=39_000), trial("3g.20gb"), trial("2g.12gb", board="a30-24gb")]
    trials += [trial("4g.24gb", 100.0, board="a30-24gb")]
    found = assigned(trials, usd=usd)
    assert (found.chosen and (found.chosen.board, found.chosen.profile)) == chosen
    assert ("no price says which" in found.because) == (chosen is None)


# ---- limits -----------------------------------------------------------------------------------------------------


def test_latency_is_work_in_flight_over_throughput():
    """Batch 8, two processes at 400/s: 16 in flight, 40 ms. The limit of 50 ms leaves 320/s and more."""
    trials = [trial(p, r, processes=2) for p, r in zip(PLAIN, (100, 200, 310, 330, 400, 500), strict=True)]
    found = assigned(trials, Objective(latency_slo_ms=50))
    assert options(found)["4g.20gb"].latency_ms.value == pytest.approx(40)
    assert fitting(found) == {"3g.20gb", "4g.20gb", "7g.40gb"}
    assert found.chosen.profile == "4g.20gb"  # 4/7 ÷ 400 < 1/2 ÷ 330 < 1 ÷ 500
    assert "160 ms, the limit is 50 ms" in options(found)["1g.5gb"].reason


def test_a_measured_latency_counts_and_speaks_for_others():
    """90 ms at 100/s: 9 in flight. At another measured 300/s that would be 30 ms."""
    trials = [trial("2g.10gb", 100, latency=90, memory_peak_mib=3000), trial("7g.40gb", 300)]
    found = options(assigned(trials, Objective(latency_slo_ms=60)))
    assert found["2g.10gb"].latency_ms.value == 90
    assert not found["2g.10gb"].fits
    assert found["7g.40gb"].latency_ms.value == pytest.approx(30)
    three = found["3g.20gb"]
    assert three.latency_ms.high == pytest.approx(9000 / three.throughput.low)


def test_a_rate_is_a_floor():
    trials = all_measured(dict(zip(PLAIN, (10, 20, 30, 40, 50, 60), strict=True)))
    found = assigned(trials, Objective(throughput_per_second=40))
    assert fitting(found) == {"3g.20gb", "4g.20gb", "7g.40gb"}
    assert found.chosen.profile == "4g.20gb"  # 4/7 ÷ 50 < 1/2 ÷ 40 < 1 ÷ 60


# ---- memory -----------------------------------------------------------------------------------------------------


def test_running_out_of_memory_refuses_all_that_have_no_more():
    found = options(assigned([trial("2g.10gb"), trial("7g.40gb", 100.0, memory_peak_mib=11_000)]))
    for profile in ("1g.5gb", "1g.10gb", "2g.10gb"):
        assert not found[profile].fits
        assert "out of memory" in found[profile].reason
        assert found[profile].throughput is None
    assert found["3g.20gb"].fits  # 11000 + 15 % = 12650 MiB
    assert (found["3g.20gb"].memory.peak, found["3g.20gb"].memory.margin) == (11_000, 1650)


@pytest.mark.parametrize(
    ("peak", "holding"),
    [
        (3400, {"1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"}),  # + 512 = 3912, holds 4864
        (4229, {"1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"}),  # + 635 = 4864
        (4230, {"1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"}),  # + 635 = 4865
        (8570, {"1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"}),  # + 1286 = 9856
        (8571, {"3g.20gb", "4g.20gb", "7g.40gb"}),  # + 1286 = 9857
        (17_000, {"3g.20gb", "4g.20gb", "7g.40gb"}),
        (20_000, {"7g.40gb"}),
    ],
)
def test_the_peak_and_its_margin_decide(peak, holding):
    assert fitting(assigned([trial("7g.40gb", 100.0, memory_peak_mib=peak)])) == holding


@pytest.mark.parametrize("peak", [None, 38_000])  # not measured, or taken because it was there
def test_a_profile_of_which_memory_is_not_known_gets_nothing(peak):
    found = assigned([trial("7g.40gb", 100.0, memory_peak_mib=peak)])
    assert fitting(found) == {"7g.40gb"}
    assert found.chosen.profile == "7g.40gb"
    assert options(found)["3g.20gb"].reason == "n/a (whether it holds the workload is not known)"


def test_what_ran_holds_whatever_it_filled():
    found = assigned([trial("2g.10gb", 100.0, memory_peak_mib=9500)])
    assert fitting(found) == {"1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"}
    assert options(found)["2g.10gb"].reason == "OK: it ran, with 96% of the memory in use"  # 9500 of 9856
    assert options(found)["3g.20gb"].reason == "OK"


# ---- which trials count -----------------------------------------------------------------------------------------


def test_numbers_of_the_cpu_never_count_and_simulated_ones_only_when_asked():
    trials = [trial("1g.5gb", 9.0, device="cpu"), trial("2g.10gb", 8.0, device="simulated"), trial("7g.40gb", 7.0)]
    (evidence,), notes = evidence_of(trials, Slos())
    assert set(evidence.trials) == {"7g.40gb"}
    assert len(notes) == 2
    (evidence,), notes = evidence_of(trials, Slos(), with_simulated=True)
    assert set(evidence.trials) == {"2g.10gb", "7g.40gb"}
    found = assigned(trials, with_simulated=True)
    assert options(found)["2g.10gb"].throughput.source == "estimated"
    assert "simulated" in fit_of(found).confidence


def test_a_real_trial_stands_before_a_later_simulated_one():
    trials = [trial("2g.10gb", 8.0), trial("2g.10gb", 80.0, device="simulated", at="2026-12-02T00:00:00Z")]
    assert options(assigned(trials, with_simulated=True))["2g.10gb"].throughput.value == 8.0


@pytest.mark.parametrize(("profile", "device"), [("2g.10gb", "gpu"), ("off", "mig")])
def test_a_whole_gpu_measures_no_slice(profile, device):
    assert evidence_of([trial(profile, 8.0, device=device)], Slos())[0] == ()


def test_the_latest_trial_of_a_slot_counts_and_failed_ones_never():
    times = [f"2026-12-0{day}T00:00:00Z" for day in (1, 2, 3)]
    trials = [
        trial("2g.10gb", 9.0, at=times[2], outcome="failed"),
        trial("2g.10gb", 8.0, at=times[1]),
        trial("2g.10gb", at=times[0]),
    ]
    assert options(assigned(trials))["2g.10gb"].throughput.value == 8.0


def test_trials_with_another_batch_are_another_way_to_run():
    trials = [trial("2g.10gb", 8.0, batch=8), trial("3g.20gb", 99.0, batch=16, at="2026-12-02T00:00:00Z")]
    latest = assigned(trials)
    assert set(latest.evidence[0].trials) == {"3g.20gb"}
    assert "2 ways" in latest.evidence[0].notes[0]
    assert set(assigned(trials, Objective(batch=8)).evidence[0].trials) == {"2g.10gb"}


# ---- the fits ---------------------------------------------------------------------------------------------------


def test_a_fit_says_what_it_knows():
    found = assigned(all_measured(dict.fromkeys(PLAIN, 10.0), memory_peak_mib=1000), Objective(throughput_per_second=5))
    fit = fit_of(found)
    assert fit.workload == WorkloadRef("ml", "Job", "m")
    assert (fit.source, fit.chosen) == ("measured", Choice(BOARD, "1g.5gb"))
    assert [o.profile for o in fit.options] == list(PLAIN)
    assert all(o.fits and o.reason == "OK" for o in fit.options)
    assert fit.next_step is None


def test_a_predicted_choice_is_marked_so():
    trials = [trial("1g.5gb", 20.0, memory_peak_mib=2000), trial("7g.40gb", 100.0)]
    fit = fit_of(assigned(trials, Objective(throughput_per_second=30)))
    assert fit.chosen.profile not in ("1g.5gb", "7g.40gb")
    assert fit.source == "predicted"
    assert fit.next_step.startswith(f"measure {fit.chosen.profile}")


@pytest.mark.parametrize(
    ("facts", "ref"),
    [
        ({"name": "a"}, WorkloadRef(name="a")),
        ({"experiment": "e", "component": "c"}, WorkloadRef(azureml=AzureMlRef("e", "c"))),
        ({"image": "x"}, None),
    ],
)
def test_a_workload_is_named_as_its_facts_do(facts, ref):
    workload = WorkloadId(facts)
    one = Measurement(
        workload, workload.fingerprint(), BOARD, "1g.5gb", "mig", "steady", "2026-12-01T00:00:00Z",
        throughput_per_second=trial("1g.5gb", 1.0).throughput_per_second,
    )  # fmt: skip
    found = assigned([one])
    assert found.ref == ref
    assert (fit_of(found) is None) == (ref is None)


# ---- together with the trials -----------------------------------------------------------------------------------


class Silent:
    def started(self, profile):
        pass

    def seen(self, state):
        pass

    def finished(self, measurement, message):
        pass


@pytest.mark.parametrize("floor", [None, 150.0, 300.0, 450.0])
def test_the_slot_is_that_of_the_trials(floor):
    """`profile` stops when no trial is worth its time; what it then chose is what `assign` gives."""
    rates = dict(zip(PLAIN, (100.0, 110.0, 195.0, 290.0, 320.0, 500.0), strict=True))
    board = CATALOGUE.board(BOARD)
    limit = Limit(throughput_per_second=floor)
    spec = TrialSpec("m", BOARD, ("x",), Read(regex=RegexReading("(x)")), batch=8, limit=limit)
    backend = SimulatedBackend(rates, {}, tuple(p.name for p in board.profiles))
    with open_store(":memory:") as store:
        found = Profiling(spec, board, backend, PRIOR, store, lambda: "2026-12-01T00:00:00Z", Silent()).run()
        trials = [record.value(Measurement) for record in store.records("measurement")]
    asked = Objective(throughput_per_second=floor, task="train")
    assert assigned(trials, asked, with_simulated=True).chosen.profile == found.chosen
