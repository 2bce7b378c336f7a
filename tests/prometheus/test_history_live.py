"""Scraped as it happens: an exporter process, a real Prometheus each second, and what migsaw makes of it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from made_series import Made, joined, statistics
from running import RunningPrometheus, free_port

from migsaw.model.telemetry import Device, Window
from migsaw.observe.history import History, HistoryOptions, Server, read_all

GRAPHICS, USED = "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_FB_USED"
SCRAPES = 9
CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 900ms}}
scrape_configs:
- job_name: dcgm
  honor_labels: {honor}
  static_configs:
  - targets: ["127.0.0.1:{port}"]
    labels: {{namespace: gpu-operator, pod: nvidia-dcgm-exporter-abc, container: nvidia-dcgm-exporter}}
"""


def labels(gpu: str, **more: str) -> dict[str, str]:
    own = {"UUID": f"GPU-{gpu}", "gpu": gpu, "GPU_I_ID": "3", "GPU_I_PROFILE": "2g.20gb", "Hostname": "node-live"}
    return {**own, "modelName": "NVIDIA H100 80GB HBM3", **more}


HELD = {"namespace": "ml", "pod": "train-0", "container": "main"}
VALUES = [0.1, 0.9, 2147483632, "NaN", 0.4, 1.1, 0.3, 0.7, 0.2, 0.6, 0.5, 0.8, 0.35]
RECORDING: list[Any] = [
    [GRAPHICS, labels("0", **HELD), VALUES],
    [USED, labels("0", **HELD), [4000 + n for n in range(50)]],
    [GRAPHICS, labels("1", **HELD), [0.9] * 4 + [None]],  # ends in the middle
    [GRAPHICS, labels("2"), [0.0]],  # nobody holds it
]


@pytest.fixture(scope="module", params=["true", "false"])
def scraped(
    request: pytest.FixtureRequest, start_prometheus: Callable[..., RunningPrometheus], tmp_path_factory: Any
) -> Iterator[tuple[RunningPrometheus, Window]]:
    folder: Path = tmp_path_factory.mktemp("live")
    (folder / "recording.json").write_text(json.dumps(RECORDING))
    port = free_port()
    script = Path(__file__).with_name("exporter_process.py")
    exporter = subprocess.Popen([sys.executable, str(script), str(port), str(folder / "recording.json")])
    try:
        server = start_prometheus(folder / "data", CONFIG.format(honor=request.param, port=port))
        begun = time.time()
        while len(raw(server, f'{GRAPHICS}{{UUID="GPU-0"}}', time.time())) == 0 and time.time() - begun < 30:
            time.sleep(0.1)
        time.sleep(SCRAPES)
        end = int(time.time())
        yield server, Window(end - SCRAPES, end, 1)
    finally:
        exporter.terminate()
        exporter.wait(10)


def raw(server: RunningPrometheus, selector: str, when: float) -> list[tuple[float, float]]:
    """The samples as the server keeps them."""
    query = urllib.parse.urlencode({"query": f"{selector}[60s]", "time": when})
    with urllib.request.urlopen(f"{server.url}/api/v1/query?{query}", timeout=10) as answer:
        found = json.load(answer)["data"]["result"]
    return [(float(when), float(value)) for series in found for when, value in series["values"]]


@pytest.fixture(scope="module")
def history(scraped: tuple[RunningPrometheus, Window]) -> History:
    server, window = scraped
    return read_all(Server(server.url), window, HistoryOptions())


def device(history: History, gpu: str) -> Device:
    (found,) = (d for d in history.telemetry.devices if d.uuid == f"GPU-{gpu}")
    return found


def test_statistics_of_a_scrape_each_second(scraped: tuple[RunningPrometheus, Window], history: History) -> None:
    server, window = scraped
    samples = raw(server, f'{GRAPHICS}{{UUID="GPU-0"}}', window.end)
    kept = joined([Made(GRAPHICS, {}, tuple(samples))], window.start, window.end, 1, 1.2)
    graphics = device(history, "0").series["graphics"]
    assert len(samples) >= SCRAPES - 1
    assert graphics.samples == len(kept)
    assert graphics.values is not None
    assert {f: getattr(graphics.values, f) for f in statistics(kept)} == pytest.approx(statistics(kept))
    assert graphics.values.peak <= 1.1
    assert graphics.last == pytest.approx(samples[-1][0], abs=0.001)


def test_a_series_that_ends_is_stale_at_the_next_scrape(history: History) -> None:
    """Not after five minutes, and not at zero."""
    graphics = device(history, "1").series["graphics"]
    assert 2 <= graphics.samples <= 5
    assert graphics.values is not None
    assert graphics.values.low == graphics.values.peak == 0.9
    assert "GPU-1" not in {row.identity.uuid for row in history.rows}


def test_holders_whatever_the_scrape_does_with_labels(history: History) -> None:
    assert str(device(history, "0").owner) == "ml/train-0"
    assert device(history, "2").owner is None
    assert device(history, "2").exporter_pod == "nvidia-dcgm-exporter-abc"
    assert device(history, "0").series["used"].values is not None
    assert history.telemetry.partial == ()
