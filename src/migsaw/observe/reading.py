"""Bytes of a file → plain data, within limits and with places.

JSON and YAML only become dicts, lists, strings, numbers, booleans and None. It must not know what the data means.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from migsaw.errors import InputError, Where

MAX_BYTES = 256 * 1024 * 1024
MAX_NODES = 5_000_000  # of a YAML document with its aliases written out

Place = Sequence[str | int]


@dataclass(frozen=True, slots=True)
class Document:
    """Data of one file. ``exact`` numbers are :class:`decimal.Decimal`."""

    file: str
    text: str
    data: Any
    is_json: bool

    def where(self, place: Place) -> Where:
        """The place of a value: a line in YAML, a JSON path in JSON; the field is the last name on the way."""
        field = next((str(step) for step in reversed(place) if isinstance(step, str)), None)
        shown = json_path(place) if self.is_json else _yaml_line(self.text, place)
        return Where(self.file, shown, field)


def json_path(place: Place) -> str:
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)


def read_bytes(path: Path, limit: int = MAX_BYTES) -> bytes:
    """The file's bytes; a clear error where it cannot be read or exceeds the limit."""
    try:
        size = path.stat().st_size
        if size > limit:
            raise InputError(
                f"{size / 2**20:.0f} MiB, the limit is {limit / 2**20:.0f} MiB",
                where=Where(str(path)),
                hint="give fewer objects in one file; options can be repeated",
            )
        return path.read_bytes()
    except OSError as problem:
        raise InputError(f"cannot be read: {problem.strerror}", where=Where(str(path))) from None


def decode(content: bytes, file: str) -> str:
    check_encoding(content, file)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = content[: problem.start].count(b"\n") + 1
        message = f"not UTF-8 at byte {problem.start}"
        raise InputError(message, where=Where(file, str(line)), hint="save the file as UTF-8") from None


def check_encoding(head: bytes, file: str) -> None:
    """Refuses what Windows PowerShell's ``>`` writes, by its first two bytes."""
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        hint = "save the file as UTF-8: in PowerShell `… | Out-File -Encoding utf8 FILE`"
        raise InputError("UTF-16, not UTF-8", where=Where(file, "1"), hint=hint)


def read_document(path: Path, *, exact: bool = False) -> Document:
    """One JSON or YAML document, chosen by extension, else by its first sign."""
    return parse_document(decode(read_bytes(path), str(path)), path, exact=exact)


def parse_document(text: str, path: Path, *, exact: bool = False) -> Document:
    is_json = path.suffix == ".json" or (path.suffix not in (".yaml", ".yml") and text.lstrip()[:1] in ("{", "["))
    data = parse_json(text, str(path), exact=exact) if is_json else parse_yaml(text, str(path), exact=exact)
    return Document(str(path), text, data, is_json)


def parse_json(text: str, file: str, *, exact: bool = False) -> Any:
    def refuse(constant: str) -> Any:
        raise InputError(f"{constant} is no JSON number", where=Where(file))

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"{twice[:80]!r} stands twice in one object", where=Where(file))
        return found

    if not text.strip():
        raise InputError("the file is empty", where=Where(file, "1"))
    try:
        return json.loads(text, parse_float=Decimal if exact else float, parse_constant=refuse, object_pairs_hook=once)
    except RecursionError:
        raise InputError("nested too deeply", where=Where(file)) from None
    except json.JSONDecodeError as problem:
        hint = (
            "the file seems to be cut off" if problem.pos >= len(text.rstrip()) else "check the sign before this place"
        )
        message = f"not JSON: {problem.msg} (column {problem.colno})"
        raise InputError(message, where=Where(file, str(problem.lineno)), hint=hint) from None


def parse_yaml(text: str, file: str, *, exact: bool = False) -> Any:
    """The single document of a YAML text; see :func:`parse_yaml_all`."""
    documents = parse_yaml_all(text, file, exact=exact)
    if not documents:
        raise InputError("the file is empty", where=Where(file, "1"))
    if len(documents) > 1:
        raise InputError(f"{len(documents)} documents, one is expected", where=Where(file))
    return documents[0]


def parse_yaml_all(text: str, file: str, *, exact: bool = False) -> list[Any]:
    """All documents. Aliases are allowed as long as the written-out document stays within ``MAX_NODES``."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    yaml = YAML(typ="safe", pure=True)
    if exact:
        yaml.constructor.add_constructor("tag:yaml.org,2002:float", _decimal)
    try:
        documents = [data for data in yaml.load_all(text) if data is not None]
    except MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        line = None if mark is None else str(mark.line + 1)
        raise InputError(f"not YAML: {problem.problem or problem.context}", where=Where(file, line)) from None
    except (YAMLError, ValueError, RecursionError) as problem:
        place = getattr(problem, "position", None)  # of a sign that YAML does not allow
        line = None if place is None else str(text.count("\n", 0, place) + 1)
        said = str(problem).splitlines()[0] if str(problem) else "nested too deeply"
        raise InputError(f"not YAML: {said}", where=Where(file, line)) from None
    for data in documents:
        if _written_out(data, {}) > MAX_NODES:
            raise InputError("aliases expand to too many values", where=Where(file), hint="write the values out")
    return documents


def _decimal(loader: Any, node: Any) -> Any:
    try:
        return Decimal(loader.construct_scalar(node).replace("_", ""))
    except ArithmeticError:
        return loader.construct_yaml_float(node)


def _written_out(data: Any, seen: dict[int, int]) -> int:
    """How many values the data has with every alias written out."""
    if not isinstance(data, (dict, list)):
        return 1
    if id(data) not in seen:
        seen[id(data)] = MAX_NODES + 1  # a value that contains itself has no end
        items = data.values() if isinstance(data, dict) else data
        seen[id(data)] = 1 + sum(_written_out(item, seen) for item in items)
    return seen[id(data)]


def _yaml_line(text: str, place: Place) -> str | None:
    """The line of a value in a YAML text; of the nearest value around it where it is missing."""
    from ruamel.yaml import YAML, MappingNode, SequenceNode

    node = YAML(typ="safe", pure=True).compose(text)
    line = None if node is None else node.start_mark.line
    for step in place:
        if isinstance(node, MappingNode):
            pair = next(((k, v) for k, v in node.value if str(k.value) == str(step)), None)
            if pair is None:
                break
            line, node = pair[0].start_mark.line, pair[1]
        elif isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
            line = node.start_mark.line
        else:
            break
    return None if line is None else str(line + 1)
