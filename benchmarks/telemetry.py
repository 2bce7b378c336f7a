"""How large clusters may be that telemetry is read from: text of dcgm-exporter, and a real Prometheus server.

One function per part. ``exporter``: generated text of many GPU instances, with all families of a full counters file of
which most are not read; the house allows 20 seconds for 10,000 instances. ``prometheus``: history of 200, 1,000 and
5,000 GPUs × 7 instances (:mod:`_history`); queries per statistic are to be ceil(series × points ÷ budget), the reader's
memory below 500 MB and flat from 1,000 to 5,000 GPUs, for reading and for going through all devices and rows. It reads
no data but takes ``--data`` as every benchmark does.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable, Iterable
from typing import Any

from _history import history
from migsaw.observe.exporter import READ, parse_metrics

PER_GPU = 7  # 1g.5gb instances of an A100
FAMILIES = (  # dcgm-exporter's default counters and the profiling ones, and a value of each
    ("DCGM_FI_DEV_SM_CLOCK", "1410"),
    ("DCGM_FI_DEV_MEM_CLOCK", "1215"),
    ("DCGM_FI_DEV_MEMORY_TEMP", "39"),
    ("DCGM_FI_DEV_GPU_TEMP", "41"),
    ("DCGM_FI_DEV_POWER_USAGE", "163.273000"),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "9912345678901"),
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "0"),
    ("DCGM_FI_DEV_ENC_UTIL", "0"),
    ("DCGM_FI_DEV_DEC_UTIL", "0"),
    ("DCGM_FI_DEV_XID_ERRORS", "0"),
    ("DCGM_FI_DEV_FB_FREE", "4366"),
    ("DCGM_FI_DEV_FB_USED", "498"),
    ("DCGM_FI_DEV_FB_RESERVED", "61"),
    ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "0"),
    ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "0"),
    ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "0"),
    ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "0"),
    ("DCGM_FI_DEV_VGPU_LICENSE_STATUS", "0"),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "0.871204"),
    ("DCGM_FI_PROF_SM_ACTIVE", "0.640112"),
    ("DCGM_FI_PROF_SM_OCCUPANCY", "0.310977"),
    ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "0.221310"),
    ("DCGM_FI_PROF_DRAM_ACTIVE", "0.402288"),
    ("DCGM_FI_PROF_PCIE_TX_BYTES", "5121040"),
    ("DCGM_FI_PROF_PCIE_RX_BYTES", "9120310"),
)


def prometheus(given: argparse.Namespace) -> Iterable[dict[str, Any]]:
    return history(given.gpus)


def exporter(given: argparse.Namespace) -> Iterable[dict[str, Any]]:
    """Text → rows, in one process: seconds, MB of text, and the most memory that the process ever held."""
    text = exporter_text(given.instances)
    start = time.perf_counter()
    scrape = parse_metrics(text, "generated.prom")
    seconds = time.perf_counter() - start
    yield {
        "part": "exporter",
        "instances": len(scrape.rows),
        "mb": round(len(text) / 1e6, 1),
        "seconds": round(seconds, 2),
        "families_read": len(scrape.families & READ),
        "families_dropped": len(scrape.families - READ),
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def exporter_text(instances: int) -> str:
    labels = [_labels(n) for n in range(instances)]
    lines = []
    for family, value in FAMILIES:
        lines += [f"# HELP {family} As dcgm-exporter says it.", f"# TYPE {family} gauge"]
        lines += [f"{family}{{{inside}}} {value}" for inside in labels]
    return "\n".join(lines) + "\n"


def _labels(number: int) -> str:
    gpu, instance = divmod(number, PER_GPU)
    node, index = divmod(gpu, 8)
    shown = {
        "gpu": str(index),
        "UUID": f"GPU-5d3c1a00-7e41-4c0b-9a6e-{gpu:012d}",
        "pci_bus_id": f"00000000:{index:02X}:00.0",
        "device": f"nvidia{index}",
        "modelName": "NVIDIA A100-SXM4-40GB",
        "GPU_I_PROFILE": "1g.5gb",
        "GPU_I_ID": str(7 + instance),
        "Hostname": f"aks-gpu-12345678-vmss{node:06d}",
        "DCGM_FI_DRIVER_VERSION": "550.90.07",
        "container": "main",
        "namespace": f"team-{number % 40}",
        "pod": f"worker-{number}",
    }
    return ",".join(f'{name}="{value}"' for name, value in shown.items())


PARTS: dict[str, Callable[[argparse.Namespace], Iterable[dict[str, Any]]]] = {
    "exporter": exporter,
    "prometheus": prometheus,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="not needed here")
    parser.add_argument("--part", choices=PARTS, action="append", help="only this; several times for several")
    parser.add_argument("--instances", type=int, default=10_000, help="of the part exporter")
    parser.add_argument("--gpus", type=int, nargs="+", default=[200, 1000, 5000], help="of the part prometheus")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    given = parser.parse_args()
    rows = [row for part in given.part or PARTS for row in PARTS[part](given)]
    if given.output == "json":
        print(json.dumps(rows))
        return
    for row in rows:
        print("  ".join(f"{name} {value}" for name, value in row.items()))


if __name__ == "__main__":
    main()
