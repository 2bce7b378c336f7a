"""The text that an exporter serves now, over HTTP: nothing is concluded from it here."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from urllib.parse import urlsplit, urlunsplit

from migsaw.errors import InputError, MigsawError, Where

MOST_BYTES = 32 << 20  # of one answer
TIMEOUT_SECONDS = 5.0


def fetch(url: str) -> str:
    """Raises :class:`InputError` where this is no address, :class:`MigsawError` where nothing usable answers."""
    where = Where(shown(url))
    if not _is_address(url):
        raise InputError("no address of an exporter", where=where, hint="such as http://127.0.0.1:9400/metrics")
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:
            content = answer.read(MOST_BYTES + 1)
    except urllib.error.HTTPError as problem:
        problem.close()
        raise MigsawError(f"the exporter says {problem.code}", where=where, hint="is /metrics its path?") from None
    except (OSError, http.client.HTTPException) as problem:
        raise MigsawError(f"no exporter answers: {problem}", where=where, hint="`curl` it from this machine") from None
    if len(content) > MOST_BYTES:
        raise MigsawError(f"more than {MOST_BYTES >> 20} MiB of metrics", where=where)
    return str(content, "utf-8", "replace")


def shown(url: str) -> str:
    """The address without user, password and query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
