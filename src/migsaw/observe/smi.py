"""What `nvidia-smi` prints, in any mixture: `-L`, `mig -lgi`, `mig -lgip`, `mig -lgipp`, `--query-gpu … --format=csv`.

Read line by line, so that one file may hold several answers. `-q -x` is in :mod:`migsaw.observe.smi_xml`. It must not
know of nodes: which node a file belongs to is decided elsewhere.

GPU indices here are NVML's, the ones that mig-parted and `nvidia-smi -i` use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from migsaw.errors import InputError, Where
from migsaw.model.names import parse_profile_name
from migsaw.model.snapshot import Note
from migsaw.observe.reading import decode, read_bytes
from migsaw.observe.sniff import belongs_to

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
    has_process: bool = False


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


def read_smi(paths: Iterable[Path]) -> list[Smi]:
    return [parse_smi(decode(read_bytes(path), str(path)), str(path)) for path in paths]


def parse_smi(content: str, file: str) -> Smi:
    """Raises :class:`InputError` where the text is no answer of nvidia-smi that migsaw reads."""
    if not content.strip():
        raise InputError("the file is empty", where=Where(file, "1"))
    if re.match(r"\s*<(\?xml|!DOCTYPE|nvidia_smi_log)", content):
        from migsaw.observe.smi_xml import parse_xml

        return parse_xml(content, file)
    option = belongs_to(content)
    if option not in (None, "--smi"):
        raise InputError("this is no output of nvidia-smi", where=Where(file, "1"), hint=f"give it to {option}")
    found = _Reader(file).read(content)
    if not (found.cards or found.devices or found.places or found.names or found.lists_instances):
        hint = "expected `nvidia-smi -L`, `mig -lgi`, `-lgip`, `-lgipp`, `-q -x` or `--query-gpu … --format=csv`"
        raise InputError("nothing in this file is an answer of nvidia-smi", where=Where(file, "1"), hint=hint)
    return found


_CARD = re.compile(r"GPU +(\d+): (.*?) *\(UUID: *(GPU-[\w-]+)\*?\)")
_DEVICE = re.compile(r"MIG +(\S+) +Device +(\d+): *\(UUID: *(MIG-\S+?)\)")
_OLD_UUID = re.compile(r"MIG-(GPU-[\w-]+)/(\d+)/\d+")
_PLACEMENT = re.compile(r"\|* *(\d+) +MIG +(\S+) +(\d+) +(\d+) +(\d+):(\d+) *\|?")
_NAME = re.compile(r"\|* *(\d+) +MIG +(\S+) +(\d+) +(\d+)/(\d+) .*")
_PLACES = re.compile(r"GPU +(\d+) +Profile +ID +(\d+) +Placements? *: *\{([\d, ]*)\} *: *(\d+).*")
_NO_INSTANCES = re.compile(r"No GPU instances found.*", re.IGNORECASE)
# heads, rules, the second line of a `-lgip` row, prompts with the command, and what was created by one
_TALK = re.compile(
    r"[+|=\- ]*"
    r"|\|.*(GPU instance|GPU +Name|Free/Total|ID +ID|Start:Size).*"
    r"|\|[\s\d]+\|"
    r"|.*\bnvidia-smi\b.*"
    r"|Successfully created .*"
    r"|No MIG-enabled devices found.*"
)


class _Reader:
    def __init__(self, file: str) -> None:
        self._found = Smi(file)
        self._gpu = 0  # whose MIG devices follow
        self._columns: list[str] | None = None
        self._odd: list[int] = []

    def read(self, content: str) -> Smi:
        steps: tuple[Callable[[str], bool], ...] = (
            self._card,
            self._device,
            self._placement,
            self._name,
            self._place,
            self._csv,
        )
        for number, line in enumerate(content.split("\n"), start=1):
            line = line.strip()
            if line and not any(step(line) for step in steps) and not _TALK.fullmatch(line):
                self._odd.append(number)
        if self._odd:
            text = f"{len(self._odd)} line{'s' * (len(self._odd) > 1)} not understood, first one shown"
            self._found.notes.append(Note("warning", text, self._found.file, f"line {self._odd[0]}"))
        return self._found

    def _card(self, line: str) -> bool:
        found = _CARD.fullmatch(line)
        if found:
            self._gpu = int(found[1])
            self._found.cards.append(Card(self._gpu, found[3], found[2]))
        return found is not None

    def _device(self, line: str) -> bool:
        found = _DEVICE.fullmatch(line)
        if found:
            old = _OLD_UUID.fullmatch(found[3])
            self._found.devices.append(Device(self._gpu, int(old[2]) if old else None, found[1]))
        return found is not None

    def _placement(self, line: str) -> bool:
        if _NO_INSTANCES.fullmatch(line):
            self._found.lists_instances = True
            return True
        if re.fullmatch(r"\|+ *GPU instances: *\|?", line):
            self._found.lists_instances = True
            return True
        found = _PLACEMENT.fullmatch(line)
        if found is None or parse_profile_name(found[2]) is None:
            return False
        index, profile_id, gi_id, start, size = (int(found[i]) for i in (1, 3, 4, 5, 6))
        self._found.placements.append(Placement(index, found[2], profile_id, gi_id, start, size))
        self._found.lists_instances = True
        return True

    def _name(self, line: str) -> bool:
        found = _NAME.fullmatch(line)
        if found:
            self._found.names.append(ReportedName(int(found[1]), int(found[3]), found[2], int(found[5])))
        return found is not None

    def _place(self, line: str) -> bool:
        found = _PLACES.fullmatch(line)
        if found:
            starts = tuple(sorted({int(s) for s in found[3].split(",") if s.strip()}))
            self._found.places.append(ReportedPlaces(int(found[1]), int(found[2]), starts, int(found[4])))
        return found is not None

    def _csv(self, line: str) -> bool:
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) > 1 and "index" in cells:
            self._columns = [cell.split(" ")[0] for cell in cells]
            return True
        columns = self._columns or ["index", "name", "mig.mode.current", "mig.mode.pending"]
        row = dict(zip(columns, cells, strict=False))
        if len(cells) != len(columns) or not row["index"].isdecimal():
            return False
        mode = mig_mode(row.get("mig.mode.current"), row.get("mig.mode.pending"))
        if self._columns is None and mode is None:
            return False
        uuid = row.get("uuid") or row.get("gpu_uuid")
        self._found.cards.append(Card(int(row["index"]), uuid, row.get("name") or row.get("gpu_name"), mode))
        return True


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
