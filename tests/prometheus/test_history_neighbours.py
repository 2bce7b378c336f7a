"""Pods and nodes beside the GPUs, from a real Prometheus: counters of known slopes, absent families, workloads."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import pytest
from made_series import START, Made, every, write_blocks

from migsaw.cli.shared import load_catalogue
from migsaw.model.refs import PodRef
from migsaw.model.snapshot import Workload
from migsaw.model.telemetry import NodeUse, PodUse, Window
from migsaw.observe.assemble import Facts, assemble
from migsaw.observe.history import History, HistoryOptions, Server, read_all

HOUR, STEP = 3600, 60
END = START + HOUR
GRAPHICS = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
RATE_SECONDS = 300


def counter(per_second: Callable[[float], float], offset: float = 1.0) -> tuple[tuple[float, float], ...]:
    """Scraped each 30 s, grows by ``per_second(seconds since START)``; it was there long before the window."""
    total, rows = 1e6, []
    for when, _ in every(30, START - 1200, END, lambda n: 0.0, offset):
        total += 30 * per_second(when - START)
        rows.append((when, total))
    return tuple(rows)


def steady(value: float) -> tuple[tuple[float, float], ...]:
    return every(30, START, END, lambda n: value)


def gpu(pod: str, uuid: str, host: str) -> Made:
    labels = {"UUID": uuid, "gpu": "0", "Hostname": host, "modelName": "NVIDIA A100-SXM4-80GB"}
    instance = {"GPU_I_ID": "1", "GPU_I_PROFILE": "1g.10gb", "namespace": "ml", "pod": pod}
    return Made(GRAPHICS, labels | instance, steady(0.5))


def of_container(family: str, pod: str, samples, **labels: str) -> Made:
    own = {"namespace": "ml", "pod": pod, "container": "main", "job": "kubelet"}
    return Made(family, {**own, **labels}, samples)


def two_phases(seconds: float) -> float:
    return 0.2 if seconds < HOUR / 2 else 0.8


def with_restart() -> tuple[tuple[float, float], ...]:
    """10 bytes a second; the counter begins again in the middle, as after a restart of the container."""
    begin = START + HOUR / 2
    return tuple((when, value if when < begin else 10 * (when - begin)) for when, value in counter(lambda _: 10.0))


BUSY, BARE, OTHER, WAITING, NIGHTLY = "train-0", "bare-0", "web-0", "wants-0", "nightly-28333333-x"
CADVISOR = [
    of_container("container_cpu_usage_seconds_total", BUSY, counter(two_phases)),
    of_container("container_cpu_usage_seconds_total", BUSY, counter(lambda _: 0.1), container="sidecar"),
    # a second scrape job shows the same; the pod's own cgroup and the sandbox are no containers
    of_container("container_cpu_usage_seconds_total", BUSY, counter(two_phases, 4.0), job="other"),
    of_container("container_cpu_usage_seconds_total", BUSY, counter(lambda _: 9.0), container=""),
    of_container("container_cpu_usage_seconds_total", BUSY, counter(lambda _: 9.0), container="POD"),
    of_container("container_cpu_usage_seconds_total", OTHER, counter(lambda _: 5.0)),
    of_container("container_cpu_cfs_periods_total", BUSY, counter(lambda _: 10.0)),
    of_container("container_cpu_cfs_throttled_periods_total", BUSY, counter(lambda _: 2.5)),
    of_container("container_network_receive_bytes_total", BUSY, with_restart(), container="POD", interface="eth0"),
    of_container(
        "container_network_receive_bytes_total", BUSY, counter(lambda _: 7.0), container="POD", interface="lo"
    ),
    of_container("container_fs_reads_bytes_total", BUSY, counter(lambda _: 3.0), device="/dev/sda"),
    of_container("container_fs_reads_bytes_total", BUSY, counter(lambda _: 4.0), device="/dev/sdb"),
]
PLACES = {BUSY: "node-a", BARE: "node-b", OTHER: "node-c", WAITING: "", "done-0": "node-a", NIGHTLY: "node-b"}
ASKS = [
    (BUSY, "main", "nvidia_com_mig_1g_10gb", 1),
    (BUSY, "sidecar", "nvidia_com_mig_1g_10gb", 1),
    (BUSY, "main", "cpu", 3),
    (OTHER, "main", "cpu", 1),
    (BARE, "main", "nvidia_com_gpu", 2),
    (WAITING, "main", "nvidia_com_mig_1g_10gb_me", 1),
    ("done-0", "main", "nvidia_com_gpu", 1),
    (NIGHTLY, "main", "nvidia_com_gpu_shared", 1),
]
PHASES = {WAITING: "Pending", "done-0": "Succeeded"}
OWNERS = {
    BUSY: ("ReplicaSet", "train-6b5d"),
    BARE: ("<none>", "<none>"),
    WAITING: ("StatefulSet", "wants"),
    NIGHTLY: ("Job", "nightly-28333333"),
}


def kube(family: str, value: float, **labels: str) -> Made:
    own = {"job": "kube-state-metrics", "instance": "10.0.1.1:8080"}
    return Made(f"kube_{family}", {**own, **labels}, steady(value))


def of_pod(family: str, value: float, pod: str, **labels: str) -> Made:
    return kube(f"pod_{family}", value, namespace="ml", pod=pod, **labels)


KUBE_STATE = [
    *(
        of_pod("info", 1, pod, node=node, pod_ip=f"10.1.0.{n}" if node else "", uid=f"uid-{pod}")
        for n, (pod, node) in enumerate(PLACES.items())
    ),
    *(
        of_pod("container_resource_requests", n, pod, node=PLACES[pod], container=container, resource=resource)
        for pod, container, resource, n in ASKS
    ),
    *(
        of_pod("status_phase", int(phase == PHASES.get(pod, "Running")), pod, phase=phase)
        for pod in PLACES
        for phase in ("Pending", "Running", "Succeeded", "Failed", "Unknown")
    ),
    *(of_pod("owner", 1, pod, owner_kind=kind, owner_name=name) for pod, (kind, name) in OWNERS.items()),
    kube("replicaset_owner", 1, namespace="ml", replicaset="train-6b5d", owner_kind="Deployment", owner_name="train"),
    kube("job_owner", 1, namespace="ml", job_name="nightly-28333333", owner_kind="CronJob", owner_name="nightly"),
    of_pod("container_resource_limits", 4, BUSY, container="main", resource="cpu"),
    of_pod("container_resource_limits", 0.5, BUSY, container="sidecar", resource="cpu"),
    of_pod("container_status_last_terminated_reason", 1, BUSY, container="main", reason="OOMKilled"),
    Made(
        "kube_pod_container_status_restarts_total",
        {"namespace": "ml", "pod": BUSY, "container": "main"},
        every(30, START, END, lambda n: 2.0 + (n >= 40) + (n >= 80)),
    ),
    of_pod("container_status_last_terminated_reason", 1, NIGHTLY, container="main", reason="OOMKilled"),
    of_pod("container_status_restarts_total", 3, NIGHTLY, container="main"),
    kube("node_info", 1, node="node-a", internal_ip="10.0.0.1"),
    kube("node_info", 1, node="node-b", internal_ip="10.0.0.2"),
]
NODE_EXPORTER = [
    Made("node_uname_info", {"instance": "10.0.0.1:9100", "nodename": "vm-name-of-a"}, steady(1)),
    Made("node_uname_info", {"instance": "10.0.0.9:9100", "nodename": "node-without-gpus"}, steady(1)),
    Made("node_disk_io_time_seconds_total", {"instance": "10.0.0.1:9100", "device": "sda"}, counter(lambda _: 0.1)),
    Made("node_disk_io_time_seconds_total", {"instance": "10.0.0.1:9100", "device": "nvme0n1"}, counter(lambda _: 0.9)),
    Made("node_disk_io_time_seconds_total", {"instance": "10.0.0.1:9100", "device": "loop0"}, counter(lambda _: 1.0)),
    Made("node_disk_io_time_seconds_total", {"instance": "10.0.0.9:9100", "device": "sda"}, counter(lambda _: 1.0)),
    *(Made("node_network_receive_bytes_total", {"instance": "10.0.0.1:9100", "device": d}, counter(lambda _: 100.0))
      for d in ("eth0", "eth1", "lo", "enP1s1", "azv12")),
]  # fmt: skip
GPUS = [gpu(BUSY, "GPU-a", "node-a"), gpu(BARE, "GPU-b", "node-b")]


def read(start: Callable, folder, series: Iterable[Made]) -> History:
    write_blocks(series, folder)
    return read_all(Server(start(folder).url), Window(START, END, STEP), HistoryOptions())


@pytest.fixture(scope="module")
def history(start_prometheus: Callable, tmp_path_factory: pytest.TempPathFactory) -> History:
    series = [*GPUS, *CADVISOR, *KUBE_STATE, *NODE_EXPORTER]
    return read(start_prometheus, tmp_path_factory.mktemp("neighbours") / "data", series)


@pytest.fixture(scope="module")
def use(history: History) -> PodUse:
    return next(p for p in history.telemetry.pods if p.pod == PodRef("ml", BUSY))


def test_nothing_is_partial(history: History) -> None:
    assert history.telemetry.partial == ()


def test_cpu_is_added_up_over_containers_once(use: PodUse) -> None:
    cpu = use.cpu_cores
    assert cpu is not None
    assert (cpu.low, cpu.peak) == (pytest.approx(0.3), pytest.approx(0.9))
    # half an hour at each rate; the five minutes of a rate blur the border, but not its middle
    assert cpu.mean == pytest.approx(0.6, abs=0.3 * RATE_SECONDS / HOUR)
    assert cpu.deviation == pytest.approx(0.3, rel=0.1)
    assert use.cpu_limit_cores == 4.5


def test_throttling_is_a_share_of_periods(use: PodUse) -> None:
    assert use.cpu_throttled is not None
    for value in (use.cpu_throttled.mean, use.cpu_throttled.peak, use.cpu_throttled.median):
        assert value == pytest.approx(0.25)


def test_bytes_go_over_a_counter_that_begins_again(use: PodUse) -> None:
    assert use.network_receive_bytes_per_second is not None
    assert use.network_receive_bytes_per_second.median == pytest.approx(10.0)
    assert use.network_receive_bytes_per_second.peak < 14
    assert use.disk_read_bytes_per_second is not None
    assert use.disk_read_bytes_per_second.mean == pytest.approx(7.0)


def test_ends_for_memory_and_restarts(use: PodUse) -> None:
    assert use.oom_kills == 1  # by kube-state-metrics: cAdvisor here has no such counter
    assert use.restarts == 2


def test_absent_is_none_never_zero(history: History) -> None:
    """Of one pod only its restarts are known; nobody measures the others, or they hold no GPU."""
    rows = {p.pod.pod: p for p in history.telemetry.pods}
    assert set(rows) == {BUSY, NIGHTLY}
    # its container was ended for memory before the window: it has not begun again since
    assert rows[NIGHTLY] == PodUse(PodRef("ml", NIGHTLY), oom_kills=0, restarts=0)


def test_node_use_is_of_nodes_with_gpus(history: History) -> None:
    (node,) = history.telemetry.nodes
    assert isinstance(node, NodeUse)
    assert node.node == "node-a"  # by the address that kube-state-metrics knows, not the machine's own name
    assert node.disk_busy is not None
    assert node.disk_busy.median == pytest.approx(0.9)
    assert node.network_receive_bytes_per_second is not None
    assert node.network_receive_bytes_per_second.median == pytest.approx(200.0)


def test_pods_and_their_workloads_are_known_without_kubectl(history: History) -> None:
    assert history.kube is not None
    pods = history.kube.pods
    assert {p.name: (p.node, p.phase, p.asks, p.workload) for p in pods.pods.values()} == {
        BARE: ("node-b", "Running", {"nvidia.com/gpu": 2}, None),
        NIGHTLY: ("node-b", "Running", {"nvidia.com/gpu.shared": 1}, Workload("ml", "CronJob", "nightly")),
        BUSY: ("node-a", "Running", {"nvidia.com/mig-1g.10gb": 2}, Workload("ml", "Deployment", "train")),
        WAITING: (None, "Pending", {"nvidia.com/mig-1g.10gb.me": 1}, Workload("ml", "StatefulSet", "wants")),
    }
    assert pods.finished == {"ml/done-0"}
    assert pods.node_of_address["10.1.0.2"] == "node-c"
    assert pods.of_uid[f"uid-{BUSY}"] == PodRef("ml", BUSY)
    assert not pods.is_whole_cluster  # nobody is called idle by it
    assert history.kube.nodes["node-a"].addresses == {"10.0.0.1"}


def test_kube_state_metrics_scraped_without_honoured_labels_is_the_same(
    start_prometheus: Callable, tmp_path, history: History
) -> None:
    def moved(made: Made) -> Made:
        labels = {f"exported_{k}" if k in ("namespace", "pod", "node", "uid") else k: v for k, v in made.labels.items()}
        return Made(made.family, {**labels, "namespace": "monitoring", "pod": "ksm-7"}, made.samples)

    again = read(start_prometheus, tmp_path / "data", [*GPUS, *map(moved, KUBE_STATE)])
    assert again.kube == history.kube


def test_without_neighbours_nothing_is_said(start_prometheus: Callable, tmp_path) -> None:
    alone = read(start_prometheus, tmp_path / "data", GPUS)
    assert (alone.telemetry.pods, alone.telemetry.nodes, alone.kube) == ((), (), None)
    assert alone.telemetry.partial == ()
    assert all(math.isfinite(d.series["graphics"].values.mean) for d in alone.telemetry.devices)


def test_nodes_are_put_together_from_the_server_alone(history: History) -> None:
    kube = history.kube
    assert kube is not None
    facts = Facts(kube.nodes, kube.pods, history.rows, telemetry=history.telemetry)
    snapshot = assemble(facts, load_catalogue(), history.notes)
    node = next(n for n in snapshot.nodes if n.name == "node-a")
    (instance,) = node.gpus[0].instances
    assert (node.gpus[0].board, instance.profile, instance.gi_id) == ("a100-sxm4-80gb", "1g.10gb", 1)
    assert (instance.owner, instance.state) == (PodRef("ml", BUSY), "busy")
    assert instance.activity is not None
    assert instance.activity.graphics == 0.5
    assert snapshot.telemetry is not None
    device = next(d for d in snapshot.telemetry.devices if d.node == "node-a")
    assert (device.board, device.profile, device.owner) == ("a100-sxm4-80gb", "1g.10gb", PodRef("ml", BUSY))
    assert next(p.workload for p in snapshot.pods if p.name == BUSY) == Workload("ml", "Deployment", "train")
