"""What is asked for: waiting pods as wants over items.

An item is a profile name (a slice of it), ``off`` (a whole GPU), ``any`` (single strategy: a slice of any profile) or
``kept`` (the same, on a GPU that is not cut anew). With a fit, a pod wants the slots that its workload was fitted to;
without one, what its request says.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from migsaw.model.boards import Board
from migsaw.model.fits import Fit, Fits
from migsaw.model.names import WHOLE_GPU_RESOURCE, parse_profile_name
from migsaw.model.policy import Policy
from migsaw.model.reasons import Because, Reason
from migsaw.model.snapshot import Pod
from migsaw.plan.items import ANY_SLICE, KEPT_SLICE, WHOLE

Items = tuple[tuple[str, int], ...]  # item → number, sorted


@dataclass(frozen=True, slots=True)
class Want:
    """A waiting pod. ``slots`` are (board key or None for any, profile) from ``fit``; empty: as it asks."""

    pod: Pod
    asks: Items  # as the pod says, by item
    slots: tuple[tuple[str | None, str], ...] = ()
    refused: Because | None = None  # policy or request make it impossible
    fit: Fit | None = None

    @property
    def count(self) -> int:
        return sum(n for _, n in self.asks)

    def options(self, board: Board | None, single: bool) -> tuple[Items, ...]:
        """What would serve it on such a node, best first."""
        if self.slots:
            names = [name for key, name in self.slots if board is not None and key in (None, board.key)]
            found = [p.name for name in names if board and (p := board.find(name))]
            also = ((ANY_SLICE, self.count),) if single else ()
            return tuple(((name, self.count), *also) for name in dict.fromkeys(found))
        if single:
            plain = all(item == WHOLE for item, _ in self.asks)
            return (((ANY_SLICE, self.count), (KEPT_SLICE, self.count)),) if plain else ()
        return (_on_board(self.asks, board),)


def want_of(pod: Pod, fits: FitIndex, allowed: frozenset[str] | None) -> Want:
    """``allowed``: the names that policy allows to be used, None: all."""
    asks: dict[str, int] = {}
    for resource, number in pod.asks.items():
        name = parse_profile_name(resource)
        item = WHOLE if resource == WHOLE_GPU_RESOURCE else str(name) if name and name.compute is None else resource
        asks[item] = asks.get(item, 0) + number
    items = tuple(sorted(asks.items()))
    several = asks.get(WHOLE, 0) > 1
    fit = None if several else fits.of(pod)
    slots = _slots(fit)
    permitted = tuple(slot for slot in slots if allowed is None or slot[1] in allowed)
    return Want(pod, items, permitted, _refusal(items, slots, allowed), fit)


class FitIndex:
    """Finds the first fit that names a pod's workload or selects its labels; built once for many pods."""

    def __init__(self, fits: Fits | None) -> None:
        self._named: dict[str, list[tuple[int, Fit]]] = {}
        self._selecting: list[tuple[int, Fit]] = []
        for number, fit in enumerate(fits.fits if fits else ()):
            if fit.workload.selector is not None:
                self._selecting.append((number, fit))
            elif fit.workload.name is not None:
                self._named.setdefault(fit.workload.name, []).append((number, fit))

    def unused(self, pods: Iterable[Pod]) -> tuple[Fit, ...]:
        """Those that name none of the pods, as a name with a slip does, in the order of the file."""
        every = sorted([row for rows in (*self._named.values(), self._selecting) for row in rows], key=lambda r: r[0])
        met = {number for pod in pods for number, _ in self._all_of(pod)}
        return tuple(fit for number, fit in every if number not in met)

    def of(self, pod: Pod) -> Fit | None:
        found = self._all_of(pod)
        return min(found, key=lambda row: row[0])[1] if found else None

    def _all_of(self, pod: Pod) -> list[tuple[int, Fit]]:
        names = {pod.name, pod.workload.name} if pod.workload else {pod.name}
        named = [row for name in sorted(names) for row in self._named.get(name, ())]
        return [row for row in (*named, *self._selecting) if _covers(row[1], pod)]


def may_hold_whole(pod: Pod, gpus: int, policy: Policy) -> bool:
    return not policy.strict or gpus > 1 or any(e.covers(pod.namespace, pod.name) for e in policy.whole_gpus)


def _covers(fit: Fit, pod: Pod) -> bool:
    ref = fit.workload
    if ref.selector is not None:
        return bool(ref.selector.labels) and all(pod.labels.get(k) == v for k, v in ref.selector.labels.items())
    if ref.name is None or (ref.namespace is not None and ref.namespace != pod.namespace):
        return False
    own = pod.workload
    if own is not None and ref.name == own.name and ref.kind in (None, own.kind):
        return True
    return ref.name == pod.name and ref.kind in (None, "Pod")


def _slots(fit: Fit | None) -> tuple[tuple[str | None, str], ...]:
    if fit is None:
        return ()
    if fit.chosen is not None:
        return ((fit.chosen.board, fit.chosen.profile),)
    return tuple((o.board, o.profile) for o in fit.options if o.fits)


def _refusal(items: Items, slots: tuple[tuple[str | None, str], ...], allowed: frozenset[str] | None) -> Because | None:
    names = [name for _, name in slots] or [item for item, _ in items if item != WHOLE]
    if allowed is None or not names or any(name in allowed for name in names):
        return None
    text = f"policy allows {', '.join(sorted(allowed)) or 'none'}; the pod needs {' or '.join(sorted(set(names)))}"
    return Because(Reason.NOT_ALLOWED, text)


def _on_board(items: Items, board: Board | None) -> Items:
    """Aliases as the board's own names (7g.79gb → 7g.80gb)."""
    if board is None:
        return items
    return tuple(sorted((p.name if (p := board.find(item)) else item, n) for item, n in items))
