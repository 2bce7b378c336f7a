"""The memory of a reader does not follow the number of devices, nor do readings get lost on the way to the disk."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from stand_in import GRAPHICS, USED, Asked, Reply, listed, stand_in, vector

from migsaw.errors import MigsawError
from migsaw.model.telemetry import Window
from migsaw.observe.history import HistoryOptions, Server, read_all

PER_GPU = 7
DEVICE_LABELS = ("UUID", "GPU_I_ID", "GPU_I_PROFILE", "namespace", "pod")
WINDOW = Window(1_700_000_000, 1_700_003_600, 60)
READER = """
import json, pathlib, re, sys
from migsaw.model.telemetry import Window
from migsaw.observe.history import HistoryOptions, Server, read_all

history = read_all(Server(sys.argv[1]), Window(1_700_000_000, 1_700_003_600, 60), HistoryOptions())
found = {
    "peaks": sum(device.series["graphics"].values.peak for device in history.each_device()),
    "rows": sum(1 for _ in history.each_row()),
    "kib": int(re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1]),
}
print(json.dumps(found))
"""


def labels_of(number: int) -> dict[str, str]:
    gpu, instance = divmod(number, PER_GPU)
    return {
        "gpu": str(gpu % 8),
        "UUID": f"GPU-{gpu:036d}",
        "GPU_I_PROFILE": "1g.10gb",
        "GPU_I_ID": str(7 + instance),
        "Hostname": f"aks-gpu-12345678-vmss{gpu // 8:06d}",
        "namespace": "ml",
        "pod": f"worker-of-some-job-{number}",
    }


def value_of(number: int) -> float:
    return number % 1000 / 1000


class Cluster:
    """A server with the same two signals of many instances."""

    def __init__(self, gpus: int) -> None:
        self.labels = [labels_of(number) for number in range(gpus * PER_GPU)]

    def __call__(self, asked: Asked) -> Reply:
        if asked.path.endswith("/values"):
            return Reply(listed(GRAPHICS, USED))
        text = str(asked.form)
        names = [name for name in (GRAPHICS, USED) if name in text]
        if asked.path.endswith("/series"):
            return Reply(listed(*({"__name__": name, **mine} for name in names for mine in self.labels)))
        if not names:
            return Reply(vector())
        if asked.form["query"][0].startswith("{"):
            return Reply(vector(*self._rows({"__name__": names[0]}, tuple(self.labels[0]))))
        return Reply(vector(*self._rows({}, DEVICE_LABELS)))

    def _rows(self, more: Mapping[str, str], shown: tuple[str, ...]) -> list[tuple[Mapping[str, str], float]]:
        each = enumerate(self.labels)
        return [({**more, **{name: mine[name] for name in shown}}, value_of(n)) for n, mine in each]


def read_apart(gpus: int) -> dict[str, float]:
    """In a process of its own, whose memory is its own."""
    with stand_in(Cluster(gpus)) as (url, _):
        ended = subprocess.run([sys.executable, "-c", READER, url], check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(ended.stdout)
    return found


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is told by Linux only")
def test_three_times_the_devices_need_hardly_more_memory() -> None:
    """As Python objects 2,800 more devices with two signals were 11 MiB."""
    few, many = read_apart(200), read_apart(600)
    for gpus, found in ((200, few), (600, many)):
        assert found["peaks"] == pytest.approx(sum(map(value_of, range(gpus * PER_GPU))))
        assert found["rows"] == gpus * PER_GPU
    assert many["kib"] - few["kib"] < 4096


def test_a_disk_without_room_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("migsaw.observe.shelf.PRAGMAS", ("cache_size = -64", "max_page_count = 64"))
    with stand_in(Cluster(100)) as (url, _), pytest.raises(MigsawError) as raised:
        read_all(Server(url), WINDOW, HistoryOptions())
    assert "disk" in raised.value.message
    assert "SQLITE_TMPDIR" in (raised.value.hint or "")
