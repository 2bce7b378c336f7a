"""Right sizes on worlds small enough to work out by hand, and what must hold in all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from migsaw.cli.shared import load_catalogue
from migsaw.fit.rightsize import Wish, right_size, share_of
from migsaw.fit.rules import is_idle
from migsaw.model.fits import Fit, Option
from migsaw.model.refs import PodRef
from migsaw.model.snapshot import Activity, Gpu, Instance, Memory, Node, Pod, Snapshot
from migsaw.model.telemetry import Device, PodUse, Window
from telemetry_worlds import A100, DAY, POD, bimodal, device, steady, world

CATALOGUE = load_catalogue()
BOARD = CATALOGUE.board(A100)
PROFILES = ["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"]
# NVIDIA's MIG guide: 14 SMs per slice of an A100; memory slices (of 8) carry the bandwidth
SMS = {"1g.10gb": 14, "1g.20gb": 14, "2g.20gb": 28, "3g.40gb": 42, "4g.40gb": 56, "7g.80gb": 98}
BANDWIDTH = {"1g.10gb": 1, "1g.20gb": 2, "2g.20gb": 2, "3g.40gb": 4, "4g.40gb": 4, "7g.80gb": 8}
# the larger of g/7 and memory slices/8
SHARE = {"1g.10gb": 1 / 7, "1g.20gb": 2 / 8, "2g.20gb": 2 / 7, "3g.40gb": 4 / 8, "4g.40gb": 4 / 7, "7g.80gb": 1.0}


def fit(snapshot: Snapshot, wish: Wish | None = None) -> Fit:
    (found,) = right_size(snapshot, CATALOGUE, wish or Wish()).fits
    return found


def chosen(snapshot: Snapshot, wish: Wish | None = None) -> str | None:
    found = fit(snapshot, wish).chosen
    return found.profile if found else None


def option(found: Fit, profile: str) -> Option:
    return next(o for o in found.options if o.profile == profile)


def hard_roofline(x: float, held: str, other: str, sizes: dict[str, int]) -> float:
    """Throughput ratio if the slower of host and slice alone bounds: x of the capacity of ``held`` is in use."""
    return max(1.0, 1 / x) / max(sizes[held] / sizes[other], 1 / x)


def test_shares_are_the_larger_of_compute_and_memory() -> None:
    assert {p: share_of(BOARD, BOARD.profile(p)) for p in PROFILES} == pytest.approx(SHARE)
    assert share_of(BOARD, None) == 1.0


@pytest.mark.parametrize("profile", ["2g.20gb", "3g.40gb", "7g.80gb"])
@pytest.mark.parametrize("sm", [0.05, 0.2, 0.4, 0.7])
def test_sm_activity_scales_with_sms_between_the_rooflines(profile: str, sm: float) -> None:
    """A soft roofline of sharpness 8 lies under the hard one, by 2^(1/8) = 9 % at most where the two bounds cross."""
    found = fit(world([device({"graphics": 0.9, "sm": sm, "dram": 0.0, "used": 3000.0}, profile)]))
    for other in PROFILES:
        ratio, hard = option(found, other).throughput_ratio, hard_roofline(sm / 0.8, profile, other, SMS)
        assert ratio is not None
        assert hard / 2 ** (1 / 8) * 0.999 <= ratio.value <= hard * 2 ** (1 / 8) * 1.001
        assert ratio.low is not None
        assert ratio.high is not None
        assert ratio.low <= ratio.value <= ratio.high


def test_bandwidth_bounds_where_sms_do_not() -> None:
    """DRAM_ACTIVE 0.6 on 7g (8 of 8): 2g has a quarter of it, 0.25 ÷ (0.6 ÷ 0.8) = 33 %; its SMs alone would do."""
    found = fit(world([device({"graphics": 0.9, "sm": 0.1, "dram": 0.6, "used": 3000.0}, "7g.80gb")]))
    ratio = option(found, "2g.20gb").throughput_ratio
    assert ratio is not None
    assert ratio.value == pytest.approx(1 / 3, rel=0.05)
    assert "dram" in option(found, "2g.20gb").reason


def test_few_sms_at_work_shrink_and_rule_and_source_are_named() -> None:
    """0.10 × 98 SMs = 9.8 of 1g's 14: 70 %, below the target of 80 %."""
    found = fit(world([device({"graphics": 0.99, "sm": 0.10, "dram": 0.05, "used": 3000.0}, "7g.80gb")]))
    assert (found.verdict, found.chosen and found.chosen.profile) == ("too_big", "1g.10gb")
    assert "sm activity 0.10, full from 0.80" in found.because
    assert "DCGM/issues/152" in found.measured_by
    assert found.points == 1440
    assert "missing" not in found.confidence


def test_graphics_alone_is_said_to_be_little() -> None:
    found = fit(world([device({"graphics": 0.2, "used": 3000.0}, "7g.80gb")]))
    assert "SM_ACTIVE and DRAM_ACTIVE missing" in found.confidence


def test_memory_decides_by_peak_and_margin_not_by_mean() -> None:
    """Peak 9000 + 15 % = 10350 MiB: more than 1g.10gb (9728), though the mean is 3000."""
    used = replace(steady(3000.0), peak=9000.0)
    found = fit(world([device({"sm": 0.05, "used": used}, "7g.80gb")]))
    need = option(found, "1g.10gb").memory_mib
    assert (need.peak, need.margin) == (9000, 1350)
    assert not option(found, "1g.10gb").fits
    assert found.chosen is not None
    assert found.chosen.profile == "1g.20gb"


def test_the_margin_is_at_least_a_context() -> None:
    need = option(fit(world([device({"sm": 0.05, "used": 1000.0})])), "1g.10gb").memory_mib
    assert (need.peak, need.margin) == (1000, 512)


def test_near_full_memory_grows() -> None:
    found = fit(world([device({"sm": 0.3, "used": 9500.0}, "1g.10gb")]))
    assert found.verdict == "too_small"
    assert found.chosen is not None
    assert found.chosen.profile == "1g.20gb"  # 25 % of a GPU; 2g.20gb would be 29 %


def test_an_end_near_full_memory_doubles_the_margin() -> None:
    """9000 of 9728 MiB is 93 %: not full. With a restart there the need is 9000 + 2 × 1350."""
    ended = world([device({"sm": 0.3, "used": 9000.0}, "1g.10gb")], [PodUse(POD, restarts=2)])
    found = fit(ended)
    assert found.verdict == "too_small"
    assert option(found, "1g.20gb").memory_mib.margin == 2700
    calm = fit(world([device({"sm": 0.3, "used": 9000.0}, "1g.10gb")], [PodUse(POD, restarts=0)]))
    assert calm.verdict == "right"


def test_a_saturated_slice_is_told_its_price_and_keeps_its_size() -> None:
    """1g → 2g: twice the SMs for twice the price."""
    found = fit(world([device({"graphics": 1.0, "sm": 0.97, "dram": 0.2, "used": 3000.0}, "1g.10gb")]))
    assert (found.verdict, found.chosen and found.chosen.profile) == ("too_small", "1g.10gb")
    assert found.next_step == "if it must be faster: 2g.20gb, at most ×2.0 for ×2.0 the price"


def test_too_few_samples_decide_nothing() -> None:
    values = {"sm": 0.01, "used": 1000.0}
    found = fit(world([device(values, samples=99)]))
    assert (found.verdict, found.chosen and found.chosen.profile) == ("unknown", "3g.40gb")
    assert found.because == "n/a (99 of the 100 samples that are required)"
    assert fit(world([device(values, samples=99)]), Wish(points_required=50)).verdict == "too_big"


def test_a_whole_gpu_without_profiling_says_its_memory_and_no_more() -> None:
    found = fit(world([device({"util": 30.0, "used": 8000.0}, None)]))
    assert (found.verdict, found.chosen) == ("unknown", None)
    assert found.next_step is not None
    assert "render --for telemetry" in found.next_step
    assert {o.profile for o in found.options if o.fits} == set(PROFILES)  # 8000 + 1200 MiB fit 9728
    assert {o.throughput_ratio for o in found.options} == {None}
    assert all("throughput n/a" in o.reason for o in found.options)


def test_a_whole_gpu_with_profiling_becomes_a_slice() -> None:
    """0.05 × 108 SMs = 5.4 of 14: 39 %."""
    found = fit(world([device({"graphics": 0.5, "sm": 0.05, "dram": 0.02, "used": 8000.0}, None)]))
    assert (found.verdict, found.chosen and found.chosen.profile) == ("too_big", "1g.10gb")
    busy = fit(world([device({"graphics": 0.8, "sm": 0.7, "used": 8000.0}, None)]))
    assert (busy.verdict, busy.chosen) == ("right", None)


def test_the_hungriest_of_several_pods_decides() -> None:
    """0.6 × 42 SMs = 25.2 of 2g's 28: above the target of 80 %. Alone, the small one would fit 1g (2.1 SMs)."""
    small, large = PodRef("ml", "bert-1"), PodRef("ml", "bert-2")
    one = device({"sm": 0.05, "used": 3000.0}, "3g.40gb", small)
    other = device({"sm": 0.60, "used": 9000.0}, "3g.40gb", large, gi_id=2)
    assert chosen(world([one])) == "1g.10gb"
    assert chosen(world([one, other])) == "3g.40gb"


def test_a_scrape_is_a_history_of_one_sample() -> None:
    item = Instance("2g.20gb", 3, owner=POD, activity=Activity(0.2, 0.1), memory_mib=Memory(3000, 19968))
    node = Node("n0", gpus=(Gpu(0, "GPU-0", A100, mig="on", instances=(item,)),))
    found = fit(Snapshot((node,), (Pod("ml", "bert-0", "n0", "Running"),)))
    assert (found.verdict, found.confidence, found.points) == ("unknown", "one sample", 1)
    assert found.workload.kind == "Pod"


def test_a_pod_that_waits_has_its_request_and_nothing_more() -> None:
    waiting = Pod("ml", "w", asks={"nvidia.com/mig-1g.10gb": 1})
    found = fit(Snapshot(pods=(waiting,)))
    assert (found.source, found.verdict, found.chosen) == ("declared", "unknown", None)


def test_an_instance_of_an_unknown_profile_is_no_whole_gpu() -> None:
    strange = replace(device({"sm": 0.01, "used": 100.0}, "3g.40gb"), profile=None)
    assert fit(world([strange])).verdict == "unknown"


def test_tolerance_is_what_may_be_lost() -> None:
    """7g at 0.28: 27.4 SMs at work. 2g (28 × 0.8 = 22.4) keeps 82 %, by the softness of the bend less: about 76 %."""
    snapshot = world([device({"graphics": 0.9, "sm": 0.28, "used": 3000.0}, "7g.80gb")])
    assert chosen(snapshot, Wish(0.05)) == "3g.40gb"
    assert chosen(snapshot, Wish(0.30)) == "2g.20gb"


# ---- what must hold everywhere ----------------------------------------------------------------------------------

RATIO = st.floats(0, 1)
MORE = st.floats(0, 1)


def cost(snapshot: Snapshot) -> float:
    name = chosen(snapshot)
    assert name is not None
    return SHARE[name]


def instance(low: float, high: float, used: float, profile: str, signal: str) -> Device:
    return device({signal: bimodal(min(low, high), max(low, high)), "used": used}, profile)


@given(
    profile=st.sampled_from(PROFILES), low=RATIO, high=RATIO, used=st.floats(600, 9000), more=MORE,
    signal=st.sampled_from(["sm", "graphics", "dram"]),
)  # fmt: skip
def test_more_memory_never_shrinks_the_choice(
    profile: str, low: float, high: float, used: float, more: float, signal: str
) -> None:
    limit = BOARD.profile(profile).memory_mib
    assert limit is not None
    larger = used + more * (limit - used)
    less = world([instance(low, high, used, profile, signal)])
    assert cost(world([instance(low, high, larger, profile, signal)])) >= cost(less) - 1e-9


@given(
    profile=st.sampled_from(PROFILES), low=st.floats(0.02, 1), high=st.floats(0.02, 1), factor=st.floats(0.02, 1),
    signal=st.sampled_from(["sm", "graphics"]), used=st.floats(100, 9000),
)  # fmt: skip
def test_more_activity_never_shrinks_the_choice(
    profile: str, low: float, high: float, factor: float, signal: str, used: float
) -> None:
    assume(max(low, high) * factor >= 0.01)  # below, nobody works there: idle keeps what it holds until it is released
    busy = world([instance(low, high, used, profile, signal)])
    calm = world([instance(low * factor, high * factor, used, profile, signal)])
    assert cost(busy) >= min(cost(calm), SHARE[profile]) - 1e-9


@given(
    profile=st.sampled_from(PROFILES), sm=RATIO, dram=RATIO, graphics=RATIO, used=st.floats(0, 80000),
    tolerance=st.sampled_from([0.0, 0.05, 0.1, 0.2]), version=st.sampled_from([None, "3.1.7", "4.2.3"]),
)  # fmt: skip
def test_no_slot_that_does_not_hold_is_chosen_and_no_loss_beyond_the_tolerance(
    profile: str, sm: float, dram: float, graphics: float, used: float, tolerance: float, version: str | None
) -> None:
    used = min(used, float(BOARD.profile(profile).memory_mib or 0))
    values = {"sm": sm, "dram": dram, "graphics": graphics, "used": used}
    found = fit(world([device(values, profile)], version=version), Wish(tolerance))
    assert found.chosen is not None
    if found.chosen.profile == profile:
        return
    got = option(found, found.chosen.profile)
    assert got.fits
    assert used + max(512, 0.15 * used) <= (got.memory_mib.limit or 0) + 1
    assert got.throughput_ratio is not None
    assert got.throughput_ratio.value >= 1 - tolerance


def test_same_input_same_fits_whatever_the_order() -> None:
    pods = [PodRef("ml", f"w{n}-0") for n in range(4)]
    rows = [device({"sm": 0.1 * n, "used": 3000.0}, "3g.40gb", p, gi_id=n) for n, p in enumerate(pods)]
    one, other = world(rows), world(list(reversed(rows)))
    assert right_size(one, CATALOGUE) == right_size(other, CATALOGUE)


def test_the_window_is_named_in_the_confidence() -> None:
    week = Window(0.0, 7 * 86400.0, 300.0)
    found = fit(world([device({"sm": 0.5, "used": 3000.0})], window=week))
    assert found.confidence.startswith("1440 samples in 168 h, 1 device")
    assert DAY.points == 1440


# ---- what is not there is not concluded from what is ---------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        {"dram": 0.02},  # SM and graphics activity were spikes or blanks, and dropped
        {"dram": 0.0},
        {"tensor": 0.5},
        {"util": 0.0},  # of a GPU instance: DCGM never had it there
    ],
)
def test_without_a_sample_of_sms_or_graphics_nothing_is_said_of_load(values) -> None:
    found = fit(world([device({**values, "used": 3000.0})]))
    assert found.verdict == "unknown"
    assert found.because == "n/a (no valid sample of SM_ACTIVE or GR_ENGINE_ACTIVE)"
    assert found.chosen is not None
    assert found.chosen.profile == "3g.40gb"  # it keeps what it has


@pytest.mark.parametrize("signal", ["tensor", "occupancy"])
def test_any_signal_shows_work(signal) -> None:
    assert fit(world([device({"graphics": 0.0, "sm": 0.0, signal: 0.5, "used": 3000.0})])).verdict != "idle"


def test_gpu_util_tells_idleness_of_whole_gpus() -> None:
    assert fit(world([device({"util": 0.0, "used": 3000.0}, None)])).verdict == "idle"


@pytest.mark.parametrize("memory", [{}, {"used": 0.0}])
def test_memory_that_is_not_known_shrinks_nothing(memory) -> None:
    found = fit(world([device({"graphics": 0.3, "sm": 0.05, **memory})]))
    assert found.verdict == "unknown"
    assert "memory in use is not known" in found.because


def test_the_reason_names_memory_where_memory_is_what_forbids() -> None:
    """38000 + 15 % = 43700 MiB: more than any slice of half a GPU (40192) holds, at 5 % of its SMs."""
    found = fit(world([device({"graphics": 0.3, "sm": 0.05, "used": 38000.0}, "4g.40gb")]))
    full = fit(world([device({"graphics": 0.3, "sm": 0.05, "used": 38000.0}, "7g.80gb")]))
    assert {found.verdict, full.verdict} == {"right"}
    assert "no cheaper slice holds 43,700 MiB with margin" in found.because
    assert "no cheaper slice holds 43,700 MiB with margin" in full.because


def test_no_more_than_all_of_a_capacity_is_in_use() -> None:
    """One sample of readings that may trail: 0.4 is over the knee of 0.28, by a power that makes 221 % of it."""
    found = fit(world([device({"graphics": 0.4, "used": 3000.0}, samples=1)], version="3.3.0"), Wish(points_required=1))
    assert found.verdict == "right"
    assert "100% of its capacity is in use (graphics activity 0.40, full from 0.28)" in found.because


@pytest.mark.parametrize(
    ("activity", "idle"),
    [
        (None, None),
        (Activity(), None),
        (Activity(dram=0.004), None),  # the others were dropped: nothing tells
        (Activity(tensor=0.5), False),
        (Activity(graphics=0.0, dram=0.2), False),
        (Activity(graphics=0.0), True),
        (Activity(sm=0.0, dram=0.0), True),
    ],
)
def test_one_sample_shows_idleness_only_where_sms_or_graphics_do(activity, idle) -> None:
    assert is_idle(activity) is idle
