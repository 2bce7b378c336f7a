"""``demand.yaml`` → a :class:`~migsaw.model.demand.Demand`: names are resolved, unusable points left out.

Every fault is an InputError with file, place and field. Whether the demand can be met is not judged here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path

from migsaw.errors import InputError, Where
from migsaw.model.boards import Catalogue
from migsaw.model.demand import Demand, Entry, Group, Need, Option
from migsaw.model.names import parse_profile_name
from migsaw.observe.demand_file import BoardEntry, DemandFile, Point, WorkloadWords
from migsaw.observe.documents import parse
from migsaw.observe.points import Locate, read_points
from migsaw.observe.reading import Document, Place, read_document


def read_demand(path: Path, catalogue: Catalogue) -> Demand:
    document = read_document(path, exact=True)
    words = parse(document, DemandFile)
    return _Reader(document, words, catalogue, path.parent).demand()


@dataclass(frozen=True)
class _Reader:
    document: Document
    words: DemandFile
    catalogue: Catalogue
    folder: Path
    meant: dict[str, tuple[Entry, ...]] = field(default_factory=dict)  # name of a board → its entries, as they are met

    def demand(self) -> Demand:
        entries = tuple(self._entry(name, words or BoardEntry()) for name, words in self.words.boards.items())
        self._check_prices()
        allowed = self._allowed(entries)
        needs = [
            *(self._instances(name, n, entries, allowed, "instances") for name, n in self.words.instances.items()),
            *(self._instances(name, n, entries, allowed, "headroom") for name, n in self.words.policy.headroom.items()),
            *(self._workload(i, words, entries, allowed) for i, words in enumerate(self.words.workloads)),
        ]
        self._check_names([w.name for w in self.words.workloads], "workloads")
        self._check_names([g.name for g in self.words.whole_gpus], "whole_gpus")
        groups = tuple(self._group(i, entries) for i in range(len(self.words.whole_gpus)))
        return Demand(entries, tuple(needs), groups, self.words.policy.strict)

    def fault(self, message: str, place: Place, hint: str | None = None) -> InputError:
        return InputError(message, where=self.document.where(place), hint=hint)

    # ---- boards and policy ------------------------------------------------------------------------------------

    def _entry(self, name: str, words: BoardEntry) -> Entry:
        place = ["boards", name, *(["board"] if words.board else [])]
        try:
            board = self.catalogue.board(words.board or name)
        except InputError as problem:
            hint = problem.hint if words.board else f"a name of your own needs `board:`; {problem.hint}"
            raise self.fault(problem.message, place, hint) from None
        if not board.placements_known:
            raise self.fault(
                f"the placements of {board.key} are not known ({board.evidence}), so it cannot be planned",
                place,
                "`migsaw boards` shows what is known of each board",
            )
        price = None if words.usd_per_hour is None else Fraction(words.usd_per_hour)
        return Entry(name, board, price, words.at_most, words.gpus_per_node or 1, words.layout_scope)

    def _check_prices(self) -> None:
        priced = {name for name, words in self.words.boards.items() if words and words.usd_per_hour is not None}
        for name in self.words.boards:
            if priced and name not in priced:
                message = f"{name} has no usd_per_hour, {sorted(priced)[0]} has one"
                raise self.fault(message, ["boards", name, "usd_per_hour"], "price every board, or none to count GPUs")

    def _check_names(self, names: Sequence[str], key: str) -> None:
        for i, name in enumerate(names):
            if name in names[:i]:
                raise self.fault(f"{name} is there twice", [key, i, "name"], "names must differ")

    def _allowed(self, entries: Sequence[Entry]) -> set[tuple[str, str]] | None:
        """(entry, profile) that the policy allows; None: all."""
        if self.words.policy.profiles is None:
            return None
        allowed: set[tuple[str, str]] = set()
        for i, name in enumerate(self.words.policy.profiles):
            found = {(o.entry, o.profile) for o in self._options(name, entries)}
            if not found:
                raise self._unknown(name, entries, ["policy", "profiles", i])
            allowed |= found
        return allowed

    def _unknown(self, name: str, entries: Sequence[Entry], place: Place) -> InputError:
        known = ", ".join(dict.fromkeys(p.name for entry in entries for p in entry.board.profiles))
        return self.fault(f"no board of this demand has a profile {name}", place, f"their profiles: {known}")

    def _entries_of(self, board: str, entries: Sequence[Entry]) -> tuple[Entry, ...]:
        """The entry of that name where it is a name of one's own, else every entry of that board, by any alias."""
        if board not in self.meant:
            named = next((entry for entry in entries if entry.name == board and entry.board.key != board), None)
            found = self.catalogue.find(board)
            self.meant[board] = (named,) if named else tuple(e for e in entries if found and e.board.key == found.key)
        return self.meant[board]

    def _options(self, name: str, entries: Sequence[Entry]) -> list[Option]:
        """Where ``1g.10gb`` or ``BOARD/1g.10gb`` can be had. A bound name means that entry, else all of that board."""
        bound, slash, bare = name.partition("/")
        if slash and parse_profile_name(name) is None:
            exact = [entry for entry in entries if entry.name == bound]
            entries, name = exact or self._entries_of(bound, entries), bare
        found = ((entry, entry.board.find(name)) for entry in entries)
        return [Option(entry.name, profile.name) for entry, profile in found if profile]

    # ---- what is needed ---------------------------------------------------------------------------------------

    def _instances(
        self, name: str, count: int, entries: Sequence[Entry], allowed: set[tuple[str, str]] | None, key: str
    ) -> Need:
        place = ["instances", name] if key == "instances" else ["policy", "headroom", name]
        options = self._options(name, entries)
        if not options:
            raise self._unknown(name, entries, place)
        kept = _permitted(options, allowed)
        if not kept and count:
            raise self.fault(
                f"{name} is demanded, but policy.profiles does not allow it", place, "allow it, or ask for another"
            )
        return Need(name, "instances" if key == "instances" else "headroom", Fraction(count), kept)

    def _group(self, index: int, entries: Sequence[Entry]) -> Group:
        words = self.words.whole_gpus[index]
        group = Group(words.name, words.gpus, words.count, words.same_node)
        for name, entry in self.words.boards.items():
            if entry is None or entry.gpus_per_node is None:
                message = f"whole_gpus {words.name} needs to know gpus_per_node of {name}"
                raise self.fault(message, ["boards", name, "gpus_per_node"])
        if not any(group.fits(entry) for entry in entries):
            largest = max(entry.gpus_per_node for entry in entries)
            message = f"{words.name}: {words.gpus} GPUs in one node, the largest node has {largest}"
            raise self.fault(message, ["whole_gpus", index, "gpus"], "same_node: false lets it span nodes")
        return group

    def _workload(
        self, index: int, words: WorkloadWords, entries: Sequence[Entry], allowed: set[tuple[str, str]] | None
    ) -> Need:
        place: list[str | int] = ["workloads", index]
        if (words.count is None) == (words.rate_per_second is None):
            raise self.fault(f"{words.name} needs either count or rate_per_second", [*place, "count"])
        if words.count is not None:
            return self._counted(words, place, entries, allowed)
        return self._rated(words, place, entries, allowed)

    def _counted(
        self, words: WorkloadWords, place: Place, entries: Sequence[Entry], allowed: set[tuple[str, str]] | None
    ) -> Need:
        extra = next((k for k in ("points", "points_csv", "latency_slo_ms") if getattr(words, k) is not None), None)
        if extra:
            raise self.fault(f"{words.name}: {extra} goes with rate_per_second, not with count", [*place, extra])
        if not words.profiles:
            raise self.fault(f"{words.name} has a count and no profiles", [*place, "profiles"])
        options: list[Option] = []
        for i, name in enumerate(words.profiles):
            found = self._options(name, entries)
            if not found:
                raise self._unknown(name, entries, [*place, "profiles", i])
            options += [option for option in found if option not in options]
        kept = _permitted(options, allowed)
        why = f"policy.profiles allows none of {', '.join(words.profiles)}"
        return Need(words.name, "workload", Fraction(words.count or 0), kept, "" if kept else why)

    def _rated(
        self, words: WorkloadWords, place: Place, entries: Sequence[Entry], allowed: set[tuple[str, str]] | None
    ) -> Need:
        if words.profiles is not None:
            raise self.fault(f"{words.name}: profiles go with count, a rate has points", [*place, "profiles"])
        if (words.points is None) == (words.points_csv is None):
            raise self.fault(f"{words.name} needs either points or points_csv", [*place, "points"])
        options, refused = [], "none of its points is of a board of this demand"
        for point, locate in self._points(words, place):
            why = _why_unusable(words, point, locate)
            for entry in self._entries_of(point.board, entries):
                option = _option(words, point, entry, locate)
                if why is None and (allowed is None or (option.entry, option.profile) in allowed):
                    options.append(option)
                else:
                    refused = why or "policy.profiles allows no profile of its points"
        amount = Fraction(words.rate_per_second or 0)
        return Need(words.name, "workload", amount, tuple(options), "" if options else refused)

    def _points(self, words: WorkloadWords, place: Place) -> Iterator[tuple[Point, Locate]]:
        if words.points_csv is not None:
            yield from read_points(self.folder / words.points_csv)
        for i, point in enumerate(words.points or ()):
            yield point, partial(self._at_point, [*place, "points", i])

    def _at_point(self, place: Place, field: str) -> Where:
        return self.document.where([*place, field])


def _why_unusable(words: WorkloadWords, point: Point, locate: Locate) -> str | None:
    if words.latency_slo_ms is not None:
        if point.latency_ms is None:
            raise InputError(f"{words.name} has a latency limit, this point no latency", where=locate("latency_ms"))
        limit = Fraction(words.latency_slo_ms) * Fraction(words.latency_fraction)
        if Fraction(point.latency_ms) >= limit:
            return f"no point has a latency below its limit of {float(limit):g} ms"
    return None if point.throughput_per_second else "no usable point has a throughput above 0"


def _option(words: WorkloadWords, point: Point, entry: Entry, locate: Locate) -> Option:
    profile = entry.board.find(point.profile)
    if profile is None:
        names = ", ".join(p.name for p in entry.board.profiles)
        message = f"{words.name}: {entry.board.key} has no profile {point.profile}"
        raise InputError(message, where=locate("profile"), hint=f"its profiles: {names}")
    return Option(entry.name, profile.name, Fraction(point.throughput_per_second), point.batch, point.processes)


def _permitted(options: Sequence[Option], allowed: set[tuple[str, str]] | None) -> tuple[Option, ...]:
    return tuple(o for o in options if allowed is None or (o.entry, o.profile) in allowed)
