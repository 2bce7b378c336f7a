"""Which units to cut anew, how, and which waiting pod goes where: a lexicographic integer programme over cells.

Levels: memory slices of waiting pods that stay unserved; head-room that stays unmet; GPUs cut anew. Each level is
solved with the ones above it kept, and carries its own certified bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from migsaw.plan.cells import Cell, Unit, WantClass
from migsaw.plan.fleet import ANY_SLICE
from migsaw.plan.programme import Programme
from migsaw.plan.wants import Items, Want


@dataclass(frozen=True, slots=True)
class LevelResult:
    name: str
    value: int
    lower_bound: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """``cuts``: unit → what of it is needed (single strategy: all that it will offer).
    ``places``: want → (node, items). Pods not in ``places`` stay unserved."""

    cuts: tuple[tuple[Unit, Items], ...]
    places: Mapping[str, tuple[str, Items]]
    headroom: Mapping[str, int]  # met, by profile
    levels: tuple[LevelResult, ...]


@dataclass
class _Model:
    programme: Programme = field(default_factory=Programme)
    serve: dict[tuple[int, int, Items], int] = field(default_factory=dict)  # (class, cell, option) → variable
    cut: dict[tuple[int, tuple[Items, bool]], int] = field(default_factory=dict)  # (cell, group) → variable
    pattern: dict[tuple[int, int], int] = field(default_factory=dict)  # (cell, pattern index) → variable
    head: dict[tuple[str, int], int] = field(default_factory=dict)  # (profile, cell) → variable


def assign(classes: Sequence[WantClass], cells: Sequence[Cell], headroom: Mapping[str, int]) -> Assignment:
    model = _model(classes, cells, headroom)
    total = sum(c.weight * len(c.wants) for c in classes)
    serve_cost = {j: -classes[c].weight for (c, _, _), j in model.serve.items()}
    head_cost = dict.fromkeys(model.head.values(), -1)
    cut_cost = {j: cells[k].gpus_per_unit for (k, _), j in model.cut.items()}
    levels, x = [], [0] * len(model.programme.upper)
    for name, cost, offset in (
        ("memory slices of waiting pods unserved", serve_cost, total),
        ("head-room unmet", head_cost, sum(headroom.values())),
        ("GPUs cut anew", cut_cost, 0),
    ):
        answer = model.programme.minimise(cost, x)
        x = list(answer.x)
        levels.append(LevelResult(name, answer.value + offset, answer.lower_bound + offset))
        model.programme.at_most(cost, answer.value)
    return _spread(model, x, classes, cells, levels)


def _model(classes: Sequence[WantClass], cells: Sequence[Cell], headroom: Mapping[str, int]) -> _Model:
    model = _Model()
    p = model.programme
    for k, cell in enumerate(cells):
        use: dict[str, dict[int, int]] = {}
        room = _supply(model, k, cell, use)
        most = sum(room.values()) + sum(n for pattern in cell.patterns for _, n in pattern) * _cuttable(cell)
        for c in sorted(cell.admitted):
            for option in classes[c].wants[0].options(cell.board, cell.single):
                j = p.variable(min(len(classes[c].wants), most))
                model.serve[c, k, option] = j
                for item, n in option:
                    use.setdefault(item, {})[j] = n
        for name, count in sorted(headroom.items()):
            j = p.variable(min(count, most))
            model.head[name, k] = j
            use.setdefault(_own_name(cell, name), {})[j] = 1
            if cell.single:
                use.setdefault(ANY_SLICE, {})[j] = 1
        for item, terms in sorted(use.items()):
            p.at_most(terms, room.get(item, 0))
    for c, group in enumerate(classes):
        p.at_most({j: 1 for (other, _, _), j in model.serve.items() if other == c}, len(group.wants))
    for name, count in sorted(headroom.items()):
        p.at_most({j: 1 for (other, _), j in model.head.items() if other == name}, count)
    return model


def _supply(model: _Model, k: int, cell: Cell, use: dict[str, dict[int, int]]) -> Counter[str]:
    """Variables of cutting; returns what the cell offers uncut, and lets cuts take from or add to ``use``."""
    p, room, cuts = model.programme, Counter[str](), {}
    for (offers, can_cut), units in cell.groups.items():
        for item, n in offers:
            room[item] += n * len(units)
        if can_cut and cell.patterns:
            j = p.variable(len(units))
            model.cut[k, (offers, can_cut)] = j
            cuts[j] = -1
            for item, n in offers:
                use.setdefault(item, {})[j] = n
    for v, pattern in enumerate(cell.patterns if cuts else ()):
        j = p.variable(_cuttable(cell))
        model.pattern[k, v] = j
        cuts[j] = 1
        for item, n in pattern:
            use.setdefault(item, {})[j] = -n
    if cuts:
        p.at_most(cuts, 0)  # patterns made ≤ units cut
    return room


def _cuttable(cell: Cell) -> int:
    return sum(len(units) for (_, can_cut), units in cell.groups.items() if can_cut)


def _own_name(cell: Cell, name: str) -> str:
    profile = cell.board.find(name) if cell.board else None
    return profile.name if profile else name


# ---- from counts to GPUs and pods -------------------------------------------------------------------------------


def _spread(
    model: _Model, x: Sequence[int], classes: Sequence[WantClass], cells: Sequence[Cell], levels: list[LevelResult]
) -> Assignment:
    """Names the units that are cut and gives every pod its node; a pod of several instances needs one node for all."""
    cuts: list[tuple[int, Unit, Items]] = []
    rooms: list[dict[str, Counter[str]]] = []
    todo: list[tuple[Want, int, Items]] = []
    taken: set[str] = set()
    for k, cell in enumerate(cells):
        mine = _cuts_of(model, x, k, cell)
        cuts += [(k, unit, pattern) for unit, pattern in mine]
        rooms.append(_room(cell, mine))
        for (c, other, option), j in model.serve.items():
            if other == k:
                todo += [(want, k, option) for want in _take(classes[c].wants, taken, x[j])]
    places: dict[str, tuple[str, Items]] = {}
    for want, k, option in sorted(todo, key=lambda row: (-sum(n for _, n in row[2]), row[0].pod.key)):
        _settle(want, option, rooms[k], places)
    for c, group in enumerate(classes):  # what found no single node there may find one elsewhere
        for want in group.wants:
            for k, cell in enumerate(cells):
                for option in want.options(cell.board, cell.single) if c in cell.admitted else ():
                    _settle(want, option, rooms[k], places)
    head = Counter({(k, _own_name(cells[k], name)): x[j] for (name, k), j in model.head.items()})
    met = Counter({name: 0 for name, _ in model.head})
    for (name, _), j in model.head.items():
        met[name] += x[j]
    needed = _needed(cuts, rooms, head)
    return Assignment(needed, places, met, _with_unserved(levels, classes, places))


def _needed(
    cuts: Sequence[tuple[int, Unit, Items]], rooms: Sequence[Mapping[str, Counter[str]]], head: Counter[tuple[int, str]]
) -> tuple[tuple[Unit, Items], ...]:
    """What of each pattern is really used: what its node has left over is not needed, but for the head-room.

    What is left of a node is taken off its cut units, last ones first, so that they can be filled otherwise.
    """
    spare = {(k, node): Counter(left) for k, room in enumerate(rooms) for node, left in room.items()}
    for (k, name), count in head.items():
        for key in sorted(key for key in spare if key[0] == k):
            kept = min(count, spare[key][name])
            spare[key][name] -= kept
            count -= kept
    rows: list[tuple[Unit, Items]] = []
    for k, unit, pattern in reversed(cuts):
        left, used = spare[k, unit.node], []
        for item, n in pattern:
            unused = 0 if len(unit.gpus) > 1 or ANY_SLICE in dict(pattern) else min(n, max(0, left[item]))
            left[item] -= unused
            used.append((item, n - unused))
        rows.append((unit, tuple((item, n) for item, n in used if n)))
    return tuple(reversed(rows))


def _cuts_of(model: _Model, x: Sequence[int], k: int, cell: Cell) -> list[tuple[Unit, Items]]:
    """Patterns in order onto units in order of node, so that equal patterns meet in the same node."""
    units = [u for key, us in cell.groups.items() if (k, key) in model.cut for u in us[: x[model.cut[k, key]]]]
    units.sort(key=lambda u: (u.node, u.gpus[0].gpu.index))
    wanted = [cell.patterns[v] for (other, v), j in model.pattern.items() if other == k for _ in range(x[j])]
    return list(zip(units, wanted, strict=False))


def _room(cell: Cell, cuts: Sequence[tuple[Unit, Items]]) -> dict[str, Counter[str]]:
    room: dict[str, Counter[str]] = {}
    new = {id(unit): pattern for unit, pattern in cuts}
    for units in cell.groups.values():
        for unit in units:
            room.setdefault(unit.node, Counter()).update(dict(new.get(id(unit), unit.offers)))
    return room


def _take(wants: Sequence[Want], taken: set[str], count: int) -> list[Want]:
    """The next ``count`` wants of a class that are not taken yet; they are now."""
    free = [w for w in wants if w.pod.key not in taken][:count]
    taken.update(w.pod.key for w in free)
    return free


def _settle(want: Want, option: Items, room: dict[str, Counter[str]], places: dict[str, tuple[str, Items]]) -> None:
    node = None if want.pod.key in places else _node_for(room, option)
    if node is not None:
        room[node].subtract(dict(option))
        places[want.pod.key] = (node, option)


def _node_for(room: Mapping[str, Counter[str]], option: Items) -> str | None:
    """The node with the least left over that has room for all items: best fit, by name where equal."""
    fitting = [node for node, free in room.items() if all(free[item] >= n for item, n in option)]
    return min(fitting, key=lambda node: (sum(room[node].values()), node), default=None)


def _with_unserved(
    levels: list[LevelResult], classes: Sequence[WantClass], places: Mapping[str, tuple[str, Items]]
) -> tuple[LevelResult, ...]:
    """The first level as it came out: a pod of several instances may find no single node."""
    unserved = sum(c.weight for c in classes for w in c.wants if w.pod.key not in places)
    first = levels[0]
    return (LevelResult(first.name, unserved, first.lower_bound), *levels[1:])
