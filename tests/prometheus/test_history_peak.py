"""Memory's peak between two steps: what is stored counts; a blank hides no more than the step that it lies in."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from made_series import START, Made, every, write_blocks

from migsaw.model.telemetry import Window
from migsaw.observe.history import HistoryOptions, Server, read_all

END, STEP = START + 3600, 600
USED = "DCGM_FI_DEV_FB_USED"


def labels(uuid: str) -> dict[str, str]:
    own = {"gpu": "0", "UUID": uuid, "modelName": "NVIDIA A100-SXM4-80GB", "Hostname": "node-a"}
    return {**own, "GPU_I_ID": "1", "GPU_I_PROFILE": "1g.10gb", "namespace": "ml", "pod": "train-0"}


def memory(n: int) -> float:
    """4,000 MiB, and 9,000 MiB for one scrape of 15 s between two steps."""
    return 9000.0 if n == 50 else 4000.0


def with_a_blank(n: int) -> float:
    return 9.223372036854776e18 if n == 3 else memory(n)


def with_a_blank_beside(n: int) -> float:
    """In the same step of 600 s as the peak."""
    return 9.223372036854776e18 if n == 45 else memory(n)


@pytest.fixture(scope="module")
def peaks(start_prometheus: Callable, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[float, float]]:
    """GPU → (peak, 95th percentile)."""
    data = tmp_path_factory.mktemp("peak") / "data"
    series = [Made(USED, labels("GPU-a"), every(15, START, END, memory))]
    series += [Made(USED, labels("GPU-b"), every(15, START, END, with_a_blank))]
    series += [Made(USED, labels("GPU-c"), every(15, START, END, with_a_blank_beside))]
    write_blocks(series, data)
    found = read_all(Server(start_prometheus(data).url), Window(START, END, STEP), HistoryOptions())
    values = {d.uuid or "": d.series["used"].values for d in found.telemetry.devices}
    return {uuid: (v.peak, v.high or 0.0) for uuid, v in values.items() if v}


def test_a_peak_between_two_steps_is_seen(peaks):
    assert peaks["GPU-a"] == (9000.0, 4000.0)


def test_a_blank_elsewhere_hides_no_peak(peaks):
    assert peaks["GPU-b"] == (9000.0, 4000.0)


def test_a_blank_never_becomes_the_peak_and_hides_its_own_step_only(peaks):
    assert peaks["GPU-c"] == (4000.0, 4000.0)
