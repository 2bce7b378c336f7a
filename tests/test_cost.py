"""Cost of a finished run: cost = share × price × hours, by hand; break-even points against both costs at the point."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from measured import BOARD, CATALOGUE, assigned, stored, trial
from migsaw.errors import InputError
from migsaw.fit.frequency import observed
from migsaw.fit.slots import share_of
from migsaw.model.fits import WorkloadRef
from migsaw.model.money import Price, PriceTable
from migsaw.model.refs import PodRef
from migsaw.model.slo import Objective
from migsaw.model.snapshot import Pod, Snapshot, Workload
from migsaw.model.telemetry import Device, Telemetry, Window
from migsaw.plan.run_cost import board_rates, break_even, costs
from migsaw.report.cost import cost_tables, duration

SIZE = "Standard_ND96asr_v4"  # eight A100-40GB
PRICES = PriceTable((Price(SIZE, 28.0, "2026-11-09"),), "a list", "eastus", "pay-as-you-go")  # 3.50 per GPU-hour


def rows_of(trials, asked, prices=PRICES):
    rates = board_rates([BOARD], prices, CATALOGUE)
    found = assigned(trials, asked, {rate.board: rate.usd_per_gpu_hour for rate in rates})
    made = costs([found], rates)
    return made, {row.profile: row for row in made.workloads[0].rows}


RUN = Objective(units_per_run=720_000, runs_per_month=20)
TRIALS = [
    trial("2g.10gb", 100.0, startup_seconds=0.0),  # 7200 s: 2 h
    trial("3g.20gb", 160.0, startup_seconds=0.0),  # 4500 s: 1.25 h
    trial("off", 400.0, startup_seconds=600.0),  # 1800 + 600 s: 40 min
]


def test_cost_is_share_times_price_times_hours():
    made, rows = rows_of(TRIALS, RUN)
    assert made.workloads[0].per == "run"
    assert rows["2g.10gb"].usd == pytest.approx(2 / 7 * 3.5 * 2)  # 2.00
    assert rows["3g.20gb"].usd == pytest.approx(0.5 * 3.5 * 1.25)  # 2.1875
    assert rows["off"].usd == pytest.approx(3.5 * 2 / 3)  # 2.3333
    assert rows["2g.10gb"].usd_per_month == pytest.approx(40.0)
    assert rows["2g.10gb"].saves.value == pytest.approx(1 - 2 / (7 / 3))
    assert rows["off"].saves is None
    assert rows["3g.20gb"].share == pytest.approx(1 / 2)
    assert rows["3g.20gb"].strands == pytest.approx(1 / 14)
    assert rows["2g.10gb"].is_chosen
    assert [row.profile for row in made.workloads[0].rows if row.break_even is None] == ["off", "1g.10gb"]


def test_an_hour_sooner_has_its_price():
    """3g costs 0.1875 USD more than 2g and ends 45 min sooner: 0.25 USD an hour."""
    _, rows = rows_of(TRIALS, RUN)
    even = rows["3g.20gb"].break_even
    assert (even.against, even.cheaper) == ("2g.10gb", "never")  # without start-up only rates count: 2/700 < 1/320
    assert even.usd_per_hour_sooner == pytest.approx(0.25)


def test_a_slow_start_makes_the_bigger_slice_pay_off_from_a_length_on():
    """2/7 × (60 + u/100) = 1/2 × (240 + u/200) at u: 120 − 120/7 = u × (2/700 − 1/400), u = 288,000."""
    trials = [trial("2g.10gb", 100.0, startup_seconds=60.0), trial("3g.20gb", 200.0, startup_seconds=240.0)]
    _, rows = rows_of(trials, Objective(units_per_run=1000))
    even = rows["3g.20gb"].break_even
    assert (even.cheaper, even.units) == ("from", pytest.approx(288_000))
    assert rows["2g.10gb"].is_chosen
    _, rows = rows_of(trials, Objective(units_per_run=288_010))
    assert rows["3g.20gb"].is_chosen


def test_a_start_that_a_bigger_slice_shortens_pays_off_up_to_a_length():
    """2/7 × (700 + u/100) = 1/2 × (100 + u/160) at u: 200 − 50 = u × (1/320 − 2/700), u = 560,000."""
    trials = [trial("2g.10gb", 100.0, startup_seconds=700.0), trial("3g.20gb", 160.0, startup_seconds=100.0)]
    _, rows = rows_of(trials, Objective(units_per_run=559_990))
    even = rows["3g.20gb"].break_even
    assert (even.cheaper, even.units) == ("up to", pytest.approx(560_000))
    assert rows["3g.20gb"].usd < rows["2g.10gb"].usd
    _, rows = rows_of(trials, Objective(units_per_run=560_010))
    assert rows["3g.20gb"].usd > rows["2g.10gb"].usd


@given(
    rates=st.tuples(st.floats(1, 1000), st.floats(1, 1000)),
    starts=st.tuples(st.floats(0, 1000), st.floats(0, 1000)),
    units=st.floats(1, 1e7),
)
def test_break_even_says_which_costs_less(rates, starts, units):
    """Whatever is asked for: the words agree with the two costs worked out apart."""
    one, other = 2 / 7 * (starts[0] + units / rates[0]), 1 / 2 * (starts[1] + units / rates[1])
    assume(abs(one - other) > 1e-6 * one)
    trials = [trial(p, r, startup_seconds=s) for p, r, s in zip(("2g.10gb", "3g.20gb"), rates, starts, strict=True)]
    options = {o.profile: o for o in assigned(trials, Objective(units_per_run=units)).options}
    even = break_even(options["2g.10gb"], options["3g.20gb"], units, 3.5)
    said = {"always": True, "never": False, "from": units > (even.units or 0), "up to": units < (even.units or 0)}
    assert said[even.cheaper] == (other < one)
    if even.usd_per_hour_sooner is not None:
        sooner = starts[0] + units / rates[0] - starts[1] - units / rates[1]
        assert even.usd_per_hour_sooner == pytest.approx((other - one) * 3.5 / sooner)


@given(factor=st.floats(0.01, 100))
def test_a_price_scales_every_cost_and_nothing_else(factor):
    _, rows = rows_of(TRIALS, RUN)
    dear = PriceTable((Price(SIZE, 28.0 * factor),), "a list", "eastus", "pay-as-you-go")
    _, other = rows_of(TRIALS, RUN, dear)
    for profile, row in rows.items():
        assert other[profile].usd == pytest.approx(row.usd * factor)
        assert other[profile].usd_per_month == pytest.approx(row.usd_per_month * factor)
        same = ("is_chosen", "seconds", "share", "saves", "startup_seconds")
        assert [getattr(other[profile], name) for name in same] == [getattr(row, name) for name in same]


def test_a_service_holds_its_slot_all_month():
    """With a rate to keep and no runs: 730 h × 3.50 USD × 2/7 = 730 USD; a million units take 10,000 s of it."""
    made, rows = rows_of(TRIALS, Objective(throughput_per_second=50))
    assert made.workloads[0].per == "million units"
    assert rows["2g.10gb"].usd_per_month == pytest.approx(730.0)
    assert rows["2g.10gb"].usd == pytest.approx(2 / 7 * 3.5 * 10_000 / 3600)


WEEK = Window(0.0, 7 * 86400.0, 60.0)


def seen_over(window: Window | None, kind: str, pods: int) -> Snapshot:
    """So many pods of ml/m and one of another workload held a GPU."""
    work = Workload("ml", kind, "m")
    known = tuple(Pod("ml", f"m-{n}", workload=work) for n in range(pods))
    devices = tuple(Device("n1", n, owner=PodRef("ml", f"m-{n}"), owner_source="label") for n in range(pods))
    other = Device("n1", 99, owner=PodRef("ml", "other"), owner_source="label")
    return Snapshot(pods=known, telemetry=Telemetry("prometheus", window, (*devices, other, *devices[:1])))


def test_runs_are_counted_where_nobody_declares_them():
    """Three pods in 168 hours: 3 × 730 ÷ 168 a month."""
    found = assigned(TRIALS, Objective(units_per_run=720_000), {BOARD: 3.5})
    often = observed(seen_over(WEEK, "Job", 3), found.ref)
    assert often.runs_per_month == pytest.approx(3 * 730 / 168)
    assert often.source == "3 pods of it held a GPU in 7 days"
    rates = board_rates([BOARD], PRICES, CATALOGUE)
    seen = costs([found], rates, (), {found.fingerprint: often}).workloads[0]
    assert next(r for r in seen.rows if r.profile == "2g.10gb").usd_per_month == pytest.approx(2 * 3 * 730 / 168)
    assert (seen.runs_source, seen.why_no_month) == (often.source, "")
    declared = costs([assigned(TRIALS, RUN, {BOARD: 3.5})], rates, (), {found.fingerprint: often}).workloads[0]
    assert (declared.runs_per_month, declared.runs_source) == (20, "declared")


@pytest.mark.parametrize(("window", "kind", "pods"), [(None, "Job", 3), (WEEK, "CronJob", 3), (WEEK, "Job", 0)])
def test_no_window_another_workload_or_no_pod_is_no_frequency(window, kind, pods):
    assert observed(seen_over(window, kind, pods), WorkloadRef("ml", "Job", "m")) is None


def test_pods_of_a_service_are_no_runs():
    snapshot = seen_over(WEEK, "Deployment", 3)
    assert observed(snapshot, WorkloadRef("ml", "Deployment", "m")) is None
    assert observed(snapshot, None) is None


def test_what_is_predicted_has_a_range():
    _, rows = rows_of([trial("2g.10gb", 100.0, startup_seconds=60.0)], Objective(units_per_run=6000))
    whole = rows["off"]
    assert whole.throughput_source == "predicted"
    assert 60 < whole.seconds_low < whole.seconds < whole.seconds_high
    saves = rows["7g.40gb"].saves
    assert saves.low == pytest.approx(1 - rows["7g.40gb"].seconds_high / whole.seconds_low)
    assert saves.low < saves.value < saves.high


def test_what_is_not_known_is_none_and_said():
    made, rows = rows_of(TRIALS, Objective(), PriceTable())
    assert all(row.usd is None and row.usd_per_month is None for row in rows.values())
    assert rows["2g.10gb"].saves.value == pytest.approx(1 - 2 / 7 * 400 / 100)  # of GPU time, whatever it costs
    (table,) = cost_tables(made)
    text = str(table)
    assert "n/a (no price)" in text
    assert f"{BOARD}: n/a (no price for {SIZE})" in table.footer
    assert "n/a (no units per run and no limit of a service)" in text
    trials = [trial("2g.10gb", 100.0), trial("3g.20gb", 160.0)]
    made, rows = rows_of(trials, RUN)
    assert rows["3g.20gb"].break_even is None
    (table,) = cost_tables(made)
    assert "n/a (not measured)" in str(table.rows)
    assert "Start-up was not measured: durations and costs are without it." in table.footer


def test_the_cheapest_size_of_a_board_counts_unless_one_is_named():
    prices = PriceTable((Price("Standard_NC24ads_A100_v4", 4.0), Price("Standard_NC96ads_A100_v4", 12.0)))
    (rate,) = board_rates(["a100-pcie-80gb"], prices, CATALOGUE)
    assert (rate.azure_size, rate.usd_per_gpu_hour) == ("Standard_NC96ads_A100_v4", 3.0)
    (rate,) = board_rates(["a100-pcie-80gb"], prices, CATALOGUE, ["Standard_NC24ads_A100_v4"])
    assert rate.usd_per_gpu_hour == 4.0
    (rate,) = board_rates(["a30-24gb"], prices, CATALOGUE)
    assert (rate.usd_per_gpu_hour, rate.source) == (None, "no VM size has a30-24gb")
    with pytest.raises(InputError, match="unknown VM size"):
        board_rates(["a30-24gb"], prices, CATALOGUE, ["Standard_Z"])


@pytest.mark.parametrize(
    ("seconds", "text"), [(41.23, "41.2 s"), (119.9, "120 s"), (750, "12.5 min"), (11_700, "3.25 h"), (1e6, "11.6 d")]
)
def test_durations_are_read_at_a_glance(seconds, text):
    assert duration(seconds) == text


def test_every_board_without_placements_has_no_share():
    unknown = [b for b in CATALOGUE.boards if b.profiles and not b.placements_known]
    assert all(share_of(b, p.name) is None for b in unknown for p in b.profiles)


def test_the_verb(migsaw, tmp_path):
    store = stored(tmp_path / "s.db", TRIALS)
    (tmp_path / "prices.json").write_text(
        json.dumps({"schema": "migsaw/prices/v1", "prices": [{"azure_size": SIZE, "usd_per_hour": 28.0}]})
    )
    words = ["--store", store, "--prices", tmp_path / "prices.json"]
    words += ["--units-per-run", "720000", "--runs-per-month", "20"]
    shown = migsaw("cost", *words)
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = {line[3:].split("  ")[0]: line for line in shown.stdout.splitlines() if line[:3] in ("   ", "*  ")}
    assert lines["2g.10gb"].split()[:8] == ["*", "2g.10gb", "measured", "2", "h", "0.0", "28.6%", "2.00"]
    assert "50.0% (7.1% stranded)" in lines["3g.20gb"]
    wide = migsaw("cost", *words, "-o", "md").stdout
    assert "dearer than 2g.10gb; an hour sooner costs 0.2500 USD" in wide
    raw = list(csv.DictReader(io.StringIO(migsaw("cost", *words, "-o", "csv").stdout)))
    cost = {row["profile"]: (float(row["usd"]), float(row["usd_per_month"])) for row in raw}
    assert cost["2g.10gb"] == pytest.approx((2.0, 40.0))
    assert cost["off"] == pytest.approx((7 / 3, 140 / 3))
    document = json.loads(migsaw("cost", *words, "-o", "json").stdout)
    assert document["schema"] == "migsaw/cost/v1"
    assert document["workloads"][0]["rows"][0]["usd"] == pytest.approx(7 / 3)
