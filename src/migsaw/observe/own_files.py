"""migsaw's own snapshot and plan files, read as if somebody had edited them: what cannot be is refused, with its place.

A plan is rendered into objects that change machines, so it must be one that this program could have made: only GPUs
with the reason Recut change, into layouts that their boards can have, and nothing that is pinned goes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from migsaw.errors import InputError
from migsaw.fit.estimate_classes import find_class
from migsaw.model.boards import Catalogue
from migsaw.model.layouts import UNKNOWN, Placed, fault, parse_placed
from migsaw.model.names import parse_profile_name
from migsaw.model.plan import GpuPlan, Plan, PodPlan, Step
from migsaw.model.reasons import Reason
from migsaw.model.snapshot import Gpu, Instance, Pod, Snapshot
from migsaw.observe.choices import class_hint
from migsaw.observe.documents import parse
from migsaw.observe.reading import Document, read_document

MOST_INDEX = 999  # of a GPU on its node
MOST_ASKED = 10**6  # of one resource by one pod
MOST_START = 63  # memory slices of any board to come
MOST_OF_A_RATIO = 1.2  # what observe keeps
OFF = "off"

Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class _Checks:
    document: Document

    def refuse(self, message: str, place: Place, hint: str | None = None) -> InputError:
        return InputError(message, where=self.document.where(list(place)), hint=hint)

    def once(self, names: Iterable[object], what: str, place: str) -> None:
        seen: set[object] = set()
        for number, name in enumerate(names):
            if name in seen:
                raise self.refuse(f"{what} {name} is there twice", (place, number))
            seen.add(name)

    def index(self, index: int, place: Place) -> None:
        if not 0 <= index <= MOST_INDEX:
            raise self.refuse(f"GPU index {index}", (*place, "index"), f"0 to {MOST_INDEX}")


# ---- snapshot ---------------------------------------------------------------------------------------------------


def read_snapshot(path: Path) -> Snapshot:
    """Raises :class:`InputError` with file and place for values that no cluster has."""
    document = read_document(path)
    snapshot, checks = parse(document, Snapshot), _Checks(document)
    checks.once((node.name for node in snapshot.nodes), "node", "nodes")
    checks.once((pod.key for pod in snapshot.pods), "pod", "pods")
    for n, node in enumerate(snapshot.nodes):
        indices = Counter(gpu.index for gpu in node.gpus)
        for k, gpu in enumerate(node.gpus):
            _check_gpu(checks, gpu, ("nodes", n, "gpus", k))
            if indices[gpu.index] > 1:
                raise checks.refuse(f"GPU {node.name}/{gpu.index} is there twice", ("nodes", n, "gpus", k))
    for n, pod in enumerate(snapshot.pods):
        _check_pod(checks, pod, ("pods", n))
    return snapshot


def _check_gpu(checks: _Checks, gpu: Gpu, place: Place) -> None:
    checks.index(gpu.index, place)
    held: list[tuple[Gpu | Instance, Place]] = [(gpu, place)]
    held += ((item, (*place, "instances", k)) for k, item in enumerate(gpu.instances))
    for item, at in held:
        memory, activity = item.memory_mib, item.activity
        if any(amount is not None and amount < 0 for amount in (memory.used, memory.capacity)):
            raise checks.refuse("memory below 0", (*at, "memory_mib"), "MiB; null where it is not known")
        shown = (activity.graphics, activity.sm, activity.tensor, activity.dram) if activity else ()
        if any(ratio is not None and not 0 <= ratio <= MOST_OF_A_RATIO for ratio in shown):
            raise checks.refuse("an activity is a ratio of 0 to 1", (*at, "activity"), "null where it is not known")
    if gpu.mig == "off" and gpu.instances:
        raise checks.refuse("MIG is off, and it has instances", (*place, "mig"))
    for k, instance in enumerate(gpu.instances):
        if instance.profile != UNKNOWN and parse_profile_name(instance.profile) is None:
            hint = f"such as 1g.10gb; {UNKNOWN} where nobody says it"
            raise checks.refuse(f"{instance.profile!r} is no profile", (*place, "instances", k, "profile"), hint)
        if instance.start is not None and not 0 <= instance.start <= MOST_START:
            raise checks.refuse(f"start {instance.start}", (*place, "instances", k, "start"), "a memory slice, or null")


def _check_pod(checks: _Checks, pod: Pod, place: Place) -> None:
    for resource, number in pod.asks.items():
        if not 0 <= number <= MOST_ASKED:
            raise checks.refuse(f"asks for {number} of {resource}", (*place, "asks", resource), f"0 to {MOST_ASKED:,}")
    if pod.workload_class is not None and find_class(pod.workload_class) is None:
        raise checks.refuse(f"no class {pod.workload_class!r}", (*place, "workload_class"), class_hint())


# ---- plan -------------------------------------------------------------------------------------------------------


def read_plan(path: Path, catalogue: Catalogue) -> Plan:
    """Raises :class:`InputError` with file and place for a plan that this program cannot have made."""
    document = read_document(path)
    plan, checks = parse(document, Plan), _Checks(document)
    checks.once((f"{gpu.node}/{gpu.index}" for gpu in plan.gpus), "GPU", "gpus")
    checks.once((step.id for step in plan.steps), "step", "steps")
    nodes = {node.name for node in plan.nodes}
    cut = {(step.node, index) for step in plan.steps if step.kind == "recut" for index in step.gpus}
    for n, gpu in enumerate(plan.gpus):
        _check_planned(checks, gpu, catalogue, ("gpus", n))
        if gpu.node not in nodes:
            raise checks.refuse(f"{gpu.node} is no node of the plan", ("gpus", n, "node"))
        if gpu.before != gpu.after and (gpu.node, gpu.index) not in cut:
            raise checks.refuse(f"GPU {gpu.node}/{gpu.index} changes, and no step cuts it", ("gpus", n, "after"))
    for n, pod in enumerate(plan.pods):
        _check_served(checks, pod, nodes, ("pods", n))
    _check_steps(checks, plan.steps, nodes, {(gpu.node, gpu.index) for gpu in plan.gpus})
    _check_bound(checks, plan)
    return plan


def _check_planned(checks: _Checks, gpu: GpuPlan, catalogue: Catalogue, place: Place) -> None:
    checks.index(gpu.index, place)
    board = catalogue.find(gpu.board) if gpu.board else None
    placed = {name: _placed(checks, getattr(gpu, name), (*place, name)) for name in ("before", "after", "pinned")}
    kept = Counter(p.profile for p in placed["pinned"])
    if kept - Counter(p.profile for p in placed["after"]):
        raise checks.refuse("something that is pinned is not there afterwards", (*place, "after"))
    if gpu.before == gpu.after:
        return
    if gpu.reason is not Reason.RECUT:
        raise checks.refuse(f"a GPU with the reason {gpu.reason.value} does not change", (*place, "after"))
    if board is None or not board.placements_known:
        raise checks.refuse("a GPU of no known geometry does not change", (*place, "after"))
    wrong = None if gpu.after == (OFF,) or gpu.is_geometry_reported else fault(board, placed["after"])
    if wrong:
        raise checks.refuse(wrong, (*place, "after"), f"`migsaw layouts {board.key}` lists what it can have")


def _placed(checks: _Checks, texts: Sequence[str], place: Place) -> list[Placed]:
    """``off`` counts as a profile of its own."""
    if OFF in texts and len(texts) > 1:
        raise checks.refuse("off stands alone: MIG is off, or there are instances", place)
    found = []
    for k, text in enumerate(texts):
        try:
            found.append(Placed(OFF) if text == OFF else parse_placed(text))
        except InputError as problem:
            raise checks.refuse(problem.message, (*place, k), problem.hint) from None
    return found


def _check_served(checks: _Checks, pod: PodPlan, nodes: set[str], place: Place) -> None:
    for name, where in (("before", pod.before), ("after", pod.after)):
        if where is None:
            continue
        if where.node not in nodes:
            raise checks.refuse(f"{where.node} is no node of the plan", (*place, name, "node"))
        _placed(checks, (where.profile,), (*place, name, "profile"))


def _check_steps(checks: _Checks, steps: Sequence[Step], nodes: set[str], gpus: set[tuple[str, int]]) -> None:
    """In the order of the file every step comes after those that it needs."""
    done: set[str] = set()
    every = {step.id for step in steps}
    for n, step in enumerate(steps):
        place: Place = ("steps", n)
        if step.node is not None and step.node not in nodes:
            raise checks.refuse(f"{step.node} is no node of the plan", (*place, "node"))
        if any((step.node, index) not in gpus for index in step.gpus):
            raise checks.refuse(f"a GPU that {step.node} does not have", (*place, "gpus"))
        if missing := [need for need in step.needs if need not in done]:
            why = "comes later" if missing[0] in every else "is not there"
            raise checks.refuse(f"needs {missing[0]}, which {why}", (*place, "needs"))
        if step.seconds is not None and not (math.isfinite(step.seconds) and step.seconds >= 0):
            raise checks.refuse(f"{step.seconds} seconds", (*place, "seconds"), "0 or more, or null")
        done.add(step.id)


def _check_bound(checks: _Checks, plan: Plan) -> None:
    value, bound = plan.objective, plan.lower_bound
    if value is not None and bound is not None and bound > value:
        raise checks.refuse(f"a lower bound of {bound:g} above the objective {value:g}", ("lower_bound",))
    if plan.gap is not None and not 0 <= plan.gap <= 1:
        raise checks.refuse(f"a gap of {plan.gap:g}", ("gap",), "0 to 1")
