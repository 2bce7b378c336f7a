"""dcgm-exporter text of every generation → one row per GPU or GPU instance that an exporter shows.

A line that is no Prometheus text costs one note, not the file. Values that DCGM means as "blank" are dropped before
any arithmetic. Which node a row belongs to, and whether its owner is right, is not decided here.

Sources: dcgm-exporter's label names of 2020 to 2026 and its `etc/default-counters.csv`; blanks: `dcgm_structs.h`,
DCGM_INT32_BLANK, DCGM_INT64_BLANK, DCGM_FP64_BLANK; DCGM 4.6 renamed the `…_ACTIVE` fields to `…_UTIL_RATIO`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from migsaw.errors import InputError, Where
from migsaw.model.snapshot import Note
from migsaw.observe.reading import decode, read_bytes
from migsaw.observe.sniff import belongs_to

RATIOS = ("graphics", "sm", "tensor", "dram")
FIELDS = {
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": "graphics",
    "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO": "graphics",
    "DCGM_FI_PROF_SM_ACTIVE": "sm",
    "DCGM_FI_PROF_SM_UTIL_RATIO": "sm",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "tensor",
    "DCGM_FI_PROF_TENSOR_UTIL_RATIO": "tensor",
    "DCGM_FI_PROF_DRAM_ACTIVE": "dram",
    "DCGM_FI_PROF_DRAM_UTIL_RATIO": "dram",
    "DCGM_FI_DEV_FB_USED": "used",  # MiB
    "DCGM_FI_DEV_FB_FREE": "free",  # MiB
    "DCGM_FI_DEV_GPU_UTIL": "util",
    "DCGM_FI_DEV_GPU_UTIL_RATIO": "util",
    "dcgm_fb_used": "used",
    "dcgm_fb_free": "free",
    "dcgm_gpu_utilization": "util",
}
BLANK = 2_147_483_632.0  # the smallest blank; no ratio, percentage or MiB of a GPU comes near
NULLS = ("", "<<<NULL>>>", "N/A", "None")
MOST_OF_A_RATIO = 1.2  # DCGM normalises some slices a little above 1; what is far above is a wrapped counter

_NODE_LABELS = ("kubernetes_node", "node", "nodename", "node_name")
_HOST_LABELS = ("Hostname", "hostname", "host")
_OWNER_LABELS = (
    ("exported_namespace", "exported_pod"),
    ("pod_namespace", "pod_name"),
    ("namespace", "pod"),
)
_OTHER_DEVICES = {"nvswitch", "nvlink", "cpu", "cpucore"}  # DCGM watches these too
_EXPORTER_CONTAINERS = ("exporter", "dcgm-exporter", "nvidia-dcgm-exporter")
_EXPORTER_POD = re.compile(r"dcgm-exporter")
_BLOCK = re.compile(r"(?P<name>[A-Za-z_:][\w:]*)(?P<labels>\{.*\})(?P<rest>[^{}]*)")

Hint = tuple[str, str]  # ("node" | "host" | "pod" | "address", name): what tells where an exporter runs


@dataclass(frozen=True, slots=True)
class Identity:
    """Which GPU or instance a line is about, and who exported it. Never the parent UUID alone: slices share it."""

    hints: tuple[Hint, ...]
    index: int | None
    uuid: str | None
    gi_id: int | None


@dataclass(frozen=True, slots=True)
class Subject:
    """What the labels of a line say; they repeat from family to family."""

    identity: Identity
    model: str | None
    profile: str | None
    owner: tuple[str | None, str] | None  # (namespace, pod)
    owner_uid: str | None
    dra_device: str | None
    has_claim: bool
    is_other_device: bool


@dataclass(slots=True)
class Row:
    """All lines about one GPU or GPU instance. More than one model, profile or owner is a contradiction or sharing."""

    identity: Identity
    file: str
    line: int  # the first
    subjects: set[Subject] = field(default_factory=set)
    values: dict[str, float] = field(default_factory=dict)  # by the names of FIELDS, no blanks
    seconds: float | None = None  # Unix time of the sample, where the text has it

    @property
    def models(self) -> set[str]:
        return {s.model for s in self.subjects if s.model}

    @property
    def profiles(self) -> set[str]:
        return {s.profile for s in self.subjects if s.profile}

    @property
    def owners(self) -> set[tuple[str | None, str]]:
        return {s.owner for s in self.subjects if s.owner}

    @property
    def owner_uids(self) -> set[str]:
        return {s.owner_uid for s in self.subjects if s.owner_uid and not s.owner}

    @property
    def dra_devices(self) -> set[str]:
        return {s.dra_device for s in self.subjects if s.dra_device}

    @property
    def has_claims(self) -> bool:
        return any(s.has_claim for s in self.subjects)


def read_metrics(paths: Iterable[Path]) -> tuple[list[Row], list[Note]]:
    """Rows of all files, by identity. Raises :class:`InputError` for a file without a single series of DCGM."""
    rows: list[Row] = []
    notes: list[Note] = []
    for path in paths:
        found, more = parse_metrics(decode(read_bytes(path), str(path)), str(path))
        rows += found
        notes += more
    return rows, notes


def parse_metrics(content: str, file: str) -> tuple[list[Row], list[Note]]:
    _check_kind(content, file)
    rows: dict[Identity, Row] = {}
    notes: list[Note] = []
    for number, name, subject, value, seconds in _samples(content, file, notes):
        if not name.startswith("DCGM_") and name not in FIELDS:
            continue
        identity = subject.identity
        if identity.index is None and identity.uuid is None:
            if not subject.is_other_device:
                notes.append(Note("warning", f"{name} names no GPU: left out", file, f"line {number}"))
            continue
        if identity not in rows:
            rows[identity] = Row(identity, file, number)
        row = rows[identity]
        row.subjects.add(subject)
        if seconds is not None:
            row.seconds = max(seconds, row.seconds or seconds)
        _add_value(row, FIELDS.get(name), value, notes, number)
    if not rows:
        hint = "expected the text that `curl http://EXPORTER:9400/metrics` prints"
        raise InputError("no series of dcgm-exporter in this file", where=Where(file, "1"), hint=hint)
    for row in rows.values():
        if row.identity.gi_id is not None and not row.profiles:
            message = f"GPU instance {row.identity.gi_id} without a profile in GPU_I_PROFILE"
            notes.append(Note("warning", message, file, f"line {row.line}"))
    return list(rows.values()), _gather(notes)


def _check_kind(content: str, file: str) -> None:
    if not content.strip():
        raise InputError("the file is empty", where=Where(file, "1"))
    option = belongs_to(content)
    is_json = content.lstrip()[:1] in ("{", "[")
    if (option and option != "--metrics") or is_json:
        kind = "JSON" if is_json else "no Prometheus text"
        hint = f"give it to {option}" if option else "--metrics reads the exporter's text, not an answer of Prometheus"
        raise InputError(f"this is {kind}", where=Where(file, "1"), hint=hint)


def _samples(content: str, file: str, notes: list[Note]) -> Iterator[tuple[int, str, Subject, float, float | None]]:
    """(line, family, subject, value, Unix seconds). A block of labels that was seen before is not parsed again."""
    known: dict[str, Subject] = {}
    for number, line in enumerate(content.split("\n"), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        block = _BLOCK.fullmatch(line)
        try:
            if block and block["labels"] in known:
                value, seconds = _numbers(block["rest"])
                yield number, block["name"], known[block["labels"]], value, seconds
                continue
            for family in text_string_to_metric_families(line):
                for sample in family.samples:
                    subject = _subject(sample.labels)
                    if block:
                        known[block["labels"]] = subject
                    moment = None if sample.timestamp is None else float(sample.timestamp)
                    yield number, sample.name, subject, float(sample.value), moment
        except (ValueError, IndexError, KeyError):
            notes.append(Note("warning", "no Prometheus text: this line is left out", file, f"line {number}"))


def _numbers(rest: str) -> tuple[float, float | None]:
    """``1410`` or ``1410 1764547200000``: a value and its time in milliseconds."""
    parts = rest.split()
    if len(parts) not in (1, 2):
        raise ValueError(rest)
    return float(parts[0]), float(parts[1]) / 1000 if len(parts) == 2 else None


def _subject(labels: Mapping[str, str]) -> Subject:
    return Subject(
        identity=_identity(labels),
        model=_label(labels, "modelName", "modelname"),
        profile=_label(labels, "GPU_I_PROFILE", "gpu_i_profile", "dra_mig_profile"),
        owner=_owner(labels),
        owner_uid=_label(labels, "pod_uid"),
        dra_device=_label(labels, "dra_device_name"),
        has_claim="dra_claim_name" in labels,
        is_other_device=bool(_OTHER_DEVICES & labels.keys()),
    )


def _identity(labels: Mapping[str, str]) -> Identity:
    index = _number(labels, "gpu")
    if index is None and (device := re.fullmatch(r"nvidia(\d+)", labels.get("device", ""))):
        index = int(device[1])
    uuid = _label(labels, "UUID", "uuid")
    return Identity(_hints(labels), index, uuid, _number(labels, "GPU_I_ID", "gpu_i_id"))


def _hints(labels: Mapping[str, str]) -> tuple[Hint, ...]:
    """Most certain first."""
    node, host, address = _label(labels, *_NODE_LABELS), _label(labels, *_HOST_LABELS), _label(labels, "instance")
    exporter = labels.get("pod") if _is_exporters_own(labels) else None
    shown = (("node", node), ("host", host), ("pod", exporter), ("node", _label(labels, "dra_pool_name")))
    return tuple((kind, name) for kind, name in (*shown, ("address", address)) if name)


def _is_exporters_own(labels: Mapping[str, str]) -> bool:
    """Whether ``pod`` is the exporter itself: Prometheus with honorLabels false puts its scrape target there."""
    pod = labels.get("pod", "")
    if not pod:
        return False
    is_named = pod == _label(labels, *_HOST_LABELS) or bool(_EXPORTER_POD.search(pod))
    return "exported_pod" in labels or is_named or labels.get("container") in _EXPORTER_CONTAINERS


def _owner(labels: Mapping[str, str]) -> tuple[str | None, str] | None:
    for namespace, pod in _OWNER_LABELS:
        name = _label(labels, pod)
        if name and not (pod == "pod" and _is_exporters_own(labels)):
            return _label(labels, namespace), name
    return None


def _add_value(row: Row, key: str | None, value: float, notes: list[Note], line: int) -> None:
    if key is None or is_blank(value):
        return
    if key in RATIOS and value > 1:
        fate = "kept" if value <= MOST_OF_A_RATIO else "far above, left out"
        notes.append(Note("info", f"a ratio is above 1: {fate}", row.file, f"line {line}"))
        if value > MOST_OF_A_RATIO:
            return
    # a series given twice (two scrapes, several pods on one GPU): the larger value, in whatever order they come
    row.values[key] = max(value, row.values.get(key, value))


def is_blank(value: float) -> bool:
    return math.isnan(value) or value < 0 or value >= BLANK


def _label(labels: Mapping[str, str], *names: str) -> str | None:
    return next((labels[name] for name in names if labels.get(name, "") not in NULLS), None)


def _number(labels: Mapping[str, str], *names: str) -> int | None:
    shown = _label(labels, *names) or ""
    return int(shown) if shown.isascii() and shown.isdecimal() and len(shown) < 10 else None


def _gather(notes: list[Note]) -> list[Note]:
    """Many lines with the same fault become one note with the first place and their number."""
    first: dict[str, Note] = {}
    times: dict[str, int] = {}
    for note in notes:
        first.setdefault(note.text, note)
        times[note.text] = times.get(note.text, 0) + 1
    return [
        n
        if times[n.text] == 1
        else Note(n.severity, f"{n.text} ({times[n.text]} such lines, first one shown)", n.file, n.where)
        for n in first.values()
    ]
