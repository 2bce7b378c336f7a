"""A running Prometheus, and what it says of itself."""

from __future__ import annotations

import re
import socket
import subprocess
import time
import urllib.request
from contextlib import closing
from dataclasses import dataclass


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


def wait_for(server: RunningPrometheus) -> None:
    for _ in range(600):
        assert server.process.poll() is None, "Prometheus ended at its start"
        try:
            with urllib.request.urlopen(f"{server.url}/-/ready", timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("Prometheus does not get ready")
