"""The MIG devices and whole GPUs of this machine, through NVIDIA's library; and trials on them.

A device is reserved by a lock on a file of its UUID, which the kernel gives back whatever happens to migsaw; one on
which any process runs is left alone. nvidia-ml-py is optional and imported here only.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from migsaw.errors import InputError, MigsawError
from migsaw.model.boards import Board, Catalogue
from migsaw.model.measurement import DeviceKind, Neighbours
from migsaw.model.trial import TrialSpec
from migsaw.trial.beside import Gauge, Slot
from migsaw.trial.events import Running
from migsaw.trial.local import loaded, running

WAYS = (
    "on a machine with an NVIDIA GPU: pip install 'migsaw[local]' and make the slices; "
    "or --device cpu to rehearse the command here"
)
MIB = 2**20


@dataclass(frozen=True)
class Device:
    uuid: str
    profile: str  # "off": a whole GPU
    board: str
    gpu: str  # UUID of its GPU
    handle: Any = field(repr=False, compare=False)


@dataclass(frozen=True)
class LocalBackend:
    spec: TrialSpec
    board: Board
    folder: Path
    devices: tuple[Device, ...]
    nvml: Any
    driver: str
    load_neighbours: bool
    gauge: Gauge | None = None
    device: DeviceKind = "mig"

    def slots(self) -> tuple[str, ...]:
        return tuple(sorted({device.profile for device in self.devices}))

    @contextmanager
    def trial(self, profile: str) -> Iterator[Running]:
        with ExitStack() as stack:
            device = self._reserve(profile, stack)
            others = self._others(device, stack) if self.load_neighbours else ()
            stack.enter_context(loaded(self.spec, self.folder, [other.uuid for other in others]))
            env = {"CUDA_VISIBLE_DEVICES": device.uuid}
            look = stack.enter_context(self.gauge.beside(self._slot(device))) if self.gauge else None
            begun = time.time()
            events = stack.enter_context(running(self.spec, self.folder, env, lambda: self._used_mib(device)))
            kind: DeviceKind = "gpu" if profile == "off" else "mig"
            conditions = {"driver": self.driver, "device": device.uuid}
            neighbours = self._neighbours(device, others)
            if look is None:
                yield Running(events, kind, neighbours, conditions)
            else:
                yield Running(events, kind, neighbours, conditions, lambda a, b: look(begun + a, begun + b))

    def _slot(self, device: Device) -> Slot:
        if device.profile == "off":
            return Slot(device.gpu)
        return Slot(device.gpu, int(self.nvml.nvmlDeviceGetGpuInstanceId(device.handle)))

    def _reserve(self, profile: str, stack: ExitStack) -> Device:
        for device in self.devices:
            if device.profile == profile and self._is_free(device) and stack.enter_context(_lock(device.uuid)):
                return device
        raise MigsawError(f"every {profile} of this machine is in use", hint="run the same command again later")

    def _others(self, device: Device, stack: ExitStack) -> tuple[Device, ...]:
        near = [d for d in self.devices if d.gpu == device.gpu and d.uuid != device.uuid and self._is_free(d)]
        return tuple(d for d in near if stack.enter_context(_lock(d.uuid)))

    def _neighbours(self, device: Device, loaded: tuple[Device, ...]) -> Neighbours:
        """``unknown``: somebody else's work runs beside it."""
        if device.profile == "off" or self.board.profile(device.profile).memory_slices == self.board.memory_slices:
            return "none"
        others = [d for d in self.devices if d.gpu == device.gpu and d.uuid != device.uuid]
        if others and len(loaded) == len(others):
            return "loaded"
        return "idle" if all(self._is_free(d) for d in others if d not in loaded) else "unknown"

    def _is_free(self, device: Device) -> bool:
        try:
            return not self.nvml.nvmlDeviceGetComputeRunningProcesses(device.handle)
        except self.nvml.NVMLError:
            return False

    def _used_mib(self, device: Device) -> int | None:
        try:
            return int(self.nvml.nvmlDeviceGetMemoryInfo(device.handle).used) // MIB
        except self.nvml.NVMLError:
            return None


def local_backend(
    spec: TrialSpec,
    board: Board,
    folder: Path,
    catalogue: Catalogue,
    *,
    load_neighbours: bool = False,
    gauge: Gauge | None = None,
) -> LocalBackend:
    """Raises :class:`InputError` where there is no library, driver, GPU, or none of the board."""
    try:
        import pynvml as nvml
    except ModuleNotFoundError:
        raise InputError("nvidia-ml-py is not installed, so no GPU can be seen", hint=WAYS) from None
    try:
        nvml.nvmlInit()
        found = list(_devices(nvml, catalogue))
        driver = _text(nvml.nvmlSystemGetDriverVersion())
    except nvml.NVMLError as problem:
        raise InputError(f"no NVIDIA GPU can be seen here: {problem}", hint=WAYS) from None
    devices = tuple(device for device in found if device.board == board.key)
    if not devices:
        here = ", ".join(sorted({f"{d.board} {d.profile}" for d in found})) or "no MIG device and no whole GPU"
        raise InputError(f"no {board.key} on this machine ({here})", hint=f"say its board in the file; {WAYS}")
    return LocalBackend(spec, board, folder, devices, nvml, driver, load_neighbours, gauge)


def _devices(nvml: Any, catalogue: Catalogue) -> Iterator[Device]:
    for index in range(nvml.nvmlDeviceGetCount()):
        gpu = nvml.nvmlDeviceGetHandleByIndex(index)
        uuid = _text(nvml.nvmlDeviceGetUUID(gpu))
        board = catalogue.find(_text(nvml.nvmlDeviceGetName(gpu)))
        if board is None:
            continue
        if _is_mig(nvml, gpu):
            yield from _slices(nvml, gpu, uuid, board)
        else:
            yield Device(uuid, "off", board.key, uuid, gpu)


def _is_mig(nvml: Any, gpu: Any) -> bool:
    try:
        return bool(nvml.nvmlDeviceGetMigMode(gpu)[0])
    except nvml.NVMLError:  # a board without MIG
        return False


def _slices(nvml: Any, gpu: Any, uuid: str, board: Board) -> Iterator[Device]:
    """Names are ``NVIDIA A100-SXM4-40GB MIG 1g.5gb``; a part of an instance (``1c.2g.10gb``) is no slot."""
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        try:
            mig = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)
        except nvml.NVMLError:  # no device of that number
            continue
        profile = board.find(_text(nvml.nvmlDeviceGetName(mig)).rpartition("MIG ")[2])
        if profile is not None:
            yield Device(_text(nvml.nvmlDeviceGetUUID(mig)), profile.name, board.key, uuid, mig)


def _text(found: Any) -> str:
    return found.decode() if isinstance(found, bytes) else str(found)


@contextmanager
def _lock(uuid: str) -> Iterator[bool]:
    """Whether nobody else holds it. The lock goes with the file descriptor, which no child inherits."""
    path = Path(tempfile.gettempdir()) / f"migsaw-trial-{uuid.replace('/', '-')}.lock"
    try:
        file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    except OSError:  # of another user, who holds or held it
        yield False
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        yield False
        return
    try:
        yield True
    finally:
        os.close(file)
