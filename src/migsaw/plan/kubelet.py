"""What the kubelet of a node hands out, beside what was seen on its GPUs: where they differ, the smaller one counts.

It may advertise more instances than were seen (an exporter that shows only some), or fewer than there are (unhealthy
ones, a layout that the single strategy calls invalid, a plugin that has not noticed). A node of which no amounts are
known says nothing here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from migsaw.model.boards import Board
from migsaw.model.names import RESOURCE_PREFIX, WHOLE_GPU_RESOURCE
from migsaw.model.reasons import Because, Reason
from migsaw.model.snapshot import Node, Pod
from migsaw.plan.items import ANY_SLICE, KEPT_SLICE, WHOLE, is_single, item_of

PLUGIN_OWNERS = ("gpu-operator", "aks", "aks-managed", "unknown")  # whose nodes the device plugin serves


def unseen_instances(node: Node, boards: Mapping[int, Board | None]) -> Because | None:
    """Why not all instances of the node were seen: the kubelet advertises more of them."""
    seen = Counter(i.profile for gpu in node.gpus for i in gpu.instances)
    if not seen or node.owner not in PLUGIN_OWNERS:
        return None
    advertised = _amounts(node.allocatable, boards)
    if is_single(node):
        seen = Counter({WHOLE: seen.total() + sum(not gpu.instances for gpu in node.gpus)})
    else:
        advertised.pop(WHOLE, None)
    missing = advertised - seen
    if not missing:
        return None
    item = min(missing)
    shown = f"{advertised[item]} {'instances' if item == WHOLE else f'x {item}'}"
    text = f"the kubelet advertises {shown} here, {seen[item]} were seen: what its GPUs hold is not known"
    return Because(Reason.MAY_BE_HELD, text)


def within_allocatable(
    offers: Sequence[Mapping[str, int]], node: Node, pods: Sequence[Pod], boards: Mapping[int, Board | None]
) -> tuple[list[dict[str, int]], str | None]:
    """What each GPU offers, cut down to what the kubelet has left; and a sentence where that took something away.

    ``pods``: those on the node. Of alike GPUs the last ones offer less.
    """
    kept = [dict(offer) for offer in offers]
    if not node.allocatable or node.owner not in PLUGIN_OWNERS or node.strategy is None:
        return kept, None
    left = _amounts(node.allocatable, boards)
    for pod in pods:
        left.subtract(_amounts(pod.asks, boards))
    if is_single(node):
        left = Counter({ANY_SLICE: left[WHOLE]})
    total = sum((Counter(offer) for offer in kept), Counter[str]())
    gone = {item: n - max(0, left[item]) for item, n in total.items() if n > max(0, left[item]) and _counts(item, node)}
    for item, number in gone.items():
        _take(kept, item, number)
    if not gone:
        return kept, None
    words = ", ".join(f"{n} {_word(item)}" for item, n in sorted(gone.items()))
    return kept, f"node {node.name}: {words} look free, but the kubelet does not offer them: not counted as free"


def unwell(node: Node, why: str) -> Because | None:
    """Another cut mends no unhealthy device. Under the single strategy it does mend GPUs that are not cut alike."""
    kinds = {tuple(sorted(i.profile for i in gpu.instances)) for gpu in node.gpus}
    return None if is_single(node) and len(kinds) > 1 else Because(Reason.NODE_UNAVAILABLE, why)


def _word(item: str) -> str:
    return {WHOLE: "whole GPUs", ANY_SLICE: "slices"}.get(item, f"x {item}")


def _counts(item: str, node: Node) -> bool:
    """Under the single strategy all slices have one name."""
    return item == ANY_SLICE if is_single(node) else item not in (ANY_SLICE, KEPT_SLICE)


def _take(offers: list[dict[str, int]], item: str, number: int) -> None:
    """So many fewer, from the last GPU on; a slice less of any profile is one less of its own profile too."""
    for offer in reversed(offers):
        less = min(number, offer.get(item, 0))
        number -= less
        if item == ANY_SLICE and less:
            for name in list(offer):
                offer[name] = max(0, offer[name] - less)
        elif less:
            offer[item] -= less
        for name in [name for name, n in offer.items() if not n]:
            del offer[name]


def _amounts(resources: Mapping[str, int], boards: Mapping[int, Board | None]) -> Counter[str]:
    """By item; under names that some board of the node knows."""
    found: Counter[str] = Counter()
    board = next((b for b in boards.values() if b), None)
    for resource, number in resources.items():
        if resource == WHOLE_GPU_RESOURCE or resource.startswith(RESOURCE_PREFIX):
            found[item_of(resource, board)] += number
    return found
