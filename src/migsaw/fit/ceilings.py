"""What a signal reaches on a saturated device: by signal, profile and DCGM version, each with its rule and its source.

A figure is a share of nothing until one knows what is full. NVIDIA never published these values; they come from issues
and from public measurements, so every ceiling says where it is from. Where the version does not settle it, the data
may: a value above a lower ceiling refutes that ceiling.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from migsaw.model.telemetry import Series

RELATIVE_SINCE = 4  # DCGM major version from which an instance's graphics activity is taken as relative to the instance
OLD_CEILINGS = {"2g": 1 / 2, "3g": 1 / 3, "4g": 4 / 7}  # by role of the profile; 1g and 7g reached 1
SLACK = 1.05  # a value this many times a ceiling refutes it
STEADY = 1.05  # 95th ÷ 5th percentile of a reading that does not drift

ISSUE_138 = "github.com/NVIDIA/DCGM/issues/138"
ISSUE_639 = "github.com/NVIDIA/dcgm-exporter/issues/639"
ISSUE_152 = "github.com/NVIDIA/DCGM/issues/152"
MIGPERF = "MIGPerf's 1 Hz series, github.com/MLSysOps/MIGProfiler"


@dataclass(frozen=True, slots=True)
class Ceiling:
    """``value``: 0..1 as exported. ``averaged``: readings may trail the load by minutes, so that a device under
    constant full load reads anything between about 0.3 and 1 (seen in the series of DCGM before 4)."""

    value: float
    rule: str
    source: str
    averaged: bool = False

    def shown(self) -> str:
        return f"full at {self.value:.2f}: {self.rule} ({self.source})"


def ceiling_of(signal: str, role: str | None, version: str | None, series: Series) -> Ceiling:
    """``role`` of the profile (1g … 7g), None with MIG off; ``version`` of DCGM or of its exporter as printed.

    Signals: graphics, sm, dram and the like (``model/telemetry.py`` RATIOS).
    """
    if signal == "sm":
        return Ceiling(1.0, "relative to the device; on instances readings up to 1.3 were seen", ISSUE_152)
    if signal != "graphics" or role is None:
        return Ceiling(1.0, "relative to the device", "DCGM field definitions")
    major = major_version(version)
    if major is not None and major >= RELATIVE_SINCE:
        return Ceiling(1.0, f"relative to the instance since DCGM {RELATIVE_SINCE}", ISSUE_138)
    said = f"DCGM {major}" if major is not None else "DCGM version not known"
    drifts = not _is_steady(series)
    low = OLD_CEILINGS.get(role, 1.0)
    source = ISSUE_639 if role == "4g" else ISSUE_138
    peak = series.values.peak if series.values else 0.0
    if low == 1.0:
        return Ceiling(1.0, f"{said}: a {role} reaches 1", MIGPERF if drifts else source, drifts)
    if peak > low * SLACK:
        return Ceiling(1.0, f"{said}: {peak:.2f} was read, which refutes {low:.2f} of a {role}", source, drifts)
    return Ceiling(low, f"{said}: a {role} may stop at {low:.2f}", source, drifts)


def refuted_ceiling(role: str | None, version: str | None, series: Series) -> float | None:
    """The ceiling that graphics activity of this profile had in this version of DCGM, where a reading lies above it."""
    low, major = OLD_CEILINGS.get(role or ""), major_version(version)
    if low is None or major is None or major >= RELATIVE_SINCE or series.values is None:
        return None
    return low if series.values.peak > low * SLACK else None


def major_version(version: str | None) -> int | None:
    """``4.2.3``, ``DCGM 3.3.9`` or an exporter's ``3.3.9-3.6.1`` (DCGM first) → the major version of DCGM."""
    found = re.search(r"(\d+)\.\d+", version or "")
    return int(found.group(1)) if found else None


def _is_steady(series: Series) -> bool:
    """Neither load nor reading moves: then an average over the past is the present. One sample shows no such thing."""
    v = series.values
    return v is not None and v.low is not None and series.samples > 1 and v.high <= STEADY * v.low
