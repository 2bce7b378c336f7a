"""What a back end says while a trial runs. Seconds are since the trial began, of the back end's own clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from migsaw.model.measurement import Beside, DeviceKind, Neighbours


@dataclass(frozen=True, slots=True)
class Value:
    """Units per second of one process, or of the whole slot. ``rate`` None: a first unit was done, no rate yet."""

    seconds: float
    rate: float | None


@dataclass(frozen=True, slots=True)
class Memory:
    """MiB that the slot has in use."""

    seconds: float
    mib: int


@dataclass(frozen=True, slots=True)
class InputWait:
    """Share of its time, 0..1, that the workload says it waited for data."""

    seconds: float
    share: float


@dataclass(frozen=True, slots=True)
class Tick:
    """Nothing but time: often enough that a silent trial can be ended."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Ended:
    """The last event. ``is_failure``: by its exit code; ``message``: its last words."""

    seconds: float
    is_failure: bool = False
    out_of_memory: bool = False
    message: str = ""


Event = Value | Memory | InputWait | Tick | Ended


@dataclass(frozen=True, slots=True)
class Running:
    """A trial that has begun. ``conditions``: for people, such as driver and device.

    ``look``: what DCGM showed between two times of the trial's clock, asked while the trial still lasts.
    """

    events: Iterator[Event]
    device: DeviceKind
    neighbours: Neighbours
    conditions: Mapping[str, str] = field(default_factory=dict)
    look: Callable[[float, float], Beside | None] = lambda begin, end: None


class Backend(Protocol):
    """Gives slots, and one trial at a time."""

    @property
    def device(self) -> DeviceKind:
        """Of its trials; of a whole GPU among slices a trial itself says ``gpu``."""
        ...

    def slots(self) -> tuple[str, ...] | None:
        """Profiles (or ``off``) that a trial can be run on here; None: any of the board."""
        ...

    def trial(self, profile: str) -> AbstractContextManager[Running]:
        """Reserves the slot and runs the workload; on the way out, however, both are ended and waited for."""
        ...
