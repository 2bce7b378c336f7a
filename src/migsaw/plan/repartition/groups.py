"""GPUs grouped by what touching them would give and take, so that the programme does not know how many there are.

A *kind* is a set of options: what may be evicted, and which class of fills is then open. Kinds fall into *variants* by
the idle instances that touching a GPU destroys and the seconds it takes. Boards need not be equal: only what is wanted
of them counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from migsaw.model.boards import Board
from migsaw.plan.repartition.states import Fill, Fills, Futures, inside
from migsaw.plan.repartition.values import Ask, PoolGpu, Reach

Moves = tuple[tuple[int, str], ...]  # (price, profile) of each eviction, sorted
Option = tuple[Moves, int]  # what is evicted, class of the fills that are then open
Ways = Mapping[Option, tuple[int, ...]]  # of one GPU: option → positions in ``held`` of what is evicted
Kind = tuple[Option, ...]
Row = tuple[str, int | None, int | None]  # profile, start, price of moving it (None: pinned)


@dataclass(frozen=True, slots=True, order=True)
class Variant:
    idle: Fill  # instances per item that serve for as long as the GPU is not touched
    seconds: int


Members = tuple[tuple[PoolGpu, Ways], ...]


@dataclass(frozen=True)
class Grouped:
    """``items``: profiles that count. ``futures``: maximal fills by class. ``offers``: idle instances per item now,
    ``there``: with the held ones."""

    items: tuple[str, ...]
    futures: tuple[Fills, ...]
    kinds: Mapping[Kind, Mapping[Variant, Members]]
    offers: Fill
    there: Fill


def group(gpus: Sequence[PoolGpu], ask: Ask) -> Grouped:
    """Evictions are among the options where budgets allow them. Raises KeyError for a start that a board has not."""
    return _Grouping(gpus, ask).run(gpus)


class _Grouping:
    def __init__(self, gpus: Sequence[PoolGpu], ask: Ask) -> None:
        self.price = {name: b.price for name, b in ask.budgets.items()}
        self.held_nodes = {g.node for g in gpus if g.held}
        seen = {(id(g.board), h.placed.profile, h.workload in self.price) for g in gpus for h in g.held}
        self.beside = {board: {name for own, name, _ in seen if own == board} for board in {id(g.board) for g in gpus}}
        moving = {name for _, name, movable in seen if movable}
        self.items = tuple(sorted({*ask.demand, *ask.headroom, *ask.keep, *moving}))
        self.classes: dict[Fills, int] = {}
        self._futures: dict[int, Futures] = {}
        self._class_of: dict[tuple[int, int], int] = {}
        self._beaten: dict[tuple[int, int], bool] = {}
        self._ways: dict[object, tuple[Kind, Ways]] = {}
        self._variants: dict[object, Variant] = {}

    def run(self, gpus: Sequence[PoolGpu]) -> Grouped:
        found: dict[int, dict[Variant, list[tuple[PoolGpu, Ways]]]] = {}
        kinds: dict[Kind, int] = {}
        number_of: dict[int, int] = {}
        held: Counter[tuple[Row, ...]] = Counter()
        offers: Counter[Variant] = Counter()
        for gpu in gpus:
            rows, kind, ways = self._ways_of(gpu)
            if id(ways) not in number_of:
                number_of[id(ways)] = kinds.setdefault(kind, len(kinds))
            variant = self._variant_of(gpu)
            found.setdefault(number_of[id(ways)], {}).setdefault(variant, []).append((gpu, ways))
            held[rows] += 1
            offers[variant] += 1
        free = tuple(sum(v.idle[n] * count for v, count in offers.items()) for n in range(len(self.items)))
        names: Counter[str] = Counter()
        for rows, count in held.items():
            for name, _, _ in rows:
                names[name] += count
        ordered = {
            kind: {v: tuple(found[number][v]) for v in sorted(found[number])}
            for kind, number in sorted(kinds.items())
            if kind
        }
        there = tuple(names[name] + n for name, n in zip(self.items, free, strict=True))
        return Grouped(self.items, tuple(self.classes), ordered, free, there)

    def _variant_of(self, gpu: PoolGpu) -> Variant:
        key = (id(gpu.actuator), gpu.changes_mode, *[p.profile for p in gpu.idle])
        if key not in self._variants:
            counts = Counter(p.profile for p in gpu.idle)
            seconds = gpu.actuator.seconds + (gpu.actuator.mode_seconds if gpu.changes_mode else 0)
            self._variants[key] = Variant(tuple(counts[name] for name in self.items), seconds)
        return self._variants[key]

    def _ways_of(self, gpu: PoolGpu) -> tuple[tuple[Row, ...], Kind, Ways]:
        price = self.price
        rows = tuple([(h.placed.profile, h.placed.start, price.get(h.workload or "")) for h in gpu.held])
        reach: Reach = "none" if gpu.changes_mode and gpu.node in self.held_nodes else gpu.actuator.reach
        key = (rows, id(gpu.board), reach)  # the callers' values live longer than this
        if key not in self._ways:
            ways = self._options(gpu.board, rows, reach)
            self._ways[key] = tuple(ways), ways
        kind, ways = self._ways[key]
        return rows, kind, ways

    def _options(self, board: Board, rows: tuple[Row, ...], reach: Reach) -> Ways:
        """Every way to touch the GPU that no other one beats."""
        movable = [n for n, (_, _, price) in enumerate(rows) if price is not None]
        unknown = any(start is None for n, (_, start, price) in enumerate(rows) if price is None)
        if reach == "none" or unknown or (reach == "gpu" and len(movable) < len(rows)):
            return {}
        must = [n for n in movable if reach == "gpu" or rows[n][1] is None]  # nobody knows which slices they take
        may = [n for n in movable if n not in must]
        futures = self._futures_of(board)
        bits = [0 if n in must else futures.bit(name, start or 0) for n, (name, start, _) in enumerate(rows)]
        found: dict[Option, tuple[int, ...]] = {}
        for chosen in range(1 << len(may)):
            gone = [*must, *(n for bit, n in enumerate(may) if chosen >> bit & 1)]
            moves = tuple(sorted([(rows[n][2] or 0, rows[n][0]) for n in gone]))
            future = self._future(board, futures, sum(bits) - sum([bits[n] for n in gone]))
            found.setdefault((moves, future), tuple(sorted(gone)))
        kept: dict[Option, tuple[int, ...]] = {}
        for option in sorted(found, key=lambda o: (len(o[0]), o)):
            if not any(self._beats(one, option) for one in kept):
                kept[option] = found[option]
        return dict(sorted(kept.items()))

    def _futures_of(self, board: Board) -> Futures:
        if id(board) not in self._futures:
            wanted = tuple(p.name for p in board.profiles if p.name in self.items)
            self._futures[id(board)] = Futures(board, wanted, self.beside[id(board)])
        return self._futures[id(board)]

    def _future(self, board: Board, futures: Futures, state: int) -> int:
        key = (id(board), state)
        if key not in self._class_of:
            at = [futures.items.index(name) if name in futures.items else None for name in self.items]
            fills = futures.fills(state)
            wide = tuple(sorted(tuple(0 if n is None else fill[n] for n in at) for fill in fills))
            self._class_of[key] = self.classes.setdefault(wide, len(self.classes))
        return self._class_of[key]

    def _beats(self, one: Option, other: Option) -> bool:
        """Whether ``one`` opens all that ``other`` does and evicts less of the same."""
        pair = (one[1], other[1])
        if pair not in self._beaten:
            fills = tuple(self.classes)
            self._beaten[pair] = all(any(inside(f, better) for better in fills[pair[0]]) for f in fills[pair[1]])
        return self._beaten[pair] and not Counter(one[0]) - Counter(other[0])
