"""The mig-parted file: named configurations, each covering every GPU of a node exactly once.

Format (mig-parted ``api/spec/v1``): ``version: v1``; an entry has ``devices``, ``mig-enabled`` and, exactly where MIG
is enabled, ``mig-devices``; unknown keys and all-zero counts are refused. It counts instances and cannot say where
they start: mig-parted clears a GPU and tries orders of creation until one holds them all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from migsaw.model.layouts import Layout
from migsaw.render.document import short_hash
from migsaw.render.yaml_text import to_yaml

Entry = dict[str, Any]
Gpus = Mapping[int, Layout | None]  # index → layout; None: MIG off

ALL_DISABLED: tuple[Entry, ...] = ({"devices": "all", "mig-enabled": False},)


def entries(gpus: Gpus) -> tuple[Entry, ...]:
    """GPUs that are cut alike share an entry; entries are in the order of their first GPU."""
    alike: dict[tuple[tuple[str, int], ...] | None, list[int]] = {}
    for index in sorted(gpus):
        layout = gpus[index]
        counts = None if layout is None else tuple(sorted(Counter(item.profile for item in layout).items()))
        alike.setdefault(counts, []).append(index)
    return tuple(_entry(indices, counts) for counts, indices in alike.items())


def _entry(indices: list[int], counts: Sequence[tuple[str, int]] | None) -> Entry:
    if counts is None:
        return {"devices": indices, "mig-enabled": False}
    return {"devices": indices, "mig-enabled": True, "mig-devices": dict(counts)}


def config_name(config: Sequence[Entry]) -> str:
    """The same layout always has the same name, so that a label says what a node has."""
    return f"migsaw-{short_hash(to_yaml({'config': list(config)}))}"


def file_text(configs: Mapping[str, Sequence[Entry]]) -> str:
    return to_yaml({"version": "v1", "mig-configs": {name: list(entries) for name, entries in configs.items()}})
