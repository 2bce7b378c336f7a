"""``workload.yaml`` → :class:`TrialSpec`: what the words must mean together, each fault with its place and a hint."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from migsaw.errors import InputError
from migsaw.model.boards import Board, Catalogue
from migsaw.model.measurement import IDENTITY
from migsaw.model.trial import TrialSpec
from migsaw.observe import documents
from migsaw.observe.prometheus import check_url
from migsaw.observe.reading import Document, Place, read_document

WAYS = ("regex", "json_lines", "prometheus", "mlflow")


def read_spec(path: Path, catalogue: Catalogue) -> tuple[TrialSpec, Board]:
    """The spec with the board's and the profiles' names as the catalogue has them. Raises :class:`InputError`."""
    document = read_document(path)
    spec = documents.parse(document, TrialSpec)
    _check_command(spec, document)
    _check_read(spec, document)
    _check_numbers(spec, document)
    board = catalogue.find(spec.board)
    if board is None:
        raise _fault(document, ["board"], f"unknown board {spec.board}", "`migsaw boards` lists them")
    return replace(spec, board=board.key, profiles=_profiles(spec, board, document)), board


def digest(spec: TrialSpec) -> str:
    """What makes two trials of one workload the same trial, whatever slots and limits are asked for."""
    plain = documents.plain(spec)
    kept = {key: plain[key] for key in ("command", "image", "env", "read", "task", "warm_up", "steady", "unit")}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]


def _fault(document: Document, place: Place, message: str, hint: str | None = None) -> InputError:
    return InputError(message, where=document.where(place), hint=hint)


def _check_command(spec: TrialSpec, document: Document) -> None:
    if not spec.name.strip():
        raise _fault(document, ["name"], "the name is empty")
    if not spec.command or not spec.command[0]:
        raise _fault(document, ["command"], "the command is empty", "a list of words: [python, train.py]")
    if any("\0" in word for word in (*spec.command, *spec.env, *spec.env.values())):
        raise _fault(document, ["command"], "a word holds the sign NUL")
    if bad := sorted(name for name in spec.env if not name or "=" in name):
        raise _fault(document, ["env", bad[0]], f"{bad[0]!r} is no name of a variable")
    if unknown := sorted(set(spec.workload) - set(IDENTITY)):
        hint = f"what a workload is known by: {', '.join(IDENTITY)}"
        raise _fault(document, ["workload", unknown[0]], f"{unknown[0]} is no fact of identity", hint)


def _check_read(spec: TrialSpec, document: Document) -> None:
    given = [way for way in WAYS if getattr(spec.read, way) is not None]
    if len(given) != 1:
        said = f"{len(given)} ways to read the throughput" if given else "no way to read the throughput"
        raise _fault(document, ["read"], said, f"exactly one of {', '.join(WAYS)}")
    if (regex := spec.read.regex) is not None:
        _check_pattern(regex.pattern, ["read", "regex", "pattern"], document)
        if regex.input_wait is not None:
            _check_pattern(regex.input_wait, ["read", "regex", "input_wait"], document)
    if (lines := spec.read.json_lines) is not None and spec.processes > 1 and "{process}" not in lines.file:
        hint = "write {process} into the name: log-{process}.jsonl"
        raise _fault(document, ["read", "json_lines", "file"], "several processes would write one file", hint)
    if (asked := spec.read.prometheus) is not None:
        try:
            check_url(asked.url)
        except InputError as problem:
            raise _fault(document, ["read", "prometheus", "url"], problem.message, problem.hint) from None
    if spec.read.mlflow is not None and spec.processes > 1:
        raise _fault(document, ["processes"], "one MLflow run cannot tell processes apart", "processes: 1")


def _check_pattern(pattern: str, place: Place, document: Document) -> None:
    try:
        groups = re.compile(pattern).groups
    except (re.error, RecursionError, OverflowError) as problem:
        raise _fault(document, place, f"no regular expression: {problem}") from None
    if groups != 1:
        hint = r"put the number in parentheses: 'throughput: ([0-9.]+)'; (?:…) groups without counting"
        raise _fault(document, place, f"{groups} groups, one is expected", hint)


def _check_numbers(spec: TrialSpec, document: Document) -> None:
    positive: list[tuple[list[str], float | None]] = [
        (["batch"], spec.batch),
        (["processes"], spec.processes),
        (["steady", "relative_half_width"], spec.steady.relative_half_width),
        (["steady", "at_least_values"], spec.steady.at_least_values),
        (["steady", "at_most_seconds"], spec.steady.at_most_seconds),
        (["steady", "start_within_seconds"], spec.steady.start_within_seconds),
        (["limit", "latency_ms"], spec.limit.latency_ms),
        (["limit", "throughput_per_second"], spec.limit.throughput_per_second),
    ]
    for way, reading in (("prometheus", spec.read.prometheus), ("mlflow", spec.read.mlflow)):
        if reading is not None:
            positive.append((["read", way, "every_seconds"], reading.every_seconds))
    for place, value in positive:
        if value is not None and not 0 < value < math.inf:
            raise _fault(document, place, f"{value} is not a positive number")
    least: list[tuple[list[str], float]] = [
        (["warm_up", "seconds"], spec.warm_up.seconds),
        (["steady", "at_least_seconds"], spec.steady.at_least_seconds),
    ]
    for place, value in least:
        if not 0 <= value < spec.steady.at_most_seconds:
            hint = f"less than steady.at_most_seconds, which is {spec.steady.at_most_seconds:g}"
            raise _fault(document, place, f"{value:g} is negative or leaves no time to measure", hint)
    if spec.warm_up.values < 0:
        raise _fault(document, ["warm_up", "values"], f"{spec.warm_up.values} is negative")
    if spec.limit.latency_ms is not None and spec.limit.throughput_per_second is not None:
        raise _fault(document, ["limit"], "two limits", "either latency_ms or throughput_per_second")
    if spec.limit.latency_ms is not None and spec.batch is None:
        raise _fault(document, ["limit", "latency_ms"], "a latency is of a batch", "say `batch:` too")


def _profiles(spec: TrialSpec, board: Board, document: Document) -> tuple[str, ...] | None:
    if spec.profiles is None:
        return None
    names: list[str] = []
    for place, name in enumerate(spec.profiles):
        found = "off" if name == "off" else (profile.name if (profile := board.find(name)) else None)
        if found is None:
            hint = f"its profiles: {_listed([p.name for p in board.profiles])}; off: a whole GPU"
            raise _fault(document, ["profiles", place], f"{board.key} has no profile {name}", hint)
        names.append(found)
    if not names:
        raise _fault(document, ["profiles"], "no profile to try", "leave the line out to try any")
    return tuple(dict.fromkeys(names))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none known"
