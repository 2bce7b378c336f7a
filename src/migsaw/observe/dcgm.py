"""What one set of DCGM labels says, and which values count: one reading for exporter text and for Prometheus.

Values that DCGM means as "blank" are dropped by threshold before any arithmetic. Which node a row belongs to, and
whether its owner is right, is not decided here; neither is how labels and values came.

Sources: dcgm-exporter's label names of 2020 to 2026; blanks: `dcgm_structs.h`, DCGM_INT32_BLANK, DCGM_INT64_BLANK,
DCGM_FP64_BLANK. The names of the fields are in `model/dcgm_fields.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from migsaw.model import telemetry
from migsaw.model.telemetry import OwnerSource

RATIOS = telemetry.RATIOS
BLANK = 2_147_483_632.0  # the smallest blank; no ratio, percentage or MiB of a GPU comes near
NULLS = ("", "<<<NULL>>>", "N/A", "None")
MOST_OF_A_RATIO = 1.2  # DCGM normalises some slices a little above 1; what is far above is a wrapped counter

# the names of one label in all generations, the one that counts first
UUID_LABELS = ("UUID", "uuid")
GI_LABELS = ("GPU_I_ID", "gpu_i_id")
PROFILE_LABELS = ("GPU_I_PROFILE", "gpu_i_profile", "dra_mig_profile")
NODE_LABELS = ("kubernetes_node", "node", "nodename", "node_name")
HOST_LABELS = ("Hostname", "hostname", "host")
OWNER_LABELS = (
    ("exported_namespace", "exported_pod"),
    ("pod_namespace", "pod_name"),
    ("namespace", "pod"),
)
_OTHER_DEVICES = ("nvswitch", "nvlink", "cpu", "cpucore")  # DCGM watches these too
_MODEL_LABELS = ("modelName", "modelname")
LABELS = (  # all that is read here
    "gpu",
    "device",
    *UUID_LABELS,
    *GI_LABELS,
    *PROFILE_LABELS,
    *(label for pair in OWNER_LABELS for label in pair),
    *HOST_LABELS,
    *NODE_LABELS,
    "instance",
    "container",
    "pod_uid",
    *_MODEL_LABELS,
    "dra_claim_name",
    "dra_claim_namespace",
    "dra_device_name",
    "dra_pool_name",
    *_OTHER_DEVICES,
)
_EXPORTER_CONTAINERS = ("exporter", "dcgm-exporter", "nvidia-dcgm-exporter")
_EXPORTER_POD = re.compile(r"dcgm-exporter")
_VERSION = re.compile(r"(?:(?P<dcgm>\d+\.\d+\.\d+)-)?(?P<exporter>\d+\.\d+\.\d+)(?!-?\d)\S*")

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
    owner_source: OwnerSource  # which labels tell the holder, the one that counts
    exporter_pod: str | None  # where `pod` is not the holder but the exporter itself
    claim: tuple[str | None, str] | None  # (namespace, name) of the ResourceClaim
    dra_device: str | None
    has_claim: bool
    is_other_device: bool


def subject_of(labels: Mapping[str, str]) -> Subject:
    owner, source = _owner(labels)
    uid, claim = _label(labels, "pod_uid"), _label(labels, "dra_claim_name")
    if owner is None:
        source = "pod uid" if uid else "dra claim" if claim else "none"
    return Subject(
        identity=_identity(labels),
        model=_label(labels, *_MODEL_LABELS),
        profile=_label(labels, *PROFILE_LABELS),
        owner=owner,
        owner_uid=uid,
        owner_source=source,
        exporter_pod=labels["pod"] if _is_exporters_own(labels) else None,
        claim=(_label(labels, "dra_claim_namespace"), claim) if claim else None,
        dra_device=_label(labels, "dra_device_name"),
        has_claim="dra_claim_name" in labels,
        is_other_device=not labels.keys().isdisjoint(_OTHER_DEVICES),
    )


def _identity(labels: Mapping[str, str]) -> Identity:
    index = _number(labels, "gpu")
    if index is None and (device := re.fullmatch(r"nvidia([0-9]{1,3})", labels.get("device", ""))):
        index = int(device[1])
    uuid = _label(labels, *UUID_LABELS)
    return Identity(_hints(labels), index, uuid, _number(labels, *GI_LABELS))


def _hints(labels: Mapping[str, str]) -> tuple[Hint, ...]:
    """Most certain first."""
    node, host, address = _label(labels, *NODE_LABELS), _label(labels, *HOST_LABELS), _label(labels, "instance")
    exporter = labels.get("pod") if _is_exporters_own(labels) else None
    shown = (("node", node), ("host", host), ("pod", exporter), ("node", _label(labels, "dra_pool_name")))
    return tuple((kind, name) for kind, name in (*shown, ("address", address)) if name)


def _is_exporters_own(labels: Mapping[str, str]) -> bool:
    """Whether ``pod`` is the exporter itself: Prometheus with honorLabels false puts its scrape target there."""
    pod = labels.get("pod", "")
    if not pod:
        return False
    is_named = pod == _label(labels, *HOST_LABELS) or bool(_EXPORTER_POD.search(pod))
    return "exported_pod" in labels or is_named or labels.get("container") in _EXPORTER_CONTAINERS


def _owner(labels: Mapping[str, str]) -> tuple[tuple[str | None, str] | None, OwnerSource]:
    for namespace, pod in OWNER_LABELS:
        name = _label(labels, pod)
        if name and not (pod == "pod" and _is_exporters_own(labels)):
            return (_label(labels, namespace), name), "exported label" if pod == "exported_pod" else "label"
    return None, "none"


def is_blank(value: float) -> bool:
    """Of ratios, percentages, MiB, watts, degrees and MHz; a counter of energy reaches these numbers by itself."""
    return math.isnan(value) or value < 0 or value >= BLANK


def versions_of(build: str) -> tuple[str | None, str | None]:
    """(DCGM, exporter) of a version as dcgm-exporter's images are tagged, ``3.3.5-3.4.1-ubuntu22.04``."""
    found = _VERSION.fullmatch(build)
    return (found["dcgm"], found["exporter"]) if found else (None, None)


def _label(labels: Mapping[str, str], *names: str) -> str | None:
    return next((labels[name] for name in names if labels.get(name, "") not in NULLS), None)


def _number(labels: Mapping[str, str], *names: str) -> int | None:
    """An index or an id: more digits are no such thing."""
    shown = _label(labels, *names) or ""
    return int(shown) if re.fullmatch(r"[0-9]{1,3}", shown) else None
