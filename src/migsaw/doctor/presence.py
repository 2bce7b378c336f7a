"""Series that are missing, and series that belong to nothing. Missing is not zero: nothing here reads a value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from migsaw.doctor.engine import Evidence, Facts, of_telemetry, rule
from migsaw.doctor.places import (
    counted,
    distinct,
    gpu_place,
    has_ratios,
    is_bare,
    is_from_api,
    of_node,
    place,
    should_have_series,
    size_of,
)
from migsaw.model.dcgm_fields import FIELDS
from migsaw.model.names import RESOURCE_PREFIX, parse_profile_name
from migsaw.model.snapshot import Node
from migsaw.model.telemetry import RATIOS, Device, Telemetry


def _has_profiling(telemetry: Telemetry) -> bool:
    return any(map(has_ratios, telemetry.devices)) or any(FIELDS.get(f) in RATIOS for f in telemetry.families)


def _is_managed(telemetry: Telemetry) -> bool:
    return "azure" in (telemetry.server or "").lower()


def _all_without(telemetry: Telemetry) -> Iterator[Evidence]:
    nodes = len(of_node(telemetry))
    what = f"{counted(distinct(telemetry.devices), 'device')} on {counted(nodes, 'node')}"
    yield Evidence(None, telemetry.server or "every exporter", f"no profiling series of {what}")


@rule(
    "MS101",
    "error",
    "No profiling series at all",
    cause="dcgm-exporter was started without CAP_SYS_ADMIN, or its counters file names no DCGM_FI_PROF_ field, or "
    "another profiler holds the counters. Without them nothing is known of any slice's load: DCGM has no other "
    "signal for it.",
    next="Turn the fields on in the counters file and let the exporter run with CAP_SYS_ADMIN: `migsaw render --for "
    "telemetry` writes both.",
    sources=("NVIDIA/dcgm-exporter#22", "NVIDIA/dcgm-exporter#395", "NVIDIA/gpu-operator#1397"),
)
@of_telemetry
def profiling_absent(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    if telemetry.devices and not _has_profiling(telemetry) and not _is_managed(telemetry):
        yield from _all_without(telemetry)


@rule(
    "MS102",
    "error",
    "Managed Prometheus keeps no profiling series",
    cause="Azure Monitor's minimal ingestion profile is on by default and drops every series that is not on its keep "
    "list.",
    next="Let a scrape job of your own read the exporter and put DCGM_FI_PROF_.* on the keep lists: `migsaw render "
    "--for telemetry` writes both. The built-in job dcgmexporter would make all instances of a GPU one series (MS123).",
    sources=("learn.microsoft.com: Minimal ingestion profile for Prometheus metrics in Azure Monitor",),
)
@of_telemetry
def minimal_ingestion(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    if telemetry.devices and not _has_profiling(telemetry) and _is_managed(telemetry):
        yield from _all_without(telemetry)


@rule(
    "MS103",
    "warning",
    "Profiling series of some devices only",
    cause="DCGM probes the capability once, by GPU 0, and some releases lose the series of the second instance of a "
    "GPU. These devices have no data; they are not idle.",
    next="Restart dcgm-exporter (and nv-hostengine) on the node; on nodes with different GPUs give each kind its own "
    "exporter. Until then nothing is concluded about them.",
    sources=("NVIDIA/dcgm-exporter#507", "NVIDIA/dcgm-exporter#50", "NVIDIA/dcgm-exporter#22"),
)
@of_telemetry
def profiling_of_some(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    have = [device for device in telemetry.devices if has_ratios(device)]
    if not have or telemetry.partial:
        return
    share = f"no profiling series; {distinct(have)} of {distinct(telemetry.devices)} devices have some"
    for device in telemetry.devices:
        if not has_ratios(device):
            yield Evidence(None, place(device), share)


def _without(telemetry: Telemetry, signal: str) -> Iterator[Evidence]:
    if telemetry.partial:
        return
    for device in telemetry.devices:
        if "graphics" in device.series and signal not in device.series:
            yield Evidence(None, place(device), f"{device.series['graphics'].name}, and nothing for {signal}")


@rule(
    "MS104",
    "warning",
    "SM activity is not exported",
    cause="SM_ACTIVE is off in dcgm-exporter's default counters. Graphics-engine activity alone is 1 as soon as one "
    "kernel runs, however few SMs it uses: compute need cannot be told from it.",
    next="Add DCGM_FI_PROF_SM_ACTIVE to the counters file: `migsaw render --for telemetry`.",
    sources=("NVIDIA/dcgm-exporter etc/default-counters.csv",),
)
@of_telemetry
def sm_absent(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    yield from _without(telemetry, "sm")


@rule(
    "MS105",
    "warning",
    "Memory-bandwidth activity is not exported",
    cause="Without DRAM_ACTIVE a workload that is limited by memory bandwidth looks as if it could shrink.",
    next="Add DCGM_FI_PROF_DRAM_ACTIVE to the counters file: `migsaw render --for telemetry`.",
    sources=("NVIDIA/dcgm-exporter etc/default-counters.csv",),
)
@of_telemetry
def dram_absent(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    yield from _without(telemetry, "dram")


@rule(
    "MS106",
    "warning",
    "No memory series of a GPU instance",
    cause="Some driver and DCGM releases give no FB_USED per instance (seen on H100 with driver 535).",
    next="Update DCGM and dcgm-exporter. Without bytes nothing is told to shrink.",
    sources=("NVIDIA/dcgm-exporter#380", "NVIDIA/dcgm-exporter#512"),
)
@of_telemetry
def memory_absent(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    if telemetry.partial:
        return
    for device in telemetry.devices:
        if device.gi_id is not None and "used" not in device.series:
            yield Evidence(None, place(device), "no FB_USED")


@rule(
    "MS107",
    "error",
    "A GPU node without any series",
    cause="Its exporter is not there, does not start (seen with MIG on A100 and on nodes with GPUs of several "
    "kinds), or is not scraped. No scrape is not idle.",
    next="`kubectl get pods -A -o wide | grep dcgm-exporter` for the node, then the pod's log; look at `up` of the "
    "scrape job.",
    sources=("NVIDIA/dcgm-exporter#443", "NVIDIA/dcgm-exporter#747", "NVIDIA/dcgm-exporter#657"),
)
@of_telemetry
def node_without_series(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    seen = of_node(telemetry)
    for node in facts.snapshot.nodes:
        expected = sum(map(should_have_series, node.gpus))
        if expected and node.name not in seen:
            yield Evidence(None, node.name, f"0 of {counted(expected, 'GPU')} have series")


def _gpus_without(node: Node, devices: list[Device]) -> list[int]:
    shown = {device.index for device in devices}
    return [gpu.index for gpu in node.gpus if should_have_series(gpu) and gpu.index not in shown]


@rule(
    "MS108",
    "warning",
    "GPUs of a node without any series",
    cause="With the DRA driver some exporters leave out GPUs that nobody has claimed; on mixed nodes those of "
    "another kind.",
    next="Take what they hold from the node's inventory (--smi), and update dcgm-exporter. They are not idle by "
    "silence.",
    sources=("NVIDIA/dcgm-exporter#569", "NVIDIA/dcgm-exporter#561"),
)
@of_telemetry
def gpus_without_series(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    seen = of_node(telemetry)
    for node in facts.snapshot.nodes:
        for index in _gpus_without(node, seen[node.name]) if node.name in seen else ():
            yield Evidence(
                None, gpu_place(node.name, index), f"no series; the node has {counted(len(node.gpus), 'GPU')}"
            )


@rule(
    "MS109",
    "warning",
    "GPU instances are advertised that have no series",
    cause="The exporter reads the layout at its start: instances made later, or lost by it, do not show.",
    next="Restart dcgm-exporter after every change of the layout; the GPU Operator's mig-manager does so where it is "
    "told to.",
    sources=("NVIDIA/gpu-monitoring-tools#142", "NVIDIA/dcgm-exporter#507"),
)
@of_telemetry
def instances_without_series(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    seen = of_node(telemetry)
    for node in facts.snapshot.nodes:
        devices = seen.get(node.name, [])
        if not devices or _gpus_without(node, devices) or any(map(is_bare, devices)):
            continue  # said by a louder rule
        shown = {(d.index, d.gi_id, d.profile) for d in devices if d.gi_id is not None}
        exported = Counter(profile for *_, profile in shown)
        spare = exported.pop(None, 0)  # of unknown profile: may be any of those that are missing
        missing = {p: n - exported[p] for p, n in _there(facts, node).items() if n > exported[p]}
        if sum(missing.values()) > spare:
            for profile, number in sorted(missing.items()):
                what = f"{exported[profile] + number} are there, {exported[profile]} exported"
                yield Evidence(None, f"{node.name}: {profile}", what)


def _there(facts: Facts, node: Node) -> Counter[str]:
    """Profile → instances: advertised ones, or those that were seen. More than fit are replicas of time-slicing."""
    found = Counter(i.profile for gpu in node.gpus for i in gpu.instances if i.profile != "unknown")
    boards = [board for gpu in node.gpus if (board := facts.catalogue.find(gpu.board or ""))]
    for resource, number in node.allocatable.items():
        name = parse_profile_name(resource)
        if name is None or not resource.startswith(RESOURCE_PREFIX):
            continue
        profiles = [profile for board in boards if (profile := board.find(str(name)))]
        if profiles and number <= sum(profile.max_instances for profile in profiles):
            found[profiles[0].name] = max(number, found[profiles[0].name])
    return found


@rule(
    "MS110",
    "warning",
    "Series of a host that is no node",
    cause="`Hostname` (newer: `hostname`) carries the exporter's pod or container name, or a name of the VM that "
    "Kubernetes does not know; or the series are of another cluster.",
    next="Let the exporter run with NODE_NAME from spec.nodeName, or give --pods so that the exporter's pod can be "
    "placed.",
    sources=("NVIDIA/dcgm-exporter#655",),
)
@of_telemetry
def host_unknown(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    known = {node.name for node in facts.snapshot.nodes if is_from_api(node)}
    if not known:
        return
    for name, devices in of_node(telemetry).items():
        if name not in known:
            yield Evidence(None, name or "no host named", counted(distinct(devices), "device"))


@rule(
    "MS111",
    "warning",
    "Series of GPUs that the node does not have",
    cause="Files of different times, two nodes under one name, or a simulator. A simulated exporter's labels prove "
    "nothing.",
    next="Compare with `nvidia-smi -L` on the node; take all files at one time.",
    sources=("run-ai/fake-gpu-operator#134", "run-ai/fake-gpu-operator#177"),
)
@of_telemetry
def gpus_of_nobody(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    nodes = {node.name: node for node in facts.snapshot.nodes if is_from_api(node)}
    for device in telemetry.devices:
        node = nodes.get(device.node or "")
        if node is None:
            continue
        size = size_of(node, facts.catalogue)
        own = {gpu.index for gpu in node.gpus}
        if device.index not in own:
            yield Evidence(None, gpu_place(device.node, device.index, device.uuid), f"the node has {_gpus(len(own))}")
        elif size and device.index >= size.gpus:
            yield Evidence(None, gpu_place(device.node, device.index), f"{size.name} has {_gpus(size.gpus)}")


def _gpus(number: int) -> str:
    return counted(number, "GPU")


RULES = (
    profiling_absent,
    minimal_ingestion,
    profiling_of_some,
    sm_absent,
    dram_absent,
    memory_absent,
    node_without_series,
    gpus_without_series,
    instances_without_series,
    host_unknown,
    gpus_of_nobody,
)
