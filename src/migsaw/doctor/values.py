"""Series whose values cannot be taken at their word: blanks, spikes, stuck and silent ones, values of the board."""

from __future__ import annotations

from collections.abc import Iterator

from migsaw.doctor.engine import Evidence, Facts, of_telemetry, rule
from migsaw.doctor.places import card, counted, gpu_place, holds_memory, is_bare, of_node, peak, place, ratios
from migsaw.fit.ceilings import refuted_ceiling
from migsaw.model.telemetry import Device, Telemetry

STUCK_SAMPLES = 20  # so many equal samples of a ratio with six decimals are no chance
FULL = 0.999  # a saturated device shows 1 all the time
BUSY_PERCENT = 10.0  # GPU utilisation that cannot be noise


@rule(
    "MS112",
    "warning",
    "A series without a single value",
    cause="Every sample is DCGM's blank (not supported, not permitted, not found), which other tools read as a huge "
    "load.",
    next="Look at the exporter's log for the field; take it out of the counters file where the GPU does not offer it.",
    sources=("NVIDIA/gpu-monitoring-tools#152", "NVIDIA/dcgm-exporter#418"),
)
@of_telemetry
def all_blank(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    for device in telemetry.devices:
        for series in device.series.values():
            if series.blanks and not series.samples and not series.spikes:
                yield Evidence(None, place(device), f"{series.name}: {counted(series.blanks, 'sample')}, all blank")


@rule(
    "MS113",
    "warning",
    "Blank samples among the values",
    cause="DCGM's sentinels (2147483632 and up, 9.2e18, 1.4e14) mean 'no value'. A dashboard that averages them "
    "shows 9223372036854776000 %. They were dropped here before any arithmetic.",
    next="In dashboards compare first (`metric < 2147483632`), then scale or add. Look at the exporter's log for "
    "these times.",
    sources=("NVIDIA/gpu-monitoring-tools#152",),
)
@of_telemetry
def some_blank(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    for device in telemetry.devices:
        for series in device.series.values():
            if series.blanks and (series.samples or series.spikes):
                total = series.blanks + series.spikes + series.samples
                yield Evidence(None, place(device), f"{series.name}: {series.blanks} of {counted(total, 'sample')}")


@rule(
    "MS114",
    "warning",
    "Ratios far above 1",
    cause="A counter of the profiling module wrapped or was read by two clients at once: ratios of 1,000 to 200,000 "
    "appear. They were dropped here, never clamped to 1.",
    next="Update DCGM; let one hostengine only read profiling counters.",
    sources=("NVIDIA/DCGM#199", "NVIDIA/go-dcgm#75", "NVIDIA/dcgm-exporter#418"),
)
@of_telemetry
def spikes(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    for device in telemetry.devices:
        for series in device.series.values():
            if series.spikes:
                yield Evidence(None, place(device), f"{series.name}: {counted(series.spikes, 'sample')} dropped")


@rule(
    "MS115",
    "info",
    "Ratios a little above 1",
    cause="DCGM normalises some profiles by fewer SMs than they have, so that a full slice shows 1.0 to 1.2.",
    next="Nothing: they are kept, and read as full.",
    sources=("NVIDIA/DCGM#152",),
)
@of_telemetry
def above_one(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    for device in telemetry.devices:
        for signal, series in ratios(device).items():
            if series.above_one:
                most = peak(device, signal)
                shown = counted(series.above_one, "sample")
                yield Evidence(None, place(device), f"{series.name}: {shown}" + (f", up to {most:g}" if most else ""))


@rule(
    "MS116",
    "warning",
    "A ratio that does not move",
    cause="After a restart of the hostengine, or when its watch is lost, the exporter goes on serving the last value.",
    next="Restart dcgm-exporter on the node; do not size anything by this window.",
    sources=("NVIDIA/gpu-monitoring-tools#188",),
)
@of_telemetry
def stuck(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    for device in telemetry.devices:
        for signal, series in ratios(device).items():
            most = peak(device, signal) or 0
            if series.changes == 0 and series.samples >= STUCK_SAMPLES and 0 < most < FULL:
                yield Evidence(None, place(device), f"{series.name}: {most:g} in all {series.samples} samples")


@rule(
    "MS117",
    "warning",
    "Profiling shows 0 where work is held",
    cause="The exporter's profiling watch did not start, or was lost after weeks: it serves 0 without an error. Or "
    "nobody works there at all; the values cannot tell.",
    next="Run `dcgmi dmon -e 1001 -c 5` in the exporter's container: if values appear, it was the watch. Restart the "
    "exporter.",
    sources=("NVIDIA/dcgm-exporter#662",),
)
@of_telemetry
def silent_zero(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    for node, devices in of_node(telemetry).items():
        busy = [d for d in devices if _is_zero(d) and (peak(d, "util") or 0) > BUSY_PERCENT]
        for device in busy:
            yield Evidence(None, place(device), f"profiling 0, GPU utilisation {peak(device, 'util'):g} %")
        held = [device for device in devices if holds_memory(device)]
        is_enough = len(held) > 1 or (
            bool(held) and telemetry.window is not None
        )  # one idle holder in one scrape is no sign
        if is_enough and not busy and all(map(_is_zero, held)) and not any(map(_has_moved, devices)):
            where = node or "unknown node"
            yield Evidence(None, where, f"profiling 0 everywhere, memory held on {counted(len(held), 'device')}")


def _is_zero(device: Device) -> bool:
    peaks = [peak(device, signal) for signal in ratios(device)]
    return any(value is not None for value in peaks) and not any(peaks)


def _has_moved(device: Device) -> bool:
    return any(peak(device, signal) for signal in ratios(device))


@rule(
    "MS118",
    "info",
    "GPU utilisation on GPU instances",
    cause="DCGM never supported GPU_UTIL on MIG. Some releases export 0 for it, some a blank; neither means "
    "anything, and charts made of it (Azure ML studio's GPU chart among them) show idle slices.",
    next="Chart DCGM_FI_PROF_GR_ENGINE_ACTIVE and SM_ACTIVE instead.",
    sources=("NVIDIA/dcgm-exporter#216", "NVIDIA/dcgm-exporter#105", "NVIDIA/DCGM#80"),
)
@of_telemetry
def utilisation_on_slices(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    for device in telemetry.devices:
        if device.gi_id is not None and "util" in device.series:
            most = peak(device, "util")
            value = "blank" if most is None else f"at most {most:g} %"
            yield Evidence(None, place(device), f"{device.series['util'].name}: {value}")


@rule(
    "MS119",
    "info",
    "Values of the board repeated on every instance",
    cause="Power, temperature, clocks and energy are the board's; dcgm-exporter repeats them on each GPU instance. A "
    "sum over series counts the board as often as it has instances.",
    next="In dashboards take `max by (UUID)` before any sum; power of a slice cannot be measured.",
    sources=("NVIDIA/dcgm-exporter#353", "guilbaults/slurm-job-exporter#55"),
)
@of_telemetry
def board_repeated(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    for board in telemetry.boards:
        if board.repeated_on > 1:
            where = gpu_place(board.node, board.index, board.uuid)
            yield Evidence(None, where, f"repeated on {board.repeated_on} instances")


@rule(
    "MS120",
    "warning",
    "One field under several names",
    cause="Exporters of two DCGM generations run at once: DCGM 4.6 renamed the …_ACTIVE fields to …_UTIL_RATIO. A "
    "query for one name sees a part of the fleet.",
    next="Bring all exporters to one release; until then ask for both names, as migsaw does.",
    sources=("NVIDIA/DCGM 4.6.0 dcgm_fields.h",),
)
@of_telemetry
def mixed_generations(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    names: dict[str, dict[str, set[object]]] = {}
    for device in telemetry.devices:
        for signal, series in device.series.items():
            names.setdefault(signal, {}).setdefault(series.name, set()).add(card(device))
    for signal, mine in names.items():
        if len(mine) > 1:
            for name, devices in mine.items():
                yield Evidence(None, f"{signal}: {name}", counted(len(devices), "device"))


@rule(
    "MS121",
    "warning",
    "Two exporters show one GPU",
    cause="A second dcgm-exporter (the GPU Operator's and AKS's own, or a chart of one's own) or a second scrape of "
    "the same one. Sums over series count double, and two profilers disturb each other's counters.",
    next="Keep one exporter per node and one scrape job for it. Here duplicates are joined, the larger value counts.",
    sources=("NVIDIA/dcgm-exporter#353", "NVIDIA/DCGM#199"),
)
@of_telemetry
def two_exporters(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    for device in telemetry.devices:
        if device.exporters > 1:
            yield Evidence(None, place(device), f"shown by {device.exporters} exporters")


@rule(
    "MS122",
    "info",
    "Activity above the ceiling of its DCGM version",
    cause="Older DCGM counted an instance's graphics activity in parts of the GPU, so that a full 2g or 3g stopped at "
    "a half or a third. A higher reading shows that this one does not, whatever version is told.",
    next="Nothing: the reading is taken as relative to the instance. Dashboards that scale it up overstate it.",
    sources=("NVIDIA/DCGM#138", "NVIDIA/dcgm-exporter#639"),
)
@of_telemetry
def above_ceiling(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    for device in telemetry.devices:
        board, series = facts.catalogue.find(device.board or ""), device.series.get("graphics")
        profile = board.find(device.profile) if board and device.profile else None
        if profile is None or series is None or series.values is None:
            continue
        low = refuted_ceiling(profile.role[:2], telemetry.dcgm_version, series)
        if low is not None:
            value = f"{series.name}: up to {series.values.peak:g}, ceiling {low:.2f} of DCGM {telemetry.dcgm_version}"
            yield Evidence(None, place(device), value)


@rule(
    "MS123",
    "error",
    "Instances of a GPU collapsed into one series",
    cause="The managed scrape job dcgmexporter keeps few labels (cluster, instance, gpu, job): all instances of a GPU, "
    "and whoever holds them, become one series.",
    next="Turn that job off and let one of your own scrape the exporter: `migsaw render --for telemetry` writes it.",
    sources=("Azure/prometheus-collector: dcgmExporterDefault.yml",),
)
@of_telemetry
def collapsed(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    cut = {(n.name, g.index): len(g.instances) for n in facts.snapshot.nodes for g in n.gpus if len(g.instances) > 1}
    for device in telemetry.devices:
        if is_bare(device) and (number := cut.get((device.node or "", device.index or 0))):
            yield Evidence(None, place(device), f"one series for {number} instances")


RULES = (
    all_blank,
    some_blank,
    spikes,
    above_one,
    stuck,
    silent_zero,
    utilisation_on_slices,
    board_repeated,
    mixed_generations,
    two_exporters,
    above_ceiling,
    collapsed,
)
