"""An exporter of its own process: each scrape is answered with the next frame of a recording.

``python exporter_process.py PORT RECORDING.json``. The recording: a list of [family, labels, values], a value for each
scrape, null where the series is not there; after the last one it stays.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any


def frame(recording: list[Any], number: int) -> str:
    lines = []
    for family, labels, values in recording:
        value = values[min(number, len(values) - 1)]
        if value is not None:
            shown = ",".join(f'{key}="{text}"' for key, text in labels.items())
            lines.append(f"{family}{{{shown}}} {value}\n")
    return "".join(lines)


def serve(port: int, recording: list[Any]) -> None:
    scrapes = 0

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            nonlocal scrapes
            content = frame(recording, scrapes).encode()
            scrapes += 1
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    HTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    serve(int(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text()))
