"""Healthy clusters drawn by a seed, as the files that their engineer would have and as a history of a week.

Every world has two nodes or more, GPUs with MIG on and off, held and idle instances, both generations of field names
(one per world) and of the host's label. Mutations of tests break exactly one thing in them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import cluster_files
from migsaw.model.refs import PodRef
from migsaw.model.snapshot import Snapshot
from migsaw.model.telemetry import Device, Distribution, NodeUse, PodUse, Series, Telemetry, Window

PRODUCT = "NVIDIA A100-SXM4-80GB"
SIZE = "Standard_ND96amsr_A100_v4"  # eight of them
MEMORY = {"1g.10gb": 9728, "2g.20gb": 19968, "3g.40gb": 40192, "7g.80gb": 80384, "off": 81920}
LAYOUTS = (("3g.40gb", "3g.40gb"), ("2g.20gb", "2g.20gb", "2g.20gb", "1g.10gb"), ("1g.10gb",) * 7)
ACTIVE = {
    "graphics": "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "sm": "DCGM_FI_PROF_SM_ACTIVE",
    "dram": "DCGM_FI_PROF_DRAM_ACTIVE",
}
RATIO = {
    "graphics": "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO",
    "sm": "DCGM_FI_PROF_SM_UTIL_RATIO",
    "dram": "DCGM_FI_PROF_DRAM_UTIL_RATIO",
}
USED, FREE, UTIL, POWER = (f"DCGM_FI_DEV_{name}" for name in ("FB_USED", "FB_FREE", "GPU_UTIL", "POWER_USAGE"))
WEEK = Window(start=1_764_000_000.0, end=1_764_604_800.0, step=60.0)


@dataclass
class Line:
    """One line of an exporter."""

    family: str
    labels: dict[str, str]
    value: float | str
    milliseconds: int | None = None

    @property
    def where(self) -> tuple[str | None, int, int | None]:
        gi_id = self.labels.get("GPU_I_ID")
        return self.host, int(self.labels["gpu"]), None if gi_id is None else int(gi_id)

    @property
    def host(self) -> str | None:
        return self.labels.get("Hostname", self.labels.get("hostname"))

    @property
    def is_profiling(self) -> bool:
        return self.family.startswith("DCGM_FI_PROF_")

    def text(self) -> str:
        inside = ",".join(f'{name}="{text}"' for name, text in self.labels.items())
        time = "" if self.milliseconds is None else f" {self.milliseconds}"
        return f"{self.family}{{{inside}}} {self.value}{time}"


@dataclass
class World:
    """Mutable, so that a test can break it. ``pods`` None: no file of pods."""

    fields: dict[str, str]
    nodes: list[dict[str, Any]] = field(default_factory=list)
    pods: list[dict[str, Any]] | None = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    more_files: dict[str, list[Line]] = field(default_factory=dict)

    def observe(self, folder: Any) -> Snapshot:
        given: dict[str, Any] = {"nodes": self.nodes}
        if self.pods is not None:
            given["pods"] = [*self.pods, cluster_files.SYSTEM_POD]
        texts = {"all.prom": self.lines, **self.more_files}
        given["metrics"] = {name: "".join(line.text() + "\n" for line in lines) for name, lines in texts.items()}
        snapshot = cluster_files.Files(folder).observe(**given)
        assert isinstance(snapshot, Snapshot)
        return snapshot

    def names(self) -> list[str]:
        return [node["metadata"]["name"] for node in self.nodes]

    def of(self, place: tuple[str | None, int, int | None]) -> list[Line]:
        return [line for line in self.lines if line.where == place]

    def places(self, *, mig: bool | None = None, held: bool | None = None) -> list[tuple[str | None, int, int | None]]:
        found = {line.where: bool(line.labels["pod"]) for line in self.lines}
        return [p for p, is_held in found.items() if mig in (None, p[2] is not None) and held in (None, is_held)]


def healthy(seed: int) -> World:
    chance = random.Random(seed)
    world = World(fields=chance.choice((ACTIVE, RATIO)))
    host = chance.choice(("Hostname", "hostname"))
    for number in range(chance.randint(2, 4)):
        layouts = [chance.choice(LAYOUTS), ("7g.80gb",), ("off",), *chance.choices((*LAYOUTS, ("off",)), k=2)]
        chance.shuffle(layouts)
        _add_node(world, f"gpu-{number}", layouts, host, chance)
    return world


def _add_node(world: World, name: str, layouts: list[tuple[str, ...]], host: str, chance: random.Random) -> None:
    amounts = Counter(profile for layout in layouts for profile in layout)
    whole = amounts.pop("off", 0)
    node = cluster_files.mixed(name, amounts, gpus=len(layouts), whole=whole, product=PRODUCT)
    node["metadata"]["labels"]["node.kubernetes.io/instance-type"] = SIZE
    world.nodes.append(node)
    for gpu, layout in enumerate(layouts):
        for position, profile in enumerate(layout):
            is_free = len(layout) > 1 and (position == 0 or chance.random() < 0.3)
            pod = "" if is_free else f"{name}-{gpu}-{position}"
            labels = {"gpu": str(gpu), "UUID": f"GPU-{name}-{gpu}", "device": f"nvidia{gpu}", "modelName": PRODUCT}
            if profile != "off":
                labels |= {"GPU_I_PROFILE": profile, "GPU_I_ID": str(position + 1)}
            labels |= {host: name, "namespace": "ml" if pod else "", "pod": pod, "container": "main" if pod else ""}
            world.lines += _lines(world.fields, labels, profile, is_free, chance)
            if pod and world.pods is not None:
                resource = "nvidia.com/gpu" if profile == "off" else f"nvidia.com/mig-{profile}"
                world.pods.append(cluster_files.pod(f"ml/{pod}", {resource: 1}, name, uid=f"uid-{pod}"))


def _lines(
    fields: dict[str, str], labels: dict[str, str], profile: str, is_free: bool, chance: random.Random
) -> Iterator[Line]:
    used = 14 if is_free else chance.randint(2000, MEMORY[profile] - 1000)
    active = 0.0 if is_free else chance.uniform(0.2, 0.95)
    yield Line(USED, dict(labels), used)
    yield Line(FREE, dict(labels), MEMORY[profile] - used)
    for signal, share in (("graphics", 1.0), ("sm", 0.7), ("dram", 0.4)):
        yield Line(fields[signal], dict(labels), round(active * share, 6))
    if profile == "off":
        yield Line(UTIL, dict(labels), round(active * 100))


# ---- a week of the same cluster ------------------------------------------------------------------------------------


def with_history(snapshot: Snapshot) -> Snapshot:
    """The devices of one scrape as a server would have them after a week."""
    scrape = snapshot.telemetry
    assert scrape is not None
    devices = tuple(_week(device) for device in scrape.devices)
    flat = spread(0.4)
    owners = sorted({device.owner for device in devices if device.owner}, key=str)
    pods = tuple(
        PodUse(owner, cpu_cores=flat, cpu_limit_cores=8.0, cpu_throttled=spread(0.0), oom_kills=0, restarts=0)
        for owner in owners
    )
    nodes = tuple(NodeUse(node.name, disk_busy=flat) for node in snapshot.nodes)
    telemetry = Telemetry(
        "prometheus", WEEK, devices, (), pods, nodes, scrape.families, "4.4.1", "4.5.0", "Prometheus 2.42.0"
    )
    return replace(snapshot, telemetry=telemetry)


def spread(mean: float) -> Distribution:
    return Distribution(mean, mean * 0.6, mean, mean * 1.1, mean * 1.2, mean * 0.1)


def _week(device: Device) -> Device:
    series = {}
    for signal, one in device.series.items():
        assert one.values is not None
        mean = one.values.mean
        values = spread(mean * 0.8) if mean else one.values
        changes = 9000 if mean else 0
        series[signal] = Series(one.name, WEEK.points, values, last=WEEK.end - 12.0, changes=changes)
    return replace(device, series=series)


def change(snapshot: Snapshot, position: int, **fields: Any) -> Snapshot:
    """One device with other fields."""
    assert snapshot.telemetry is not None
    devices = list(snapshot.telemetry.devices)
    devices[position] = replace(devices[position], **fields)
    return of_telemetry(snapshot, devices=tuple(devices))


def change_series(snapshot: Snapshot, position: int, signal: str, **fields: Any) -> Snapshot:
    """One series of one device with other fields."""
    assert snapshot.telemetry is not None
    series = dict(snapshot.telemetry.devices[position].series)
    series[signal] = replace(series[signal], **fields)
    return change(snapshot, position, series=series)


def of_telemetry(snapshot: Snapshot, **fields: Any) -> Snapshot:
    assert snapshot.telemetry is not None
    return replace(snapshot, telemetry=replace(snapshot.telemetry, **fields))


def position(snapshot: Snapshot, *, mig: bool | None = None, held: bool = True, profile: str | None = None) -> int:
    """The first device that is such."""
    assert snapshot.telemetry is not None
    for number, device in enumerate(snapshot.telemetry.devices):
        is_such = mig in (None, device.gi_id is not None) and (device.owner is not None) == held
        if is_such and profile in (None, device.profile):
            return number
    raise AssertionError("no such device in this world")


GONE = PodRef("ml", "gone")
