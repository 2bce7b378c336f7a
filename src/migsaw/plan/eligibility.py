"""Which nodes the stock scheduler would consider for a pod: selector, required affinity, taints, cordon.

The rules are those of Kubernetes (labels and taints only; CPU, memory and topology are not looked at).
"""

from __future__ import annotations

from migsaw.model.snapshot import Node, Pod, Requirement, Taint, Toleration


def admits(node: Node, pod: Pod) -> bool:
    return node.schedulable and wants(node, pod) and all(_tolerated(t, pod.tolerations, pod) for t in node.taints)


def wants(node: Node, pod: Pod) -> bool:
    """Selector and required node affinity."""
    labels = {"kubernetes.io/hostname": node.name, **node.labels}
    if any(labels.get(key) != value for key, value in pod.node_selector.items()):
        return False
    terms = pod.node_affinity
    return not terms or any(all(_holds(r, labels, node.name) for r in term) for term in terms)


def _holds(requirement: Requirement, labels: dict[str, str], name: str) -> bool:
    value = name if requirement.key == "metadata.name" else labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(value, requirement)
    return False


def _compares(value: str | None, requirement: Requirement) -> bool:
    try:
        left, right = int(value or ""), int(requirement.values[0])
    except (ValueError, IndexError):
        return False
    return left > right if requirement.operator == "Gt" else left < right


def _tolerated(taint: Taint, tolerations: tuple[Toleration, ...], pod: Pod) -> bool:
    if taint.effect == "PreferNoSchedule":
        return True
    # ExtendedResourceToleration (on AKS): a taint keyed by a resource is tolerated by pods that ask for it.
    if taint.key in pod.asks:
        return True
    return any(_covers(toleration, taint) for toleration in tolerations)


def _covers(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in (None, "", taint.effect):
        return False
    if toleration.operator == "Exists":
        return toleration.key in (None, "", taint.key)
    return toleration.key == taint.key and toleration.value == taint.value
