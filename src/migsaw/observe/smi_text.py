"""`nvidia-smi` text in any mixture: `-L`, `mig -lgi`, `mig -lgip`, `mig -lgipp`, `--query-gpu … --format=csv`.

Read line by line, so that one file may hold several answers and the prompts between them.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from migsaw.model.names import parse_profile_name
from migsaw.model.snapshot import Note
from migsaw.observe.smi_facts import Card, Device, Placement, ReportedName, ReportedPlaces, Smi, mig_mode

_ID, _SLICE = "([0-9]{1,3})", "([0-9]{1,2})"  # indices, ids and counts; memory slices: more digits are another text
_CARD = re.compile(rf"GPU +{_ID}: (.*?) *\(UUID: *(GPU-[\w-]+)\*?\)")
_DEVICE = re.compile(rf"MIG +(\S+) +Device +{_ID}: *\(UUID: *(MIG-\S+?)\)")
_OLD_UUID = re.compile(rf"MIG-(GPU-[\w-]+)/{_ID}/\d+")
_PLACEMENT = re.compile(rf"\|* *{_ID} +MIG +(\S+) +{_ID} +{_ID} +{_SLICE}:{_SLICE} *\|?")
_NAME = re.compile(rf"\|* *{_ID} +MIG +(\S+) +{_ID} +{_ID}/{_ID} .*")
_PLACES = re.compile(
    rf"GPU +{_ID} +Profile +ID +{_ID} +Placements? *: *\{{([0-9, ]*)\}} *: *(?P<size>[0-9]{{1,2}})\b.*"
)
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


class TextReader:
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
            shown = [text.strip() for text in found[3].split(",") if text.strip()]
            if not all(re.fullmatch(_SLICE, text) for text in shown):
                return False
            starts = tuple(sorted(set(map(int, shown))))
            self._found.places.append(ReportedPlaces(int(found[1]), int(found[2]), starts, int(found["size"])))
        return found is not None

    def _csv(self, line: str) -> bool:
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) > 1 and "index" in cells:
            self._columns = [cell.split(" ")[0] for cell in cells]
            return True
        columns = self._columns or ["index", "name", "mig.mode.current", "mig.mode.pending"]
        row = dict(zip(columns, cells, strict=False))
        if len(cells) != len(columns) or not re.fullmatch(_ID, row["index"]):
            return False
        mode = mig_mode(row.get("mig.mode.current"), row.get("mig.mode.pending"))
        if self._columns is None and mode is None:
            return False
        uuid = row.get("uuid") or row.get("gpu_uuid")
        self._found.cards.append(Card(int(row["index"]), uuid, row.get("name") or row.get("gpu_name"), mode))
        return True
