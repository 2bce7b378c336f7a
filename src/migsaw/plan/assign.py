"""Which units to cut anew, how, and which waiting pod goes where: a lexicographic integer programme over cells.

Levels: memory slices of waiting pods that stay unserved; head-room that stays unmet; GPUs cut anew. Each level is
solved with the ones above it kept, and carries its own certified bound. Where a pod may have one of several slots, a
last level gives the smaller ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from migsaw.plan.cells import Cell, Unit, WantClass
from migsaw.plan.items import ANY_SLICE
from migsaw.plan.programme import Programme
from migsaw.plan.spread import Counts, Places, spread
from migsaw.plan.wants import Items


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
    places: Places
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
    wanted = [
        ("memory slices of waiting pods unserved", serve_cost, total),
        ("head-room unmet", head_cost, sum(headroom.values())),
        ("GPUs cut anew", cut_cost, 0),
    ]
    if any(len(c.wants[0].slots) > 1 for c in classes):
        give_cost = {j: _slices(cells[k], option) for (_, k, option), j in model.serve.items()}
        wanted.append(("memory slices given to waiting pods", give_cost, 0))
    levels, x = [], [0] * len(model.programme.upper)
    for name, cost, offset in wanted:
        answer = model.programme.minimise(cost, x)
        x = list(answer.x)
        levels.append(LevelResult(name, answer.value + offset, answer.lower_bound + offset))
        model.programme.at_most(cost, answer.value)
    return _named(model, x, classes, cells, tuple(levels))


def _slices(cell: Cell, option: Items) -> int:
    """Memory slices that the option takes; a slice of any profile counts as none: its size is not chosen here."""
    if cell.board is None:
        return 0
    sizes = ((cell.board.find(item), n) for item, n in option)
    return sum(n * (profile.memory_slices or 0) for profile, n in sizes if profile)


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


def _over_several_cells(classes: Sequence[WantClass], cells: Sequence[Cell]) -> list[int]:
    """Classes of pods of several instances that a node with unlike GPUs admits: the programme serves each such pod from
    one kind of GPU, so it proves nothing of them."""
    nodes = [{unit.node for units in cell.groups.values() for unit in units} for cell in cells]
    parts = Counter(node for mine in nodes for node in mine)
    mixed = [k for k, mine in enumerate(nodes) if any(parts[node] > 1 for node in mine)]
    several = (c for c, group in enumerate(classes) if group.wants[0].count > 1)
    return [c for c in several if any(c in cells[k].admitted for k in mixed)]


def _named(
    model: _Model,
    x: Sequence[int],
    classes: Sequence[WantClass],
    cells: Sequence[Cell],
    levels: tuple[LevelResult, ...],
) -> Assignment:
    """The numbers of the programme as units and pods. The first level is told as it came out: a pod of several
    instances may have found no single node."""
    counts = Counts(
        serve={key: x[j] for key, j in model.serve.items()},
        cut={key: x[j] for key, j in model.cut.items()},
        pattern={key: x[j] for key, j in model.pattern.items()},
        head={(k, _own_name(cells[k], name)): x[j] for (name, k), j in model.head.items()},
    )
    cuts, places = spread(counts, classes, cells)
    met: Counter[str] = Counter()
    for (name, _), j in model.head.items():
        met[name] += x[j]
    left = [sum(c.weight for w in c.wants if w.pod.key not in places) for c in classes]
    proven = levels[0].lower_bound - sum(left[c] for c in _over_several_cells(classes, cells))
    first = LevelResult(levels[0].name, sum(left), max(0, proven))
    return Assignment(cuts, places, met, (first, *levels[1:]))
