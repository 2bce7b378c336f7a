"""The controller at the top of a pod's owner references: the workload that recurs.

Only the pod is at hand, so a step up (ReplicaSet → Deployment, Job → CronJob) is taken only where the pod proves it.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from migsaw.model.snapshot import Workload
from migsaw.observe.kube import sequence, text, value

_CRON_JOB = re.compile(r"(?P<name>.+)-(?P<minutes>\d{8,9})")
_A_DAY = 24 * 60


def top_controller(data: Any, namespace: str) -> Workload | None:
    """None for a pod that nobody made."""
    kind, name = _controller(data)
    if kind is None or name is None:
        return None
    template_hash = text(data, "metadata", "labels", "pod-template-hash")
    if kind == "ReplicaSet" and template_hash and name.endswith(f"-{template_hash}"):
        return Workload(namespace, "Deployment", name.removesuffix(f"-{template_hash}"))
    if kind == "Job" and (cron_job := _cron_job(name, text(data, "metadata", "creationTimestamp"))):
        return Workload(namespace, "CronJob", cron_job)
    return Workload(namespace, kind, name)


def daemon_set(data: Any) -> str | None:
    """The DaemonSet that made a pod."""
    kind, name = _controller(data)
    return name if kind == "DaemonSet" else None


def _controller(data: Any) -> tuple[str | None, str | None]:
    owners = sequence(data, "metadata", "ownerReferences")
    first = next((o for o in owners if value(o, "controller") is True), next(iter(owners), None))
    return text(first, "kind"), text(first, "name")


def _cron_job(job: str, created: str | None) -> str | None:
    """The CronJob controller names a Job by the minutes since 1970 of its schedule (cronjob_controllerv2.go).

    A pod made within a day of that minute proves that the digits are no date or number of a user.
    """
    found = _CRON_JOB.fullmatch(job)
    if found is None or created is None:
        return None
    try:
        moment = datetime.fromisoformat(created.replace("Z", "+00:00"))
    except ValueError:
        return None
    if moment.tzinfo is None:
        return None
    minutes = moment.timestamp() / 60
    return found["name"] if abs(minutes - int(found["minutes"])) <= _A_DAY else None
