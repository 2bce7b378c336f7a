"""From the numbers of the programme to GPUs by name and a node for every pod. Ties are broken by names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from migsaw.plan.cells import Cell, Unit, WantClass
from migsaw.plan.items import ANY_SLICE
from migsaw.plan.wants import Items, Want

Places = Mapping[str, tuple[str, Items]]  # pod → (node, items)
Room = dict[str, Counter[str]]  # node → what is left of each item


@dataclass(frozen=True, slots=True)
class Counts:
    """How many, by cell index: pods of a class on an option, units of a group cut, patterns made, head-room kept."""

    serve: Mapping[tuple[int, int, Items], int]  # (class, cell, option)
    cut: Mapping[tuple[int, tuple[Items, bool]], int]  # (cell, group)
    pattern: Mapping[tuple[int, int], int]  # (cell, pattern index)
    head: Mapping[tuple[int, str], int]  # (cell, profile)


def spread(
    counts: Counts, classes: Sequence[WantClass], cells: Sequence[Cell]
) -> tuple[tuple[tuple[Unit, Items], ...], Places]:
    """(units with what of them is needed, places). A pod of several instances needs one node for all of them."""
    cuts = [(k, unit, pattern) for k, cell in enumerate(cells) for unit, pattern in _cuts_of(counts, k, cell)]
    rooms = [_room(cell, [(u, p) for other, u, p in cuts if other == k]) for k, cell in enumerate(cells)]
    places: dict[str, tuple[str, Items]] = {}
    for (k, option), wants in _batches(counts, classes):
        _settle(wants, option, rooms[k], places)
    for c, group in enumerate(classes):  # what found no single node there may find one elsewhere
        left = [w for w in group.wants if w.pod.key not in places]
        for k, cell in enumerate(cells if left else ()):
            for option in left[0].options(cell.board, cell.single) if c in cell.admitted else ():
                _settle(left, option, rooms[k], places)
    return _needed(cuts, rooms, counts.head), places


def _batches(counts: Counts, classes: Sequence[WantClass]) -> list[tuple[tuple[int, Items], list[Want]]]:
    """Pods by cell and option, those of several instances first."""
    taken: Counter[int] = Counter()
    found: dict[tuple[int, Items], list[Want]] = {}
    for (c, k, option), count in sorted(counts.serve.items(), key=lambda row: (row[0][1], row[0][0], row[0][2])):
        found.setdefault((k, option), []).extend(classes[c].wants[taken[c] : taken[c] + count])
        taken[c] += count
    return sorted(found.items(), key=lambda row: (-sum(n for _, n in row[0][1]), row[0]))


def _settle(wants: Iterable[Want], option: Items, room: Room, places: dict[str, tuple[str, Items]]) -> None:
    """Best fit: the nodes with the least left over come first, by name where equal."""
    waiting = [w for w in wants if w.pod.key not in places]
    fitting = [node for node, free in room.items() if all(free[item] >= n for item, n in option)] if waiting else []
    for node in sorted(fitting, key=lambda node: (room[node].total(), node)):
        free = room[node]
        most = min(free[item] // n for item, n in option)
        for want in waiting[:most]:
            free.subtract(dict(option))
            places[want.pod.key] = (node, option)
        waiting = waiting[most:]


def _cuts_of(counts: Counts, k: int, cell: Cell) -> list[tuple[Unit, Items]]:
    """Patterns in order onto units in order of node, so that equal patterns meet in the same node."""
    units = [u for key, group in cell.groups.items() for u in group[: counts.cut.get((k, key), 0)]]
    units.sort(key=lambda u: (u.node, u.gpus[0].gpu.index))
    wanted = [pattern for v, pattern in enumerate(cell.patterns) for _ in range(counts.pattern.get((k, v), 0))]
    return list(zip(units, wanted, strict=False))


def _room(cell: Cell, cuts: Iterable[tuple[Unit, Items]]) -> Room:
    room: Room = {}
    new = {id(unit): pattern for unit, pattern in cuts}
    for units in cell.groups.values():
        for unit in units:
            room.setdefault(unit.node, Counter()).update(dict(new.get(id(unit), unit.offers)))
    return room


def _needed(
    cuts: Sequence[tuple[int, Unit, Items]], rooms: Sequence[Room], head: Mapping[tuple[int, str], int]
) -> tuple[tuple[Unit, Items], ...]:
    """What of each pattern is really used; the rest may be filled otherwise.

    What a node has left over, but for the head-room, is taken off its cut units, last ones first. Under the single
    strategy the whole node has the one profile, and nothing is taken off.
    """
    spare = {(k, node): Counter(left) for k, room in enumerate(rooms) for node, left in room.items()}
    for (k, name), count in head.items():
        kept = count
        for key in (key for key in spare if key[0] == k):
            here = min(kept, spare[key][name])
            spare[key][name] -= here
            kept -= here
    rows: list[tuple[Unit, Items]] = []
    for k, unit, pattern in reversed(cuts):
        left, used = spare[k, unit.node], []
        for item, n in pattern:
            unused = 0 if ANY_SLICE in dict(pattern) else min(n, max(0, left[item]))
            left[item] -= unused
            used.append((item, n - unused))
        rows.append((unit, tuple((item, n) for item, n in used if n)))
    return tuple(reversed(rows))
