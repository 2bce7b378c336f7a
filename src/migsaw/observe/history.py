"""A Prometheus server's memory of a window → telemetry, and the newest samples → rows of an exporter.

The order of questions: which families and series there are, what is there now, then each signal, then the neighbours.
A server that ends on the way leaves what was read before, marked partial; one that gives nothing is an error. How a
thing is asked stands in the modules that this one puts together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from sqlite3 import OperationalError

from migsaw.errors import InputError, MigsawError, Where
from migsaw.model.dcgm_fields import BOARD_FIELDS, BUILD_INFO, FIELDS
from migsaw.model.refs import PodRef
from migsaw.model.snapshot import Note
from migsaw.model.telemetry import BoardReading, Device, NodeUse, PodUse, Telemetry, Window
from migsaw.observe import azure_monitor, promql
from migsaw.observe.dcgm import NODE_LABELS, RATIOS, versions_of
from migsaw.observe.devices import Names, make_boards, make_devices, places
from migsaw.observe.exporter import Row
from migsaw.observe.hosts import Hosts
from migsaw.observe.kube_state import KubeState, read_kube_state
from migsaw.observe.listing import families, list_signal
from migsaw.observe.measure import STATISTICS, Batch, HistoryOptions, Meter, Signal
from migsaw.observe.neighbours import node_exporters, node_uses, pod_uses
from migsaw.observe.now import read_now, rows_of
from migsaw.observe.prometheus import Client, QueryError, Server, check_url
from migsaw.observe.promql import selector
from migsaw.observe.shelf import Shelf

__all__ = ["History", "HistoryOptions", "Server", "read_all", "read_history"]

_PAUSE_SECONDS = 0.5  # between questions in the low-resource mode
_ENERGY = "energy_millijoules"


def _signals(fields: Mapping[str, str], is_board: bool) -> tuple[Signal, ...]:
    """A signal of either name is one question."""
    families: dict[str, list[str]] = {}
    for family, name in fields.items():
        families.setdefault(name, []).append(family)
    return tuple(Signal(name, tuple(mine), _kept(name), is_board=is_board) for name, mine in families.items())


def _kept(signal: str) -> promql.Kept:
    if signal in RATIOS:
        return promql.A_RATIO
    return promql.A_COUNTER if signal == _ENERGY else promql.NO_BLANKS


_DEVICE_SIGNALS = _signals(FIELDS, is_board=False)
_BOARD_SIGNALS = _signals(BOARD_FIELDS, is_board=True)
_NAMES = tuple(signal.name for signal in _DEVICE_SIGNALS)
_READINGS = tuple(signal.name for signal in _BOARD_SIGNALS if signal.name != _ENERGY)


@dataclass(frozen=True, slots=True)
class History:
    """What is as large as the cluster is read one by one from where it was put: memory does not follow its size.

    ``frame``: telemetry without devices and boards. ``kube`` None: there is no kube-state-metrics.
    """

    frame: Telemetry
    notes: list[Note]
    kube: KubeState | None
    shelf: Shelf
    names: Names

    def each_row(self) -> Iterator[Row]:
        """The newest samples as an exporter's text would give them."""
        return rows_of(self.shelf, self.frame.read_from[0], self.frame.window.end if self.frame.window else 0.0)

    def each_device(self) -> Iterator[Device]:
        return make_devices(self.shelf, _NAMES, self.names)

    def each_board(self) -> Iterator[BoardReading]:
        return make_boards(self.shelf, _READINGS, _ENERGY, self.names)

    @property
    def rows(self) -> list[Row]:
        return list(self.each_row())

    @property
    def telemetry(self) -> Telemetry:
        return replace(self.frame, devices=tuple(self.each_device()), boards=tuple(self.each_board()))


def read_history(server: Server, window: Window, options: HistoryOptions) -> tuple[list[Row], Telemetry, list[Note]]:
    """:func:`read_all` without what kube-state-metrics knows."""
    history = read_all(server, window, options)
    return history.rows, history.telemetry, history.notes


def read_all(server: Server, window: Window, options: HistoryOptions) -> History:
    """What the server knows of GPUs between two times; the window is moved to end at a whole multiple of its step.

    Raises :class:`InputError` for an address that is none or a window without a step, :class:`MigsawError` where
    nothing was read.
    """
    check_url(server.url)
    if window.points < 1:
        raise InputError("the window is shorter than its step", hint="give a longer --window or a smaller --step")
    pause = _PAUSE_SECONDS if options.low_resource else 0.0
    client = Client(server, retries=options.retries, pause_seconds=pause)
    try:
        return _Reader(Meter(client, promql.aligned(window), options, {})).read()
    except OperationalError as problem:
        hint = "make room in the folder of temporary files, or name another one in SQLITE_TMPDIR"
        raise MigsawError(f"what the server says cannot be put on disk: {problem}", hint=hint) from None


@dataclass(slots=True)
class _Reader:
    """Each stage adds what it read; ``meter.partial`` says what could not be read."""

    meter: Meter
    names: tuple[str, ...] = ()
    shelf: Shelf = field(default_factory=lambda: Shelf(STATISTICS))
    warnings: set[str] = field(default_factory=set)  # of the lists of series
    kube: KubeState | None = None
    pods: tuple[PodUse, ...] = ()
    nodes: tuple[NodeUse, ...] = ()
    versions: tuple[str | None, str | None] = (None, None)  # of DCGM, of its exporter

    def read(self) -> History:
        meter = self.meter
        server_name = _server_name(meter.client)
        self.names = families(meter.client, meter.window, meter.options.matchers)
        if not any(name in FIELDS for name in self.names):
            raise self._nothing("the server has no series of dcgm-exporter in this window")
        self._go_through(self._stages())
        history = History(self._frame(server_name), self._notes(), self.kube, self.shelf, self._names())
        if not self.shelf.is_answered(_NAMES):
            raise self._nothing(next(iter(meter.partial), "the series are of no GPU"))
        return history

    def _stages(self) -> list[tuple[str, Callable[[], None]]]:
        there = [s for s in (*_DEVICE_SIGNALS, *_BOARD_SIGNALS) if set(s.families) & set(self.names)]

        def of(stage: Callable[[Signal], None], signal: Signal) -> Callable[[], None]:
            return lambda: stage(signal)

        return [
            *((f"the list of {s.families[0]}", of(self._list, s)) for s in there),
            ("the newest samples", self._read_now),
            *([(BUILD_INFO, self._read_versions)] if BUILD_INFO in self.names else []),
            ("kube-state-metrics", self._read_kube),
            *((s.families[0], of(self._measure, s)) for s in there),
            ("the pods' CPU, network and disk", self._read_pods),
            ("the nodes' disk and network", self._read_nodes),
        ]

    def _go_through(self, stages: list[tuple[str, Callable[[], None]]]) -> None:
        for number, (what, stage) in enumerate(stages):
            try:
                stage()
            except QueryError as problem:
                if problem.is_gone:
                    lost = ", ".join(name for name, _ in stages[number:])
                    self.meter.partial[f"the server stopped answering ({problem.message}); not read: {lost}"] = None
                    return
                self.meter.partial[f"{what}: not read: {problem.message}"] = None

    def _list(self, signal: Signal) -> None:
        meter, shelf = self.meter, self.shelf
        families, matchers = signal.families, meter.options.matchers
        self.warnings.update(list_signal(meter.client, shelf, signal.name, families, meter.window, matchers))

    def _of(self, signal: Signal) -> list[Batch]:
        """Made once every signal is listed: only then it is known how all series of a GPU look."""
        return self.meter.batches(self.shelf.series(signal.name), self.shelf.shapes())

    def _read_now(self) -> None:
        read_now(self.meter, self.shelf, ((signal, self._of(signal)) for signal in _DEVICE_SIGNALS))

    def _read_versions(self) -> None:
        """Known where all exporters that run at the end of the window say the same."""
        form = {"query": selector([BUILD_INFO], self.meter.options.matchers), "time": f"{self.meter.window.end:.3f}"}
        builds = set(self.meter.client.ask("query", form, lambda row: row["metric"].get("version", "")).rows)
        found = {versions_of(build) for build in builds}
        dcgm, exporter = ({version[part] for version in found} for part in (0, 1))
        self.versions = (dcgm.pop() if len(dcgm) == 1 else None, exporter.pop() if len(exporter) == 1 else None)

    def _read_kube(self) -> None:
        self.kube = read_kube_state(self.meter.client, self.meter.window.end, self.meter.options.matchers)

    def _measure(self, signal: Signal) -> None:
        self.shelf.prepare(signal.name, whole_gpus=signal.is_board)
        there = [name for name in signal.families if name in self.names]
        self.meter.fill(self.shelf, signal, there, self._of(signal))

    def _names(self) -> Names:
        nodes = self.kube.nodes if self.kube else {}
        pods = self.kube.pods if self.kube else None
        return Names(Hosts(nodes, (), pods), pods)

    def _read_pods(self) -> None:
        names = self._names()

        def holders() -> Iterator[PodRef]:
            """Some may be given twice."""
            yield from (owner for said in self.shelf.owners() if (owner := names.owner(said)))
            asking = self.kube.pods.pods.values() if self.kube else ()
            yield from (PodRef(pod.namespace, pod.name) for pod in asking if pod.node)

        self.pods = pod_uses(self.meter, holders)

    def _read_nodes(self) -> None:
        names = self._names()
        gpu_nodes = {place.node for place in places(self.shelf, names)}
        targets = {}
        for labels in node_exporters(self.meter):
            node = _node_of_target(labels, names.hosts)
            if node in gpu_nodes and "instance" in labels:
                targets[labels["instance"]] = node
        self.nodes = node_uses(self.meter, targets)

    def _frame(self, server_name: str | None) -> Telemetry:
        warnings = {f"the server warns: {warning}": None for warning in sorted(self.warnings)}
        return Telemetry(
            source="prometheus",
            window=self.meter.window,
            pods=self.pods,
            nodes=self.nodes,
            families=tuple(name for name in self.names if name != BUILD_INFO),
            dcgm_version=self.versions[0],
            exporter_version=self.versions[1],
            server=server_name,
            partial=(*self.meter.partial, *warnings),
            read_from=(self.meter.client.server.shown,),
        )

    def _notes(self) -> list[Note]:
        server = self.meter.client.server
        notes = [Note("warning", f"partial: {sentence}", server.shown) for sentence in self.meter.partial]
        if hint := azure_monitor.lost_by_ingestion(self.names, server.is_managed):
            notes.append(Note("warning", f"no series of DCGM_FI_PROF_: {hint}", server.shown))
        if self.kube:
            why = "pods that use a GPU without asking for it do not show in kube-state-metrics"
            notes.append(Note("info", f"{why}: give --pods, so that idle instances can be told", server.shown))
        return notes

    def _nothing(self, message: str) -> MigsawError:
        server = self.meter.client.server
        hint = "is dcgm-exporter scraped, and do --match and --window cover it?"
        hint = azure_monitor.MINIMAL_INGESTION if server.is_managed else hint
        return MigsawError(message, where=Where(server.shown), hint=hint)


def _node_of_target(labels: Mapping[str, str], hosts: Hosts) -> str:
    """The node that a node-exporter runs on."""
    named = [labels[label] for label in NODE_LABELS if labels.get(label)]
    address = labels.get("instance", "")
    hints = (*(("node", name) for name in named), ("address", address))
    return hosts.of_hints(hints) or next(iter(named), address.rpartition(":")[0])


def _server_name(client: Client) -> str | None:
    """What answers, in its own words; not every server says it."""
    if client.server.is_managed:
        return azure_monitor.NAME
    try:
        told = client.ask("status/buildinfo", {}, str, get=True).around
    except QueryError as problem:
        if problem.is_gone:
            raise
        return None
    name, version = told.get("application") or "Prometheus", told.get("version")
    return f"{name} {version}" if version else None
