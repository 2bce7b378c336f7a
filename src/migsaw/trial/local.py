"""Trials on this machine: the workload's own command, on a MIG device, a whole GPU, or as a rehearsal on the CPU."""

from __future__ import annotations

import contextlib
import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from migsaw.model.measurement import DeviceKind
from migsaw.model.trial import TrialSpec
from migsaw.trial.events import Ended, Event, Memory, Running, Tick
from migsaw.trial.process import Line, Processes
from migsaw.trial.readers import Reader, Together, readers_of

LAST_LINES = 5  # of stderr, shown where the command failed

# what CUDA's libraries, PyTorch, TensorFlow, JAX, ONNX Runtime and vLLM say when the GPU's memory is full
OUT_OF_MEMORY = re.compile(
    r"CUDA out of memory|OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation"
    r"|CU(?:BLAS|DNN|SOLVER|SPARSE)_STATUS_ALLOC_FAILED|CUDA error: out of memory|cudaMalloc failed: out of memory"
    r"|RESOURCE_EXHAUSTED: (?:OOM|Out of memory|Failed to allocate)|ResourceExhaustedError|OOM when allocating tensor"
    r"|Failed to allocate memory for requested buffer|No available memory for the cache blocks"
)


@dataclass(frozen=True)
class CpuBackend:
    """Runs the command as it is. Profiles are names only here: the numbers are the CPU's."""

    spec: TrialSpec
    folder: Path
    device: DeviceKind = "cpu"

    def slots(self) -> tuple[str, ...]:
        return self.spec.profiles or ("off",)

    @contextmanager
    def trial(self, profile: str) -> Iterator[Running]:
        with running(self.spec, self.folder, {}) as events:
            yield Running(events, "cpu", "none")


@contextmanager
def running(
    spec: TrialSpec, folder: Path, env: Mapping[str, str], memory: Callable[[], int | None] = lambda: None
) -> Iterator[Iterator[Event]]:
    """The events of the spec's command in all its processes; on the way out they are ended and waited for.

    ``memory``: MiB in use in the slot now.
    """
    readers = readers_of(spec, folder)
    envs = [process_env(spec, {**env, **readers[0].environment}, n) for n in range(spec.processes)]
    with contextlib.ExitStack() as stack:
        for reader in readers:
            stack.callback(reader.close)
        processes = stack.enter_context(Processes(spec.command, folder, envs))
        yield _events(processes, readers, Together(len(readers)), memory)


def process_env(spec: TrialSpec, env: Mapping[str, str], process: int) -> dict[str, str]:
    """Python is told not to keep lines back: the time of a line is when it was written."""
    return {**os.environ, "PYTHONUNBUFFERED": "1", **spec.env, "MIGSAW_PROCESS": str(process), **env}


def _events(
    processes: Processes, readers: Sequence[Reader], together: Together, memory: Callable[[], int | None]
) -> Iterator[Event]:
    last = deque[str](maxlen=LAST_LINES)
    out_of_memory: str | None = None
    for line in processes.lines():
        if line is not None:
            out_of_memory = out_of_memory or (line.text if OUT_OF_MEMORY.search(line.text) else None)
            if line.is_error:
                last.append(line.text)
        yield from _read(line, processes.seconds, readers, together)
        if line is None and (used := memory()) is not None:
            yield Memory(processes.seconds, used)
    yield from _read(None, processes.seconds, readers, together)  # what a file got at the very end
    yield _ended(processes, out_of_memory, list(last))


def _read(line: Line | None, seconds: float, readers: Sequence[Reader], together: Together) -> Iterator[Event]:
    """A line goes to its process's reader; where there is none (a server tells), it says nothing."""
    if line is None:
        for number, reader in enumerate(readers):
            for event in reader.poll(seconds):
                yield from together.value(number, event)
        yield Tick(seconds)
    elif not line.is_error and line.process < len(readers):
        for event in readers[line.process].line(line.seconds, line.text):
            yield from together.value(line.process, event)


def _ended(processes: Processes, out_of_memory: str | None, last: Sequence[str]) -> Ended:
    code = next((code for code in processes.codes() if code), 0)
    if not code:
        return Ended(processes.seconds)
    if out_of_memory is not None:
        return Ended(processes.seconds, True, True, out_of_memory.strip()[:300])
    said = f"exit code {code}" + (f" ({_signal(code)})" if code > 128 else "")
    return Ended(processes.seconds, True, False, "\n".join([said, *last]))


def _signal(code: int) -> str:
    return "killed: was the machine's own memory full?" if code == 137 else f"signal {code - 128}"


@contextmanager
def loaded(spec: TrialSpec, folder: Path, devices: Sequence[str]) -> Iterator[None]:
    """Copies of the workload on other devices, for as long as the block lasts; nobody reads them."""
    if not devices:
        yield
        return
    envs = [process_env(spec, {"CUDA_VISIBLE_DEVICES": device}, n) for n, device in enumerate(devices)]
    with Processes(spec.command, folder, envs, is_quiet=True):
        yield
