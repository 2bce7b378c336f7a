"""What DCGM showed beside a trial → were the neighbours busy, and did the slot wait for data or CPU?

Both judge the steady time alone. Where DCGM showed too little, nothing is concluded, and the reason is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from migsaw.fit.ceilings import ceiling_of
from migsaw.fit.starvation import Neighbours as Around
from migsaw.fit.starvation import Signs, find_starvation, sentence
from migsaw.model.boards import Board
from migsaw.model.measurement import Beside, Neighbours, Starved
from migsaw.model.telemetry import Device, Distribution, Series

BUSY = 0.05  # mean activity. Assumed: below, a neighbour takes less than 5 % of the 9.4 % that full ones take at most
LEAST_SAMPLES = 10  # for percentiles that mean something
SIGNALS = ("graphics", "sm", "dram")  # of activity, the one that counts first


def activity_of(device: Device) -> Series | None:
    """None: nothing that tells of activity was kept."""
    return next((s for name in SIGNALS if (s := device.series.get(name)) is not None and s.values is not None), None)


def mean_activity(device: Device) -> float | None:
    series = activity_of(device)
    return series.values.mean if series is not None and series.values is not None else None


def neighbours_of(told: Neighbours, beside: Beside | None) -> Neighbours:
    """What was seen beats what was meant: copies that do nothing leave neighbours idle, a stranger's work is noise.

    ``told`` stays where DCGM showed no neighbour, or is blank on one of them and the others are idle.
    """
    means = [mean_activity(device) for device in beside.neighbours] if beside else []
    if told == "none" or not means:
        return told
    busy = [mean is not None and mean >= BUSY for mean in means]
    if any(busy):
        return "loaded" if told == "loaded" and all(busy) else "busy"
    return told if None in means else "idle"


def starved_by(
    beside: Beside | None, role: str | None, input_wait: float | None, peak_mib: int | None
) -> Starved | None:
    """``role`` of the profile, None for a whole GPU. ``peak_mib`` stands for memory that DCGM did not show."""
    device = beside.device if beside else None
    series = activity_of(device) if device else None
    if beside is None or device is None or series is None or series.values is None or series.samples < LEAST_SAMPLES:
        return None
    signal = next(name for name in SIGNALS if device.series.get(name) is series)
    ceiling = ceiling_of(signal, role, beside.dcgm_version, series).value
    used = device.series.get("used")
    held = used.values if used is not None and used.values is not None else _steady(peak_mib)
    found = find_starvation([Signs(series.values, ceiling, held)], Around(beside.pod, beside.node, None, input_wait))
    return Starved(found.cause, found.is_sure, sentence(found), found.mend) if found else None


def _steady(mib: int | None) -> Distribution | None:
    return None if mib is None else Distribution(mib, None, None, mib, mib, None)


def role_of(profile: str, board: Board) -> str | None:
    return None if profile == "off" else board.profile(profile).role[:2]


def series_of(name: str, values: Iterable[float | None]) -> Series:
    """``values`` in the order of time; None: blank. Percentiles as PromQL's quantile_over_time interpolates."""
    every = list(values)
    kept = [value for value in every if value is not None]
    changes = sum(a != b for a, b in pairwise(kept))
    return Series(name, len(kept), _distribution(kept), blanks=len(every) - len(kept), changes=changes)


def _distribution(values: list[float]) -> Distribution | None:
    if not values:
        return None
    mean = sum(values) / len(values)
    deviation = (sum((value - mean) ** 2 for value in values) / len(values)) ** 0.5
    low, median, high = (_quantile(sorted(values), q) for q in (0.05, 0.5, 0.95))
    return Distribution(mean, low, median, high, max(values), deviation)


def _quantile(ordered: list[float], q: float) -> float:
    place = q * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def joined(rows: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Rows of one device in one scrape, of several exporters: the larger value of each signal."""
    found: dict[str, float] = {}
    for row in rows:
        for signal, value in row.items():
            found[signal] = max(value, found.get(signal, value))
    return found
