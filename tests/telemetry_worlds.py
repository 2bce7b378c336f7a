"""Small snapshots with telemetry, for tests of right-sizing: one workload, one device unless said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from migsaw.model.refs import PodRef
from migsaw.model.snapshot import Node, Pod, Snapshot, Workload
from migsaw.model.telemetry import Device, Distribution, NodeUse, PodUse, Series, Telemetry, Window

A100, SIZE = "a100-sxm4-80gb", "Standard_ND96amsr_A100_v4"
DAY = Window(0.0, 86400.0, 60.0)
POD = PodRef("ml", "bert-0")


def steady(value: float) -> Distribution:
    return Distribution(value, value, value, value, value, 0.0)


def bimodal(low: float, high: float) -> Distribution:
    """Half of the time low, half of it high."""
    return Distribution((low + high) / 2, low, (low + high) / 2, high, high, (high - low) / 2)


def device(
    values: Mapping[str, Distribution | float],
    profile: str | None = "3g.40gb",
    pod: PodRef = POD,
    samples: int = 1440,
    gi_id: int | None = 1,
) -> Device:
    """Values of signals; a number stands for a steady one. ``profile`` None: a whole GPU."""
    series = {
        name: Series(name, samples, steady(value) if isinstance(value, float | int) else value)
        for name, value in values.items()
    }
    return Device(
        node="n0",
        index=0,
        uuid="GPU-0",
        gi_id=None if profile is None else gi_id,
        board=A100,
        profile=profile,
        owner=pod,
        owner_source="label",
        series=series,
    )


def world(
    devices: Sequence[Device],
    pods: Sequence[PodUse] = (),
    nodes: Sequence[NodeUse] = (),
    version: str | None = "4.2.3",
    window: Window | None = DAY,
) -> Snapshot:
    owners = sorted({d.owner for d in devices if d.owner}, key=str)
    return Snapshot(
        nodes=(Node("n0", SIZE),),
        pods=tuple(
            Pod(o.namespace, o.pod, "n0", "Running", {}, Workload("ml", "Deployment", o.pod.split("-")[0]))
            for o in owners
        ),
        telemetry=Telemetry("prometheus", window, tuple(devices), (), tuple(pods), tuple(nodes), dcgm_version=version),
    )
