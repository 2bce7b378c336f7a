"""A real Prometheus for tests: Debian's package, on loopback, in a folder of its own, ended by its process id."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from running import RunningPrometheus, free_port, wait_for

NO_SCRAPE = "global: {scrape_interval: 1h}\n"


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
        wait_for(server)
        return server

    yield start
    for server in started:
        if server.process.poll() is None:
            server.end()
