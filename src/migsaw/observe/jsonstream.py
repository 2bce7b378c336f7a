"""JSON documents of any size, one list item at a time: `kubectl get pods -A -o json` of a large cluster.

Only the value under ``items`` of a top-level object, or the values of a top-level list, are given one by one; nothing
else is kept. It must not know what the items mean.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, NoReturn

from migsaw.errors import InputError, Where

CHUNK = 1 << 20
_WHITE = re.compile(r"[ \t\n\r]*")
MAX_ITEM = 64 << 20  # characters; no Kubernetes object comes near (etcd refuses 1.5 MiB)
_MAY_GO_ON = re.compile(r"[-+.\deE]*\Z")  # a number at the end of what was read so far
_NEAR_THE_END = 1 << 16  # an error this close to what was read so far may only mean that more must be read


@dataclass(frozen=True, slots=True)
class Item:
    """``path`` is its JSON path; ``around`` the ``kind`` of the list around it, where that stood before the items."""

    data: Any
    path: str
    around: str | None = None


class JsonStream:
    """Reads ahead only as far as one item needs."""

    def __init__(self, source: BinaryIO, file: str) -> None:
        self._source, self._file = source, file
        self._decoder = json.JSONDecoder(parse_constant=self._refuse_constant)
        self._bytes = codecs.getincrementaldecoder("utf-8-sig")()
        self._text, self._at, self._line, self._is_end = "", 0, 1, False

    def items(self) -> Iterator[Item]:
        """Of every document in the file: its items, or the document itself where it is no list.

        Raises :class:`InputError` with the line where the text is no JSON.
        """
        number = 0
        while self._peek():
            number += 1
            yield from self._document("$" if number == 1 else f"$({number})")
        if not number:
            raise InputError("the file is empty", where=Where(self._file, "1"))

    def _document(self, path: str) -> Iterator[Item]:
        if self._peek() == "[":
            yield from self._list(path)
        elif self._peek() == "{":
            yield from self._object(path)
        else:
            raise self._error("an object is expected")

    def _list(self, path: str, around: str | None = None) -> Iterator[Item]:
        self._take("[")
        index = 0
        while self._peek() != "]":
            if index:
                self._take(",")
            yield Item(self._value(), f"{path}[{index}]", around)
            index += 1
        self._take("]")

    def _object(self, path: str) -> Iterator[Item]:
        self._take("{")
        rest: dict[str, Any] = {}
        has_items = False
        while self._peek() != "}":
            if rest or has_items:
                self._take(",")
            key = self._value()
            self._take(":")
            if key == "items" and self._peek() == "[":
                has_items = True
                yield from self._list(f"{path}.items", _text(rest.get("kind")))
            elif isinstance(key, str):
                rest[key] = self._value()
            else:
                raise self._error("a name in double quotes is expected")
        self._take("}")
        if not has_items:
            yield Item(rest, path)

    def _value(self) -> Any:
        """The next value; reads more, doubling, while the text may only be incomplete."""
        self._peek()
        more = CHUNK
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as problem:
                self._read_on_or_fail(problem, more)
                more *= 2
                continue
            except RecursionError:
                raise self._error("nested too deeply") from None
            if not self._is_end and _MAY_GO_ON.match(self._text, end):
                self._read(CHUNK)
                continue
            self._at = end
            return value

    def _read_on_or_fail(self, problem: json.JSONDecodeError, more: int) -> None:
        waiting = len(self._text) - self._at
        open_string = problem.msg.startswith("Unterminated string")
        cannot_heal = problem.pos < len(self._text) - _NEAR_THE_END and not open_string
        if self._is_end or cannot_heal:
            cut_off = open_string or problem.pos >= len(self._text.rstrip())
            self._at = len(self._text) if cut_off else problem.pos
            raise self._error(f"not JSON: {problem.msg}")
        if waiting > MAX_ITEM:
            raise self._error(f"one value is longer than {MAX_ITEM >> 20} MiB")
        self._read(more)

    def _peek(self) -> str:
        """The next sign that is no white space; empty at the end of the file."""
        while True:
            white = _WHITE.match(self._text, self._at)
            self._at = white.end() if white else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if self._is_end:
                return ""
            self._read(CHUNK)

    def _take(self, sign: str) -> None:
        if self._peek() != sign:
            raise self._error(f"{sign!r} is expected")
        self._at += 1

    def _read(self, size: int) -> None:
        """Forgets what was read and appends ``size`` bytes more."""
        self._line += self._text.count("\n", 0, self._at)
        chunk = self._source.read(size)
        self._is_end = not chunk
        try:
            self._text = self._text[self._at :] + self._bytes.decode(chunk, final=self._is_end)
        except UnicodeDecodeError:
            raise self._error("not UTF-8", hint="save the file as UTF-8") from None
        self._at = 0

    def _error(self, message: str, *, hint: str | None = None) -> InputError:
        line = self._line + self._text.count("\n", 0, self._at)
        cut_off = self._is_end and not self._text[self._at :].strip()
        hint = hint or ("the file seems to be cut off" if cut_off else "check the sign before this place")
        return InputError(message, where=Where(self._file, str(line)), hint=hint)

    def _refuse_constant(self, constant: str) -> NoReturn:
        raise self._error(f"{constant} is no JSON number")


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def is_json_start(head: bytes) -> bool:
    """Whether a file that begins so is read as JSON."""
    return bool(re.match(rb"(\xef\xbb\xbf)?\s*[{\[]", head))
