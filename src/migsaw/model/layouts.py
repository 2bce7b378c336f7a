"""Which instances can stand together on one GPU, and what that leaves room for.

A set of instances is legal iff (facts of the driver, ``designs/0002-geometry.md``): every start is one the board lists;
spans do not overlap; no profile exceeds its count; compute slices and engines do not exceed the GPU; and ``+me.all``
stands only beside ``-me`` profiles. Nothing here assumes the numbers of any one board.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from migsaw.errors import InputError
from migsaw.model.boards import ENGINES, Board, Profile
from migsaw.model.names import parse_profile_name


@dataclass(frozen=True, slots=True, order=True)
class Placed:
    """An instance of a profile (by its name on the board); ``start`` is None where nothing gave it."""

    profile: str
    start: int | None = None

    def __str__(self) -> str:
        return self.profile if self.start is None else f"{self.profile}@{self.start}"


Layout = tuple[Placed, ...]
UNKNOWN = "unknown"  # an instance that exists, of which nobody says the profile


def parse_placed(text: str) -> Placed:
    """``3g.40gb@4`` or ``3g.40gb``; ``unknown`` for an instance of which nobody says the profile."""
    name, at, start = text.partition("@")
    parsed = UNKNOWN if name == UNKNOWN else parse_profile_name(name)
    if parsed is None or (at and not (start.isdecimal() and len(start) < 3)):
        raise InputError(f"{text!r} is not PROFILE@START", hint="for example 3g.40gb@4")
    return Placed(str(parsed), int(start) if at else None)


def by_start(layout: Iterable[Placed]) -> Layout:
    """In the order of starts, unknown ones last: the order in which a layout is shown."""
    return tuple(sorted(layout, key=lambda p: (p.start is None, p.start or 0, p.profile)))


def fault(board: Board, layout: Iterable[Placed]) -> str | None:
    """Why these instances cannot stand together on one GPU of the board, or None. Unknown starts may be anywhere."""
    placed = list(layout)
    for item in placed:
        profile = board.find(item.profile)
        if profile is None:
            return f"{board.key} has no profile {item.profile}"
        if item.start is not None and item.start not in (profile.starts or ()):
            return f"{item.profile} cannot start at {item.start} on {board.key}"
    profiles = [board.profile(item.profile) for item in placed]
    if reason := _count_fault(board, profiles):
        return reason
    if any(item.start is not None for item in placed) and _overlap([i for i in placed if i.start is not None], board):
        return f"instances overlap: {' '.join(map(str, by_start(placed)))}"
    return None if arrange(board, placed) is not None else "no placement holds all of these instances"


def seen_fault(board: Board | None, layout: Sequence[Placed]) -> str | None:
    """Why instances that were shown cannot all have been there at one time; None also where that cannot be told."""
    if board is None or not board.placements_known or any(board.find(item.profile) is None for item in layout):
        return None
    return fault(board, layout)


def arrange(board: Board, layout: Sequence[Placed]) -> Layout | None:
    """Starts for every instance, given ones kept; None if that is impossible. Prefers high starts for small demand
    of compute (3g at 4 before 0), so that what remains can still be used."""
    fixed = [item for item in layout if item.start is not None]
    taken = 0
    for item in fixed:
        mask = board.profile(item.profile).mask(item.start or 0)
        if taken & mask:
            return None
        taken |= mask
    loose = sorted((board.profile(i.profile) for i in layout if i.start is None), key=_hardest_first)
    found = _place(loose, taken)
    return None if found is None else by_start([*fixed, *found])


def _hardest_first(profile: Profile) -> tuple[int, int, str]:
    return (-(profile.memory_slices or 0), len(profile.starts or ()), profile.name)


def _place(profiles: Sequence[Profile], taken: int) -> list[Placed] | None:
    if not profiles:
        return []
    first, rest = profiles[0], profiles[1:]
    for start in _preferred_starts(first):
        mask = first.mask(start)
        if not taken & mask and (found := _place(rest, taken | mask)) is not None:
            return [Placed(first.name, start), *found]
    return None


def _preferred_starts(profile: Profile) -> tuple[int, ...]:
    """A profile whose span holds more memory than compute goes to the end, where no compute is lost."""
    starts = profile.starts or ()
    wide = (profile.memory_slices or 0) > profile.compute_slices
    return tuple(sorted(starts, reverse=wide))


def _overlap(placed: Iterable[Placed], board: Board) -> bool:
    taken = 0
    for item in placed:
        mask = board.profile(item.profile).mask(item.start or 0)
        if taken & mask:
            return True
        taken |= mask
    return False


def _count_fault(board: Board, profiles: Sequence[Profile]) -> str | None:
    for name, count in Counter(p.name for p in profiles).items():
        most = board.profile(name).max_instances
        if count > most:
            return f"{count} x {name} on one GPU, at most {most}"
    compute = sum(p.compute_slices for p in profiles)
    if board.compute_slices is not None and compute > board.compute_slices:
        return f"{compute} compute slices on a GPU of {board.compute_slices}"
    for index, engine in enumerate(ENGINES):
        total, used = board.engine_totals[index], sum(p.engines[index] or 0 for p in profiles)
        if total is not None and used > total:
            return f"{used} {engine.replace('_', ' ')} on a GPU of {total}"
    everything = [p for p in profiles if p.name.endswith("+me.all")]
    if everything and any(not p.name.endswith(("+me.all", "-me")) for p in profiles):
        return f"{everything[0].name} takes every media engine: only -me profiles can stand beside it"
    return None


@dataclass(frozen=True)
class StateSpace:
    """Every legal state of one GPU over some of a board's profiles.

    A state is a bit set over :attr:`placements`. Built by breadth-first search from the empty GPU (every subset of a
    legal set is legal, so all are reached); a few milliseconds for 723 states.
    """

    board: Board
    names: tuple[str, ...]
    placements: tuple[Placed, ...] = field(init=False)

    def __post_init__(self) -> None:
        profiles = [self.board.profile(name) for name in self.names]
        if any(p.starts is None for p in profiles):
            raise InputError(
                f"the placements of {self.board.key} are not known ({self.board.evidence})",
                hint="give what the driver reports: nvidia-smi mig -lgipp, by --smi",
            )
        placements = tuple(Placed(p.name, start) for p in profiles for start in sorted(p.starts or ()))
        object.__setattr__(self, "placements", placements)

    @cached_property
    def _profiles(self) -> tuple[Profile, ...]:
        return tuple(self.board.profile(p.profile) for p in self.placements)

    @cached_property
    def states(self) -> tuple[int, ...]:
        """All states, the empty one first, in order of discovery."""
        found, queue = {0: None}, [0]
        for state in queue:
            for bit in self.additions(state):
                new = state | bit
                if new not in found:
                    found[new] = None
                    queue.append(new)
        return tuple(found)

    def additions(self, state: int) -> Iterator[int]:
        """The bits of placements that can be created in this state, with nothing moved."""
        held = [i for i in range(len(self.placements)) if state >> i & 1]
        taken, profiles = 0, [self._profiles[i] for i in held]
        for i in held:
            taken |= self._profiles[i].mask(self.placements[i].start or 0)
        legal: dict[str, bool] = {}
        for i, item in enumerate(self.placements):
            profile = self._profiles[i]
            if state >> i & 1 or taken & profile.mask(item.start or 0):
                continue
            if profile.name not in legal:
                legal[profile.name] = _count_fault(self.board, [*profiles, profile]) is None
            if legal[profile.name]:
                yield 1 << i

    @cached_property
    def futures(self) -> dict[int, tuple[int, ...]]:
        return {state: tuple(self.additions(state)) for state in self.states}

    @property
    def maximal(self) -> tuple[int, ...]:
        """States to which nothing can be added."""
        return tuple(state for state in self.states if not self.futures[state])

    def layout(self, state: int) -> Layout:
        return by_start(p for i, p in enumerate(self.placements) if state >> i & 1)

    def state(self, layout: Iterable[Placed]) -> int:
        """The state of a layout whose starts are all known."""
        index = {p: i for i, p in enumerate(self.placements)}
        bits = 0
        for item in layout:
            if item not in index:
                raise InputError(f"{item} is not a placement of {self.board.key}")
            bits |= 1 << index[item]
        return bits

    def counts(self, state: int) -> tuple[int, ...]:
        """Instances per profile, in the order of :attr:`names`."""
        held = Counter(p.profile for i, p in enumerate(self.placements) if state >> i & 1)
        return tuple(held[name] for name in self.names)

    @cached_property
    def multisets(self) -> dict[tuple[int, ...], Layout]:
        """Every feasible multiset of instances → a layout that holds it: the one that leaves most placements open."""
        best: dict[tuple[int, ...], tuple[tuple[int, int], int]] = {}
        for state in self.states:
            counts, rank = self.counts(state), (-len(self.futures[state]), state)
            if counts not in best or rank < best[counts][0]:
                best[counts] = (rank, state)
        return {counts: self.layout(state) for counts, (_, state) in sorted(best.items())}

    @cached_property
    def future_classes(self) -> tuple[frozenset[int], ...]:
        """States with the same future of arrivals: equal sets of multisets that can still be added."""
        fills: dict[int, frozenset[tuple[int, ...]]] = {}
        for state in sorted(self.states, key=lambda s: -s.bit_count()):
            mine = {(0,) * len(self.names)}
            for bit in self.futures[state]:
                one = self.counts(bit)
                mine |= {tuple(a + b for a, b in zip(one, more, strict=True)) for more in fills[state | bit]}
            fills[state] = frozenset(mine)
        groups: dict[frozenset[tuple[int, ...]], set[int]] = {}
        for state, fill in fills.items():
            groups.setdefault(fill, set()).add(state)
        return tuple(frozenset(group) for group in groups.values())


def stranded(board: Board, layout: Iterable[Placed]) -> tuple[int, int]:
    """(compute slices, memory slices) that no further placement could use, with these instances in place.

    Each of the two is what the fill that uses most of it leaves over. Media and graphics variants of a size occupy the
    same slices as the plain one, so plain profiles decide.
    """
    held = by_start(layout)
    return _stranded(board, arrange(board, held) or held)


@lru_cache(maxsize=4096)
def _stranded(board: Board, layout: Layout) -> tuple[int, int]:
    profiles = [board.profile(i.profile) for i in layout]
    taken = 0
    for item, profile in zip(layout, profiles, strict=True):
        taken |= profile.mask(item.start or 0)
    compute = (board.compute_slices or 0) - sum(p.compute_slices for p in profiles)
    memory = (board.memory_slices or 0) - sum(p.memory_slices or 0 for p in profiles)
    options = tuple(
        (p.mask(start), p.compute_slices, p.memory_slices or 0)
        for p in board.profiles
        if p.is_plain and p.starts
        for start in p.starts
    )
    most = _best_fill(options, taken, compute, {})
    return compute - most[0], memory - most[1]


def _best_fill(
    options: tuple[tuple[int, int, int], ...], taken: int, compute: int, seen: dict[tuple[int, int], tuple[int, int]]
) -> tuple[int, int]:
    """The most compute and the most memory slices that further placements can use, each for itself."""
    if (taken, compute) not in seen:
        best = (0, 0)
        for mask, slices, memory in options:
            if not taken & mask and slices <= compute:
                rest = _best_fill(options, taken | mask, compute - slices, seen)
                best = max(best[0], slices + rest[0]), max(best[1], memory + rest[1])
        seen[taken, compute] = best
    return seen[taken, compute]
