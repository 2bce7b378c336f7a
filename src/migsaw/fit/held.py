"""Who held which device, and what it showed: telemetry's rows gathered by workload.

A snapshot without telemetry is a history of one sample: it becomes the same rows. What is concluded stands elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from migsaw.model.fits import WorkloadRef
from migsaw.model.refs import PodRef
from migsaw.model.snapshot import Activity, Memory, Pod, Snapshot
from migsaw.model.telemetry import Device, Distribution, Series, Telemetry

NAMES = {
    "graphics": "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "sm": "DCGM_FI_PROF_SM_ACTIVE",
    "tensor": "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    "dram": "DCGM_FI_PROF_DRAM_ACTIVE",
    "used": "DCGM_FI_DEV_FB_USED",
}


@dataclass(frozen=True, slots=True)
class Work:
    """A workload, or a bare pod. ``devices``: as its pods held them; pods that hold nothing are in ``pods`` only."""

    ref: WorkloadRef
    pods: tuple[Pod, ...]
    devices: tuple[Device, ...]

    def of_pod(self, owner: PodRef) -> tuple[Device, ...]:
        return tuple(d for d in self.devices if d.owner == owner)

    @property
    def owners(self) -> tuple[PodRef, ...]:
        return tuple(sorted({d.owner for d in self.devices if d.owner}, key=str))


def works_of(snapshot: Snapshot) -> tuple[Work, ...]:
    """In the order of their names. Devices whose owner nobody knows belong to no workload and are left out."""
    telemetry = telemetry_of(snapshot)
    known = {pod.key: pod for pod in snapshot.pods}
    devices: dict[tuple[str, str, str], list[Device]] = {}
    pods: dict[tuple[str, str, str], list[Pod]] = {}
    for pod in snapshot.pods:
        pods.setdefault(_key(pod), []).append(pod)
    for device in telemetry.devices:
        if device.owner is not None:
            own = known.get(str(device.owner))
            key = _key(own) if own else (device.owner.namespace, "Pod", device.owner.pod)
            devices.setdefault(key, []).append(device)
    return tuple(
        Work(WorkloadRef(*key), tuple(pods.get(key, ())), tuple(devices.get(key, ())))
        for key in sorted(pods.keys() | devices.keys())
    )


def telemetry_of(snapshot: Snapshot) -> Telemetry:
    """The snapshot's telemetry, or its one sample per device as such."""
    if snapshot.telemetry is not None:
        return snapshot.telemetry
    return Telemetry("exporter", devices=tuple(_sampled(snapshot)))


def _key(pod: Pod) -> tuple[str, str, str]:
    own = pod.workload
    return (own.namespace, own.kind, own.name) if own else (pod.namespace, "Pod", pod.name)


def _sampled(snapshot: Snapshot) -> Iterator[Device]:
    for node in snapshot.nodes:
        for gpu in node.gpus:
            if gpu.owner:
                yield Device(
                    node.name, gpu.index, gpu.uuid, board=gpu.board, owner=gpu.owner,
                    series=_series(gpu.activity, gpu.memory_mib),
                )  # fmt: skip
            for number, item in enumerate(gpu.instances):
                if item.owner:
                    yield Device(
                        node.name, gpu.index, gpu.uuid, item.gi_id if item.gi_id is not None else -1 - number,
                        board=gpu.board, profile=item.profile, owner=item.owner,
                        series=_series(item.activity, item.memory_mib),
                    )  # fmt: skip


def _series(activity: Activity | None, memory: Memory) -> Mapping[str, Series]:
    values: dict[str, float | None] = {"used": memory.used}
    if activity is not None:
        values |= {
            "graphics": activity.graphics, "sm": activity.sm, "tensor": activity.tensor, "dram": activity.dram,
        }  # fmt: skip
    return {
        signal: Series(NAMES[signal], 1, Distribution(value, value, value, value, value, 0.0))
        for signal, value in values.items()
        if value is not None
    }
