"""Starved, idle, or only small: told apart by what stands beside the device. A starved one is never told to shrink."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migsaw.cli.shared import load_catalogue
from migsaw.fit.rightsize import right_size, share_of
from migsaw.fit.starvation import nic_share
from migsaw.model.fits import Fit
from migsaw.model.snapshot import Snapshot
from migsaw.model.telemetry import NodeUse, PodUse
from telemetry_worlds import POD, bimodal, device, steady, world

CATALOGUE = load_catalogue()
BOARD = CATALOGUE.board("a100-sxm4-80gb")
QUIET_NODE = NodeUse("n0", disk_busy=steady(0.1))


def fit(snapshot: Snapshot) -> Fit:
    (found,) = right_size(snapshot, CATALOGUE).fits
    return found


def pod(throttled: float = 0.0, cores: float = 1.0, limit: float = 8.0, received: float = 0.0) -> PodUse:
    return PodUse(POD, steady(cores), limit, steady(throttled), steady(received))


HUNGRY = {"graphics": bimodal(0.0, 0.9), "sm": bimodal(0.0, 0.3), "used": 30000.0}


def test_the_network_share_is_the_vm_s_over_its_slices() -> None:
    """24 Gbit/s = 3000 MB/s, over 8 GPUs, three of seven slices."""
    assert CATALOGUE.azure_sizes["Standard_ND96amsr_A100_v4"].nic_mbps == 24000
    assert nic_share(24000, 8, 3, 7) == pytest.approx(160.7e6, rel=1e-3)


@pytest.mark.parametrize(
    ("beside", "node", "verdict", "word"),
    [
        (pod(throttled=0.6), QUIET_NODE, "starved_cpu", "throttled"),
        (pod(cores=7.9), QUIET_NODE, "starved_cpu", "CPU in use"),
        (pod(received=150e6), QUIET_NODE, "starved_input", "received"),
        (pod(), NodeUse("n0", disk_busy=steady(0.97)), "starved_input", "disk"),
        (pod(received=20e6), QUIET_NODE, "starved_input", "received"),  # latency bound: comes, but far below the share
    ],
)
def test_who_starves_is_told_what_to_mend_and_keeps_its_slice(
    beside: PodUse, node: NodeUse, verdict: str, word: str
) -> None:
    found = fit(world([device(HUNGRY)], [beside], [node]))
    assert found.verdict == verdict
    assert word in found.because
    assert found.next_step
    assert found.chosen is not None
    assert found.chosen.profile == "3g.40gb"


def test_a_saw_tooth_alone_is_a_suspicion_not_a_verdict() -> None:
    found = fit(world([device(HUNGRY)]))
    assert found.verdict == "unknown"
    assert "may starve" in found.because
    assert found.next_step is not None
    assert "cAdvisor" in found.next_step
    assert found.chosen is not None
    assert found.chosen.profile == "3g.40gb"


def test_bursts_of_requests_with_quiet_neighbours_are_no_starvation() -> None:
    found = fit(world([device({**HUNGRY, "used": 5000.0})], [pod()], [QUIET_NODE]))
    assert found.verdict == "too_big"


def test_low_even_activity_is_too_big_unless_the_cpu_is_throttled() -> None:
    low = device({"graphics": 0.2, "sm": 0.1, "used": 5000.0})
    assert fit(world([low], [pod()], [QUIET_NODE])).verdict == "too_big"
    assert fit(world([low], [pod(throttled=0.5)], [QUIET_NODE])).verdict == "starved_cpu"


def test_without_memory_that_is_held_nothing_starves() -> None:
    empty = device({**HUNGRY, "used": 100.0})
    assert not fit(world([empty], [pod(throttled=0.9)], [QUIET_NODE])).verdict.startswith("starved")


def test_a_busy_device_does_not_starve_whatever_its_cpu_does() -> None:
    busy = device({"graphics": 0.95, "sm": 0.95, "used": 5000.0})
    assert fit(world([busy], [pod(throttled=0.9)], [QUIET_NODE])).verdict == "too_small"


def test_a_starved_whole_gpu_is_offered_no_slice() -> None:
    found = fit(world([device(HUNGRY, None)], [pod(throttled=0.6)], [QUIET_NODE]))
    assert (found.verdict, found.chosen) == ("starved_cpu", None)
    assert [o.profile for o in found.options if o.fits] == ["7g.80gb"]  # 7 of 7 slices: no cheaper


def test_nobody_home_is_idle() -> None:
    found = fit(world([device({"graphics": 0.0, "sm": 0.0, "used": 30000.0})]))
    assert (found.verdict, found.because) == ("idle", "no activity in the whole window")


RATIO = st.floats(0, 1)


@given(
    low=RATIO, high=RATIO, used=st.floats(0, 39000), throttled=RATIO, received=st.floats(0, 4e8), disk=RATIO,
    profile=st.sampled_from(["1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"]),
    version=st.sampled_from([None, "3.1.7", "4.2.3"]),
)  # fmt: skip
def test_no_starved_workload_is_ever_given_less(
    low: float, high: float, used: float, throttled: float, received: float, disk: float, profile: str,
    version: str | None,
) -> None:  # fmt: skip
    values = {"graphics": bimodal(min(low, high), max(low, high)), "used": used}
    beside = pod(throttled=throttled, received=received)
    found = fit(world([device(values, profile)], [beside], [NodeUse("n0", steady(disk))], version))
    assert found.chosen is not None
    now, then = (share_of(BOARD, BOARD.profile(name)) for name in (profile, found.chosen.profile))
    if found.verdict not in ("too_big", "too_small"):
        assert found.chosen.profile == profile
    if found.verdict.startswith("starved") or "may starve" in found.because:
        assert all(share_of(BOARD, BOARD.profile(o.profile)) >= now for o in found.options if o.fits)
    if found.verdict == "too_small":
        assert then >= now
    if found.verdict == "too_big":
        assert then < now
