"""Is a slice not busy because it is too big, or because nothing reaches it? Evidence first, then what to mend.

A device starves where its activity is low or a saw-tooth while its memory is held and stable, *and* a neighbour's
figure says why: the CPU is throttled or at its limit, the network is at the slice's share, the disk has no time left.
A saw-tooth alone is a suspicion: requests that come in bursts look the same. It is said, nothing is concluded from it.

It must not know profiles' sizes or money: whoever starves keeps what it holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from migsaw.model.telemetry import Distribution, NodeUse, PodUse

LOW = 0.6  # mean activity, of the ceiling, under which a device has time to wait
TEETH = 0.4  # distance of 5th and 95th percentile, of the ceiling, in a saw-tooth …
VALLEY = 1 / 3  # … whose 5th percentile lies below this share of the 95th …
BIMODAL = 0.3  # … and whose deviation is more than this share of that distance (evenly spread: 0.29; two values: 0.5)
STABLE = 0.05  # deviation ÷ mean of memory that is held
CONTEXT_MIB = 512  # a CUDA context alone is not work that is held
THROTTLED = 0.25  # share of the CPU scheduler's periods
CPU_AT_LIMIT = 0.9  # 95th percentile of cores ÷ limit
NETWORK_AT_SHARE = 0.8  # 95th percentile of received bytes ÷ the slice's share of the NIC
NETWORK_TRICKLE = 1e6  # bytes per second: below, nothing is being read
INPUT_WAIT = 0.2  # share of the workload's own time: above, data and not the slice is what it waits for
DISK_BUSY = 0.8  # mean share of time of the node's busiest disk

SIGNS = "github.com/NVIDIA/dcgm-exporter: GR_ENGINE_ACTIVE and FB_USED of the instance"
CPU_SOURCE = "cAdvisor: container_cpu_cfs_throttled_periods_total, container_cpu_usage_seconds_total"
NETWORK_SOURCE = "cAdvisor: container_network_receive_bytes_total"
WAIT_SOURCE = "the workload's own words (`input_wait`)"
DISK_SOURCE = "node-exporter: node_disk_io_time_seconds_total"

Cause = Literal["cpu", "input", "suspected"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """One figure against its threshold, both in ``unit``."""

    signal: str
    value: float
    threshold: float
    unit: str
    source: str

    def __str__(self) -> str:
        return f"{self.signal} {self.value:.3g}{self.unit} (threshold {self.threshold:.3g}{self.unit})"


@dataclass(frozen=True, slots=True)
class Starvation:
    """``is_sure`` False: the cause is inferred from what is absent. ``mend``: what to do first."""

    cause: Cause
    evidence: tuple[Evidence, ...]
    mend: str
    is_sure: bool = True


@dataclass(frozen=True, slots=True)
class Signs:
    """What one device showed. ``activity`` is the graphics or SM activity, ``ceiling`` what it reaches when full."""

    activity: Distribution
    ceiling: float
    used_mib: Distribution | None


@dataclass(frozen=True, slots=True)
class Neighbours:
    """What stands beside the device. ``nic_share``: bytes per second; None where the VM size is not known.

    ``input_wait``: share of its time that the workload itself says it waits for data.
    """

    pod: PodUse | None = None
    node: NodeUse | None = None
    nic_share: float | None = None
    input_wait: float | None = None


MEND_CPU = (
    "give the pod more CPU (raise or remove its limit) or fewer, cheaper loader workers; then measure again before "
    "the slice is changed"
)
MEND_NETWORK = (
    "the network is full: cache the data on local NVMe, pack small files, or read less; a mount with a block cache "
    "and no file cache for one pass over large files"
)
MEND_DISK = (
    "the cache's disk has no time left: turn the mount's file cache off (DATASET_MOUNT_BLOCK_FILE_CACHE_ENABLED=false) "
    "or move it to local NVMe"
)
MEND_LATENCY = (
    "input comes, but far below what the network could carry: more reader threads and prefetch (RSLEX_DOWNLOADER_"
    "THREADS, DATASET_MOUNT_READ_BUFFER_BLOCK_COUNT), larger files"
)
MEND_READER = "more loader workers and prefetch, packed or cached data; then measure again before the slice is changed"
MEND_UNKNOWN = "export the pod's CPU throttling and received bytes (cAdvisor) and the node's disk time, then ask again"


def find_starvation(signs: Sequence[Signs], beside: Neighbours) -> Starvation | None:
    """None: not hungry, or nothing but an even load. ``signs``: all devices of one pod."""
    hungry = [evidence for sign in signs if (evidence := _hunger(sign))]
    if not hungry or len(hungry) < len(signs):
        return None
    saw = next((teeth for sign in signs if (teeth := _saw_tooth(sign))), None)
    seen = (*hungry[0], *((saw,) if saw else ()))
    if cpu := _cpu(beside.pod):
        return Starvation("cpu", (*seen, *cpu), MEND_CPU)
    if network := _network(beside):
        return Starvation("input", (*seen, network), MEND_NETWORK)
    if disk := _disk(beside.node):
        return Starvation("input", (*seen, disk), MEND_DISK)
    if beside.input_wait is not None and beside.input_wait >= INPUT_WAIT:
        wait = Evidence("time waiting for data", beside.input_wait, INPUT_WAIT, "", WAIT_SOURCE)
        return Starvation("input", (*seen, wait), MEND_READER)
    if saw is None:
        return None
    if trickle := _trickle(beside):
        return Starvation("input", (*seen, trickle), MEND_LATENCY, is_sure=False)
    return None if _all_quiet(beside) else Starvation("suspected", seen, MEND_UNKNOWN, is_sure=False)


def is_held(used: Distribution | None) -> bool:
    """Memory that stays: a model is loaded, whatever the activity does."""
    if used is None or used.mean < CONTEXT_MIB:
        return False
    return used.deviation is None or used.deviation <= STABLE * used.mean


def _hunger(sign: Signs) -> tuple[Evidence, ...]:
    if not is_held(sign.used_mib):
        return ()
    assert sign.used_mib is not None
    mean = sign.activity.mean / sign.ceiling
    if mean >= LOW and _saw_tooth(sign) is None:
        return ()
    return (
        Evidence("mean activity of the ceiling", mean, LOW, "", SIGNS),
        Evidence("memory held", sign.used_mib.mean, CONTEXT_MIB, " MiB", SIGNS),
    )


def _saw_tooth(sign: Signs) -> Evidence | None:
    v = sign.activity
    if v.low is None or v.deviation is None:
        return None
    distance = v.high - v.low
    is_wide = distance >= TEETH * sign.ceiling and v.low <= VALLEY * v.high
    if not is_wide or v.deviation <= BIMODAL * distance:
        return None
    return Evidence("distance of low and high activity", distance / sign.ceiling, TEETH, "", SIGNS)


def _cpu(pod: PodUse | None) -> tuple[Evidence, ...]:
    if pod is None:
        return ()
    found = []
    if pod.cpu_throttled and pod.cpu_throttled.mean >= THROTTLED:
        found.append(Evidence("CPU periods throttled", pod.cpu_throttled.mean, THROTTLED, "", CPU_SOURCE))
    if pod.cpu_cores and pod.cpu_limit_cores and pod.cpu_cores.high >= CPU_AT_LIMIT * pod.cpu_limit_cores:
        limit = CPU_AT_LIMIT * pod.cpu_limit_cores
        found.append(Evidence("CPU in use", pod.cpu_cores.high, limit, " cores", CPU_SOURCE))
    return tuple(found)


def _network(beside: Neighbours) -> Evidence | None:
    seen = beside.pod.network_receive_bytes_per_second if beside.pod else None
    if seen is None or beside.nic_share is None or seen.high < NETWORK_AT_SHARE * beside.nic_share:
        return None
    limit = NETWORK_AT_SHARE * beside.nic_share
    return Evidence("received", seen.high / 1e6, limit / 1e6, " MB/s", NETWORK_SOURCE)


def _disk(node: NodeUse | None) -> Evidence | None:
    if node is None or node.disk_busy is None or node.disk_busy.mean < DISK_BUSY:
        return None
    return Evidence("busiest disk", node.disk_busy.mean, DISK_BUSY, "", DISK_SOURCE)


def _trickle(beside: Neighbours) -> Evidence | None:
    """Data comes in, the share of the network is known and not reached, the CPU is known and not throttled."""
    pod = beside.pod
    seen = pod.network_receive_bytes_per_second if pod else None
    if pod is None or pod.cpu_throttled is None or seen is None or beside.nic_share is None:
        return None
    if seen.mean < NETWORK_TRICKLE:
        return None
    return Evidence("received", seen.mean / 1e6, NETWORK_TRICKLE / 1e6, " MB/s", NETWORK_SOURCE)


def _all_quiet(beside: Neighbours) -> bool:
    """Every neighbour was measured and none waits: bursts of requests, not starvation."""
    pod, node = beside.pod, beside.node
    is_known = pod is not None and pod.cpu_throttled is not None and node is not None and node.disk_busy is not None
    return is_known and pod is not None and pod.network_receive_bytes_per_second is not None


def nic_share(nic_mbps: int | None, gpus: int, slices: int, of_slices: int) -> float | None:
    """Bytes per second that a slice may take if all slices of the VM read at once."""
    return nic_mbps * 1e6 / 8 / gpus * slices / of_slices if nic_mbps and gpus and of_slices else None


def sentence(found: Starvation) -> str:
    head: Mapping[Cause, str] = {
        "cpu": "starved by its CPU",
        "input": "starved by its input",
        "suspected": "may starve: activity is a saw-tooth, and nothing beside it was measured that could tell",
    }
    return f"{head[found.cause]}: {'; '.join(map(str, found.evidence))}"
