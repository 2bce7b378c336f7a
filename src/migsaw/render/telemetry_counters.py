"""The counters file of dcgm-exporter, and the families of metrics that a server must keep: what is measured and kept.

The fields come from the one table that the readers use. Where the files go is not known here.

Facts (dcgm-exporter 4.8, `internal/pkg/counters`): a line is FIELD, type, help, read as CSV of exactly three columns;
`#` begins a comment; the file replaces the built-in list; a metric is named as its line names the field; a field that
the exporter does not know keeps it from starting, so only the names that every version knows are written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from migsaw.model.dcgm_fields import BOARD, BUILD_INFO, DEVICE, Field
from migsaw.model.plan import Plan
from migsaw.model.reasons import Reason
from migsaw.render.document import comment

_HELP = {
    "graphics": "Ratio of time the graphics engine is active.",
    "sm": "Ratio of cycles an SM has at least 1 warp assigned.",
    "occupancy": "Ratio of warps resident on an SM to the most it can hold.",
    "tensor": "Ratio of cycles the tensor pipe is active.",
    "dram": "Ratio of cycles the device memory interface is active.",
    "used": "Framebuffer memory used (in MiB).",
    "free": "Framebuffer memory free (in MiB).",
    "util": "GPU utilization (in %).",
    "power_watts": "Power draw (in W).",
    "temperature_celsius": "GPU temperature (in C).",
    "sm_clock_mhz": "SM clock frequency (in MHz).",
    "energy_millijoules": "Total energy consumption since boot (in mJ).",
}
_XID = Field(
    230, "xid", ("DCGM_FI_DEV_XID_ERRORS",)
)  # for people who look for what ended a job; migsaw does not read it
_UNSEEN = (Reason.MAY_BE_HELD, Reason.BOARD_UNKNOWN)

# what is asked of kube-state-metrics, cAdvisor and node-exporter about the pods and nodes that have GPUs
KUBE_STATE = (
    "kube_job_owner",
    "kube_node_info",
    "kube_pod_container_resource_limits",
    "kube_pod_container_resource_requests",
    "kube_pod_container_status_last_terminated_reason",
    "kube_pod_container_status_restarts_total",
    "kube_pod_info",
    "kube_pod_owner",
    "kube_pod_status_phase",
    "kube_replicaset_owner",
)
CADVISOR = (
    "container_cpu_cfs_periods_total",
    "container_cpu_cfs_throttled_periods_total",
    "container_cpu_usage_seconds_total",
    "container_fs_reads_bytes_total",
    "container_network_receive_bytes_total",
    "container_oom_events_total",
)
NODE_EXPORTER = ("node_disk_io_time_seconds_total", "node_network_receive_bytes_total", "node_uname_info")
NODES_SHOWN = ("kube_node_labels", "kube_node_status_allocatable")  # what slices a node offers; for dashboards
NODE_LABELS = (
    "kubernetes.azure.com/agentpool",
    "node.kubernetes.io/instance-type",
    "nvidia.com/gpu.product",
    "nvidia.com/mig.config",
    "nvidia.com/mig.config.state",
    "nvidia.com/mig.strategy",
)


def counters(plan: Plan) -> str:
    """The file without a header: commented lines of ASCII, which a ConfigMap shows as they are."""
    is_whole = has_whole_gpus(plan)
    device = [field for field in DEVICE if is_whole or field.signal != "util"]
    profiling = [field for field in device if field.is_profiling]
    rest = [field for field in device if not field.is_profiling]
    util = (
        "GPU_UTIL: of GPUs with MIG off only; of an instance it is 0 or blank, never a measure of idleness."
        if is_whole
        else "GPU_UTIL is left out: every GPU here is cut, and DCGM has no such value for an instance."
    )
    return (
        comment(["FIELD, Prometheus type, help", "", "Of each instance, or of a GPU with MIG off: activity"])
        + _lines(profiling)
        + comment(["Of each instance, or of a GPU with MIG off: memory", util])
        + _lines(rest)
        + comment(["Of the whole board, repeated on each of its instances: never to be added up"])
        + _lines([*BOARD, _XID])
    )


def has_whole_gpus(plan: Plan) -> bool:
    """Whether some GPU has MIG off after the plan, or may have: nobody looked into it, or the plan shows no GPU."""
    off = any(gpu.after == ("off",) or gpu.reason in _UNSEEN for gpu in plan.gpus)
    return off or not plan.gpus or any(step.pool and not step.pool.mig_profiles for step in plan.steps)


def dcgm_families() -> tuple[str, ...]:
    """Every family of dcgm-exporter that is read, under all its names, in order."""
    return tuple(sorted([BUILD_INFO, *(name for field in (*DEVICE, *BOARD) for name in field.names)]))


def keep_list(families: Iterable[str]) -> str:
    """A regular expression that Prometheus anchors at both ends: these families and no other."""
    return "|".join(sorted(families))


def _lines(fields: Sequence[Field]) -> str:
    widest = max(len(field.names[0]) for field in fields)
    return "".join(_line(field, widest) for field in fields)


def _line(field: Field, width: int) -> str:
    said = _HELP.get(field.signal, "Value of the last XID error encountered.")
    return f"{field.names[0] + ',':<{width + 1}} {field.kind}, {said}\n"
