"""Plain data → YAML text, byte for byte the same for the same data.

The writer exists for what a general dumper does not give: device lists on one line and files inside a ConfigMap as
readable blocks. It knows no document and no target; a test reads its output back with a real YAML reader.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

# Words that every YAML reader takes for a string. Names such as 1g.10gb are quoted: some readers try numbers first.
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_RESERVED = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


def documents(items: Sequence[Mapping[str, Any]]) -> str:
    return "---\n".join(to_yaml(item) for item in items)


def to_yaml(data: Mapping[str, Any]) -> str:
    """One document of strings, whole numbers, booleans, None, lists and mappings. Keys keep their order."""
    return "".join(f"{line}\n" for line in _mapping(data))


def _mapping(data: Mapping[str, Any]) -> list[str]:
    return [line for key, value in data.items() for line in _entry(f"{_scalar(str(key))}:", value)]


def _entry(head: str, value: Any) -> list[str]:
    if isinstance(value, Mapping) and value:
        return [head, *_indented(_mapping(value))]
    if isinstance(value, (list, tuple)) and any(isinstance(item, Mapping) and item for item in value):
        return [head, *_indented(line for item in value for line in _item(item))]
    if isinstance(value, str) and _is_block(value):
        return [f"{head} |", *_indented(value[:-1].split("\n"))]
    return [f"{head} {_flow(value)}"]


def _item(item: Any) -> list[str]:
    lines = _mapping(item) if isinstance(item, Mapping) and item else [_flow(item)]
    return [f"- {lines[0]}", *_indented(lines[1:])]


def _indented(lines: Any) -> list[str]:
    return [f"  {line}" if line else "" for line in lines]


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(str(key))}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    return _scalar(value)


def _scalar(value: str | int | None) -> str:
    if isinstance(value, str):
        is_plain = _PLAIN.fullmatch(value) and value.lower() not in _RESERVED
        return value if is_plain else '"' + "".join(_escaped(c) for c in value) + '"'
    return "null" if value is None else str(value).lower()  # True and False too


def _escaped(c: str) -> str:
    if c in '"\\':
        return f"\\{c}"
    return c if c.isprintable() else f"\\U{ord(c):08x}"


def _is_block(text: str) -> bool:
    """A text of lines that a literal block holds unchanged: printable ASCII, no blank at its begin, one line end."""
    lines = text.split("\n")
    is_plain = all(line.isascii() and (line.isprintable() or not line) for line in lines)
    return len(lines) > 2 and is_plain and lines[-1] == "" and lines[-2] != "" and not text.startswith((" ", "\n"))
