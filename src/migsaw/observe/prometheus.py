"""Questions to a Prometheus-compatible server: time-outs, retries with back-off, answers read as a stream.

Prometheus, Thanos, Mimir, VictoriaMetrics and Azure Monitor managed Prometheus answer alike; where they differ (partial
answers, limits, missing addresses) it is told here. What is asked, and what rows mean, it must not know.

Sources: prometheus.io "HTTP API"; Thanos "Query", partial responses; VictoriaMetrics "Cluster version", isPartial.
"""

from __future__ import annotations

import base64
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, Generic, TypeVar
from urllib.parse import unquote, urlencode, urlsplit, urlunsplit

from migsaw.errors import InputError, MigsawError, Where
from migsaw.observe import azure_monitor
from migsaw.observe.answers import AnswerStream, Bounded, TooLarge

T = TypeVar("T")
MOST_BYTES = 512 << 20  # of a list of series; nothing of it is kept as it comes
_RETRY = {408, 429, 500, 502, 503, 504}
_LONGEST_WAIT = 60.0
_ERROR_BYTES = 1 << 16
_SMALLER = "give a shorter --window, a larger --step or fewer --samples-per-query"
_API_HINT = "give the address before /api/v1, such as http://prometheus.monitoring:9090"


@dataclass(frozen=True, slots=True)
class Server:
    """``url`` up to, not including, ``/api/v1``; ``headers`` is asked before each request (tokens end)."""

    url: str
    headers: Callable[[], Mapping[str, str]] | None = field(default=None, repr=False)
    timeout_seconds: float = 120.0  # of one request, from its first byte to the last

    @property
    def shown(self) -> str:
        """The address without what must not be shown: user, password, query."""
        return _address(self.url)

    @property
    def is_managed(self) -> bool:
        return azure_monitor.is_managed(self.url)


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """``rows``: what was made of them."""

    rows: T
    warnings: tuple[str, ...] = ()  # the server's words where its answer is not whole
    around: Mapping[str, Any] = field(default_factory=dict)  # what stands beside the rows


class QueryError(MigsawError):
    """A question without an answer. ``is_gone``: nothing answers any more; ``status``: what HTTP said."""

    def __init__(
        self, message: str, *, where: Where, hint: str | None, is_gone: bool = False, status: int | None = None
    ) -> None:
        super().__init__(message, where=where, hint=hint)
        self.is_gone, self.status = is_gone, status


class _Retry(Exception):
    def __init__(self, error: QueryError, after_seconds: float | None = None) -> None:
        super().__init__(str(error))
        self.error, self.after_seconds = error, after_seconds


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the token to another host, and turn POST into GET."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Client:
    """One request at a time. ``pause_seconds`` between requests spares a weak server."""

    def __init__(
        self,
        server: Server,
        *,
        retries: int = 3,
        backoff_seconds: float = 1.0,
        pause_seconds: float = 0.0,
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        self.server, self._where = server, Where(server.shown)
        self._retries, self._backoff, self._pause, self._sleep = (
            retries,
            backoff_seconds,
            pause_seconds,
            sleep or time.sleep,
        )
        self._open = urllib.request.build_opener(_NoRedirect).open
        self._has_asked = False

    def ask(
        self,
        path: str,
        form: Mapping[str, str | Sequence[str]],
        shrink: Callable[[Any], T],
        *,
        result: str | None = None,
        limit_bytes: int = MOST_BYTES,
        get: bool = False,
    ) -> Answer[list[T]]:
        """Rows of ``/api/v1/PATH``, each made small by ``shrink`` as it is read. Else as :meth:`fold`."""
        return self.fold(
            path, form, lambda rows: [shrink(row) for row in rows], result=result, limit_bytes=limit_bytes, get=get
        )

    def fold(
        self,
        path: str,
        form: Mapping[str, str | Sequence[str]],
        take: Callable[[Iterator[Any]], T],
        *,
        result: str | None = None,
        limit_bytes: int = MOST_BYTES,
        get: bool = False,
    ) -> Answer[T]:
        """What ``take`` makes of the rows of ``/api/v1/PATH``, each given as it is read.

        The rows end in an exception where the answer is not whole; then ``take`` may be called anew. ``result``: the
        resultType that is expected; ``get``: the address takes no POST. Raises :class:`QueryError` after the last
        retry, and :class:`MigsawError` where no token can be had.
        """
        if self._has_asked and self._pause:
            self._sleep(self._pause)
        self._has_asked = True
        begun = time.monotonic()
        for attempt in range(self._retries + 1):
            try:
                # made anew each time: a token may have ended while waiting
                request = self._request(path, urlencode(form, doseq=True), get)
                return self._once(request, take, result, limit_bytes)
            except _Retry as problem:
                # what took a whole time-out will take it again
                if attempt == self._retries or time.monotonic() - begun >= self.server.timeout_seconds:
                    raise problem.error from None
                after = problem.after_seconds
                wait = self._backoff * 2**attempt if after is None else after
                self._sleep(min(wait, _LONGEST_WAIT))
        raise AssertionError("the last attempt returns or raises")

    def _once(
        self, request: urllib.request.Request, take: Callable[[Iterator[Any]], T], result: str | None, limit: int
    ) -> Answer[T]:
        seconds = self.server.timeout_seconds
        deadline = time.monotonic() + seconds
        try:
            with self._open(request, timeout=seconds) as response:
                return self._read(response, limit, deadline, take, result)
        except urllib.error.HTTPError as problem:
            with problem:
                raise self._refusal(problem) from None
        except TooLarge:
            message = f"the answer is larger than the {_mib(limit)} that this question can need: it was left"
            raise self._error(message, _SMALLER) from None
        except (OSError, http.client.HTTPException) as problem:
            raise self._lost(problem) from None

    def _request(self, path: str, form: str, get: bool) -> urllib.request.Request:
        url, headers = _target(self.server.url)
        headers |= {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        headers |= self.server.headers() if self.server.headers else {}
        address, body = f"{url}/api/v1/{path}", None if get else form.encode()
        return urllib.request.Request(f"{address}?{form}" if get and form else address, data=body, headers=headers)

    def _read(
        self, response: Any, limit: int, deadline: float, take: Callable[[Iterator[Any]], T], result: str | None
    ) -> Answer[T]:
        stream = AnswerStream(Bounded(response, limit, deadline), self.server.shown)
        try:
            rows = take(self._checked(stream, result))
        except InputError as problem:
            if stream.is_cut_off and response.headers.get_content_type() == "application/json":
                raise _Retry(self._error("the answer was cut off", None)) from None
            raise self._error(f"the answer is no JSON ({problem.message})", _API_HINT) from None
        except (AttributeError, KeyError, TypeError, ValueError, IndexError):
            # a matrix where a vector was asked for, say: the row has another shape
            raise self._error(_wrong_shape(stream.around.get("resultType"), result), _API_HINT) from None
        around = stream.around
        # Prometheus 3 remarks on the question itself among its warnings
        warnings = [str(w) for w in around.get("warnings") or () if not str(w).startswith("PromQL info")]
        if around.get("isPartial") is True:
            warnings.append("some storage nodes did not answer (isPartial)")
        return Answer(rows, tuple(warnings), around)

    def _checked(self, stream: AnswerStream, result: str | None) -> Iterator[Any]:
        """The rows of an answer that says in the end that it is one."""
        yield from stream.rows()
        around = stream.around
        if around.get("status") != "success":
            raise self._error(
                str(around.get("error") or "the answer has no status: it is none of Prometheus"), _API_HINT
            )
        if result and around.get("resultType") != result:
            raise self._error(_wrong_shape(around.get("resultType"), result), _API_HINT)

    def _refusal(self, problem: urllib.error.HTTPError) -> Exception:
        said = _words(problem)
        status = problem.code
        if status in (401, 403):
            denied = azure_monitor.DENIED if self.server.is_managed else "give a token or password that may query"
            return self._error(f"the server refuses: {status} {said}", denied, status)
        if 300 <= status < 400:
            target = _address(problem.headers.get("Location") or "nowhere")
            return self._error(f"redirects to {target}, which is not followed", "give the address itself", status)
        asks_too_much = any(word in said.lower() for word in ("too many samples", "limit", "timed out", "exceed"))
        hint = _SMALLER if asks_too_much or status == 422 else _API_HINT if status == 404 else None
        error = self._error(f"{status} {said}", hint, status)
        return _Retry(error, _retry_after(problem.headers.get("Retry-After"))) if status in _RETRY else error

    def _lost(self, problem: OSError | http.client.HTTPException) -> Exception:
        reason = problem.reason if isinstance(problem, urllib.error.URLError) else problem
        if isinstance(reason, TimeoutError):
            message = f"no whole answer within {self.server.timeout_seconds:g} s"
            return _Retry(self._error(message, _SMALLER))
        words = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        hint = "is the address right, and does the server run? `kubectl port-forward` ends when its pod does"
        return _Retry(self._error(f"cannot be reached: {words}", hint, is_gone=True))

    def _error(self, message: str, hint: str | None, status: int | None = None, *, is_gone: bool = False) -> QueryError:
        return QueryError(message, where=self._where, hint=hint, status=status, is_gone=is_gone)


def check_url(url: str) -> None:
    """Raises :class:`InputError` where this is no address of a server."""
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        (parts.hostname or "").encode("idna")
    except ValueError:
        is_good = False
    if not (is_good and url.isascii() and url.isprintable()) or " " in url:
        where = Where(url.rpartition("@")[2])  # whatever stands before may be a password
        raise InputError("no address of a Prometheus server", where=where, hint=_API_HINT)


def _target(url: str) -> tuple[str, dict[str, str]]:
    """The address without user and query, and the header that says the user."""
    parts = urlsplit(url)
    headers = {}
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    path = parts.path.rstrip("/").removesuffix("/api/v1")
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], path, "", "")), headers


def _address(url: str) -> str:
    """Without user and query; of what is no address nothing."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an address that is none"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))


def _words(problem: urllib.error.HTTPError) -> str:
    """The server's own sentence where it gave one, on one line."""
    try:
        stream = AnswerStream(Bounded(problem, _ERROR_BYTES), "")
        for _ in stream.rows():
            pass
        said = stream.around.get("error") or stream.around.get("message")
    except (InputError, TooLarge, OSError, http.client.HTTPException):
        said = None
    return " ".join(str(said or problem.reason).split())[:500]


def _retry_after(said: str | None) -> float | None:
    """Seconds; the header holds seconds or a date."""
    if not said:
        return None
    if said.strip().isdecimal():
        return float(said)
    try:
        return max(0.0, parsedate_to_datetime(said).timestamp() - time.time())
    except ValueError:
        return None


def _wrong_shape(found: Any, wanted: str | None) -> str:
    return f"the answer is {f'a {found}' if found else 'of another shape'}, not {f'a {wanted}' if wanted else 'a list'}"


def _mib(size: int) -> str:
    return f"{size / 2**20:.0f} MiB"
