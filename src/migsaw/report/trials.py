"""A series of trials as a table: what was measured and how sure, what is predicted, which slot and why."""

from __future__ import annotations

from migsaw.fit.beside import mean_activity
from migsaw.model.fits import Figure
from migsaw.model.measurement import Measurement
from migsaw.model.telemetry import Device
from migsaw.model.trial import SlotRow, Trials, Verdict
from migsaw.report.table import Column, Table, na

STARVED = 0.2  # share of its time that a workload may wait for data before it is worth a word

OUTCOMES = {
    "steady": "steady",
    "unsteady": "not steady",
    "out_of_memory": "out of memory",
    "failed": "failed",
    "interrupted": "interrupted",
}


def trials_table(found: Trials) -> Table:
    unit = found.unit
    columns = (
        Column("", whole=True),
        Column("slot", whole=True),
        Column(f"{unit}/s", right=True),
        Column("interval", right=True),
        Column("known by"),
        Column("GPU share", right=True),
        Column(f"GPU-s per 1000 {unit}", right=True),
        Column("memory MiB", right=True),
        Column("start-up s", right=True, wide=True),
        Column("measured s", right=True, wide=True),
        Column("waits for data", right=True, wide=True),
        Column("neighbours", wide=True),
        Column("SM active", right=True, wide=True),
        Column("memory active", right=True, wide=True),
        Column("device"),
    )
    rows = tuple(_row(row, found) for row in found.rows)
    return Table(columns, rows, f"{found.name} on {found.board}", tuple(_footer(found)))


def _row(row: SlotRow, found: Trials) -> tuple[str, ...]:
    m, figure = row.measurement, row.throughput_per_second
    return (
        "*" if row.profile == found.chosen else "",
        row.profile,
        na(_why_none(row)) if figure is None else f"{figure.value:.4g}",
        _sure(figure),
        _known_by(row, found),
        "n/a" if row.share is None else f"{row.share:.0%}",
        "n/a" if row.cost is None else f"{row.cost * 1000:.4g}",
        "n/a" if m is None or m.memory_peak_mib is None else str(m.memory_peak_mib),
        "" if m is None or m.startup_seconds is None else f"{m.startup_seconds:.1f}",
        "" if m is None or m.steady_seconds is None else f"{m.steady_seconds:.0f}",
        "" if m is None or m.input_wait is None else f"{m.input_wait:.0%}",
        "" if m is None else _neighbours(m),
        _active(m, "sm"),
        _active(m, "dram"),
        found.device if m is None and found.device == "cpu" else "" if m is None else f"device: {m.device}",
    )


def _why_none(row: SlotRow) -> str:
    if row.measurement is not None:
        return OUTCOMES[row.measurement.outcome]
    return "too small" if row.holds is False else "not measured"


def _sure(figure: Figure | None) -> str:
    if figure is None or figure.low is None or figure.high is None or figure.value <= 0:
        return "n/a"
    return f"{figure.low:.4g} – {figure.high:.4g}"


def _known_by(row: SlotRow, found: Trials) -> str:
    if row.measurement is not None:
        earlier = ", earlier" if row.is_resumed else ""
        return f"measured ({OUTCOMES[row.measurement.outcome]}{earlier})"
    if row.holds is False:
        return "memory of other trials"
    return "predicted (90 %)" if row.throughput_per_second else "n/a"


def _neighbours(m: Measurement) -> str:
    return m.neighbours if m.derated == 1.0 else f"{m.neighbours}, × {m.derated:g}"


def _active(m: Measurement | None, signal: str) -> str:
    """Mean of DCGM's ratio in the steady time."""
    if m is None or m.beside is None:
        return ""
    series = m.beside.device.series.get(signal) if m.beside.device else None
    return na("not shown") if series is None or series.values is None else f"{series.values.mean:.0%}"


def _footer(found: Trials) -> list[str]:
    measured = [row.measurement for row in found.rows if row.measurement is not None]
    lines = []
    if any(m.derated != 1.0 for m in measured):
        factor = next(m.derated for m in measured if m.derated != 1.0)
        lines.append(f"× {factor:g}: beside busy neighbours a slice is that much slower (MLPerf v1.1: 0.6 to 9.4 %).")
    for m in measured:
        lines += _beside(m)
        if m.starved is None and m.input_wait is not None and m.input_wait >= STARVED:
            lines.append(
                f"{m.profile}: {m.input_wait:.0%} of its time it waits for data: speed the input up before the slot."
            )
    earlier = sum(row.is_resumed for row in found.rows)
    lines.append(f"Trials made now: {found.trials}" + (f"; measured earlier: {earlier}." if earlier else "."))
    lines.append(_last(found))
    return lines


def _beside(m: Measurement) -> list[str]:
    """What DCGM adds to a number: whose it is, and what it waits for."""
    lines = []
    if m.neighbours == "busy" and m.beside is not None:
        seen = ", ".join(_neighbour(device) for device in m.beside.neighbours)
        lines.append(
            f"{m.profile}: neighbours were busy with other work ({seen}): the number is not the slot's alone. Run the "
            f"same command again, with --load-neighbours or beside idle ones: then 1–9 % are taken off for busy ones."
        )
    if m.beside is not None and m.beside.unknown:
        lines.append(f"{m.profile}: activity n/a ({m.beside.unknown}).")
    if m.starved is not None:
        lines.append(f"{m.profile}: {m.starved.because}. First: {m.starved.mend}.")
    return lines


def _neighbour(device: Device) -> str:
    mean = mean_activity(device)
    shown = na("blank") if mean is None else f"{mean:.0%}"
    return f"{device.profile or 'instance'} #{device.gi_id} {shown}"


def _last(found: Trials) -> str:
    if found.verdict is Verdict.CHOSEN:
        return f"Slot: {found.chosen}. It {found.because}."
    return {
        Verdict.NONE_SERVES: "No slot",
        Verdict.REHEARSED: "Rehearsed only, device: cpu",
        Verdict.FAILED: "Failed",
    }[found.verdict] + f": {found.because}."
