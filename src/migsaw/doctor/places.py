"""What several rules ask of devices, nodes and pods, and how a place is called in evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from migsaw.model.boards import AzureSize, Catalogue
from migsaw.model.snapshot import Gpu, Node, Snapshot
from migsaw.model.telemetry import RATIOS, Device, Series, Telemetry

MEMORY_OF_NOBODY = 1024  # MiB: what the driver and an idle context keep stays below

Card = tuple[str | None, int | None, int | None]  # node, GPU index, GI id: a device whoever holds it


def card(device: Device) -> Card:
    return device.node, device.index, device.gi_id


def place(device: Device) -> str:
    """``node/GPU 3/GI 7 (1g.10gb)``."""
    name = gpu_place(device.node, device.index, device.uuid)
    if device.gi_id is None:
        return name
    return f"{name}/GI {device.gi_id}" + (f" ({device.profile})" if device.profile else "")


def gpu_place(node: str | None, index: int | None, uuid: str | None = None) -> str:
    return f"{node or 'unknown node'}/{uuid or 'GPU ?' if index is None else f'GPU {index}'}"


def is_bare(device: Device) -> bool:
    """A series without any label that tells instances, or GPUs of two nodes, apart."""
    return device.uuid is None and device.gi_id is None and device.product is None


def of_node(telemetry: Telemetry) -> Mapping[str | None, list[Device]]:
    found: dict[str | None, list[Device]] = {}
    for device in telemetry.devices:
        found.setdefault(device.node, []).append(device)
    return found


def has_ratios(device: Device) -> bool:
    """Whether any profiling series is there, whatever its values."""
    return any(signal in device.series for signal in RATIOS)


def ratios(device: Device) -> Mapping[str, Series]:
    return {signal: device.series[signal] for signal in RATIOS if signal in device.series}


def peak(device: Device, signal: str) -> float | None:
    series = device.series.get(signal)
    return series.values.peak if series and series.values else None


def holds_memory(device: Device) -> bool:
    """Whether somebody was there, by memory alone."""
    return (peak(device, "used") or 0) > MEMORY_OF_NOBODY


def is_from_api(node: Node) -> bool:
    """Whether its Node object was read: a node that only an exporter names has none of these."""
    return bool(node.allocatable or node.azure_size or node.pool)


def should_have_series(gpu: Gpu) -> bool:
    """A GPU with MIG on and no instance has none by design."""
    return bool(gpu.instances) or gpu.mig != "on"


def size_of(node: Node, catalogue: Catalogue) -> AzureSize | None:
    return catalogue.azure_sizes.get(node.azure_size or "")


def nodes_with_pods(snapshot: Snapshot) -> set[str]:
    """Nodes where a pod that asks for a GPU runs."""
    return {pod.node for pod in snapshot.pods if pod.node and pod.phase == "Running"}


def counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def distinct(devices: Iterable[Device]) -> int:
    """Devices, however many holders each had."""
    return len({card(device) for device in devices})
