"""What a window of history lacks: answers, samples, recent samples, one layout, and the neighbours of the GPU."""

from __future__ import annotations

from collections.abc import Iterator

from migsaw.doctor.engine import Evidence, Facts, of_telemetry, rule
from migsaw.doctor.places import Card, card, place
from migsaw.model.telemetry import Device, NodeUse, PodUse, Telemetry

POINTS_REQUIRED = 100  # fewer samples than this do not describe a workload (KRR's default too)
LOOKBACK_SECONDS = 300.0  # a Prometheus server shows a sample for so long
STALE_STEPS = 5
APART_SECONDS = 300.0  # scrapes further apart are of different times


@rule(
    "MS151",
    "warning",
    "Answers are partial",
    cause="The server refused or lost some questions. What is missing stays missing; nothing was filled in.",
    next="Ask again with --low-resource or a shorter window; look at the server's query limits and log.",
    sources=("robusta-dev/krr#83", "kubernetes/autoscaler#9228"),
)
@of_telemetry
def partial(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    for number, sentence in enumerate(telemetry.partial, start=1):
        yield Evidence(None, f"{telemetry.server or telemetry.source}, answer {number}", sentence)


@rule(
    "MS152",
    "warning",
    "The window has too few points",
    cause=f"Window ÷ step gives fewer than {POINTS_REQUIRED} samples: no quantile of them means much.",
    next="Ask for a longer --window or a shorter --step.",
    sources=("robusta-dev/krr README: points_required",),
)
@of_telemetry
def short_window(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    window = telemetry.window
    if window and window.points < POINTS_REQUIRED:
        yield Evidence(None, telemetry.server or telemetry.source, f"{window.points} points, {window.step:g} s apart")


@rule(
    "MS153",
    "warning",
    "History begins at its end",
    cause="The window is long, and no series has more than one sample in it: scraping began a moment ago, or the "
    "server keeps no history of these series.",
    next="Wait for a day of samples; look at the server's retention and its start.",
    sources=("robusta-dev/krr#333",),
)
@of_telemetry
def one_sample(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    window = telemetry.window
    if window is None or window.points < POINTS_REQUIRED:
        return
    samples = [series.samples for device in telemetry.devices for series in device.series.values()]
    if samples and max(samples) <= 1:
        yield Evidence(None, telemetry.server or telemetry.source, f"1 of {window.points} points")


@rule(
    "MS154",
    "info",
    "A holder with few samples",
    cause=f"Fewer than {POINTS_REQUIRED} samples of a holder's activity lie in a window that has room for more: it "
    "is new, short, or was not scraped all the time.",
    next="Nothing is recommended for it yet. For short jobs ask with a shorter --step.",
    sources=("robusta-dev/krr README: points_required",),
)
@of_telemetry
def few_samples(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    window = telemetry.window
    if window is None or window.points < POINTS_REQUIRED:
        return
    for device in telemetry.devices:
        series = device.series.get("graphics") or device.series.get("used")
        if device.owner and series and 1 < series.samples < POINTS_REQUIRED:
            yield Evidence(None, place(device), f"{device.owner}: {series.samples} of {window.points} points")


@rule(
    "MS155",
    "warning",
    "Series ended before the window did",
    cause="The device is still there, and its newest sample is old: the exporter died or its scrape fails. A server "
    "shows the last value a while longer.",
    next="Look at `up` of the scrape job and at the exporter's log on the node.",
    sources=("NVIDIA/gpu-monitoring-tools#188", "NVIDIA/dcgm-exporter#443"),
)
@of_telemetry
def stale(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    window = telemetry.window
    if window is None:
        return
    newest: dict[Card, float] = {}
    names: dict[Card, str] = {}
    for device in telemetry.devices:  # whoever holds it: a holder's own series ends with the holder
        lasts = [series.last for series in device.series.values() if series.last is not None]
        if lasts:
            newest[card(device)] = max(*lasts, newest.get(card(device), 0.0))
            names[card(device)] = place(device)
    there = _there(facts)
    limit = window.end - max(STALE_STEPS * window.step, LOOKBACK_SECONDS)
    for key, last in newest.items():
        if key in there and last < limit:
            yield Evidence(None, names[key], f"last sample {window.end - last:.0f} s before the window's end")


def _there(facts: Facts) -> set[Card]:
    """Devices that the snapshot shows now."""
    gpus = [(node.name, gpu) for node in facts.snapshot.nodes for gpu in node.gpus]
    whole: set[Card] = {(name, gpu.index, None) for name, gpu in gpus if not gpu.instances}
    return whole | {(name, gpu.index, i.gi_id) for name, gpu in gpus for i in gpu.instances if i.gi_id is not None}


@rule(
    "MS156",
    "info",
    "The layout changed inside the window",
    cause="Series of the window are of GPU instances that are no more, or an instance was cut anew under its id. "
    "Around the change exporters crash or serve nothing: the gap is no idleness.",
    next="Size by the time after the change: ask with a shorter --window.",
    sources=("NVIDIA/gpu-monitoring-tools#142", "NVIDIA/gpu-operator#2833"),
)
@of_telemetry
def layout_changed(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    if telemetry.window is None:
        return
    there = _there(facts)
    listed = {(name, index) for name, index, gi_id in there if gi_id is not None}
    profiles: dict[Card, set[str]] = {}
    for device in telemetry.devices:
        if device.gi_id is None:
            continue
        profiles.setdefault(card(device), set()).add(device.profile or device.profile_label or "")
        if (device.node, device.index) in listed and card(device) not in there:
            yield Evidence(None, place(device), "it is no more")
    for device in telemetry.devices:
        names = sorted(profiles.get(card(device), set()) - {""})
        if len(names) > 1:
            yield Evidence(None, place(device), f"was {' and '.join(names)}")


@rule(
    "MS157",
    "warning",
    "Scrapes of different times",
    cause="The files carry times that are minutes apart: pods and layouts may have changed between them.",
    next="Take the text of all exporters at one time.",
    sources=("NVIDIA/gpu-monitoring-tools#188",),
)
@of_telemetry
def scrapes_apart(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    if telemetry.window is not None:
        return
    newest = {place(d): last for d in telemetry.devices if (last := _last(d)) is not None}
    latest = max(newest.values(), default=0.0)
    for name, last in newest.items():
        if latest - last > APART_SECONDS:
            yield Evidence(None, name, f"{latest - last:.0f} s before the newest scrape")


def _last(device: Device) -> float | None:
    return max((series.last for series in device.series.values() if series.last is not None), default=None)


def _lacks(telemetry: Telemetry) -> bool:
    """Whether a history of held devices is there to judge; what a partial answer lost is said by its own rule."""
    is_held = any(device.owner for device in telemetry.devices)
    return telemetry.source == "prometheus" and is_held and not telemetry.partial


def _from_cadvisor(use: PodUse) -> bool:
    return any((use.cpu_cores, use.cpu_throttled, use.network_receive_bytes_per_second, use.disk_read_bytes_per_second))


def _from_kube_state(use: PodUse) -> bool:
    return use.restarts is not None or use.cpu_limit_cores is not None


def _from_node_exporter(use: NodeUse) -> bool:
    return bool(use.disk_busy or use.network_receive_bytes_per_second)


@rule(
    "MS158",
    "warning",
    "No series of cAdvisor for pods with GPUs",
    cause="CPU, throttling and network of the pods are not scraped. A slice that waits for its data then looks too "
    "big.",
    next="Scrape the kubelets' /metrics/cadvisor; keep container_cpu_usage_seconds_total, container_cpu_cfs_*, "
    "container_network_receive_bytes_total, container_fs_reads_bytes_total.",
    sources=("learn.microsoft.com: Minimal ingestion profile", "Azure/AML-Kubernetes#74"),
)
@of_telemetry
def no_cadvisor(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    if _lacks(telemetry) and not any(map(_from_cadvisor, telemetry.pods)):
        yield Evidence(None, telemetry.server or telemetry.source, "starvation cannot be told: no CPU, no network")


@rule(
    "MS159",
    "info",
    "No series of node-exporter for GPU nodes",
    cause="Disk and network of the nodes are not scraped: a busy cache disk or a full NIC does not show.",
    next="Run node-exporter on the GPU nodes; keep node_disk_io_time_seconds_total and "
    "node_network_receive_bytes_total.",
    sources=("learn.microsoft.com: Minimal ingestion profile", "Azure/AML-Kubernetes#74"),
)
@of_telemetry
def no_node_exporter(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    if _lacks(telemetry) and not any(map(_from_node_exporter, telemetry.nodes)):
        yield Evidence(None, telemetry.server or telemetry.source, "no disk, no network of any GPU node")


@rule(
    "MS160",
    "info",
    "No series of kube-state-metrics for pods with GPUs",
    cause="Limits and restarts of the pods are not scraped: throttling by a limit and lost runs do not show.",
    next="Run kube-state-metrics; keep kube_pod_container_resource_limits and "
    "kube_pod_container_status_restarts_total.",
    sources=("learn.microsoft.com: Minimal ingestion profile",),
)
@of_telemetry
def no_kube_state(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    if _lacks(telemetry) and not any(map(_from_kube_state, telemetry.pods)):
        yield Evidence(None, telemetry.server or telemetry.source, "no limits, no restarts of any pod")


RULES = (
    partial,
    short_window,
    one_sample,
    few_samples,
    stale,
    layout_changed,
    scrapes_apart,
    no_cadvisor,
    no_node_exporter,
    no_kube_state,
)
