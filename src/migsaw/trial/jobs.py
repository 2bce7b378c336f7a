"""Trials elsewhere, as values: a Kubernetes Job or an Azure ML command job for each slot, and the node's reservation.

Nothing is sent here. A reservation is a label (trials select it) and a taint (nothing else comes); both patches carry
the node's resourceVersion, so that a node which changed meanwhile is refused and read again, never overwritten.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from migsaw.errors import TargetError
from migsaw.model.names import WHOLE_GPU_RESOURCE, resource_name
from migsaw.model.trial import TrialSpec
from migsaw.trial.spec import digest

KEY = "migsaw.io/trial"  # of label and taint
POD_SUFFIX = 6  # what a Job adds to its name for a pod
SLACK_SECONDS = 120  # to pull an image and to end
AZURE_SCHEMA = "https://azuremlschemas.azureedge.net/latest/commandJob.schema.json"


def kubernetes_job(spec: TrialSpec, profile: str, namespace: str = "default") -> dict[str, Any]:
    """One trial: exactly one slice, on a reserved node only, never run twice by itself.

    Raises :class:`TargetError` without an image, or with several processes: one container holds the slice.
    """
    image = _image(spec)
    resource = WHOLE_GPU_RESOURCE if profile == "off" else resource_name(profile)
    labels = {"app.kubernetes.io/managed-by": "migsaw", KEY: holder(spec)}
    container = {
        "name": "trial",
        "image": image,
        "command": list(spec.command),
        "env": [{"name": name, "value": value} for name, value in sorted(_env(spec).items())],
        "resources": {"requests": {resource: 1}, "limits": {resource: 1}},
    }
    pod = {
        "restartPolicy": "Never",
        "nodeSelector": {KEY: holder(spec)},
        "tolerations": [{"key": KEY, "operator": "Equal", "value": holder(spec), "effect": "NoSchedule"}],
        "containers": [container],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": job_name(spec, profile), "namespace": namespace, "labels": labels},
        "spec": {
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            "activeDeadlineSeconds": longest_seconds(spec),
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def azureml_job(spec: TrialSpec, profile: str, compute: str, instance_type: str) -> dict[str, Any]:
    """A command job (``az ml job create -f``) on one instance of an InstanceType.

    Its command is one string that a shell reads on the node: every word is quoted. Raises :class:`TargetError` as
    :func:`kubernetes_job` does, and for a word that Azure ML would take for an expression of its own.
    """
    image = _image(spec)
    if any("${{" in word for word in (*spec.command, *spec.env.values())):
        raise TargetError("a word holds ${{, which Azure ML would replace", hint="pass it in the image or in a file")
    return {
        "$schema": AZURE_SCHEMA,
        "type": "command",
        "display_name": job_name(spec, profile),
        "experiment_name": f"migsaw-trials-{_slug(spec.name)}"[:63].rstrip("-"),
        "command": shlex.join(spec.command),
        "environment": {"image": image},
        "environment_variables": dict(sorted(_env(spec).items())),
        "compute": f"azureml:{compute}",
        "resources": {"instance_type": instance_type, "instance_count": 1},
        "limits": {"timeout": longest_seconds(spec)},
        "tags": {"migsaw_trial": holder(spec), "migsaw_profile": profile},
    }


def longest_seconds(spec: TrialSpec) -> int:
    """After which a trial is ended from outside, should nobody watch it."""
    return round(spec.steady.start_within_seconds + spec.steady.at_most_seconds + SLACK_SECONDS)


def holder(spec: TrialSpec) -> str:
    """Who reserves: the workload under these conditions, so that a run that goes on finds its own reservation."""
    return f"{spec.identity.fingerprint()[:12]}-{digest(spec)[:8]}"


def job_name(spec: TrialSpec, profile: str) -> str:
    """A DNS label that its pod's name, which is longer, still is."""
    tail = f"-{_slug(profile)}-{holder(spec)[-8:]}"
    return f"migsaw-{_slug(spec.name)}"[: 63 - POD_SUFFIX - len(tail)].rstrip("-") + tail


# ---- the reservation ----------------------------------------------------------------------------------------------


def reserve_patch(node: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """The merge patch that reserves a Node object; the same again where it is reserved for ``owner`` already.

    Raises :class:`TargetError` where another holds it.
    """
    other = reserved_by(node)
    if other is not None and other != owner:
        raise TargetError(
            f"node {_name(node)} is reserved for trial {other}", hint="wait for it, or release it if it is left over"
        )
    taint = {"key": KEY, "value": owner, "effect": "NoSchedule"}
    return _patch(node, owner, [*_other_taints(node), taint])


def release_patch(node: Mapping[str, Any], owner: str) -> dict[str, Any] | None:
    """The merge patch that gives the node back as it was; None where ``owner`` does not hold it."""
    return _patch(node, None, _other_taints(node)) if reserved_by(node) == owner else None


def reserved_by(node: Mapping[str, Any]) -> str | None:
    """By label or taint: a crash between two writes may leave one of them."""
    label = (node["metadata"].get("labels") or {}).get(KEY)
    taints = (node.get("spec") or {}).get("taints") or ()
    return label or next((str(taint.get("value", "")) for taint in taints if taint["key"] == KEY), None)


def kubectl_words(owner: str, node: str) -> tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]]:
    """The same by hand: commands that reserve, and those that release."""
    reserve = (
        ("kubectl", "label", "node", node, f"{KEY}={owner}"),
        ("kubectl", "taint", "node", node, f"{KEY}={owner}:NoSchedule"),
    )
    release = (("kubectl", "taint", "node", node, f"{KEY}-"), ("kubectl", "label", "node", node, f"{KEY}-"))
    return reserve, release


def _patch(node: Mapping[str, Any], label: str | None, taints: list[Any]) -> dict[str, Any]:
    """A merge patch replaces lists whole: all taints are in it. An empty list is written as null, as it was."""
    version = node["metadata"]["resourceVersion"]
    return {
        "metadata": {"resourceVersion": version, "labels": {KEY: label}},
        "spec": {"taints": taints or None},
    }


def _other_taints(node: Mapping[str, Any]) -> list[Any]:
    return [taint for taint in (node.get("spec") or {}).get("taints") or () if taint["key"] != KEY]


def _name(node: Mapping[str, Any]) -> str:
    return str(node["metadata"].get("name", "without a name"))


def _image(spec: TrialSpec) -> str:
    if spec.image is None:
        raise TargetError(f"{spec.name} has no image, and a cluster runs nothing else", hint="say `image:` in the file")
    if spec.processes > 1:
        raise TargetError(
            f"{spec.processes} processes in one slice, but one container holds it",
            hint="let the command start them and print their sum; then processes: 1",
        )
    return spec.image


def _env(spec: TrialSpec) -> dict[str, str]:
    return {"PYTHONUNBUFFERED": "1", **spec.env}


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "trial"
