"""How much of a device's capacity work takes, and what throughput another slice would give: a soft roofline.

Throughput over slices of size ``e`` is ``T = ((a·e)^-k + cap^-k)^(-1/k)``: below the size ``x·e`` (``x``: share of the
present capacity in use) the slice bounds the work, above it the host does. Each signal tells ``x`` in its way:

- SM_ACTIVE × SMs is the number of SMs at work: ``x`` is its 95th percentile over the target, linear in SMs.
- DRAM_ACTIVE × bandwidth (memory slices) likewise.
- GR_ENGINE_ACTIVE is only the share of time in which *any* kernel ran. Small kernels do not fill a large slice, so this
  share grows only with about the square root of what the slice shrinks: ``x`` is about the square of activity ÷ full.

The exponent, the sharpness and the knee of averaged readings were measured on MIGPerf's 306 runs on an A100-40GB;
``benchmarks/rightsize.py --held-out`` fits them without the model family that is judged. It knows no money.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from migsaw.fit.ceilings import MIGPERF, Ceiling, ceiling_of
from migsaw.model.boards import Board, Profile
from migsaw.model.fits import Figure
from migsaw.model.telemetry import Series

TARGET = 0.8  # of the ceiling: what a slice is meant to reach at its 95th percentile
KNEE_AVERAGED = 0.28  # graphics activity, where readings trail by minutes, from which a slice is full
GROWTH = 0.45  # graphics activity grows with (size ÷ smaller size) to this power
SHARPNESS = 8.0  # k: how sharply host-bound gives way to slice-bound
UNCERTAINTY = 1.5  # of x, up and down …
COARSE = 0.15  # … and of the ratio: nine of ten measured ratios lie between


@dataclass(frozen=True, slots=True)
class Size:
    """``sms`` and ``memory_slices`` (which carry the bandwidth) of a profile, or of a GPU with MIG off."""

    sms: int
    memory_slices: int


@dataclass(frozen=True, slots=True)
class Use:
    """``share`` of the capacity in use (``x``): 1 is where the slice begins to bound the work; it may exceed 1."""

    signal: str
    share: float
    activity: float  # as exported: the figure that the share was made from
    full: float  # activity, as exported, at which ``share`` is 1
    ceiling: Ceiling


def throughput(uses: Sequence[Use], held: Size, other: Size) -> Figure:
    """On ``other`` over on ``held``. Of a full slice the host's bound is not known: upwards it may be out of reach."""
    low, high = sorted(_ratio(uses, held, other, f) for f in (1 / UNCERTAINTY, UNCERTAINTY))
    gains = [1 / steps for use in uses if use.share >= 1 and (steps := _steps(use, held, other)) < 1]
    return Figure(
        _ratio(uses, held, other, 1.0), low * (1 - COARSE), max([high, *gains]) * (1 + COARSE), source="predicted"
    )


def binding(uses: Sequence[Use], held: Size, other: Size) -> Use:
    """What would bound the work on ``other``."""
    return max(uses, key=lambda use: (use.share * _steps(use, held, other), use.signal))


def _ratio(uses: Sequence[Use], held: Size, other: Size, factor: float) -> float:
    """Host, SMs and bandwidth each bound the work: their inverse bounds add up in the power of the sharpness."""
    here = 1 + sum((use.share * factor) ** SHARPNESS for use in uses)
    there = 1 + sum((use.share * factor * _steps(use, held, other)) ** SHARPNESS for use in uses)
    return float((here / there) ** (1 / SHARPNESS))


def _steps(use: Use, held: Size, other: Size) -> float:
    """How many times smaller ``other`` is in what the signal counts."""
    return held.memory_slices / other.memory_slices if use.signal == "dram" else held.sms / other.sms


def size_of(board: Board, profile: Profile | None) -> Size | None:
    """None for ``profile``: the GPU with MIG off. None where the catalogue does not know it."""
    sms, slices = (
        (board.sm_count, board.memory_slices) if profile is None else (profile.sm_count, profile.memory_slices)
    )
    return Size(sms, slices) if sms and slices else None


def uses_of(series: Mapping[str, Series], role: str | None, version: str | None) -> tuple[Use, ...]:
    """What bounds the work. Graphics activity counts only where SM_ACTIVE is missing; where neither is there, nothing
    is told: bandwidth alone says nothing of the SMs."""
    signals = ["sm"] if _known(series, "sm") else ["graphics"] if _known(series, "graphics") else []
    signals += ["dram"] if signals and _known(series, "dram") else []
    return tuple(_use(name, series[name], ceiling_of(name, role, version, series[name])) for name in signals)


def _known(series: Mapping[str, Series], name: str) -> bool:
    return name in series and series[name].values is not None


def _use(signal: str, series: Series, ceiling: Ceiling) -> Use:
    values = series.values
    assert values is not None
    activity, full = values.high, TARGET * ceiling.value
    if ceiling.averaged:  # a constant load reads as a staircase: its lower steps are the load, but for a burst
        activity = max(values.mean if values.low is None else values.low, values.high / 2)
        full = KNEE_AVERAGED
    power = 1 / GROWTH if signal == "graphics" else 1.0
    return Use(signal, (activity / full) ** power, activity, full, ceiling)


def brief(use: Use) -> str:
    return f"{use.signal} activity {use.activity:.2f}, full from {use.full:.2f}"


def shown(use: Use) -> str:
    """The figure with its rule and its source."""
    if use.ceiling.averaged:
        why = f"as readings of DCGM before 4 may trail the load by minutes ({MIGPERF}); {use.ceiling.rule}"
    else:
        why = f"{TARGET:.0%} of the ceiling; {use.ceiling.shown()}"
    return f"{use.signal} activity {use.activity:.2f}, capacity counted from {use.full:.2f}, {why}"
