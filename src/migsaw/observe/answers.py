"""An answer of Prometheus' HTTP API, row by row, within a number of bytes and seconds.

Whole answers of 35,000 series are never held: a row is given away before the next is read. It must not know what was
asked, nor how bytes come.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from migsaw.observe.jsonstream import JsonStream

_CHUNK = 1 << 18


class TooLarge(Exception):
    """More bytes than the question can have as its answer."""


class Source(Protocol):
    def read1(self, size: int = ..., /) -> bytes: ...


class Bounded:
    """Bytes of ``source`` as they come, at most ``limit`` of them, none after ``deadline`` (of ``clock``).

    Raises :class:`TooLarge` and :class:`TimeoutError`.
    """

    def __init__(
        self, source: Source, limit: int, deadline: float = math.inf, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._source, self._left, self._deadline, self._clock = source, limit, deadline, clock

    def read(self, size: int) -> bytes:
        if self._clock() > self._deadline:
            raise TimeoutError
        chunk = self._source.read1(min(size, _CHUNK))
        self._left -= len(chunk)
        if self._left < 0:
            raise TooLarge
        return chunk


class AnswerStream(JsonStream):
    """``around`` holds what stands beside the rows (status, resultType, warnings, …), once these have been read."""

    def __init__(self, source: Bounded, name: str) -> None:
        super().__init__(source, name)  # type: ignore[arg-type]  # it only reads
        self.around: dict[str, Any] = {}

    def rows(self) -> Iterator[Any]:
        """The items of ``data`` (series, label values) or of ``data.result`` (queries).

        Raises :class:`migsaw.errors.InputError` where the text is no JSON object.
        """
        self._take("{")
        is_first = True
        while self._peek() != "}":
            if not is_first:
                self._take(",")
            is_first = False
            key = self._value()
            self._take(":")
            sign = self._peek()
            if key in ("data", "result") and sign == "[":
                for item in self._list("$"):
                    yield item.data
            elif key == "data" and sign == "{":
                yield from self.rows()
            else:
                self.around[str(key)] = self._value()
        self._take("}")

    @property
    def is_cut_off(self) -> bool:
        return self._is_end
