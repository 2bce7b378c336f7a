"""A strict reader of mig-parted files, from mig-parted's own rules (api/spec/v1): mig-manager would refuse the same."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from ruamel.yaml import YAML

PROFILE = re.compile(r"\d+g\.\d+gb(\+(me|me\.all|gfx)|-me)?")

Config = dict[int, Counter[str] | None]


def read_mig_parted(text: str) -> dict[str, list[dict[str, Any]]]:
    """Raises where mig-parted would: unknown or missing keys, a wrong version, counts that are all zero."""
    yaml = YAML(typ="safe", pure=True)
    yaml.allow_duplicate_keys = False
    document = yaml.load(text)
    assert document.keys() == {"version", "mig-configs"}
    assert document["version"] == "v1"
    configs = document["mig-configs"]
    assert configs
    for entries in configs.values():
        assert isinstance(entries, list)
        assert entries
        for entry in entries:
            assert {"devices", "mig-enabled"} <= entry.keys() <= {"devices", "mig-enabled", "mig-devices"}
            assert isinstance(entry["mig-enabled"], bool)
            assert ("mig-devices" in entry) == entry["mig-enabled"]
            indices = entry["devices"]
            assert indices == "all" or (indices and all(type(i) is int and i >= 0 for i in indices))
            counts = entry.get("mig-devices", {})
            assert all(PROFILE.fullmatch(name) and type(n) is int and n >= 0 for name, n in counts.items())
            assert not counts or any(counts.values())
    return configs


def gpus_of(entries: list[dict[str, Any]]) -> Config:
    """Index → instances, None where MIG is off; every index at most once."""
    found: Config = {}
    for entry in entries:
        for index in entry["devices"]:
            assert index not in found
            found[index] = Counter(entry["mig-devices"]) if entry["mig-enabled"] else None
    return found
