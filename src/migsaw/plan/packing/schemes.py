"""What one entry's scope can express, three ways: how many GPUs so many instances take, and the rows of the programme.

* ``gpu``: every GPU is cut freely; GPUs in use are counted.
* ``node`` and ``pool``: one profile on all GPUs of a node; whole nodes are counted.
* ``pool_layout``: one layout on all GPUs of a node; whole nodes are counted.

Groups of whole GPUs (MIG off) add to the GPUs in scope ``gpu``; elsewhere they have nodes of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice

from migsaw.model.demand import Entry
from migsaw.plan.packing.facets import Shape
from migsaw.plan.packing.hull import Vector, facets
from migsaw.plan.packing.peel import cut
from migsaw.plan.packing.programme import Counts, Row, Slot, Unit

MOST_NODE_PARTS = 400  # ways to fill one node with groups; beyond, groups are packed largest first, without a proof


@dataclass(frozen=True, slots=True)
class Sheet:
    """GPUs with the same content: instances by profile, or MIG off."""

    mig_on: bool
    content: tuple[tuple[str, int], ...]
    gpus: int


@dataclass(frozen=True, slots=True)
class Scheme:
    """One entry with the slots of it that are in play, ``slots`` by their number in the programme."""

    entry: Entry
    cost: int  # of one GPU
    shape: Shape
    slots: tuple[tuple[int, Slot], ...]

    # ---- counting ---------------------------------------------------------------------------------------------

    def gpus(self, taken: Counts) -> tuple[int, int]:
        """(GPUs that a partition takes, certified least number of GPUs) for what is taken of all slots."""
        counts, node = self._counts(taken), self.entry.gpus_per_node
        if self.entry.scope == "gpu":
            whole = sum(taken[i] * slot.gpus for i, slot in self._groups)
            return whole + self._cut_gpus(counts), whole + self.shape.least(counts)
        bare, bare_least = self._bare_nodes(taken)
        if self.entry.scope == "pool_layout":
            needed = tuple(-(-n // node) for n in counts)
            return node * (bare + self._cut_gpus(needed)), node * (bare_least + self.shape.least(needed))
        uniform = sum(-(-n // self._per_node(p)) for p, n in enumerate(counts))
        return node * (bare + uniform), node * (bare_least + uniform)

    def sheets(self, taken: Counts) -> Iterator[Sheet]:
        """The partition itself; GPUs add up to those of :meth:`gpus`."""
        counts, node, names = self._counts(taken), self.entry.gpus_per_node, self.shape.names
        if self.entry.scope in ("node", "pool"):
            for p, n in enumerate(counts):
                if n:
                    yield Sheet(True, ((names[p], self._capacity(p)),), node * -(-n // self._per_node(p)))
        else:
            times = 1 if self.entry.scope == "gpu" else node
            for part, gpus in cut(self.shape, tuple(-(-n // times) for n in counts)):
                content = tuple((name, n) for name, n in zip(names, part, strict=True) if n)
                yield Sheet(True, content, times * gpus)
        whole = sum(taken[i] * slot.gpus for i, slot in self._groups)
        bare = whole if self.entry.scope == "gpu" else node * self._bare_nodes(taken)[0]
        if bare:
            yield Sheet(False, (), bare)

    # ---- the programme ----------------------------------------------------------------------------------------

    def slot_costs(self) -> dict[int, int]:
        return {i: self.cost * slot.gpus if self.entry.scope == "gpu" else 0 for i, slot in self._groups}

    def units_and_rows(self, first: int, most: Counts) -> tuple[list[Unit], list[Row]]:
        """Units numbered from ``first``; ``most`` is the most that can be taken of each slot."""
        units: list[Unit] = []
        rows: list[Row] = []
        if self._slices:
            make = {"gpu": self._cut_freely, "pool_layout": self._cut_alike}.get(self.entry.scope, self._cut_uniformly)
            units, rows = make(first, self._counts(most))
        if self._groups and self.entry.scope != "gpu":
            rows += self._bare_rows(first + len(units))
            units.append(self._unit(self.entry.gpus_per_node, sum(most[i] * slot.gpus for i, slot in self._groups)))
        return units, rows + self._limit_rows(first, units)

    def _cut_freely(self, first: int, most: Counts) -> tuple[list[Unit], list[Row]]:
        rows = [Row(self._uses(self._slices, weights), {first: limit}) for weights, limit in self.shape.facets]
        return [self._unit(1, sum(most))], rows

    def _cut_uniformly(self, first: int, most: Counts) -> tuple[list[Unit], list[Row]]:
        """A unit is a node of one profile."""
        sizes = [self._per_node(p) for p in range(len(most))]
        units = [self._unit(self.entry.gpus_per_node, -(-n // size)) for n, size in zip(most, sizes, strict=True)]
        rows = [Row({i: 1}, {first + p: sizes[p]}) for p, (i, _) in enumerate(self._slices)]
        return units, rows

    def _cut_alike(self, first: int, most: Counts) -> tuple[list[Unit], list[Row]]:
        """Units are, per profile, places for it in each GPU of a node, not paid; and last the nodes that hold them."""
        node, nodes = self.entry.gpus_per_node, first + len(most)
        units = [self._unit(0, -(-n // node)) for n in most]
        rows = [Row({i: 1}, {first + p: node}) for p, (i, _) in enumerate(self._slices)]
        for weights, limit in self.shape.facets:
            rows.append(Row({}, {nodes: limit, **{first + p: -w for p, w in enumerate(weights) if w}}))
        return [*units, self._unit(node, sum(unit.most for unit in units))], rows

    def _bare_rows(self, unit: int) -> list[Row]:
        node = self.entry.gpus_per_node
        rows = [Row({i: slot.gpus for i, slot in self._groups}, {unit: node})]
        if self._tied:
            for weights, limit in node_shape(tuple(slot.gpus for _, slot in self._tied), node).facets:
                rows.append(Row(self._uses(self._tied, weights), {unit: limit}))
        return rows

    def _limit_rows(self, first: int, units: Sequence[Unit]) -> list[Row]:
        """``at_most``, in what is counted: GPUs, or whole nodes."""
        if self.entry.at_most is None:
            return []
        free = self.entry.scope == "gpu"
        uses = {i: slot.gpus for i, slot in self._groups} if free else {}
        paid = {first + v: -1 for v, unit in enumerate(units) if unit.gpus}
        return [Row(uses, paid, self.entry.at_most // (1 if free else self.entry.gpus_per_node))]

    def _unit(self, gpus: int, most: int) -> Unit:
        return Unit(gpus, self.cost * gpus, most)

    @staticmethod
    def _uses(slots: Sequence[tuple[int, Slot]], weights: Sequence[int]) -> dict[int, int]:
        return {i: w for (i, _), w in zip(slots, weights, strict=True) if w}

    # ---- helpers ----------------------------------------------------------------------------------------------

    @property
    def _slices(self) -> tuple[tuple[int, Slot], ...]:
        return tuple((i, slot) for i, slot in self.slots if slot.profile is not None)

    @property
    def _groups(self) -> tuple[tuple[int, Slot], ...]:
        return tuple((i, slot) for i, slot in self.slots if slot.profile is None)

    @property
    def _tied(self) -> tuple[tuple[int, Slot], ...]:
        return tuple((i, slot) for i, slot in self._groups if slot.same_node)

    def _counts(self, taken: Counts) -> Counts:
        return tuple(taken[i] for i, _ in self._slices)

    def _cut_gpus(self, counts: Counts) -> int:
        return self.shape.least(counts) if self.shape.proof else sum(n for _, n in cut(self.shape, counts))

    def _capacity(self, p: int) -> int:
        return max(part[p] for part in self.shape.fits)

    def _per_node(self, p: int) -> int:
        return self._capacity(p) * self.entry.gpus_per_node

    def _bare_nodes(self, taken: Counts) -> tuple[int, int]:
        """(nodes, certified least number of nodes) for the groups: all GPUs, and no same_node group split."""
        node, whole = self.entry.gpus_per_node, sum(taken[i] * slot.gpus for i, slot in self._groups)
        by_volume = -(-whole // node)
        if not (tied := self._tied):
            return by_volume, by_volume
        shape, counts = node_shape(tuple(slot.gpus for _, slot in tied), node), tuple(taken[i] for i, _ in tied)
        return max(by_volume, sum(n for _, n in cut(shape, counts))), max(by_volume, shape.least(counts))


@cache
def node_shape(sizes: tuple[int, ...], node: int) -> Shape:
    """What fits one node of ``node`` GPUs, of groups of these sizes that may not be split."""
    order = sorted(range(len(sizes)), key=lambda i: -sizes[i])
    found = islice(_fillings([sizes[i] for i in order], node), MOST_NODE_PARTS + 1)
    parts = [tuple(part[order.index(i)] for i in range(len(sizes))) for part in found]
    singles = [tuple(int(i == k) for i in range(len(sizes))) for k in range(len(sizes))]
    fits = sorted({p for p in (*parts, *singles) if any(p)}, key=lambda p: (-_volume(p, sizes), p))
    rows = facets(parts) if len(parts) <= MOST_NODE_PARTS else ((sizes, node),)
    return Shape(tuple(str(size) for size in sizes), rows, tuple(fits), None)


def _volume(part: Vector, sizes: Sequence[int]) -> int:
    return sum(n * size for n, size in zip(part, sizes, strict=True))


def _fillings(sizes: Sequence[int], room: int) -> Iterator[Vector]:
    """All of them, those that take most of the first sizes first."""
    if not sizes:
        yield ()
        return
    for n in range(room // sizes[0], -1, -1):
        for rest in _fillings(sizes[1:], room - n * sizes[0]):
            yield (n, *rest)
