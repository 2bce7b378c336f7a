"""The rules of MIG geometry, written again for tests: by exhaustion, and by nothing of the code that is tested.

A placement is (profile name, start). Rules (nvml.h, the open kernel modules, NVIDIA's user guide): listed starts only;
spans do not overlap; no profile above its count; compute slices and engines within the whole GPU; ``+me.all`` stands
only beside ``-me``.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

CATALOGUE = Path(__file__).resolve().parents[1] / "src/migsaw/catalogue/boards.json"


@cache
def raw_boards() -> dict[str, dict[str, Any]]:
    return {board["key"]: board for board in json.loads(CATALOGUE.read_text())["boards"]}


@cache
def raw_profiles(key: str) -> dict[str, dict[str, Any]]:
    return {profile["name"]: profile for profile in raw_boards()[key]["profiles"]}


def known_boards() -> list[str]:
    return [
        key for key, board in raw_boards().items() if board["profiles"] and all(p["starts"] for p in board["profiles"])
    ]


def placements(key: str, names: list[str] | None = None) -> list[tuple[str, int]]:
    profiles = raw_profiles(key)
    return [(name, start) for name in names or profiles for start in profiles[name]["starts"]]


def span(key: str, placement: tuple[str, int]) -> set[int]:
    name, start = placement
    return set(range(start, start + raw_profiles(key)[name]["memory_slices"]))


def is_legal(key: str, layout: list[tuple[str, int]]) -> bool:
    board, profiles = raw_boards()[key], raw_profiles(key)
    if any(start not in profiles[name]["starts"] for name, start in layout):
        return False
    cells = [cell for placement in layout for cell in span(key, placement)]
    if len(cells) != len(set(cells)) or (cells and max(cells) >= board["memory_slices"]):
        return False
    counts = Counter(name for name, _ in layout)
    if any(count > profiles[name]["max_instances"] for name, count in counts.items()):
        return False
    if sum(profiles[name]["compute_slices"] for name, _ in layout) > board["compute_slices"]:
        return False
    for engine, total in enumerate(board["engine_totals"]):
        if total is not None and sum(profiles[name]["engines"][engine] or 0 for name, _ in layout) > total:
            return False
    names = set(counts)
    everything = {name for name in names if name.endswith("+me.all")}
    return not everything or all(name in everything or name.endswith("-me") for name in names)


def all_layouts(key: str, names: list[str] | None = None) -> list[frozenset[tuple[str, int]]]:
    """Every legal layout, the empty one included: each placement in or out, one after the other."""
    found: list[frozenset[tuple[str, int]]] = [frozenset()]
    for placement in placements(key, names):
        found += [one | {placement} for one in found if is_legal(key, [*one, placement])]
    return found


def maximal_layouts(key: str, names: list[str] | None = None) -> list[frozenset[tuple[str, int]]]:
    options = placements(key, names)
    return [
        one
        for one in all_layouts(key, names)
        if not any(option not in one and is_legal(key, [*one, option]) for option in options)
    ]


def multiset(layout: frozenset[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(Counter(name for name, _ in layout).items()))


def can_stand(key: str, texts: tuple[str, ...]) -> bool:
    """Whether the instances of a layout as written in plans (``3g.40gb@4``, or without a start) fit one GPU at once."""
    items = [text.partition("@") for text in texts]
    options = [[int(start)] if at else raw_profiles(key)[name]["starts"] for name, at, start in items]

    def place(number: int, done: list[tuple[str, int]]) -> bool:
        if number == len(items):
            return True
        name = items[number][0]
        return any(
            is_legal(key, [*done, (name, start)]) and place(number + 1, [*done, (name, start)])
            for start in options[number]
        )

    return place(0, [])
