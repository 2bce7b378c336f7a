"""Current → recommended for every workload that holds a GPU, chosen so that the slots fit together.

A slot changes only where the fit says so (verdict too big or too small); what is starved, idle or unknown keeps what
it holds in the packing. Work whose holder nobody can name keeps its instances and is no row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import groupby

from migsaw.errors import InfeasibleError
from migsaw.model.boards import Board, Catalogue
from migsaw.model.demand import Entry, Group, Option
from migsaw.model.fits import Fit, Fits, MemoryNeed
from migsaw.model.money import PriceTable
from migsaw.model.policy import Policy
from migsaw.model.recommendation import Change, Recommendation, Together, TogetherRow, Waste, WorkloadRow
from migsaw.model.refs import PodRef
from migsaw.model.snapshot import Pod, Snapshot
from migsaw.plan.eligibility import admits
from migsaw.plan.fleet import FleetGpu, build_fleet, in_use
from migsaw.plan.items import WHOLE
from migsaw.plan.joint import Claim, Joint, choose_together
from migsaw.plan.packing import FacetTable
from migsaw.plan.rates import Rates
from migsaw.plan.shares import Shares, shares_of
from migsaw.plan.wants import FitIndex
from migsaw.plan.work import entries_of, entry_key, held_gpus

ACTED_ON = ("too_big", "too_small")  # verdicts that change a slot


@dataclass(frozen=True, slots=True)
class Holding:
    """``count`` instances of one profile, or pods with ``gpus_each`` whole GPUs, in the hands of one workload."""

    who: tuple[str, str, str]  # namespace, kind, name; empty where nobody can name the holder
    entry: str
    current: str
    gpus_each: int
    count: int
    pod: Pod | None  # one of them: all have the same template
    gpus: tuple[FleetGpu, ...]  # that they lie on, one per instance

    @property
    def name(self) -> str:
        return "/".join((*self.who, self.entry, self.current, str(self.gpus_each)))


def recommend(
    snapshot: Snapshot,
    fits: Fits,
    policy: Policy,
    catalogue: Catalogue,
    facets: FacetTable,
    prices: PriceTable,
    tolerance: float,
) -> Recommendation:
    """``fits``: what right-sizing found, one per workload. Raises nothing for what cannot be packed: it says why."""
    fleet = build_fleet(snapshot, catalogue, policy, None)
    usable = [g for g in fleet.gpus if g.is_known]
    keys = {g.key: entry_key(g, None) for g in usable}
    by_key = entries_of(usable, keys, prices, catalogue)
    entries = {entry.name: entry for entry in by_key.values()}
    entry_of = {gpu: by_key[key] for gpu, key in keys.items()}
    holdings = _holdings(usable, entry_of, {pod.key: pod for pod in snapshot.pods})
    index = FitIndex(fits)
    fit_of = {h.name: index.of(h.pod) if h.pod else None for h in holdings}
    reach = {h.name: _reachable(h.pod, entries, entry_of, usable) for h in holdings}
    slots = [h for h in holdings if _is_slot(h, fit_of)]
    claims = [Claim(h.name, h.count, _options(h, fit_of[h.name], reach[h.name], policy)) for h in slots]
    groups = [
        Group(h.name, h.gpus_each, h.count, h.gpus_each > 1, h.entry)
        for h in holdings
        if h.name not in {claim.name for claim in claims}
    ]
    joint, why = _joint(list(entries.values()), claims, groups, facets)
    sizes = {name: key[3] for key, entry in by_key.items() for name in (entry.name,)}
    rates = Rates(prices, catalogue, entries, sizes, joint.packing if joint else None)
    held = held_gpus(fleet, usable, entry_of)
    rows = tuple(_row(h, fit_of[h.name], joint, entries, rates) for h in holdings if h.pod is not None)
    return Recommendation(
        rows=rows,
        waste=_waste(fleet.gpus, rows, entries, entry_of, rates),
        together=_together(joint, held, rates) if joint else None,
        window=snapshot.telemetry.window if snapshot.telemetry else None,
        tolerance=tolerance,
        why_not_together=why,
        partial=snapshot.telemetry.partial if snapshot.telemetry else (),
        notes=_notes(snapshot, len(fleet.gpus) - len(usable), holdings),
    )


# ---- who holds what ---------------------------------------------------------------------------------------------


def _holdings(
    gpus: Sequence[FleetGpu], entry_of: Mapping[tuple[str, int], Entry], pods: Mapping[str, Pod]
) -> list[Holding]:
    slots: list[tuple[tuple[str, str, str], Pod | None, str, str, FleetGpu]] = []
    whole: dict[tuple[str, str], list[FleetGpu]] = {}
    for gpu in gpus:
        entry = entry_of[gpu.key].name
        for instance in gpu.gpu.instances:
            if instance.state != "idle":
                slots.append((*_who(instance.owner, gpu, pods), entry, instance.profile, gpu))
        if not gpu.gpu.instances and in_use(gpu):
            who = str(gpu.gpu.owner) if gpu.gpu.owner else f"?{gpu.node.name}/{gpu.gpu.index}"
            whole.setdefault((who, entry), []).append(gpu)
    found = []
    slots.sort(key=lambda row: (row[0], row[2], row[3], row[4].key, row[1].key if row[1] else ""))
    for (who, entry, profile), group in groupby(slots, key=lambda row: (row[0], row[2], row[3])):
        mine = list(group)
        found.append(Holding(who, entry, profile, 1, len(mine), mine[0][1], tuple(row[4] for row in mine)))
    found += _whole_holdings(whole, pods)
    return sorted(found, key=lambda h: (h.who, h.entry, h.current, h.gpus_each))


def _whole_holdings(whole: Mapping[tuple[str, str], Sequence[FleetGpu]], pods: Mapping[str, Pod]) -> list[Holding]:
    alike: dict[tuple[tuple[str, str, str], str, int], list[tuple[Pod | None, Sequence[FleetGpu]]]] = {}
    for (_, entry), gpus in sorted(whole.items()):
        who, pod = _who(gpus[0].gpu.owner, gpus[0], pods)
        alike.setdefault((who, entry, len(gpus)), []).append((pod, gpus))
    return [
        Holding(who, entry, WHOLE, n, len(rows), rows[0][0], tuple(g for _, gpus in rows for g in gpus))
        for (who, entry, n), rows in alike.items()
    ]


def _who(owner: PodRef | None, gpu: FleetGpu, pods: Mapping[str, Pod]) -> tuple[tuple[str, str, str], Pod | None]:
    """The workload and its pod; a pod that only telemetry names is one of its own."""
    if owner is None:
        return ("", "", ""), None
    pod = pods.get(str(owner)) or Pod(owner.namespace, owner.pod, gpu.node.name, "Running")
    return _workload(pod), pod


def _workload(pod: Pod) -> tuple[str, str, str]:
    own = pod.workload
    return (own.namespace, own.kind, own.name) if own else (pod.namespace, "Pod", pod.name)


# ---- what it could have -----------------------------------------------------------------------------------------


def _is_slot(holding: Holding, fits: Mapping[str, Fit | None]) -> bool:
    """Whether it holds a slice, or could: one whole GPU whose fit names slices that hold it."""
    if holding.current != WHOLE:
        return True
    fit = fits[holding.name]
    return holding.gpus_each == 1 and fit is not None and fit.verdict == "too_big" and fit.chosen is not None


def _reachable(
    pod: Pod | None, entries: Mapping[str, Entry], entry_of: Mapping[tuple[str, int], Entry], gpus: Sequence[FleetGpu]
) -> dict[str, Entry]:
    """Kinds of GPUs on some node that the scheduler would give the pod."""
    names = {entry_of[g.key].name for g in gpus if pod is None or admits(replace(g.node, schedulable=True), pod)}
    return {name: entry for name, entry in entries.items() if name in names}


def _options(holding: Holding, fit: Fit | None, entries: Mapping[str, Entry], policy: Policy) -> tuple[Option, ...]:
    """Acceptable slots, the one that would be best alone first; only what it holds where the fit says no more."""
    keep = Option(holding.entry, holding.current)
    if fit is None or fit.verdict not in ACTED_ON or fit.chosen is None:
        return (keep,)
    found = []
    for option in fit.options:
        for entry in entries.values():
            profile = entry.board.find(option.profile) if entry.board.key == option.board else None
            if option.fits and profile and policy.allows(profile) and entry.can_make(profile.name):
                found.append(Option(entry.name, profile.name))
    chosen = (fit.chosen.board, fit.chosen.profile)
    own_entry = [o for o in found if o.entry == holding.entry]
    best = [o for o in (*own_entry, *found) if (entries[o.entry].board.key, o.profile) == chosen]
    return tuple(dict.fromkeys((*best[:1], *own_entry, *found))) or (keep,)


def _joint(
    entries: Sequence[Entry], claims: Sequence[Claim], groups: Sequence[Group], facets: FacetTable
) -> tuple[Joint | None, str]:
    if not claims and not groups:
        return None, "nothing is held"
    try:
        return choose_together(entries, claims, groups, facets), ""
    except InfeasibleError as problem:
        return None, problem.message


# ---- rows -------------------------------------------------------------------------------------------------------


def _row(
    holding: Holding, fit: Fit | None, joint: Joint | None, entries: Mapping[str, Entry], rates: Rates
) -> WorkloadRow:
    assert holding.pod is not None
    slot = joint.slots.get(holding.name) if joint else None
    change = _change(holding, fit, slot, entries)
    board = entries[holding.entry].board
    known = change not in ("release", "unknown")
    moves = change in ("shrink", "grow") and slot is not None
    namespace, kind, name = holding.who
    return WorkloadRow(
        namespace=namespace,
        kind=kind,
        name=name,
        entry=holding.entry,
        board=board.key,
        count=holding.count,
        current=holding.current,
        gpus_each=holding.gpus_each,
        change=change,
        recommended=slot.profile if moves and slot else holding.current if known else None,
        recommended_entry=slot.entry if slot else holding.entry,
        alone=fit.chosen.profile if fit and fit.chosen else None,
        verdict=fit.verdict if fit else "unknown",
        reason=_reason(holding, fit),
        measured_by=fit.measured_by if fit else "",
        next_step=fit.next_step if fit else None,
        confidence=fit.confidence if fit else "n/a (nothing was measured)",
        points=fit.points if fit else None,
        memory_mib=_memory(fit, board, slot.profile if slot else holding.current),
        cost=rates.of(holding.gpus, holding.current, slot, change == "release"),
    )


def _change(holding: Holding, fit: Fit | None, slot: Option | None, entries: Mapping[str, Entry]) -> Change:
    if fit is None or fit.verdict == "unknown":
        return "unknown"
    if fit.verdict == "idle":
        return "release"
    if slot is None or fit.verdict not in ACTED_ON or (slot.entry, slot.profile) == (holding.entry, holding.current):
        return "stay"
    return "shrink" if fit.verdict == "too_big" else "grow"


def _reason(holding: Holding, fit: Fit | None) -> str:
    if fit is None:
        return "nothing was measured"
    if holding.gpus_each > 1:
        return f"one pod holds {holding.gpus_each} GPUs together: a slice has no peer-to-peer. {fit.because}".rstrip()
    return fit.because


def _memory(fit: Fit | None, board: Board, profile: str) -> MemoryNeed:
    for option in fit.options if fit else ():
        if (option.board, option.profile) == (board.key, profile):
            return option.memory_mib
    return MemoryNeed()


# ---- sums -------------------------------------------------------------------------------------------------------


def _waste(
    gpus: Sequence[FleetGpu],
    rows: Sequence[WorkloadRow],
    entries: Mapping[str, Entry],
    entry_of: Mapping[tuple[str, int], Entry],
    rates: Rates,
) -> Waste:
    """Compute slices. What right-sizing gives back counts as idle in use, whether anybody works there or not."""
    seen = [(gpu, shares_of(gpu.gpu, gpu.board)) for gpu in gpus]
    total = sum((shares for _, shares in seen if shares), Shares())
    unneeded: Counter[str] = Counter()
    for row in rows:
        unneeded[row.entry] += _unneeded(row, entries)
    held = total.busy + total.idle_in_use
    idle = min(unneeded.total(), held)
    free, lost = ({g.key: getattr(s, kind) for g, s in seen if s} for kind in ("free", "stranded"))
    usd, source = rates.of_slices([unneeded, _by_entry(free, entry_of), _by_entry(lost, entry_of)])
    return Waste(sum(astuple(total)), held - idle, idle, total.free, total.stranded, total.unknown, usd, source)


def _by_entry(slices: Mapping[tuple[str, int], int], entry_of: Mapping[tuple[str, int], Entry]) -> Counter[str]:
    """Slices per kind of GPU; boards without known placements are in no kind."""
    found: Counter[str] = Counter()
    for gpu, number in slices.items():
        if gpu in entry_of:
            found[entry_of[gpu].name] += number
    return found


def _unneeded(row: WorkloadRow, entries: Mapping[str, Entry]) -> int:
    """Slices that the row holds and does not need."""
    board = entries[row.entry].board
    now = _slices(board, row.current) * row.gpus_each
    if row.change == "release":
        return now * row.count
    if row.change != "shrink" or row.recommended is None or row.recommended_entry is None:
        return 0
    return max(0, now - _slices(entries[row.recommended_entry].board, row.recommended)) * row.count


def _slices(board: Board, profile: str) -> int:
    found = board.find(profile)
    return found.compute_slices if found and profile != WHOLE else board.compute_slices or 0


def _together(joint: Joint, held: Mapping[str, int], rates: Rates) -> Together:
    packing, bound = joint.packing, joint.lower_bound
    gap = float((packing.objective - bound) / packing.objective) if packing.objective else 0.0
    now, source = rates.of_gpus(held)
    then, _ = rates.of_gpus(packing.gpus)
    return Together(
        gpus_now=sum(held.values()),
        gpus=packing.total,
        objective=float(packing.objective),
        lower_bound=float(bound),
        gap=gap,
        unit="GPUs" if packing.usd_per_hour is None else "USD per hour",
        gpus_alone=joint.alone.total,
        usd_per_month_now=now,
        usd_per_month=then,
        rows=tuple(
            TogetherRow(r.entry, tuple(map(str, r.layout)) if r.mig_on else (WHOLE,), r.count) for r in packing.layouts
        ),
        source=source,
    )


def _notes(snapshot: Snapshot, left_out: int, holdings: Sequence[Holding]) -> tuple[str, ...]:
    found = []
    known = {h.who for h in holdings}
    lost = sorted({"/".join(_workload(p)) for p in snapshot.pods if p.node and p.asks and _workload(p) not in known})
    if lost:
        names = ", ".join(lost[:3]) + (" and more" if len(lost) > 3 else "")
        found.append(f"running, and without a row since nobody says what they hold: {names}")
    if left_out:
        found.append(f"{left_out} GPUs are left out: their placements, or what they hold, are not known")
    return tuple(found)
