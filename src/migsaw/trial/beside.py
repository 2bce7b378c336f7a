"""DCGM beside a trial: what the slot and its neighbours did in the steady time, by an exporter or a Prometheus.

A gauge never costs a measurement: what it cannot tell is left out, with the reason. Times are Unix seconds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from migsaw.errors import InputError, MigsawError
from migsaw.fit.beside import joined, series_of
from migsaw.model.measurement import Beside
from migsaw.model.names import parse_profile_name
from migsaw.model.refs import PodRef
from migsaw.model.telemetry import Device, Window
from migsaw.observe.exporter import Scrape, parse_metrics
from migsaw.observe.history import HistoryOptions, Server, read_all
from migsaw.observe.scrape import fetch, shown

Look = Callable[[float, float], Beside | None]  # (begin, end) of the steady time → what was seen in it


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a trial runs: the GPU's UUID and the instance's id (None: the whole GPU), or the pod that holds it."""

    gpu: str | None = None
    gi_id: int | None = None
    pod: PodRef | None = None


class Gauge(Protocol):
    def beside(self, slot: Slot) -> AbstractContextManager[Look]:
        """Watches while the block lasts. Raises :class:`InputError` where it does not show the slot at all."""
        ...


# ---- a dcgm-exporter ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Exporter:
    """Asked by a thread of its own, so that reading the workload never waits for it."""

    url: str
    every_seconds: float = 1.0

    @contextmanager
    def beside(self, slot: Slot) -> Iterator[Look]:
        polls = Polls(shown(self.url), slot)
        polls.take(time.time(), fetch(self.url))
        if not polls.shows_the_slot:
            hint = "is it the exporter of this machine, and does it show GPU instances (GPU_I_ID)?"
            raise InputError(f"{polls.source} shows no GPU {slot.gpu} with instance {slot.gi_id}", hint=hint)
        over = threading.Event()
        thread = threading.Thread(target=self._ask, args=(polls, over), daemon=True)
        thread.start()
        try:
            yield polls.look
        finally:
            over.set()
            thread.join()

    def _ask(self, polls: Polls, over: threading.Event) -> None:
        while not over.wait(self.every_seconds):
            try:
                polls.take(time.time(), fetch(self.url))
            except MigsawError:
                polls.lost += 1


@dataclass(frozen=True, slots=True)
class _Poll:
    at: float
    values: Mapping[int | None, Mapping[str, float]]  # instance → signal → value


@dataclass
class Polls:
    """What an exporter showed of one GPU, poll by poll; ``names``: signal → the family's name as exported."""

    source: str
    slot: Slot
    polls: list[_Poll] = field(default_factory=list)
    lost: int = 0
    profiles: dict[int | None, str | None] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    version: str | None = None

    @property
    def shows_the_slot(self) -> bool:
        return any(self.slot.gi_id in poll.values for poll in self.polls)

    def take(self, at: float, text: str) -> None:
        """A text without this GPU counts as nothing seen. Raises :class:`InputError` for no text of an exporter."""
        scrape = parse_metrics(text, self.source)
        found: dict[int | None, list[Mapping[str, float]]] = {}
        for row in scrape.rows:
            if row.identity.uuid == self.slot.gpu:
                found.setdefault(row.identity.gi_id, []).append(row.values)
                self.profiles[row.identity.gi_id] = next(iter(sorted(row.profiles)), None)
                self.names |= {signal: tally.family for signal, tally in row.tallies.items()}
        self.version = _version(scrape) or self.version
        self.polls.append(_Poll(at, {gi: joined(rows) for gi, rows in found.items()}))

    def look(self, begin: float, end: float) -> Beside:
        """An exporter repeats a reading until DCGM gives a new one: what may be of before ``begin`` is left out."""
        polls = tuple(self.polls)
        fresh = self._fresh(polls, begin, end)
        if not fresh:
            why = f"{self.source} gave no new reading in {end - begin:.0f} s: shorten its interval (-c)"
            return Beside(self.source, unknown=why)
        own = self._device(self.slot.gi_id, fresh)
        others = sorted({gi for poll in fresh for gi in poll.values if gi is not None} - {self.slot.gi_id})
        neighbours = tuple(self._device(gi, fresh) for gi in others) if self.slot.gi_id is not None else ()
        return Beside(self.source, own, neighbours, dcgm_version=self.version)

    def _fresh(self, polls: Sequence[_Poll], begin: float, end: float) -> list[_Poll]:
        gi = self.slot.gi_id
        inside = [n for n, poll in enumerate(polls) if begin <= poll.at <= end and gi in poll.values]
        new = (n for n in inside if n and polls[n].values[gi] != polls[n - 1].values.get(gi))
        first = next(new, None)
        return [] if first is None else [polls[n] for n in inside if n >= first]

    def _device(self, gi: int | None, polls: Sequence[_Poll]) -> Device:
        rows = [poll.values.get(gi, {}) for poll in polls]
        signals = sorted({signal for row in rows for signal in row})
        series = {signal: series_of(self.names[signal], (row.get(signal) for row in rows)) for signal in signals}
        label = self.profiles.get(gi)
        name = parse_profile_name(label) if label else None
        return Device(uuid=self.slot.gpu, gi_id=gi, profile=str(name) if name else None, series=series)


def _version(scrape: Scrape) -> str | None:
    said = scrape.telemetry()
    return said.dcgm_version if said else None


# ---- a Prometheus -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prometheus:
    """Asked once, when the steady time is over. Its memory holds what stands beside the GPU too: CPU, network, disk."""

    server: Server
    step_seconds: float = 5.0

    @contextmanager
    def beside(self, slot: Slot) -> Iterator[Look]:
        yield lambda begin, end: self._look(slot, begin, end)

    def _look(self, slot: Slot, begin: float, end: float) -> Beside:
        source = self.server.shown
        try:
            found = read_all(self.server, Window(begin, end, self.step_seconds), HistoryOptions(retries=1)).telemetry
        except MigsawError as problem:
            return Beside(source, unknown=f"{source}: {problem.message}")
        mine = [d for d in found.devices if _is_of(d, slot)]
        own = max(mine, key=lambda d: sum(s.samples for s in d.series.values()), default=None)
        if own is None:
            return Beside(source, unknown=f"{source} shows no such GPU or instance in the steady time")
        if not any(series.changes is None or series.changes for series in own.series.values()):
            return Beside(source, unknown=f"{source} got no new reading in {end - begin:.0f} s: scrape more often")
        near = (d for d in found.devices if own.gi_id is not None and d.uuid == own.uuid and d.gi_id is not None)
        return Beside(
            source,
            own,
            tuple(d for d in near if d.gi_id != own.gi_id),
            dcgm_version=found.dcgm_version,
            pod=next((use for use in found.pods if own.owner and use.pod == own.owner), None),
            node=next((use for use in found.nodes if own.node and use.node == own.node), None),
        )


def _is_of(device: Device, slot: Slot) -> bool:
    if slot.pod is not None:
        return device.owner == slot.pod
    return (device.uuid, device.gi_id) == (slot.gpu, slot.gi_id)
