"""What is full: by profile, MIG or not, and DCGM version. Values as reported in the issues named beside them."""

from __future__ import annotations

import pytest

from migsaw.fit.ceilings import ceiling_of, major_version
from migsaw.model.telemetry import Distribution, Series


def series(peak: float, low: float = 0.0) -> Series:
    return Series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 500, Distribution(peak / 2, low, peak / 2, peak, peak, peak / 4))


@pytest.mark.parametrize(
    ("role", "reported"),
    [("1g", 1.0), ("2g", 0.50), ("3g", 0.33), ("4g", 0.57), ("7g", 1.0)],  # DCGM#138, dcgm-exporter#639
)
@pytest.mark.parametrize("version", ["3.1.7", None])
def test_older_dcgm_stops_where_it_was_reported_to(role: str, reported: float, version: str | None) -> None:
    found = ceiling_of("graphics", role, version, series(0.2))
    assert found.value == pytest.approx(reported, abs=0.005)
    assert ("not known" in found.shown()) is (version is None)
    assert "github.com" in found.shown()


@pytest.mark.parametrize("role", ["1g", "2g", "3g", "4g", "7g"])
def test_newer_dcgm_is_relative_to_the_instance(role: str) -> None:
    found = ceiling_of("graphics", role, "4.2.3-4.1.1", series(0.2))
    assert (found.value, found.averaged) == (1.0, False)


def test_a_value_above_a_lower_ceiling_refutes_it() -> None:
    assert ceiling_of("graphics", "3g", None, series(0.34)).value == pytest.approx(1 / 3)
    found = ceiling_of("graphics", "3g", None, series(0.86))
    assert found.value == 1.0
    assert "0.86 was read, which refutes 0.33" in found.shown()


def test_a_whole_gpu_and_sm_activity_have_no_such_ceiling() -> None:
    assert ceiling_of("graphics", None, "2.4.7", series(0.2)).value == 1.0
    found = ceiling_of("sm", "2g", "2.4.7", series(1.07))
    assert found.value == 1.0
    assert "DCGM/issues/152" in found.shown()


def test_a_reading_that_drifts_may_trail_the_load_one_that_stands_still_does_not() -> None:
    assert ceiling_of("graphics", "7g", None, series(0.6, low=0.4)).averaged
    assert not ceiling_of("graphics", "7g", None, series(0.6, low=0.59)).averaged


@pytest.mark.parametrize(
    ("text", "major"), [("3.3.9-3.6.1", 3), ("DCGM 4.2.3", 4), ("2.4.7", 2), ("", None), (None, None), ("latest", None)]
)
def test_versions_as_exporters_print_them(text: str | None, major: int | None) -> None:
    assert major_version(text) == major
