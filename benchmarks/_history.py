"""The part ``prometheus`` of telemetry.py: history of large clusters through a real Prometheus server.

Blocks are made by promtool: one ratio in full, memory only at the end of the window. The reader runs in a process of
its own, so that its memory is its own; questions are counted by the server.
"""

from __future__ import annotations

import json
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from migsaw.model.telemetry import Window
from migsaw.observe.history import HistoryOptions, Server, read_all
from migsaw.observe.prometheus import Client

PER_GPU = 7
RATIO, MEMORY = "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_FB_USED"
SECONDS, STEP = 3600, 30
POINTS = SECONDS // STEP
START = 1_700_000_000 - 1_700_000_000 % 7200  # where a block of Prometheus begins
CASES = ((200, 20_000_000), (1000, 20_000_000), (1000, 200_000), (5000, 20_000_000))  # GPUs, samples per query


def history(gpus: list[int]) -> Iterator[dict[str, Any]]:
    """A row for each case whose number of GPUs is asked for."""
    missing = [name for name in ("prometheus", "promtool") if not shutil.which(name)]
    if missing:
        print(f"{' and '.join(missing)}: not installed (Debian: apt install prometheus)", file=sys.stderr)
        raise SystemExit(2)
    for number in gpus:
        with tempfile.TemporaryDirectory() as folder:
            begun = time.perf_counter()
            data = make_blocks(number, Path(folder))
            made = time.perf_counter() - begun
            with server(data) as url:
                for _, budget in (case for case in CASES if case[0] == number):
                    yield {
                        "part": "prometheus",
                        "gpus": number,
                        "made_seconds": round(made, 1),
                        **read(url, number, budget),
                    }


def read(url: str, gpus: int, budget: int) -> dict[str, Any]:
    before = queries_of(url)
    command = [sys.executable, __file__, url, str(budget)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    series = gpus * PER_GPU
    return {
        "series": series,
        "points": POINTS,
        "budget": budget,
        "queries_per_statistic": found["per_statistic"],
        "ceil": -(-series * POINTS // budget),
        "queries": queries_of(url) - before,
        "seconds": found["seconds"],
        "devices": found["devices"],
        "peak_rss_mb": found["peak_rss_mb"],
        "rss_before_mb": found["rss_before_mb"],
        "partial": found["partial"],
    }


def make_blocks(gpus: int, folder: Path) -> Path:
    text = folder / "made.om"
    with text.open("w") as out:
        for family, points in ((RATIO, range(POINTS)), (MEMORY, range(POINTS - 1, POINTS))):
            out.write(f"# TYPE {family} gauge\n")
            for number in range(gpus * PER_GPU):
                head = f"{family}{{{_labels(number)}}} "
                rows = (f"{head}{(number * 7 + n * 13) % 997 / 1000} {START + 1 + n * STEP}\n" for n in points)
                out.write("".join(rows))
        out.write("# EOF\n")
    data = folder / "data"
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "--quiet", str(text), str(data)]
    subprocess.run(command, check=True, capture_output=True)
    text.unlink()
    return data


def _labels(number: int) -> str:
    gpu, instance = divmod(number, PER_GPU)
    node, index = divmod(gpu, 8)
    host = f"aks-gpu-12345678-vmss{node:06d}"
    shown = {
        "gpu": str(index),
        "UUID": f"GPU-5d3c1a00-7e41-4c0b-9a6e-{gpu:012d}",
        "device": f"nvidia{index}",
        "modelName": "NVIDIA A100-SXM4-40GB",
        "GPU_I_PROFILE": "1g.5gb",
        "GPU_I_ID": str(7 + instance),
        "Hostname": host,
        "instance": f"10.{node >> 8}.{node & 255}.4:9400",
        "job": "dcgm-exporter",
        "container": "main",
        "namespace": f"team-{number % 40}",
        "pod": f"worker-{number}",
    }
    return ",".join(f'{name}="{value}"' for name, value in shown.items())


@contextmanager
def server(data: Path) -> Iterator[str]:
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    config = data.parent / "prometheus.yml"
    config.write_text("global: {scrape_interval: 1h}\n")
    command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={data}", "--log.level=error"]
    command += [
        f"--web.listen-address={url.removeprefix('http://')}",
        "--storage.tsdb.retention.time=100y",
        "--query.timeout=15m",
    ]
    process = subprocess.Popen(command)
    try:
        _wait_for(url)
        yield url
    finally:
        process.terminate()
        process.wait(60)


def _wait_for(url: str) -> None:
    for _ in range(600):
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("Prometheus does not get ready")


def queries_of(url: str) -> int:
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    counts = re.findall(r'prometheus_http_requests_total\{code="\d+",handler="/api/v1/query"\} (\S+)', text)
    return sum(int(float(count)) for count in counts)


def reader(url: str, budget: int) -> dict[str, Any]:
    """Runs in a process of its own."""
    means, fold = 0, Client.fold

    def counting(self: Client, path: str, form: Any, *rest: Any, **more: Any) -> Any:
        nonlocal means
        means += "avg_over_time" in form.get("query", "") and RATIO in form["query"]
        return fold(self, path, form, *rest, **more)

    Client.fold = counting  # type: ignore[method-assign]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.perf_counter()
    window, options = Window(START, START + SECONDS, STEP), HistoryOptions(samples_per_query=budget)
    history = read_all(Server(url, timeout_seconds=600), window, options)
    devices, rows = sum(1 for _ in history.each_device()), sum(1 for _ in history.each_row())
    return {
        "seconds": round(time.perf_counter() - begun, 1),
        "per_statistic": means,
        "devices": devices,
        "rows": rows,
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "rss_before_mb": round(before / 1024),
        "partial": list(history.frame.partial),
    }


if __name__ == "__main__":
    print(json.dumps(reader(sys.argv[1], int(sys.argv[2]))))
