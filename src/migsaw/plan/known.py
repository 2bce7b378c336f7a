"""All that is known of workloads, best first: the user's fits, what was seen, then what only a class says.

A pod's class counts only where it asks for one whole GPU: whoever asks for a slice knows more than the class.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from migsaw.fit.class_fits import fit_of_class
from migsaw.fit.estimate_classes import find_class
from migsaw.model.boards import Catalogue
from migsaw.model.fits import Fit, Fits, WorkloadRef
from migsaw.model.names import WHOLE_GPU_RESOURCE
from migsaw.model.policy import Policy
from migsaw.model.snapshot import Pod


def known_fits(given: Fits | None, seen: Fits, pods: Iterable[Pod], catalogue: Catalogue, policy: Policy) -> Fits:
    """``seen``: of telemetry, or of one sample. The first row that names a workload counts."""
    own = given.fits if given else ()
    classes = [(fit.workload, fit.workload_class) for fit in own if fit.workload_class is not None]
    classes += [(_ref(pod), pod.workload_class) for pod in pods if pod.workload_class is not None and _is_open(pod)]
    return Fits(
        (
            *(fit for fit in own if fit.workload_class is None),
            *(fit for fit in seen.fits if fit.source != "declared"),
            *_by_class(classes, catalogue, policy),
            *(fit for fit in seen.fits if fit.source == "declared"),
        )
    )


def _by_class(rows: Iterable[tuple[WorkloadRef, str]], catalogue: Catalogue, policy: Policy) -> list[Fit]:
    made: dict[str, Fit] = {}
    found = []
    for ref, name in rows:
        work = find_class(name)
        if work is not None:
            if work.name not in made:
                made[work.name] = fit_of_class(ref, work, catalogue.boards, policy)
            found.append(replace(made[work.name], workload=ref))
    return found


def _ref(pod: Pod) -> WorkloadRef:
    return WorkloadRef(pod.namespace, "Pod", pod.name)


def _is_open(pod: Pod) -> bool:
    return dict(pod.asks) == {WHOLE_GPU_RESOURCE: 1}
