"""Why a plan does what it does: for one GPU, one pod, one profile, or for everything in a line each.

Each answer is a table of two columns and the same as plain data. A name that is not in the plan is refused with those
that are near.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from migsaw.errors import InputError
from migsaw.model.boards import Catalogue
from migsaw.model.layouts import parse_placed
from migsaw.model.money import PriceTable
from migsaw.model.names import parse_profile_name
from migsaw.model.plan import GpuPlan, KnownBy, Plan, PodPlan, Step
from migsaw.model.reasons import Reason
from migsaw.report.capacity import OFF
from migsaw.report.money import slice_costs, usd
from migsaw.report.plan import asks, gpu_glyphs, ranges
from migsaw.report.table import Column, Table, na


@dataclass(frozen=True, slots=True)
class Explanation:
    """``data`` holds the plan's own values, for scripts."""

    table: Table
    data: dict[str, Any]


def explain_gpu(plan: Plan, name: str, catalogue: Catalogue, prices: PriceTable) -> Explanation:
    """``name`` is NODE/INDEX."""
    gpus = {f"{gpu.node}/{gpu.index}": gpu for gpu in plan.gpus}
    gpu = gpus.get(name)
    if gpu is None:
        raise _not_there("GPU", name, gpus)
    steps = [step for step in plan.steps if step.node == gpu.node and (not step.gpus or gpu.index in step.gpus)]
    pods = [pod for pod in plan.pods if pod.after and pod.after.node == gpu.node]
    board = catalogue.find(gpu.board or "")
    before, after = gpu_glyphs(gpu, catalogue)
    rows = [
        ("board", f"{board.key} ({board.evidence})" if board else gpu.board or na("no input names it")),
        ("before", f"{before}  {_words(gpu.before)}"),
        ("after", f"{after}  {_words(gpu.after)}" if gpu.before != gpu.after else "same"),
        ("reason", _because(gpu.reason.value, gpu.text)),
        ("in use", _words(gpu.pinned) if gpu.pinned else "nothing that is named"),
        ("idle in use", _words(gpu.idle_in_use) if gpu.idle_in_use else "none seen"),
        ("stranded after", _stranded(gpu)),
        ("costs after", _costs(plan, gpu, catalogue, prices)),
        ("steps", _step_words(steps)),
        ("pods of this node", ", ".join(sorted(_pod_key(pod) for pod in pods)) or "none"),
    ]
    data = {"gpu": gpu, "steps": tuple(steps), "pods": tuple(pods)}
    return Explanation(_two_columns(f"GPU {name}", rows), data)


def explain_pod(plan: Plan, name: str) -> Explanation:
    """``name`` is NAMESPACE/NAME."""
    pods = {_pod_key(pod): pod for pod in plan.pods}
    pod = pods.get(name)
    if pod is None:
        raise _not_there("pod", name, pods)
    node = pod.after.node if pod.after else None
    is_cut_for = pod.reason is Reason.SERVED_AFTER_RECUT
    steps = [step for step in plan.steps if name in step.disrupts or (node and step.node == node and is_cut_for)]
    rows = [
        ("asks", asks(pod)),
        ("has now", f"{_profile(pod.before.profile)} on {pod.before.node}" if pod.before else "nothing that is named"),
        ("gets", f"{_profile(pod.after.profile)} on {pod.after.node}" if pod.after else "nothing from this plan"),
        ("reason", _because(pod.reason.value, pod.text)),
        ("known by", _known_by(pod.known_by)),
        ("disrupted", "yes" if any(name in step.disrupts for step in plan.steps) else "no"),
        ("steps", _step_words(steps)),
    ]
    return Explanation(_two_columns(f"Pod {name}", rows), {"pod": pod, "steps": tuple(steps)})


def explain_profile(plan: Plan, name: str, catalogue: Catalogue) -> Explanation:
    """Where a profile is before and after, who holds it, who asked for it. Every notation of the name is understood."""
    names = _profile_names(plan, name, catalogue)
    rows, total = [], Counter[str]()
    for gpu in sorted(plan.gpus, key=lambda gpu: (gpu.node, gpu.index)):
        counts = [sum(p in names for p in _profiles(texts)) for texts in (gpu.before, gpu.after, gpu.pinned)]
        if any(counts):
            rows.append((f"{gpu.node}/{gpu.index}", *map(str, counts), _because(gpu.reason.value, gpu.text)))
            total.update(dict(zip(("before", "after", "in use"), counts, strict=True)))
    pods = [pod for pod in plan.pods if names & {*_asked(pod), *([pod.after.profile] if pod.after else [])}]
    footer = (
        *(_pod_line(pod) for pod in pods),
        f"{total['before']} before, {total['after']} after, {total['in use']} in use.",
    )
    columns = (Column("GPU"), *(Column(title, right=True) for title in ("before", "after", "in use")), Column("reason"))
    table = Table(columns, tuple(rows), f"Profile {' = '.join(sorted(names))}", footer)
    gpus = tuple(gpu for gpu in plan.gpus if names & {*_profiles(gpu.before), *_profiles(gpu.after)})
    return Explanation(table, {"profiles": tuple(sorted(names)), "gpus": gpus, "pods": tuple(pods)})


def _profile_names(plan: Plan, name: str, catalogue: Catalogue) -> set[str]:
    """The plan's own names of what is meant: one profile can have several, by board and by age of the driver."""
    known = {profile for gpu in plan.gpus for texts in (gpu.before, gpu.after) for profile in _profiles(texts)}
    known |= {profile for pod in plan.pods for profile in _asked(pod)}
    profile = str(parse_profile_name(name) or name)
    boards = [board for key in {gpu.board for gpu in plan.gpus} if (board := catalogue.find(key or ""))]
    names = {profile, *(found.name for board in boards if (found := board.find(profile)))} & known
    if not names:
        raise _not_there("profile", name, known)
    return names


def explain_all(plan: Plan) -> Explanation:
    """A reason for every GPU and every pod."""
    gpus = [
        (f"GPU {gpu.node}/{gpu.index}", _because(gpu.reason.value, gpu.text))
        for gpu in sorted(plan.gpus, key=lambda gpu: (gpu.node, gpu.index))
    ]
    pods = [(f"pod {_pod_key(pod)}", _because(pod.reason.value, pod.text)) for pod in sorted(plan.pods, key=_pod_key)]
    table = Table((Column("what"), Column("why")), (*gpus, *pods), "", (f"{len(gpus)} GPUs, {len(pods)} pods.",))
    return Explanation(table, {"gpus": plan.gpus, "pods": plan.pods})


# ---- words ------------------------------------------------------------------------------------------------------


def _not_there(kind: str, name: str, known: Iterable[str]) -> InputError:
    names = sorted(known)
    near = [other for other in names if name in other][:3] or difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if near:
        hint = f"near: {', '.join(near)}"
    else:
        hint = f"it has: {', '.join(names[:5])}" if names else f"it has no {kind} at all"
    return InputError(f"the plan has no {kind} {name}", hint=hint)


def _two_columns(title: str, rows: Sequence[tuple[str, str]]) -> Table:
    return Table((Column("field"), Column("value")), tuple(rows), title)


def _because(reason: str, text: str) -> str:
    return f"{reason}: {text}" if text else reason


def _words(texts: Sequence[str]) -> str:
    return " ".join(texts) or "no instances"


def _profile(name: str) -> str:
    return "a whole GPU (MIG off)" if name == OFF else name


def _profiles(texts: Sequence[str]) -> list[str]:
    return [parse_placed(text).profile for text in texts if text != OFF]


def _asked(pod: PodPlan) -> list[str]:
    return [str(name) for resource in pod.asks if (name := parse_profile_name(resource))]


def _pod_key(pod: PodPlan) -> str:
    return f"{pod.namespace}/{pod.name}"


def _pod_line(pod: PodPlan) -> str:
    where = f"on {pod.after.node}" if pod.after else "not served"
    return f"pod {_pod_key(pod)} asks {asks(pod)}, {where}: {_because(pod.reason.value, pod.text)}"


def _stranded(gpu: GpuPlan) -> str:
    if gpu.stranded is None:
        return na("MIG off or board not known")
    return f"{gpu.stranded[0]} compute and {gpu.stranded[1]} memory slices that no profile can use"


def _costs(plan: Plan, gpu: GpuPlan, catalogue: Catalogue, prices: PriceTable) -> str:
    board = catalogue.find(gpu.board or "")
    size = next((node.azure_size for node in plan.nodes if node.name == gpu.node), None)
    price = prices.usd_per_gpu_hour(size, catalogue.azure_sizes)
    if price is None:
        return na(f"no price for {size}" if size else "the VM size is not known")
    per_gpu = f"{usd(price, '')} per GPU-hour ({prices.describe([size] if size else [])})"
    if board is None or gpu.after == (OFF,) or not all(board.find(name) for name in _profiles(gpu.after)):
        return per_gpu
    return f"{slice_costs(board, gpu.after, price)}; {per_gpu}"


def _known_by(known: KnownBy | None) -> str:
    """Where the slot comes from."""
    if known is None:
        return "its own request"
    what = f"class {known.workload_class}, " if known.workload_class else ""
    return f"{what}{known.source}: {known.confidence}"


def _step_words(steps: Sequence[Step]) -> str:
    words = [f"{step.kind}{' GPU ' + ranges(step.gpus) if step.gpus else ''}" for step in steps]
    return ", then ".join(words) or "none"
