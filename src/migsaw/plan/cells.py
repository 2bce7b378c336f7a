"""The fleet grouped for the programme: units that can be cut, in cells that look alike to every waiting pod.

A unit is what one decision covers: a GPU, or under the single strategy all GPUs of a node. Units of a cell with the
same free slices are one group, so the programme does not grow with the number of GPUs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from migsaw.model.boards import Board
from migsaw.model.layouts import StateSpace
from migsaw.model.policy import Policy
from migsaw.plan.eligibility import admits
from migsaw.plan.fleet import Fleet, FleetGpu
from migsaw.plan.items import ANY_SLICE, WHOLE, is_single
from migsaw.plan.wants import Items, Want

MOST_NODES_APART = 50


@dataclass(frozen=True, slots=True)
class Unit:
    """One GPU, or all GPUs of a single-strategy node."""

    gpus: tuple[FleetGpu, ...]
    offers: Items
    can_cut: bool

    @property
    def node(self) -> str:
        return self.gpus[0].node.name


@dataclass(frozen=True, slots=True)
class Cell:
    """Units with the same board and strategy, in nodes that admit the same classes of wants."""

    board: Board | None
    single: bool
    admitted: frozenset[int]  # indices of want classes
    groups: Mapping[tuple[Items, bool], tuple[Unit, ...]]  # (offers, can be cut) → units
    patterns: tuple[Items, ...]  # what a unit can offer after a cut
    gpus_per_unit: int


@dataclass(frozen=True, slots=True)
class WantClass:
    """Pods that want the same and may go to the same nodes."""

    wants: tuple[Want, ...]
    weight: int  # memory slices of one pod, for the order of importance


def classify(wants: Sequence[Want], fleet: Fleet) -> list[tuple[WantClass, frozenset[str]]]:
    """Classes with the names of the nodes that admit them."""
    groups: dict[tuple[object, ...], list[Want]] = {}
    admitting: dict[tuple[object, ...], frozenset[str]] = {}
    for want in wants:
        pod = want.pod
        rules = (
            tuple(sorted(pod.node_selector.items())),
            pod.node_affinity,
            pod.tolerations,
            tuple(sorted(pod.asks)),
        )
        if rules not in admitting:
            admitting[rules] = frozenset(n.name for n in fleet.nodes if admits(n, pod))
        nodes = admitting[rules]
        groups.setdefault((want.asks, want.slots, nodes), []).append(want)
    rows = sorted(groups.items(), key=lambda row: row[1][0].pod.key)
    return [(WantClass(tuple(w), _weight(w[0], fleet)), key[2]) for key, w in rows]  # type: ignore[misc]


def build_cells(
    fleet: Fleet, classes: Sequence[tuple[WantClass, frozenset[str]]], policy: Policy, extra: Iterable[str]
) -> list[Cell]:
    """``extra``: profiles wanted beyond the pods (head-room).

    A pod of several instances needs them on one node, so nodes that could take one are cells of their own, as long as
    there are few; beyond, the programme sees them together and its bound is still true.
    """
    several = {i for i, (c, _) in enumerate(classes) if c.wants[0].count > 1 and len(fleet.nodes) <= MOST_NODES_APART}
    wanted = {name for c, _ in classes for w in c.wants for name in (*(n for n, _ in w.asks), *(n for _, n in w.slots))}
    wanted |= set(extra)
    cells: dict[tuple[object, ...], list[Unit]] = {}
    for node in fleet.nodes:
        mine, single = fleet.of_node(node.name), is_single(node)
        admitted = frozenset(i for i, (_, names) in enumerate(classes) if node.name in names)
        all_free = all(g.blocked is None for g in mine)
        apart = node.name if any(i in several for i in admitted) else ""
        for unit in _units(mine, single):
            shape = (unit.gpus[0].geometry, unit.gpus[0].board is None, single, admitted, all_free)
            key = (*shape, len(unit.gpus), apart)
            cells.setdefault(key, []).append(unit)
    return [_cell(units, bool(key[2]), key[3], bool(key[4]), wanted, policy) for key, units in cells.items()]  # type: ignore[arg-type]


def _cell(
    units: list[Unit], single: bool, admitted: frozenset[int], all_free: bool, wanted: set[str], policy: Policy
) -> Cell:
    board, size = units[0].gpus[0].board, len(units[0].gpus)
    groups: dict[tuple[Items, bool], list[Unit]] = {}
    for unit in units:
        groups.setdefault((unit.offers, unit.can_cut), []).append(unit)
    cuttable = any(u.can_cut for u in units) and board is not None
    patterns: tuple[Items, ...] = ()
    if cuttable and board is not None:
        names = tuple(p.name for p in board.profiles if policy.allows(p) and wanted & {p.name, *p.aliases})
        patterns = _uniform(board, names, size) if single else _undominated(board, names)
        if all_free and WHOLE in wanted and not single:
            patterns += (((WHOLE, 1),),)
    frozen = {key: tuple(value) for key, value in sorted(groups.items(), key=lambda row: (row[0][1], row[0][0]))}
    return Cell(board, single, admitted, frozen, patterns, size)


def _units(gpus: tuple[FleetGpu, ...], single: bool) -> list[Unit]:
    if not single:
        return [Unit((g,), tuple(sorted(g.offers.items())), g.blocked is None) for g in gpus]
    total: Counter[str] = Counter()
    for gpu in gpus:
        total.update(gpu.offers)
    boards = {g.gpu.board for g in gpus}
    return [Unit(gpus, tuple(sorted(total.items())), len(boards) == 1 and all(g.blocked is None for g in gpus))]


@lru_cache(maxsize=64)
def _undominated(board: Board, names: tuple[str, ...]) -> tuple[Items, ...]:
    """Feasible multisets of these profiles that no other one contains."""
    if not names:
        return ()
    multisets = sorted(StateSpace(board, names).multisets, reverse=True)
    keep = [
        m for m in multisets if not any(o != m and all(a <= b for a, b in zip(m, o, strict=True)) for o in multisets)
    ]
    return tuple(tuple((n, c) for n, c in zip(names, m, strict=True) if c) for m in keep)


def _inside(few: tuple[int, ...], many: tuple[int, ...]) -> bool:
    return all(a <= b for a, b in zip(few, many, strict=True))


@lru_cache(maxsize=64)
def _uniform(board: Board, names: tuple[str, ...], gpus: int) -> tuple[Items, ...]:
    counts = [(name, gpus * most_of(board, name)) for name in names]
    return tuple(((ANY_SLICE, n), (name, n)) for name, n in counts)


@lru_cache(maxsize=256)
def most_of(board: Board, name: str) -> int:
    """How many instances of one profile fit one GPU."""
    return max(m[0] for m in StateSpace(board, (name,)).multisets)


def _weight(want: Want, fleet: Fleet) -> int:
    """Memory slices that serving the pod takes, on the first board that knows the profile."""
    items = [(name, want.count) for _, name in want.slots[:1]] or list(want.asks)
    return max(1, sum(n * _memory_slices(item, fleet) for item, n in items))


def _memory_slices(item: str, fleet: Fleet) -> int:
    for gpu in fleet.gpus:
        if gpu.board is None:
            continue
        if item == WHOLE:
            return gpu.board.memory_slices or 1
        if profile := gpu.board.find(item):
            return profile.memory_slices or 1
    return 1
