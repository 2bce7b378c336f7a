"""mig-parted files: what somebody wishes (a config), or what `nvidia-mig-parted export` found on one node.

Strict as mig-parted itself (`api/spec/v1/spec.go`): version v1, known keys, ``mig-devices`` exactly where MIG is on, no
counts that are all zero. A wish is never taken for what is there; comparing is the business of the checks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from migsaw.errors import InputError, Where
from migsaw.model.names import parse_profile_name
from migsaw.observe.reading import Document, Place, decode, parse_document, read_bytes
from migsaw.observe.sniff import belongs_to

EXPORTED = "current"  # the name that `export` gives to what it found
_KEYS = {"device-filter", "devices", "mig-enabled", "mig-devices"}


@dataclass(frozen=True, slots=True)
class Entry:
    """Some GPUs of a node and what they are to hold. ``devices`` None: all. ``filters``: PCI ids such as 0x20B010DE."""

    filters: tuple[str, ...]
    devices: tuple[int, ...] | None
    enabled: bool
    counts: Mapping[str, int]  # profile, as written → number; empty where MIG is off

    def is_for(self, index: int, pci_ids: Iterable[str]) -> bool:
        """``pci_ids``: of the GPU's board, device part only; with no filter every board is meant."""
        matches = not self.filters or any(f[:6].lower() in set(pci_ids) for f in self.filters)
        return matches and (self.devices is None or index in self.devices)


@dataclass(frozen=True, slots=True)
class MigParted:
    file: str
    configs: Mapping[str, tuple[Entry, ...]]
    document: Document

    @property
    def is_export(self) -> bool:
        return set(self.configs) == {EXPORTED}

    def wish(self, config: str, index: int, pci_ids: Iterable[str]) -> Entry | None:
        """The entry of a config for a GPU; the last one that matches, as mig-parted applies them in order."""
        ids = tuple(pci_ids)
        return next((e for e in reversed(self.configs.get(config, ())) if e.is_for(index, ids)), None)


def read_mig_parted(paths: Iterable[Path]) -> list[MigParted]:
    return [_read(path) for path in paths]


def _read(path: Path) -> MigParted:
    content = decode(read_bytes(path), str(path))
    option = belongs_to(content)
    if option not in (None, "--mig-parted"):
        raise InputError("this is no mig-parted file", where=Where(str(path), "1"), hint=f"give it to {option}")
    return parse_mig_parted(parse_document(content, path))


def parse_mig_parted(document: Document) -> MigParted:
    """Raises :class:`InputError` with file, place and field for everything that mig-parted would refuse."""
    data = document.data
    if not isinstance(data, dict) or "mig-configs" not in data:
        hint = "expected `version: v1` and `mig-configs`"
        raise InputError("this is no mig-parted file", where=document.where(()), hint=hint)
    _refuse_unknown(document, data, {"version", "mig-configs"}, ())
    if data.get("version") != "v1":
        raise InputError(f"version is {data.get('version')!r}, expected v1", where=document.where(["version"]))
    configs = data["mig-configs"]
    if not isinstance(configs, dict):
        raise InputError("expected config names", where=document.where(["mig-configs"]))
    found = {str(name): _config(document, entries, ["mig-configs", name]) for name, entries in configs.items()}
    return MigParted(document.file, found, document)


def _config(document: Document, entries: Any, place: Place) -> tuple[Entry, ...]:
    if not isinstance(entries, list):
        raise InputError("expected a list of entries", where=document.where(place))
    return tuple(_entry(document, entry, [*place, index]) for index, entry in enumerate(entries))


def _entry(document: Document, entry: Any, place: Place) -> Entry:
    if not isinstance(entry, dict):
        raise InputError("expected an entry with devices and mig-enabled", where=document.where(place))
    _refuse_unknown(document, entry, _KEYS, place)
    enabled = entry.get("mig-enabled")
    if not isinstance(enabled, bool):
        raise InputError("mig-enabled must be true or false", where=document.where([*place, "mig-enabled"]))
    counts = _counts(document, entry.get("mig-devices"), [*place, "mig-devices"])
    if enabled and counts is None:
        raise InputError("mig-enabled is true, but there is no mig-devices", where=document.where(place))
    if not enabled and counts:
        raise InputError(
            "mig-enabled is false, but there are mig-devices", where=document.where([*place, "mig-devices"])
        )
    return Entry(_filters(document, entry, place), _devices(document, entry, place), enabled, counts or {})


def _filters(document: Document, entry: dict[str, Any], place: Place) -> tuple[str, ...]:
    shown = entry.get("device-filter")
    filters = shown if isinstance(shown, list) else [shown] if shown else []
    for text in filters:
        if not isinstance(text, str) or not re.fullmatch(r"0x[0-9A-Fa-f]{8}(:.*)?", text):
            raise InputError(
                f"{text!r} is no device filter",
                where=document.where([*place, "device-filter"]),
                hint="such as '0x20B010DE'",
            )
    return tuple(filters)


def _devices(document: Document, entry: dict[str, Any], place: Place) -> tuple[int, ...] | None:
    devices = entry.get("devices")
    if devices == "all":
        return None
    if not isinstance(devices, list) or not all(type(d) is int and d >= 0 for d in devices):
        raise InputError("devices must be `all` or GPU indices", where=document.where([*place, "devices"]))
    return tuple(devices)


def _counts(document: Document, counts: Any, place: Place) -> dict[str, int] | None:
    if counts is None:
        return None
    if not isinstance(counts, dict):
        raise InputError("mig-devices must map profiles to numbers", where=document.where(place))
    for name, number in counts.items():
        if parse_profile_name(str(name)) is None:
            raise InputError(f"{name!r} is no profile", where=document.where([*place, name]), hint="such as 1g.10gb")
        if type(number) is not int or number < 0:
            raise InputError(f"{number!r} is no number of instances", where=document.where([*place, name]))
    if counts and not any(counts.values()):
        raise InputError("all counts are 0", where=document.where(place), hint="leave it empty: `mig-devices: {}`")
    return {str(name): number for name, number in counts.items()}


def _refuse_unknown(document: Document, data: dict[str, Any], known: set[str], place: Place) -> None:
    for key in data:
        if key not in known:
            hint = f"known: {', '.join(sorted(known))}"
            raise InputError(f"unknown key {key!r}", where=document.where([*place, str(key)]), hint=hint)
