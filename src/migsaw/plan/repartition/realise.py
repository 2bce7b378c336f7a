"""From counts to GPUs: which of the GPUs that are alike are touched, and the layout each of them gets.

GPUs of one group are interchangeable for the programme; for the cluster they are not: changes on few nodes cordon less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from migsaw.errors import MigsawError
from migsaw.model.boards import Board
from migsaw.model.layouts import Layout, Placed, by_start, fault
from migsaw.model.policy import Policy
from migsaw.plan.fill import layout_for
from migsaw.plan.repartition.groups import Kind, Option, Ways
from migsaw.plan.repartition.model import Model
from migsaw.plan.repartition.values import Change, PoolGpu

Needed = tuple[tuple[str, int], ...]


def realise(model: Model, x: tuple[int, ...], policy: Policy) -> tuple[Change, ...]:
    """A GPU that would be touched for nothing stays as it is."""
    fills: dict[int, list[Needed]] = {}
    for (future, fill), j in sorted(model.fill.items()):
        if x[j] and any(fill):
            needed = tuple((name, n) for name, n in zip(model.grouped.items, fill, strict=True) if n)
            fills.setdefault(future, []).extend([needed] * x[j])
    wanted = _options(model, x, {future: len(found) for future, found in fills.items()})
    nodes: Counter[str] = Counter()
    changes, cutter = [], _Cutter(policy)
    for kind, options in wanted.items():
        for option, (gpu, ways) in zip(options, _pick(model, x, kind, len(options), nodes), strict=True):
            changes.append(cutter.change(gpu, ways[option], fills[option[1]].pop()))
    return tuple(sorted(changes, key=lambda c: c.gpu.key))


def _options(model: Model, x: tuple[int, ...], room: Mapping[int, int]) -> dict[Kind, list[Option]]:
    """What is done to the GPUs of each kind, no more often than there are fills; evictions that are counted stay."""
    left, found = dict(room), dict[Kind, list[Option]]()
    for (kind, option), j in sorted(model.option.items(), key=lambda row: (not row[0][1][0], row[0])):
        count = min(x[j], left.get(option[1], 0))
        if count:
            left[option[1]] -= count
            found.setdefault(kind, []).extend([option] * count)
    return found


def _pick(model: Model, x: tuple[int, ...], kind: Kind, count: int, nodes: Counter[str]) -> list[tuple[PoolGpu, Ways]]:
    """GPUs of the kind, as many of each variant as the programme says; on nodes that change anyway where it can be."""
    picked: list[tuple[PoolGpu, Ways]] = []
    for variant, batches in model.grouped.kinds[kind].items():
        most = min(x[model.variant[kind, variant]], count - len(picked))
        if most:
            members = [(gpu, ways) for gpus, ways in batches for gpu in gpus]
            order = sorted(members, key=lambda m: (-nodes[m[0].node], m[0].key)) if most < len(members) else members
            picked += order[:most]
            nodes.update(gpu.node for gpu, _ in order[:most])
    return picked


@dataclass
class _Cutter:
    """Layouts by what they follow from; GPUs are many, contents are few."""

    policy: Policy
    _known: dict[object, Layout] = field(default_factory=dict)

    def change(self, gpu: PoolGpu, gone: tuple[int, ...], needed: Needed) -> Change:
        evicted = tuple([gpu.held[n] for n in gone]) if gone else ()
        if gpu.actuator.reach == "gpu":
            return Change(gpu, evicted, self._whole(gpu, needed), needed)
        stays = tuple([h.placed for n, h in enumerate(gpu.held) if n not in gone])
        key = (id(gpu.board), stays, needed, gpu.idle)
        after = self._known.get(key)
        if after is None:
            after = self._known[key] = around(gpu.board, stays, needed, gpu.idle)
        return Change(gpu, evicted, after, needed)

    def _whole(self, gpu: PoolGpu, needed: Needed) -> Layout:
        """Filled up, since nothing can be cut later without clearing it again; the driver chooses the starts."""
        names = tuple(sorted([p.profile for p in gpu.idle]))
        key = (id(gpu.board), needed, names)
        if key not in self._known:
            layout = layout_for(gpu.board, dict(needed), tuple(Placed(n) for n in names), self.policy)
            self._known[key] = by_start(Placed(p.profile) for p in layout)
        return self._known[key]


def around(board: Board, stays: Layout, needed: Needed, idle: Layout) -> Layout:
    """``needed`` beside what stays; idle instances are kept where they can be, and nothing else is cut. That the
    board can hold so many together is known of ``needed``; where they lie is found here.

    Raises MigsawError where it does not fit, which would be a fault of this program.
    """
    names = sorted(Counter(dict(needed)).elements(), key=lambda n: (-(board.profile(n).memory_slices or 0), n))
    found = _place(board, names, stays, frozenset(idle))
    if found is None:
        raise MigsawError(f"{needed} does not fit beside {stays} on {board.key}", hint="please report this")
    taken = _mask(board, found)
    for placed in idle:
        mask = board.profile(placed.profile).mask(placed.start or 0)
        if placed.start is not None and not taken & mask and fault(board, (*found, placed)) is None:
            found, taken = (*found, placed), taken | mask
    return by_start(found)


def _place(board: Board, names: list[str], layout: Layout, liked: frozenset[Placed]) -> Layout | None:
    if not names:
        return layout
    taken = _mask(board, layout)
    profile = board.profile(names[0])
    places = [Placed(profile.name, start) for start in profile.starts or () if not taken & profile.mask(start)]
    for place in sorted(places, key=lambda p: (p not in liked, p)):
        if (found := _place(board, names[1:], (*layout, place), liked)) is not None:
            return found
    return None


def _mask(board: Board, layout: Iterable[Placed]) -> int:
    return sum(board.profile(p.profile).mask(p.start or 0) for p in layout)
