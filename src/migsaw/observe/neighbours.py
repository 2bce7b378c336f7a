"""What stands beside the GPU: CPU, network and disk of the pods that hold one, and of their nodes.

From cAdvisor, kube-state-metrics and node-exporter, where the server has them. Absent is None, never 0. Nothing here is
about GPUs.

Sources: cAdvisor "Monitoring cAdvisor with Prometheus"; kube-state-metrics, docs/metrics; node_exporter, diskstats and
netdev collectors.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from migsaw.model.refs import PodRef
from migsaw.model.telemetry import Distribution, NodeUse, PodUse
from migsaw.observe import promql
from migsaw.observe.listing import NOT_THERE
from migsaw.observe.measure import Meter
from migsaw.observe.prometheus import QueryError
from migsaw.observe.promql import Matcher

_RATE_SECONDS = 300  # long enough for four scrapes a minute apart
_POD = ("namespace", "pod")
_OF_CONTAINERS = 'container!="", container!="POD"'
_DISKS = 'device!~"loop.*|ram.*|dm-.*|md.*|sr.*|zram.*"'
# eth0 of a VM with accelerated networking counts what its enP… counts too
_NICS = 'device!~"lo|veth.*|cali.*|azv.*|lxc.*|cilium.*|docker.*|cni.*|flannel.*|br-.*|virbr.*|kube.*|enP.*"'


@dataclass(frozen=True, slots=True)
class _Counter:
    """A counter's family. ``parts``: labels whose values are added up, after duplicates of each are joined."""

    family: str
    parts: tuple[str, ...]
    matcher: str = ""


_CPU = _Counter("container_cpu_usage_seconds_total", ("container",), _OF_CONTAINERS)
_PERIODS = _Counter("container_cpu_cfs_periods_total", ("container",), _OF_CONTAINERS)
_THROTTLED = _Counter("container_cpu_cfs_throttled_periods_total", ("container",), _OF_CONTAINERS)
_RECEIVE = _Counter("container_network_receive_bytes_total", ("interface",), 'interface!="lo"')
_READ = _Counter("container_fs_reads_bytes_total", ("container", "device"), _OF_CONTAINERS)
_OOM = _Counter("container_oom_events_total", ("container",), _OF_CONTAINERS)
_RESTARTS = _Counter("kube_pod_container_status_restarts_total", ("container",))
_DISK_BUSY = _Counter("node_disk_io_time_seconds_total", ("device",), _DISKS)
_NODE_RECEIVE = _Counter("node_network_receive_bytes_total", ("device",), _NICS)
_CPU_LIMIT, _ENDED = "kube_pod_container_resource_limits", "kube_pod_container_status_last_terminated_reason"

_VALUES = 2000  # named in one question for the list of series: some servers take no body of a megabyte

_Row = tuple[tuple[str, ...], float]


def pod_uses(meter: Meter, pods: Callable[[], Iterable[PodRef]]) -> tuple[PodUse, ...]:
    """Of these pods, those of which something is known, by name.

    ``pods`` is called anew for each family: they may be too many to be held. Raises :class:`QueryError` where the
    server is gone.
    """
    asking = _Asking(meter, _POD, "pod", lambda: (pod.pod for pod in pods()))
    cpu = asking.distributions([_CPU], lambda use: use[0])
    throttled = asking.distributions([_THROTTLED, _PERIODS], lambda use: f"{use[0]} / ({use[1]} > 0)")
    receive = asking.distributions([_RECEIVE], lambda use: use[0])
    read = asking.distributions([_READ], lambda use: use[0])
    limits = asking.numbers(_CPU_LIMIT, "sum", "last_over_time", 'resource="cpu"')
    ooms = asking.increases(_OOM)
    ended = asking.numbers(_ENDED, "sum", "max_over_time", 'reason="OOMKilled"')
    restarts = asking.increases(_RESTARTS)
    uses = {}
    for pod in pods():
        key = (pod.namespace, pod.pod)
        kills = [ooms[key]] if key in ooms else []
        if key in ended and key in restarts:  # the last end may lie before the window: then nothing began again in it
            kills.append(min(ended[key], restarts[key]))
        use = PodUse(
            pod=pod,
            cpu_cores=cpu.get(key),
            cpu_limit_cores=limits.get(key),
            cpu_throttled=throttled.get(key),
            network_receive_bytes_per_second=receive.get(key),
            disk_read_bytes_per_second=read.get(key),
            oom_kills=round(max(kills)) if kills else None,
            restarts=round(restarts[key]) if key in restarts else None,
        )
        if use != PodUse(pod):
            uses[pod] = use
    return tuple(uses[pod] for pod in sorted(uses, key=str))


def node_uses(meter: Meter, node_of_instance: Mapping[str, str]) -> tuple[NodeUse, ...]:
    """``node_of_instance``: scrape targets of node-exporter. Raises :class:`QueryError` where the server is gone."""
    asking = _Asking(meter, ("instance",), "instance", lambda: node_of_instance)
    busy = asking.distributions([_DISK_BUSY], lambda use: f"clamp_max({use[0]}, 1)", aggregate="max")
    receive = asking.distributions([_NODE_RECEIVE], lambda use: use[0])
    uses = {}
    for instance, node in sorted(node_of_instance.items()):
        use = NodeUse(node, busy.get((instance,)), receive.get((instance,)))
        if use != NodeUse(node):
            uses[node] = use
    return tuple(uses[node] for node in sorted(uses))


def node_exporters(meter: Meter) -> list[dict[str, str]]:
    """Labels of every target of node-exporter: ``instance``, ``nodename``, and what names its node."""
    text = f"node_uname_info{{{', '.join(meter.options.matchers)}}}"
    form = {"query": text, "time": f"{meter.window.end:.3f}"}
    return meter.client.ask("query", form, lambda row: dict(row["metric"]), result="vector").rows


@dataclass(slots=True)
class _Asking:
    """Questions about the values of one label, each within the budget. ``by``: what tells answers apart."""

    meter: Meter
    by: tuple[str, ...]
    label: str
    values: Callable[[], Iterable[str]]

    def distributions(
        self, counters: Sequence[_Counter], formula: Callable[[list[str]], str], *, aggregate: str = "sum"
    ) -> dict[tuple[str, ...], Distribution]:
        """Of rates per second, put together by ``formula``."""
        few = self.meter.options.low_resource
        found: dict[tuple[str, ...], dict[str, float]] = {}

        def ask(matcher: Matcher) -> None:
            vector = formula([self._rate(counter, matcher, aggregate) for counter in counters])
            for name in promql.FEW_VALUES if few else promql.VALUES:
                for key, number in self._query(promql.over(promql.VALUES[name], vector, self.meter.window)):
                    found.setdefault(key, {})[name] = number

        self._in_batches(counters[0].family, ask)
        wanted = set(promql.FEW_VALUES if few else promql.VALUES)
        whole = {key: mine for key, mine in found.items() if mine.keys() == wanted}
        return {key: Distribution(**{n: mine.get(n) for n in promql.VALUES}) for key, mine in whole.items()}  # type: ignore[arg-type]

    def increases(self, counter: _Counter) -> dict[tuple[str, ...], float]:
        return self.numbers(counter.family, "sum", "increase", counter.matcher)

    def numbers(self, family: str, aggregate: str, function: str, matcher: str) -> dict[tuple[str, ...], float]:
        """``function`` of each container over the window, put together by pod."""
        found: dict[tuple[str, ...], float] = {}
        seconds = promql.duration(self.meter.window.points * self.meter.window.step)

        def ask(named: Matcher) -> None:
            series = self._series(family, named, matcher)
            each = f"max by ({', '.join((*self.by, 'container'))}) ({function}({series}[{seconds}]))"
            found.update(self._query(f"{aggregate} by ({', '.join(self.by)}) ({each})"))

        self._in_batches(family, ask)
        return found

    def _rate(self, counter: _Counter, named: Matcher, aggregate: str) -> str:
        seconds = promql.duration(max(_RATE_SECONDS, 2 * self.meter.window.step))
        rate = f"rate({self._series(counter.family, named, counter.matcher)}[{seconds}])"
        each = f"max by ({', '.join((*self.by, *counter.parts))}) ({rate})"
        return f"{aggregate} by ({', '.join(self.by)}) ({each})"

    def _series(self, family: str, named: Matcher, matcher: str) -> str:
        own = [matcher] if matcher else []
        return promql.selector([family], [*self.meter.options.matchers, *own, str(named)])

    def _in_batches(self, family: str, ask: Callable[[Matcher], None]) -> None:
        try:
            counts = self._count(family)
            for batch in promql.split(counts, self.meter.window.points, self.meter.options.budget):
                ask(Matcher(self.label, tuple(value for (value,) in batch)))
        except QueryError as problem:
            self.meter.partial[f"{family}: not read: {problem.message}"] = None
            if problem.is_gone:
                raise

    def _count(self, family: str) -> Mapping[tuple[str, ...], int]:
        """Series of each value of the label; a value that is given twice has as many."""
        found: dict[tuple[str, ...], int] = {}
        values = iter(self.values())
        while some := tuple(sorted(set(islice(values, _VALUES)))):
            found.update(self._count_some(self._series(family, Matcher(self.label, some), "")))
        return found

    def _count_some(self, series: str) -> Mapping[tuple[str, ...], int]:
        """From the list of series, or counted where the server has no list."""
        client, window, label = self.meter.client, self.meter.window, self.label
        listed = {"match[]": [series], "start": f"{window.start:.3f}", "end": f"{window.end:.3f}"}
        try:
            return Counter(client.ask("series", listed, lambda labels: (str(labels[label]),)).rows)
        except QueryError as problem:
            if problem.status not in NOT_THERE:
                raise
        seconds = promql.duration(window.points * window.step)
        form = {
            "query": f"count by ({label}) (present_over_time({series}[{seconds}]))",
            "time": f"{window.end:.3f}",
        }
        counted = client.ask("query", form, lambda row: ((str(row["metric"][label]),), int(float(row["value"][1]))))
        return dict(counted.rows)

    def _query(self, query: str) -> list[_Row]:
        form = {"query": query, "time": f"{self.meter.window.end:.3f}"}
        answer = self.meter.client.ask("query", form, self._row, result="vector")
        for warning in answer.warnings:
            self.meter.partial[f"the server warns: {warning}"] = None
        return [(key, number) for key, number in answer.rows if math.isfinite(number)]

    def _row(self, row: Mapping[str, Mapping[str, str]]) -> _Row:
        value: Sequence[str] = row["value"]  # type: ignore[assignment]  # [time, "number"]
        return tuple(row["metric"].get(label, "") for label in self.by), float(value[1])
