"""The whole plan of a snapshot: the draft, its bounds, new pools, savings, and the ideal beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from migsaw.fit.rightsize import right_size
from migsaw.fit.rules import fits_of_snapshot
from migsaw.model.boards import Board
from migsaw.model.demand import Demand, Entry, plain_demand
from migsaw.model.fits import Fit, Fits
from migsaw.model.money import PriceTable
from migsaw.model.plan import Plan, PodPlan, Savings
from migsaw.model.policy import recommended
from migsaw.model.reasons import Reason
from migsaw.model.snapshot import Pod
from migsaw.plan.eligibility import admits
from migsaw.plan.fleet import FleetGpu, in_use
from migsaw.plan.ideal import ideal_of
from migsaw.plan.items import ANY_SLICE, KEPT_SLICE, WHOLE
from migsaw.plan.known import known_fits
from migsaw.plan.packing import FacetTable, pack
from migsaw.plan.planner import Draft, Inputs, draft_plan, estimate_words, known_by, write_up
from migsaw.plan.pools import new_pools
from migsaw.plan.steps import pool_steps
from migsaw.plan.wants import FitIndex, Items, may_hold_whole
from migsaw.plan.work import work_of

POOL_TARGETS = (None, "aks")


def make_plan(inputs: Inputs, facets: FacetTable, prices: PriceTable) -> Plan:
    """Raises TargetError where the target fits no node of the snapshot."""
    seen = _seen_fits(inputs)
    draft = draft_plan(inputs, seen)
    plan = _with_pools(write_up(inputs, draft), inputs, draft, facets, prices)
    used = gpus_in_use(draft)
    bound = fewest_gpus(draft, facets)
    fits = FitIndex(known_fits(inputs.fits, seen, inputs.snapshot.pods, inputs.catalogue, inputs.policy))
    wants = [w for w in draft.wants if w.refused is None and any(admits(n, w.pod) for n in draft.fleet.nodes)]
    work = work_of(
        draft.fleet, wants, fits, inputs.policy, inputs.snapshot.pods, prices, inputs.catalogue, inputs.target
    )
    by_key = {pod.key: pod for pod in inputs.snapshot.pods}
    unused = FitIndex(inputs.fits).unused(inputs.snapshot.pods)
    sizes = tuple(sorted({n.azure_size for n in draft.fleet.nodes if n.azure_size}))
    return replace(
        plan,
        pods=tuple(_with_advice(pod, by_key, inputs, fits, draft) for pod in plan.pods),
        objective=float(len(used)),
        lower_bound=float(bound),
        gap=(len(used) - bound) / len(used) if used else 0.0,
        savings=_savings(draft, inputs, facets, prices, sizes),
        ideal=ideal_of(work, facets, prices, sizes),
        notes=_notes(inputs, draft.fleet.notes, unused),
    )


def _seen_fits(inputs: Inputs) -> Fits:
    """From the history that the snapshot carries; one sample tells of memory only."""
    telemetry = inputs.snapshot.telemetry
    if telemetry is not None and telemetry.window is not None:
        return right_size(inputs.snapshot, inputs.catalogue)
    return fits_of_snapshot(inputs.snapshot, inputs.catalogue)


def _with_advice(pod: PodPlan, pods: Mapping[str, Pod], inputs: Inputs, fits: FitIndex, draft: Draft) -> PodPlan:
    """For a pod that holds one whole GPU: the slice that it could ask for when it starts again."""
    gpus = sum(pod.asks.values())
    if pod.before is None or pod.before.profile != WHOLE or gpus != 1:
        return pod
    holder = pods[f"{pod.namespace}/{pod.name}"]
    if may_hold_whole(holder, gpus, inputs.policy):
        return pod
    fit = fits.of(holder)
    board = next((g.board for g in draft.fleet.of_node(pod.before.node) if g.board), None)
    mine = [o for o in fit.options if board and o.board == board.key] if fit else []
    if fit is None or board is None or not mine:
        why = "no slice of this board is known to hold it" if fit and fit.options else "nothing was measured"
        return replace(pod, text=f"{pod.text}; whether a slice would do is n/a ({why})")
    holding = tuple(p for o in mine if o.fits and (p := board.find(o.profile)) and inputs.policy.allows(p))
    slot = recommended(board, holding)
    known = known_by(fit, board, slot.name if slot else None)
    if slot is None or (fit.source == "estimated" and slot.compute_slices == board.compute_slices):
        text = f"{pod.text}; no slice would hold it ({fit.confidence})"
        return replace(pod, text=text, known_by=known)
    need = next(o.memory_mib for o in mine if o.profile == slot.name)
    text = f"{pod.text}; when it starts again, {slot.name} would hold it"
    if fit.source != "estimated":
        text += f" ({fit.confidence}: {need.peak} MiB and {need.margin} MiB margin in {need.limit} MiB)"
    return replace(pod, text=text + estimate_words(known), known_by=known)


# ---- GPUs in use, and the fewest that could be -------------------------------------------------------------------


def gpus_in_use(draft: Draft) -> set[tuple[str, int]]:
    """GPUs that hold something, or will once the waiting pods that have a place have started: held ones first."""
    used = {g.key for g in draft.fleet.gpus if in_use(g)}
    for node in draft.fleet.nodes:
        wanted = _placed_on(draft, node.name)
        gpus = sorted(draft.fleet.of_node(node.name), key=lambda g: (g.key not in used, g.key))
        for gpu in gpus:
            took = {item: min(n, wanted[item]) for item, n in _free_after(gpu, draft).items() if wanted[item] > 0}
            if took:
                used.add(gpu.key)
                wanted.subtract(took)
    return used


def _placed_on(draft: Draft, node: str) -> Counter[str]:
    wanted: Counter[str] = Counter()
    for _, items in draft.placed.get(node, ()):
        named = {item: n for item, n in items if item not in (ANY_SLICE, KEPT_SLICE)}
        wanted.update(named or {ANY_SLICE: dict(items)[ANY_SLICE]})
    return wanted


def _free_after(gpu: FleetGpu, draft: Draft) -> Mapping[str, int]:
    if gpu.key not in draft.after:
        return gpu.offers
    layout = draft.after[gpu.key]
    return {WHOLE: 1} if layout is None else Counter(p.profile for p in layout)


def fewest_gpus(draft: Draft, facets: FacetTable) -> int:
    """Certified: no cut of these boards could hold the same instances on fewer GPUs, were all of them free to move."""
    total = 0
    counts: dict[str, Counter[str]] = {}
    boards = {}
    for gpu in draft.fleet.gpus:
        if gpu.board is None or not gpu.is_known:
            total += in_use(gpu)
            continue
        boards[gpu.geometry] = gpu.board
        if in_use(gpu) and not gpu.gpu.instances:
            total += 1
        for instance in gpu.gpu.instances:
            if instance.state != "idle":
                counts.setdefault(gpu.geometry, Counter())[instance.profile] += 1
    for node, items in draft.assignment.places.values():
        like = _like(draft.fleet.of_node(node), items)
        if like is not None and like.geometry in boards:
            named = _named(items, boards[like.geometry])
            total += named.pop(WHOLE, 0)
            counts.setdefault(like.geometry, Counter()).update(named)
    demand = plain_demand([Entry(key, board) for key, board in sorted(boards.items())], counts)
    return total + (_whole_bound(demand, facets) if demand.needs else 0)


def _like(gpus: Iterable[FleetGpu], items: Items) -> FleetGpu | None:
    """A GPU whose geometry has what the items name: on one node it may differ, where a driver reported some of it."""
    names = [item for item, _ in items if item not in (ANY_SLICE, KEPT_SLICE, WHOLE)]
    return next((g for g in gpus if g.board and all(g.board.find(name) for name in names)), None)


def _named(items: Items, board: Board) -> dict[str, int]:
    """Items as profiles of the board; a slice of any profile takes at least what the smallest one takes."""
    named = {item: n for item, n in items if item not in (ANY_SLICE, KEPT_SLICE)}
    smallest = min(board.profiles, key=lambda p: (p.compute_slices, p.memory_slices or 0, not p.is_plain))
    return named or {smallest.name: max(n for _, n in items)}


def _whole_bound(demand: Demand, facets: FacetTable) -> int:
    bound = pack(demand, facets).lower_bound
    return -(-bound.numerator // bound.denominator)


# ---- pools and money ---------------------------------------------------------------------------------------------


def _with_pools(plan: Plan, inputs: Inputs, draft: Draft, facets: FacetTable, prices: PriceTable) -> Plan:
    if inputs.target not in POOL_TARGETS:
        return plan
    unserved = [w for w in draft.wants if w.pod.key not in draft.assignment.places and w.refused is None]
    pools, served = new_pools(unserved, draft.fleet.nodes, inputs.catalogue, prices, facets)
    if not pools:
        return plan
    names = ", ".join(pool.name for pool in pools)
    request = "nvidia.com/gpu: 1 with its label" if pools[0].strategy == "single" else "nvidia.com/mig-… of its slices"
    words = f"the new pools {names} would serve it, asked for by {request}"
    pods = tuple(_needs_pool(p, words) if f"{p.namespace}/{p.name}" in served else p for p in plan.pods)
    return replace(plan, pods=pods, steps=(*plan.steps, *pool_steps(pools)))


def _needs_pool(pod: PodPlan, words: str) -> PodPlan:
    text = f"not served by what is here: {pod.text}; one of {words}"
    return replace(pod, reason=Reason.NEEDS_NEW_POOL, text=text)


def _savings(draft: Draft, inputs: Inputs, facets: FacetTable, prices: PriceTable, sizes: tuple[str, ...]) -> Savings:
    """GPUs that need not be bought: those that the pods served by new cuts would take, packed exactly."""
    counts: dict[str, Counter[str]] = {}
    entries: dict[str, Entry] = {}
    cost: dict[str, float | None] = {}
    for pod, (node_name, items) in draft.assignment.places.items():
        gpus = draft.fleet.of_node(node_name)
        gpu = _like(gpus, items)
        if gpu is None or gpu.board is None or pod in draft.kept:
            continue
        key = f"{gpu.geometry} {gpus[0].node.azure_size or ''}"
        entries[key] = Entry(key, gpu.board)
        cost[key] = prices.usd_per_gpu_hour(gpus[0].node.azure_size, inputs.catalogue.azure_sizes)
        counts.setdefault(key, Counter()).update(_named(items, gpu.board))
    if not any(counts.values()):
        return Savings(0.0, 0.0, "no waiting pod is served by a new cut")
    whole = {key: mine.pop(WHOLE, 0) for key, mine in counts.items()}
    packing = pack(plain_demand(entries.values(), counts), facets)
    gpus_of = {key: packing.gpus[key] + whole[key] for key in entries}
    unpriced = [key for key, n in gpus_of.items() if n and cost[key] is None]
    usd = None if unpriced else round(sum(n * (cost[key] or 0.0) for key, n in gpus_of.items()), 4)
    where = (
        f"prices: {prices.describe(sizes)}"
        if usd is not None
        else f"money n/a (no price for {', '.join(map(str.strip, unpriced))})"
    )
    source = (
        f"per hour: GPUs that the newly served pods would need elsewhere, packed exactly; declared requests; {where}"
    )
    return Savings(float(sum(gpus_of.values())), usd, source)


def _notes(inputs: Inputs, notes: tuple[str, ...], unused: tuple[Fit, ...]) -> tuple[str, ...]:
    errors = [n.text for n in inputs.snapshot.notes if n.severity == "error"]
    doubts = (*(f"the snapshot has a doubt: {text}" for text in errors), *notes)
    if not unused:
        return doubts
    names = ", ".join(str(fit.workload) for fit in unused[:3]) + (" and more" if len(unused) > 3 else "")
    return *doubts, f"{len(unused)} of the fits fit no pod of the snapshot: {names}"
