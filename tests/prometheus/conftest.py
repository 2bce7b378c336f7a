"""A real Prometheus for tests: Debian's package, on loopback, in a folder of its own, ended by its process id."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

NO_SCRAPE = "global: {scrape_interval: 1h}\n"


@dataclass
class RunningPrometheus:
    url: str
    process: subprocess.Popen[bytes]

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(30)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)

    def requests(self, handler: str) -> int:
        """How many requests of ``/api/v1/…`` it has answered, by its own count."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        pattern = rf'prometheus_http_requests_total{{code="\d+",handler="{re.escape(handler)}"}} (\S+)'
        return sum(int(float(number)) for number in re.findall(pattern, text))


def free_port() -> int:
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="session")
def start_prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., RunningPrometheus]]:
    """``start(data, config, *options)`` → a server that answers. All are ended with the session."""
    if not (shutil.which("prometheus") and shutil.which("promtool")):
        pytest.skip("no Prometheus is installed here (Debian: apt install prometheus)")
    started: list[RunningPrometheus] = []

    def start(data: Path, config: str = NO_SCRAPE, *options: str) -> RunningPrometheus:
        folder = tmp_path_factory.mktemp("prometheus")
        (folder / "prometheus.yml").write_text(config)
        port = free_port()
        command = [
            "prometheus",
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={data}",
            "--storage.tsdb.retention.time=100y",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=error",
            *options,
        ]
        server = RunningPrometheus(f"http://127.0.0.1:{port}", subprocess.Popen(command))
        started.append(server)
        _wait_for(server)
        return server

    yield start
    for server in started:
        if server.process.poll() is None:
            server.end()


def _wait_for(server: RunningPrometheus) -> None:
    for _ in range(600):
        assert server.process.poll() is None, "Prometheus ended at its start"
        try:
            with urllib.request.urlopen(f"{server.url}/-/ready", timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("Prometheus does not get ready")
