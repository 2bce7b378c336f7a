"""Small files of a cluster for tests: kubectl objects, dcgm-exporter text and nvidia-smi tables, in public formats."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

A100 = "NVIDIA A100-SXM4-40GB"
UUID = "GPU-00000000-0000-4000-8000-00000000000{}"
OPERATOR = {
    "nvidia.com/gpu.deploy.mig-manager": "true",
    "nvidia.com/mig.config": "custom",
    "nvidia.com/mig.config.state": "success",
}


def node(name: str, amounts: Mapping[str, int], labels: Mapping[str, str], **more: Any) -> dict[str, Any]:
    """A Node that advertises ``amounts``; keys of ``more`` go beside spec and status, as kubectl has them."""
    shown = {"cpu": "96", **{resource: str(number) for resource, number in amounts.items()}}
    status = {"capacity": shown, "allocatable": shown, "conditions": [{"type": "Ready", "status": "True"}]}
    metadata = {"name": name, "resourceVersion": "7", "labels": {"kubernetes.io/hostname": name, **labels}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": status} | more


def mixed(
    name: str, slices: Mapping[str, int], *, gpus: int = 1, whole: int = 0, product: str = A100
) -> dict[str, Any]:
    """A node of the GPU Operator under the mixed strategy, with the labels of GPU feature discovery."""
    amounts = {f"nvidia.com/mig-{p.replace('+', '.')}": number for p, number in slices.items()}
    labels = {f"{resource}.count": str(number) for resource, number in amounts.items()}
    labels |= {"nvidia.com/gpu.product": product.replace(" ", "-"), "nvidia.com/gpu.count": str(gpus)}
    labels |= {"nvidia.com/mig.strategy": "mixed", "nvidia.com/mig.capable": "true", **OPERATOR}
    return node(name, {"nvidia.com/gpu": whole, **amounts}, labels)


def single(name: str, profile: str, number: int, *, product: str = A100, **labels: str) -> dict[str, Any]:
    """A node under the single strategy: ``nvidia.com/gpu`` counts slices."""
    shown = {
        "nvidia.com/gpu.product": f"{product.replace(' ', '-')}-MIG-{profile}",
        "nvidia.com/gpu.count": str(number),
    }
    shown |= {"nvidia.com/mig.strategy": "single", "nvidia.com/mig.capable": "true", **labels}
    return node(name, {"nvidia.com/gpu": number}, shown)


def pod(
    key: str, asks: Mapping[str, int] | None = None, node: str | None = None, phase: str = "Running", **metadata: Any
) -> dict[str, Any]:
    namespace, _, name = key.partition("/")
    amounts = {resource: str(number) for resource, number in (asks or {}).items()}
    container = {"name": "main", "image": "x", "resources": {"limits": amounts, "requests": amounts}}
    spec: dict[str, Any] = {"containers": [container]} | ({"nodeName": node} if node else {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "resourceVersion": "9", **metadata},
        "spec": spec,
        "status": {"phase": phase},
    }


SYSTEM_POD = pod("kube-system/coredns-0", {}, "system")  # so that a list is of more than one namespace


def listing(items: Iterable[dict[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items), "metadata": {"resourceVersion": ""}})


def series(family: str, value: float | str, gpu: int = 0, **labels: str | None) -> str:
    """One line of the exporter; a label given as None is left out."""
    shown = {"gpu": str(gpu), "UUID": UUID.format(gpu), "device": f"nvidia{gpu}", "modelName": A100, "Hostname": "n1"}
    shown |= labels
    inside = ",".join(f'{name}="{text}"' for name, text in shown.items() if text is not None)
    return f"{family}{{{inside}}} {value}"


def slice_lines(
    profile: str, gi_id: int, gpu: int = 0, *, used: int = 100, busy: float = 0.0, **labels: str
) -> list[str]:
    """Memory and activity of one GPU instance."""
    labels = {"GPU_I_PROFILE": profile, "GPU_I_ID": str(gi_id), **labels}
    return [
        series("DCGM_FI_DEV_FB_USED", used, gpu, **labels),
        series("DCGM_FI_DEV_FB_FREE", 4000, gpu, **labels),
        series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", busy, gpu, **labels),
    ]


def whole_lines(gpu: int = 0, *, util: int = 0, **labels: str) -> list[str]:
    """A GPU without MIG."""
    return [series("DCGM_FI_DEV_GPU_UTIL", util, gpu, **labels), series("DCGM_FI_DEV_FB_USED", 5, gpu, **labels)]


def lgi_table(rows: Iterable[tuple[int, str, int, int, int, int]]) -> str:
    """`nvidia-smi mig -lgi`: (GPU, profile, profile id, instance id, start, size)."""
    rule = "+" + "-" * 55 + "+"
    lines = [rule, "| GPU instances:" + " " * 40 + "|", "| GPU   Name             Profile  Instance   Placement  |"]
    lines += ["|                          ID       ID       Start:Size |", "|" + "=" * 55 + "|"]
    for gpu, profile, profile_id, gi_id, start, size in rows:
        name = f"MIG {profile}"
        lines += [f"|{gpu:4d}  {name:<18}{profile_id:4d}{gi_id:9d}{f'{start}:{size}':>13}   |", rule]
    return "\n".join(lines) + "\n"


class Files:
    """Writes files into a folder and observes them in this process. Keys: options with ``_`` for ``-``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def observe(self, *, redact: bool = False, **given: Mapping[str, str | bytes] | Iterable[Any] | str) -> Any:
        """``nodes`` and ``pods``: objects; ``metrics``: lines or {file: text}; others: {file: text}."""
        from migsaw.cli.shared import load_catalogue
        from migsaw.observe.files import InputFiles, observe_files

        files: dict[str, tuple[Path, ...]] = {}
        for option, content in given.items():
            if isinstance(content, Mapping):
                files[option] = tuple(self.path(name, text) for name, text in content.items())
            elif option in ("nodes", "pods"):
                files[option] = (self.path(f"{option}.json", listing(content)),)  # type: ignore[arg-type]
            else:
                files[option] = (self.path(f"{option}.prom", "\n".join(content) + "\n"),)
        return observe_files(InputFiles(**files), load_catalogue(), redact=redact)


def outcome(work: Callable[[], Any]) -> Any:
    """What it returns, or the refusal that it ends in; any other exception is a fault."""
    from migsaw.errors import InputError

    try:
        return work()
    except InputError as problem:
        return problem
