"""Replays answers over HTTP: documented ones of servers that cannot run here, and faults."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Form = Mapping[str, list[str]]


@dataclass
class Reply:
    """``drip_seconds``: a pause before each byte of the body; ``is_cut``: ends in the middle of the body."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    drip_seconds: float = 0.0
    is_cut: bool = False
    kind: str = "application/json"

    @property
    def content(self) -> bytes:
        return self.body.encode() if isinstance(self.body, str) else json.dumps(self.body).encode()


@dataclass
class Asked:
    path: str
    form: Form
    headers: Mapping[str, str]


Answering = Callable[[Asked], Reply]


@contextmanager
def stand_in(answer: Answering) -> Iterator[tuple[str, list[Asked]]]:
    """The address, and what was asked so far."""
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._reply(urlsplit(self.path).query)

        def do_POST(self) -> None:
            self._reply(self.rfile.read(int(self.headers["Content-Length"])).decode())

        def _reply(self, form: str) -> None:
            question = Asked(urlsplit(self.path).path, parse_qs(form), dict(self.headers))
            asked.append(question)
            reply = answer(question)
            content = reply.content
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.kind)
            self.send_header("Content-Length", str(len(content)))
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self._send(content[: len(content) // 2] if reply.is_cut else content, reply.drip_seconds)

        def _send(self, content: bytes, drip_seconds: float) -> None:
            try:
                for at in range(0, len(content), 1 if drip_seconds else len(content)):
                    time.sleep(drip_seconds)
                    self.wfile.write(content[at:] if not drip_seconds else content[at : at + 1])
            except OSError:
                pass  # the client has gone, as it should

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def vector(*rows: tuple[Mapping[str, str], float | str]) -> dict[str, Any]:
    """A good answer to a query."""
    result = [{"metric": dict(labels), "value": [1700000000, str(value)]} for labels, value in rows]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


def listed(*items: Any) -> dict[str, Any]:
    """A good answer to a question for series or label values."""
    return {"status": "success", "data": list(items)}


GRAPHICS, USED = "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_FB_USED"
GPU = {"UUID": "GPU-1", "gpu": "0", "Hostname": "node-a", "GPU_I_ID": "1", "GPU_I_PROFILE": "1g.10gb"}
HELD = {**GPU, "namespace": "ml", "pod": "train-0"}
_ONE = {"avg": 0.5, "quantile": 0.5, "max_over": 0.75, "stddev": 0.1, "count_over": 60, "changes": 59}


def one_instance(asked: Asked, families: tuple[str, ...] = (GRAPHICS, USED)) -> Reply:
    """A healthy server with one GPU instance."""
    if asked.path.endswith("/buildinfo"):
        return Reply({"status": "success", "data": {"version": "2.42.0"}})
    if asked.path.endswith("/values"):
        return Reply(listed(*families))
    if asked.path.endswith("/series"):
        match = asked.form["match[]"][0]
        return Reply(listed(*({"__name__": name, **HELD} for name in families if name in match)))
    query = asked.form["query"][0]
    if "DCGM" not in query:
        return Reply(vector())
    if query.startswith("{"):
        return Reply(vector(*(({"__name__": name, **HELD}, 0.5) for name in families if name in query)))
    value = next((number for name, number in _ONE.items() if query.startswith(name)), _ONE["max_over"])
    labels = {name: HELD[name] for name in ("UUID", "GPU_I_ID", "GPU_I_PROFILE", "namespace", "pod")}
    return Reply(vector((labels, value)))
