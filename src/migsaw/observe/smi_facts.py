"""What `nvidia-smi` can say, as facts, whichever way it was asked.

GPU indices are NVML's, the ones that mig-parted and `nvidia-smi -i` use.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from migsaw.model.snapshot import Note

MigMode = Literal["on", "off", "pending"]


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU as one answer shows it; what the answer does not show is None."""

    index: int
    uuid: str | None = None
    name: str | None = None
    mode: MigMode | None = None
    used_mib: int | None = None
    total_mib: int | None = None
    has_process: bool | None = None  # XML only, as it lists processes


@dataclass(frozen=True, slots=True)
class Placement:
    """A row of `mig -lgi`: the one place where a start is printed beside a GPU instance id."""

    index: int
    profile: str
    profile_id: int
    gi_id: int
    start: int
    size: int


@dataclass(frozen=True, slots=True)
class Device:
    """A MIG device of `-L` or `-q -x`. With a compute instance smaller than its GPU instance there are several per
    GPU instance."""

    index: int
    gi_id: int | None  # old drivers print it in the UUID, XML always has it
    profile: str | None = None  # `-L` only
    memory_mib: int | None = None  # XML only, as the three below
    used_mib: int | None = None
    sm_count: int | None = None
    engines: tuple[int | None, ...] = ()  # copy, decoders, encoders, jpeg, ofa
    has_process: bool | None = None


@dataclass(frozen=True, slots=True)
class ReportedPlaces:
    """A row of `mig -lgipp`. Size in memory slices."""

    index: int
    profile_id: int
    starts: tuple[int, ...]
    size: int


@dataclass(frozen=True, slots=True)
class ReportedName:
    """A row of `mig -lgip`."""

    index: int
    profile_id: int
    name: str
    most: int


@dataclass(slots=True)
class Smi:
    """All that one file says."""

    file: str
    cards: list[Card] = field(default_factory=list)
    placements: list[Placement] = field(default_factory=list)
    devices: list[Device] = field(default_factory=list)
    places: list[ReportedPlaces] = field(default_factory=list)
    names: list[ReportedName] = field(default_factory=list)
    is_by_order: bool = False  # indices are only the order of GPUs in the answer (`-q -x`)
    lists_instances: bool = False  # a `-lgi` answer is in it, be it the one that there are none
    notes: list[Note] = field(default_factory=list)

    @property
    def uuids(self) -> set[str]:
        return {card.uuid for card in self.cards if card.uuid}


def mig_mode(current: str | None, pending: str | None) -> MigMode | None:
    """``Enabled``/``Disabled`` of now and after the next reset. ``[N/A]``: the GPU knows no MIG."""
    known: dict[str, MigMode] = {
        "enabled": "on",
        "disabled": "off",
        "n/a": "off",
        "[n/a]": "off",
        "[not supported]": "off",
    }
    now, later = known.get((current or "").lower()), known.get((pending or current or "").lower())
    return "pending" if now and later and now != later else now
