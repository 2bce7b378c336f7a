"""One truth of a node's GPUs → dcgm-exporter text in every generation of labels and fields, as the exporters wrote it.

Written from dcgm-exporter's and Prometheus' own documentation, not from what migsaw reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

A100 = "NVIDIA A100-SXM4-40GB"
NODE, EXPORTER = "n1", "nvidia-dcgm-exporter-x7"
UIDS = {"bert-0": "uid-bert", "llama-0": "uid-llama", "whisper-0": "uid-whisper"}

FIELDS = {
    "ACTIVE": {
        "graphics": "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "sm": "DCGM_FI_PROF_SM_ACTIVE",
        "occupancy": "DCGM_FI_PROF_SM_OCCUPANCY",
        "tensor": "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
        "dram": "DCGM_FI_PROF_DRAM_ACTIVE",
        "used": "DCGM_FI_DEV_FB_USED",
        "free": "DCGM_FI_DEV_FB_FREE",
        "util": "DCGM_FI_DEV_GPU_UTIL",
        "power": "DCGM_FI_DEV_POWER_USAGE",
        "temperature": "DCGM_FI_DEV_GPU_TEMP",
        "clock": "DCGM_FI_DEV_SM_CLOCK",
    },
    "DCGM 4.6": {
        "graphics": "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO",
        "sm": "DCGM_FI_PROF_SM_UTIL_RATIO",
        "occupancy": "DCGM_FI_PROF_SM_OCCUPANCY_RATIO",
        "tensor": "DCGM_FI_PROF_TENSOR_UTIL_RATIO",
        "dram": "DCGM_FI_PROF_DRAM_UTIL_RATIO",
        "used": "DCGM_FI_DEV_FB_USED",
        "free": "DCGM_FI_DEV_FB_FREE",
        "util": "DCGM_FI_DEV_GPU_UTIL_RATIO",
        "power": "DCGM_FI_DEV_BOARD_POWER_WATTS",
        "temperature": "DCGM_FI_DEV_GPU_TEMP_CELSIUS",
        "clock": "DCGM_FI_DEV_SM_CLOCK",
    },
}


@dataclass(frozen=True)
class Thing:
    """A GPU instance (``gi``) or a whole GPU. A value of None is blank: shown, and no number."""

    gpu: int
    gi: int | None
    profile: str | None
    pod: str | None  # in the namespace ml
    values: Mapping[str, float | None]
    board: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Labels:
    """How one generation of exporters calls what it says. ``owner``: labels of namespace and pod, or none."""

    uuid: str = "UUID"
    gi: str = "GPU_I_ID"
    profile: str = "GPU_I_PROFILE"
    host: str = "Hostname"
    owner: tuple[str, str] | None = ("namespace", "pod")
    empty_owner: bool = True  # an instance that nobody holds has the labels, empty
    uid: bool = False
    claim: bool = False
    more: Mapping[str, str] = field(default_factory=dict)


LABELS = {
    "2021": Labels(),
    "lower case": Labels("uuid", "gpu_i_id", "gpu_i_profile", "Hostname", ("pod_namespace", "pod_name"), False),
    "2026": Labels(host="hostname", empty_owner=False, uid=True, more={"pci_bus_id": "00000000:00:1E.0"}),
    "uid only": Labels(owner=None, uid=True),
    "dra": Labels(profile="dra_mig_profile", host="hostname", empty_owner=False, claim=True),
}
BLANKS = {
    "int32": "2147483632",
    "int32, not supported": "2147483634",
    "int64": "9223372036854775794",
    "int64 as a float": "9.223372036854776e+18",
    "fp64": "140737488355330.000000",
    "NaN": "NaN",
    "negative": "-1",
}


def uuid(gpu: int) -> str:
    return f"GPU-00000000-0000-4000-8000-00000000000{gpu}"


def text(
    things: Sequence[Thing],
    labels: Labels,
    fields: Mapping[str, str],
    *,
    honor: bool = True,
    blank: str = "NaN",
    called: Mapping[str, str] | None = None,
) -> str:
    """``honor`` False: as federated by a Prometheus with honorLabels false. ``called``: profile → its label."""
    lines: list[str] = []
    for signal, family in fields.items():
        shown = [(t, {**t.values, **t.board}[signal]) for t in things if signal in {**t.values, **t.board}]
        if shown:
            lines += [f"# HELP {family} in words", f"# TYPE {family} gauge"]
        for thing, value in shown:
            inside = ",".join(f'{k}="{v}"' for k, v in _labels(thing, labels, honor, called or {}).items())
            lines.append(f"{family}{{{inside}}} {blank if value is None else value}")
    return "\n".join(lines) + "\n"


def _labels(thing: Thing, how: Labels, honor: bool, called: Mapping[str, str]) -> dict[str, str]:
    shown = {"gpu": str(thing.gpu), how.uuid: uuid(thing.gpu), "device": f"nvidia{thing.gpu}", "modelName": A100}
    if thing.gi is not None and thing.profile is not None:
        shown |= {how.profile: called.get(thing.profile, thing.profile), how.gi: str(thing.gi)}
    shown |= {how.host: NODE, "DCGM_FI_DRIVER_VERSION": "550.90.07", **how.more}
    if thing.pod and how.owner:
        shown |= dict(zip(how.owner, ("ml", thing.pod), strict=True)) | {"container": "main"}
    elif how.empty_owner:
        shown |= {"namespace": "", "pod": "", "container": ""}
    if thing.pod and how.uid:
        shown["pod_uid"] = UIDS[thing.pod]
    if thing.pod and how.claim:
        shown |= {"dra_claim_name": f"{thing.pod}-gpu", "dra_claim_namespace": "ml", "dra_pool_name": NODE}
    return shown if honor else _scraped(shown)


def _scraped(shown: Mapping[str, str]) -> dict[str, str]:
    """Prometheus: labels of the target win, those of the exporter of the same name are moved to ``exported_``."""
    target = {
        "namespace": "gpu-operator",
        "pod": EXPORTER,
        "container": "exporter",
        "job": "dcgm",
        "instance": "10.0.0.4:9400",
    }
    moved = {f"exported_{name}" if name in target else name: value for name, value in shown.items()}
    return {name: value for name, value in moved.items() if value} | target  # an empty label is no label there
