"""A plan as tables: the GPUs before and after, the pods it concerns, the steps, and what it is worth, with proof.

Pure: a value in, tables out. What is not known is n/a with its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby

from migsaw.model.boards import Catalogue
from migsaw.model.plan import GpuPlan, Ideal, Plan, PodPlan, Step
from migsaw.model.reasons import Reason
from migsaw.report.capacity import OFF, capacity_table, instance_words
from migsaw.report.glyphs import glyph, legend
from migsaw.report.money import number, percent, savings_line, usd
from migsaw.report.table import Column, Table, na

NOT_SEEN = "[?]"
SAME = "same"
HELD = (Reason.HELD, Reason.MAY_BE_HELD)

_glyph = lru_cache(maxsize=4096)(glyph)  # a fleet has many GPUs and few layouts


def plan_tables(plan: Plan, catalogue: Catalogue) -> tuple[Table, ...]:
    """In reading order; tables without rows are left out. The last line of all counts."""
    tables = [gpus_table(plan, catalogue), pods_table(plan), steps_table(plan), capacity_table(plan, catalogue)]
    tables += [ideal_table(plan.ideal, catalogue)] if plan.ideal else []
    shown = [table for table in tables if table.rows] or tables[:1]
    last = shown[-1]
    closing = (*last.footer, "", *worth(plan), *plan.notes, counts(plan))
    return (*shown[:-1], Table(last.columns, last.rows, last.title, closing))


# ---- GPUs -------------------------------------------------------------------------------------------------------


def gpus_table(plan: Plan, catalogue: Catalogue) -> Table:
    """GPUs of a node that stand alike share a row."""
    lines = [_gpu_line(gpu, catalogue) for gpu in sorted(plan.gpus, key=lambda g: (g.node, g.index))]
    rows = []
    for (node, *same), group in groupby(lines, key=lambda line: (line[0], *line[2:6])):
        alike = list(group)
        rows.append((node, ranges(int(line[1]) for line in alike), *same, _whys(alike)))
    boards = sorted({line[2] for line in lines})
    columns = (
        Column("node"),
        Column("GPU", right=True),
        Column("board", wide=len(boards) == 1, whole=True),
        Column("before", whole=True),
        Column("after", whole=True),
        Column("reason"),
        Column("why", wide=True),
    )
    signs = legend(row[place] for row in rows for place in (3, 4))
    return Table(
        columns, tuple(rows), f"GPUs, all {boards[0]}" if len(boards) == 1 else "GPUs", (signs,) if signs else ()
    )


def _whys(alike: Sequence[tuple[str, ...]]) -> str:
    """The particulars of GPUs that stand alike: once where they are the same, else each with its GPUs."""
    found: dict[str, list[int]] = {}
    for line in alike:
        found.setdefault(line[6], []).append(int(line[1]))
    return next(iter(found)) if len(found) == 1 else "; ".join(f"{ranges(k)}: {text}" for text, k in found.items())


def _gpu_line(gpu: GpuPlan, catalogue: Catalogue) -> tuple[str, ...]:
    before, after = gpu_glyphs(gpu, catalogue)
    board = gpu.board or na("not known")
    return (
        gpu.node,
        str(gpu.index),
        board,
        before,
        SAME if gpu.before == gpu.after else after,
        gpu.reason.value,
        gpu.text,
    )


def gpu_glyphs(gpu: GpuPlan, catalogue: Catalogue) -> tuple[str, str]:
    """Before and after; ``[?]`` for what nobody showed."""
    if not gpu.before and not gpu.is_layout_known:
        return NOT_SEEN, NOT_SEEN
    board = catalogue.find(gpu.board or "")
    sure = tuple((Counter(gpu.pinned) - Counter(gpu.unsure)).elements())
    return (
        _glyph(board, gpu.before, sure, gpu.idle_in_use, gpu.unsure),
        _glyph(board, gpu.after, _still(sure, gpu), gpu.idle_in_use, _still(gpu.unsure, gpu)),
    )


def _still(texts: Sequence[str], gpu: GpuPlan) -> tuple[str, ...]:
    return tuple(text for text in texts if text in gpu.after)


def ranges(numbers: Iterable[int]) -> str:
    """``0-3,5`` for 0, 1, 2, 3, 5."""
    parts: list[list[int]] = []
    for n in numbers:
        if parts and parts[-1][-1] == n - 1:
            parts[-1].append(n)
        else:
            parts.append([n])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


# ---- pods -------------------------------------------------------------------------------------------------------


def pods_table(plan: Plan) -> Table:
    """Pods that wait or that a step disrupts; those that the plan does not serve first."""
    disrupted = disrupted_pods(plan)
    concerned = [pod for pod in plan.pods if is_waiting(pod) or _key(pod) in disrupted]
    rows = [
        (_key(pod), asks(pod), _gets(pod), f"{pod.reason.value}: {pod.text}" if pod.text else pod.reason.value)
        for pod in sorted(concerned, key=lambda pod: (pod.after is not None, _key(pod)))
    ]
    columns = (Column("pod"), Column("asks"), Column("gets"), Column("reason"))
    return Table(columns, tuple(rows), "Pods that wait or are affected")


def is_waiting(pod: PodPlan) -> bool:
    return pod.before is None and pod.reason not in (Reason.RUNNING, Reason.FINISHED)


def _key(pod: PodPlan) -> str:
    return f"{pod.namespace}/{pod.name}"


def asks(pod: PodPlan) -> str:
    """``2 × mig-1g.10gb``: without the vendor's prefix, which all share."""
    texts = [f"{count} × {name.removeprefix('nvidia.com/')}" for name, count in sorted(pod.asks.items())]
    return ", ".join(texts) or na("no request seen")


def _gets(pod: PodPlan) -> str:
    if pod.after is None:
        return "nothing"
    return f"{'a whole GPU' if pod.after.profile == OFF else pod.after.profile} on {pod.after.node}"


def disrupted_pods(plan: Plan) -> frozenset[str]:
    return frozenset(pod for step in plan.steps for pod in step.disrupts)


# ---- steps ------------------------------------------------------------------------------------------------------


def steps_table(plan: Plan) -> Table:
    places = {step.id: str(n) for n, step in enumerate(plan.steps, start=1)}
    columns = (
        Column("step", right=True),
        Column("what"),
        Column("where"),
        Column("GPU", right=True),
        Column("seconds", right=True),
        Column("disrupts"),
        Column("can be undone"),
        Column("after step", wide=True),
        Column("why", wide=True),
    )
    rows = tuple(_step_row(step, places) for step in plan.steps)
    return Table(columns, rows, "Steps", (_duration(plan.steps),) if rows else ())


def _step_row(step: Step, places: dict[str, str]) -> tuple[str, ...]:
    return (
        places[step.id],
        step.kind,
        step.node or (f"pool {step.pool.name}" if step.pool else "-"),
        ranges(step.gpus) or "-",
        number(step.seconds, "no estimate"),
        ", ".join(step.disrupts) or "nobody",
        "yes" if step.reversible else "no",
        ", ".join(places.get(need, need) for need in step.needs) or "-",
        step.text,
    )


def _duration(steps: Sequence[Step]) -> str:
    """The longest chain of steps that need each other: nodes may go side by side."""
    ends: dict[str, float] = {}
    for step in steps:
        ends[step.id] = max((ends.get(need, 0.0) for need in step.needs), default=0.0) + (step.seconds or 0.0)
    unknown = sum(step.seconds is None for step in steps)
    more = f", and {unknown} steps without an estimate" if unknown else ""
    one_by_one = sum(step.seconds or 0.0 for step in steps)
    return f"Estimated: {minutes(max(ends.values()))} side by side, {minutes(one_by_one)} one by one{more}."


def minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


# ---- what it is worth -------------------------------------------------------------------------------------------


def ideal_table(ideal: Ideal, catalogue: Catalogue) -> Table:
    columns = (Column("board", whole=True), Column("layout"), Column("GPUs", right=True))
    boards = {row.board: catalogue.find(row.board.partition(" ")[0]) for row in ideal.rows}  # the key, then which pool
    rows = tuple((row.board, glyph(boards[row.board], row.layout), str(row.count)) for row in ideal.rows)
    return Table(
        columns, rows, "If everything could restart: the best partition for the work that runs", _ideal_words(ideal)
    )


def _ideal_words(ideal: Ideal) -> tuple[str, ...]:
    lines = [
        f"{_n(ideal.gpus, 'GPU')} would do the work that holds {_n(ideal.gpus_now, 'GPU')} now. "
        f"{proof(ideal.objective, ideal.lower_bound, ideal.gap, ideal.unit)}"
    ]
    if ideal.scope_cost_gpus is not None:
        money = "" if ideal.scope_cost_usd is None else f", {usd(ideal.scope_cost_usd, '')} per hour"
        lines.append(
            f"One profile for a whole node or pool costs {_n(ideal.scope_cost_gpus, 'GPU')}{money} "
            "beyond cutting each GPU freely."
        )
    if ideal.gpus_with_waiting is not None:
        lines.append(f"With every pod that waits and could be served here: {_n(ideal.gpus_with_waiting, 'GPU')}.")
    lines += [savings_line(ideal.savings)] if ideal.savings else []
    return (*lines, *([ideal.text] if ideal.text else []))


def proof(value: float, bound: float, gap: float, unit: str) -> str:
    """What is certified of a value: that nothing is better, or by how much something might be."""
    shown = f"{number(value, '')} {unit.removesuffix('s') if value == 1 else unit}"
    if gap == 0:
        return f"{shown}: proven, nothing needs less."
    return f"{shown}: certified bound {number(bound, '')}, gap {percent(gap)}."


def worth(plan: Plan) -> list[str]:
    """Idle in use, the objective with its certified bound, the levels of the plan, and its savings."""
    idle = [text for gpu in plan.gpus for text in gpu.idle_in_use]
    lines = [f"Idle in use: {instance_words(idle) or 'none seen'}"]
    if plan.objective is None or plan.lower_bound is None or plan.gap is None:
        lines.append(f"Objective: {na('not computed')}")
    else:
        lines.append(f"In use after the plan: {proof(plan.objective, plan.lower_bound, plan.gap, plan.unit)}")
    lines += [
        f"{level.name}: {number(level.value, '')}; bound {number(level.lower_bound, '')}, gap {percent(level.gap)}"
        for level in plan.levels
    ]
    return [*lines, savings_line(plan.savings)]


def counts(plan: Plan) -> str:
    """The last line."""
    changed = sum(gpu.before != gpu.after for gpu in plan.gpus)
    nodes = len({gpu.node for gpu in plan.gpus})
    waiting = [pod for pod in plan.pods if is_waiting(pod)]
    served, hit = sum(pod.after is not None for pod in waiting), len(disrupted_pods(plan))
    kinds = Counter(step.kind for step in plan.steps)
    return (
        f"{_n(len(plan.gpus), 'GPU')} on {_n(nodes, 'node')}: {changed} change, {len(plan.gpus) - changed} stay. "
        f"{_n(len(waiting), 'pod')} waiting: {served} served, {len(waiting) - served} not. "
        f"{_n(hit, 'running pod')} disrupted. {_n(kinds.total(), 'step')}."
    )


def _n(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
