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


Batch = tuple[tuple[PoolGpu, ...], Ways]  # GPUs of one content


@dataclass(frozen=True)
class Grouped:
    """``items``: profiles that count. ``futures``: maximal fills by class. ``offers``: idle instances per item now,
    ``there``: with the held ones."""

    items: tuple[str, ...]
    futures: tuple[Fills, ...]
    kinds: Mapping[Kind, Mapping[Variant, tuple[Batch, ...]]]
    offers: Fill
    there: Fill

    def size(self, kind: Kind, variant: Variant) -> int:
        """How many GPUs there are of it."""
        return sum(len(gpus) for gpus, _ in self.kinds[kind][variant])


def group(gpus: Sequence[PoolGpu], ask: Ask) -> Grouped:
    """Evictions are among the options where budgets allow them. Raises KeyError for a start that a board has not."""
    return _Grouping(gpus, ask).run(gpus)


class _Grouping:
    def __init__(self, gpus: Sequence[PoolGpu], ask: Ask) -> None:
        self.price = {name: b.price for name, b in ask.budgets.items()}
        self.held_nodes = {g.node for g in gpus if g.held}
        distinct = {id(g.board): g.board for g in gpus}
        first = {board: board for board in reversed(distinct.values())}  # equal boards are one
        self.board = {number: first[board] for number, board in distinct.items()}
        seen = {(id(g.board), h.placed.profile, h.workload in self.price) for g in gpus for h in g.held}
        self.beside: dict[Board, set[str]] = {board: set() for board in first}
        for number, name, _ in seen:
            self.beside[self.board[number]].add(name)
        moving = {name for _, name, movable in seen if movable}
        self.items = tuple(sorted({*ask.demand, *ask.headroom, *ask.keep, *moving}))
        self.classes: dict[Fills, int] = {}
        self._futures: dict[int, Futures] = {}
        self._class_of: dict[tuple[int, int], int] = {}
        self._beaten: dict[tuple[int, int], bool] = {}

    def run(self, gpus: Sequence[PoolGpu]) -> Grouped:
        """One look-up per GPU for what it holds and one for what is idle; all else is done once per content."""
        contents: dict[object, int] = {}
        shells: dict[object, int] = {}
        batches: dict[tuple[int, int], list[PoolGpu]] = {}
        price, held_nodes = self.price, self.held_nodes
        for gpu in gpus:
            locked = gpu.changes_mode and gpu.node in held_nodes
            rows = tuple([(h.placed.profile, h.placed.start, price.get(h.workload or "")) for h in gpu.held])
            content = (rows, id(self.board[id(gpu.board)]), "none" if locked else gpu.actuator.reach)
            shell = (gpu.actuator, gpu.changes_mode, *[p.profile for p in gpu.idle])
            pair = contents.setdefault(content, len(contents)), shells.setdefault(shell, len(shells))
            batches.setdefault(pair, []).append(gpu)
        found: dict[int, tuple[dict[Variant, list[Batch]], Ways]] = {}
        kinds: dict[Kind, dict[Variant, list[Batch]]] = {}
        variants: dict[int, Variant] = {}
        free, held = Counter[str](), Counter[str]()
        for (content_number, shell_number), batch in batches.items():
            gpu, size = batch[0], len(batch)
            if content_number not in found:
                ways = self._ways_of(gpu)
                found[content_number] = kinds.setdefault(tuple(ways), {}), ways
            if shell_number not in variants:
                variants[shell_number] = self._variant_of(gpu)
            kind, ways = found[content_number]
            kind.setdefault(variants[shell_number], []).append((tuple(batch), ways))
            for placed in gpu.idle:
                free[placed.profile] += size
            for row in gpu.held:
                held[row.placed.profile] += size
        ordered = {k: {v: tuple(kinds[k][v]) for v in sorted(kinds[k])} for k in sorted(kinds) if k}
        offers = tuple(free[name] for name in self.items)
        there = tuple(held[name] + free[name] for name in self.items)
        return Grouped(self.items, tuple(self.classes), ordered, offers, there)

    def _variant_of(self, gpu: PoolGpu) -> Variant:
        counts = Counter(p.profile for p in gpu.idle)
        seconds = gpu.actuator.seconds + (gpu.actuator.mode_seconds if gpu.changes_mode else 0)
        return Variant(tuple(counts[name] for name in self.items), seconds)

    def _ways_of(self, gpu: PoolGpu) -> Ways:
        rows = tuple((h.placed.profile, h.placed.start, self.price.get(h.workload or "")) for h in gpu.held)
        locked = gpu.changes_mode and gpu.node in self.held_nodes
        return self._options(self.board[id(gpu.board)], rows, "none" if locked else gpu.actuator.reach)

    def _options(self, board: Board, rows: tuple[Row, ...], reach: Reach) -> Ways:
        """Every way to touch the GPU that no other one beats."""
        movable = [n for n, (_, _, price) in enumerate(rows) if price is not None]
        unknown = any(start is None for n, (_, start, price) in enumerate(rows) if price is None)
        if reach == "none" or unknown or (reach == "gpu" and len(movable) < len(rows)):
            return {}
        price = {n: (rows[n][2] or 0, rows[n][0]) for n in movable}
        must = [n for n in movable if reach == "gpu" or rows[n][1] is None]  # nobody knows which slices they take
        may = sorted((n for n in movable if n not in must), key=lambda n: (price[n], n))
        futures = self._futures_of(board)
        bits = {n: futures.bit(name, start or 0) for n, (name, start, _) in enumerate(rows) if n not in must}
        sets: list[tuple[Moves, tuple[int, ...], int]] = [((), (), sum(bits.values()))]  # moves, positions, what stays
        for n in may:
            sets += [((*moves, price[n]), (*gone, n), state - bits[n]) for moves, gone, state in sets]
        forced = tuple(price[n] for n in must)
        found: dict[Option, tuple[int, ...]] = {}
        for moves, gone, state in sets:
            option = (tuple(sorted(moves + forced)) if forced else moves, self._future(board, futures, state))
            if option not in found:
                found[option] = tuple(sorted((*must, *gone)))
        kept: dict[Option, tuple[int, ...]] = {}
        for option in sorted(found, key=lambda o: (len(o[0]), o)):
            if not any(self._beats(one, option) for one in kept):
                kept[option] = found[option]
        return dict(sorted(kept.items()))

    def _futures_of(self, board: Board) -> Futures:
        if id(board) not in self._futures:
            wanted = tuple(p.name for p in board.profiles if p.name in self.items)
            self._futures[id(board)] = Futures(board, wanted, self.beside[board])
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
        return self._beaten[pair] and _among(one[0], other[0])


def _among(few: Moves, many: Moves) -> bool:
    """Whether all of ``few`` are among ``many``, each as often; both are sorted."""
    left = iter(many)
    return all(any(move == other for other in left) for move in few)
