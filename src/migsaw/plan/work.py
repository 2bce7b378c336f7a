"""The work of a snapshot as a demand: what is held, what waits, and which slots each could have.

Entries are the kinds of GPUs of the fleet: a board, what one decision of its owner covers, and a price. Held slices
keep their profile unless a fits file says otherwise; a whole GPU held by one pod may become a slice where a fit, or one
sample of its memory, says that it fits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from migsaw.model.boards import Board, Catalogue
from migsaw.model.demand import Demand, Entry, Group, Need, Option
from migsaw.model.fits import Fit
from migsaw.model.money import PriceTable
from migsaw.model.plan import Target
from migsaw.model.policy import Policy, recommended
from migsaw.model.refs import PodRef
from migsaw.model.snapshot import Node, Pod, Scope
from migsaw.plan.fleet import Fleet, FleetGpu, in_use
from migsaw.plan.items import WHOLE
from migsaw.plan.wants import FitIndex, Want, may_hold_whole

EntryKey = tuple[str, Scope, int, str]  # board, scope, GPUs per node, Azure size
GpuKey = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Work:
    """``held``: every slot that fits may be used; ``recommended``: the default policy chose one slot each;
    ``all``: held and waiting work together."""

    entries: tuple[Entry, ...]
    held: Demand
    recommended: Demand
    all: Demand
    gpus_held: Mapping[str, int]  # entry → GPUs that hold something now, whole nodes where the scope is a node or wider
    left_out: int  # GPUs whose placements, or what they hold, are not known


def scope_of(node: Node, target: Target | None) -> Scope:
    """What one decision covers: as the snapshot shows. Azure ML's documented InstanceTypes need one profile a node."""
    seen = node.layout_scope or "gpu"
    return "node" if target == "azureml" and seen == "gpu" else seen


def work_of(
    fleet: Fleet,
    wants: Iterable[Want],
    fits: FitIndex,
    policy: Policy,
    pods: Iterable[Pod],
    prices: PriceTable,
    catalogue: Catalogue,
    target: Target | None = None,
) -> Work:
    """``fits``: the user's, then those of one sample; the first that names a workload counts."""
    usable = [g for g in fleet.gpus if g.is_known]
    key_of = {g.key: entry_key(g, target) for g in usable}
    entries = entries_of(usable, key_of, prices, catalogue)
    entry_of = {gpu: entries[key] for gpu, key in key_of.items()}
    by_key = {pod.key: pod for pod in pods}
    needs: Counter[tuple[Option, ...]] = Counter()
    groups: Counter[tuple[str, int]] = Counter()
    for gpu in usable:
        name = entry_of[gpu.key].name
        for instance in gpu.gpu.instances:
            if instance.state != "idle":
                needs[_slots(instance.owner, instance.profile, gpu, name, by_key, fits, policy)] += 1
    for holders, entry, options in _whole_holders(usable, entry_of, by_key, fits, policy):
        if options:
            needs[options] += 1
        else:
            groups[entry, holders] += 1
    held, chosen = (_demand(entries.values(), needs, groups, pick=pick) for pick in (False, True))
    for want in wants:
        options = _want_options(want, entries)
        if options:
            needs[options] += want.count
        elif not want.slots:
            _add_as_asked(want, entries.values(), needs, groups)
    return Work(
        tuple(entries.values()),
        held,
        chosen,
        _demand(entries.values(), needs, groups, pick=False),
        held_gpus(fleet, usable, entry_of),
        len(fleet.gpus) - len(usable),
    )


def entry_key(gpu: FleetGpu, target: Target | None) -> EntryKey:
    return gpu.geometry, scope_of(gpu.node, target), len(gpu.node.gpus), gpu.node.azure_size or ""


def entries_of(
    gpus: Iterable[FleetGpu], keys: Mapping[GpuKey, EntryKey], prices: PriceTable, catalogue: Catalogue
) -> dict[EntryKey, Entry]:
    """Prices count only where every entry has one; then money decides, else GPUs."""
    boards = {keys[g.key]: g.board for g in gpus if g.board}
    cost = {key: prices.usd_per_gpu_hour(key[3] or None, catalogue.azure_sizes) for key in boards}
    priced = all(value is not None for value in cost.values())
    found = {}
    for key, board in sorted(boards.items(), key=lambda row: row[0]):
        nodes = f"{key[2]} GPU{'s' * (key[2] != 1)}/node"
        name = " ".join(part for part in (key[0], key[3] or nodes, key[1]) if part)
        value = cost[key]
        usd = Fraction(str(value)) if priced and value is not None else None
        found[key] = Entry(name, board, usd, None, key[2], key[1])
    return found


def _slots(
    owner: PodRef | None,
    profile: str,
    gpu: FleetGpu,
    entry: str,
    pods: Mapping[str, Pod],
    fits: FitIndex,
    policy: Policy,
) -> tuple[Option, ...]:
    """What a held slice could be: itself, or what the user's fit of its workload says for this board."""
    board = gpu.board
    assert board is not None
    pod = pods.get(str(owner)) if owner else None
    fit = fits.of(pod) if pod else None
    given = fit is not None and fit.source not in ("predicted", "declared") and fit.workload_class is None
    if fit is not None and given and (found := _fitted(fit, board, entry, policy)):
        return found
    own = board.find(profile)
    return (Option(entry, own.name if own else profile),)


def _whole_holders(
    gpus: Iterable[FleetGpu], entry_of: Mapping[GpuKey, Entry], pods: Mapping[str, Pod], fits: FitIndex, policy: Policy
) -> list[tuple[int, str, tuple[Option, ...]]]:
    """(GPUs, entry, slots) per holder of whole GPUs; no slots: it keeps whole GPUs. An unnamed holder keeps its GPU."""
    holders: dict[tuple[str, str], list[FleetGpu]] = {}
    for gpu in gpus:
        if not gpu.gpu.instances and in_use(gpu):
            who = str(gpu.gpu.owner) if gpu.gpu.owner else f"{gpu.node.name}/{gpu.gpu.index}"
            holders.setdefault((entry_of[gpu.key].name, who), []).append(gpu)
    rows = []
    for (entry, who), mine in sorted(holders.items(), key=lambda row: row[0]):
        pod, board = pods.get(who), mine[0].board
        options: tuple[Option, ...] = ()
        excepted = pod is None or not policy.strict or may_hold_whole(pod, len(mine), policy)
        fit = None if excepted or pod is None else fits.of(pod)
        if fit is not None and board is not None:
            names = (
                [fit.chosen.profile]
                if fit.chosen
                else [o.profile for o in fit.options if o.fits and o.board == board.key]
            )
            found = [p.name for name in names if (p := board.find(name)) and policy.allows(p)]
            options = tuple(Option(entry, name) for name in dict.fromkeys(found))
        rows.append((len(mine), entry, options))
    return rows


def _fitted(fit: Fit, board: Board, entry: str, policy: Policy) -> tuple[Option, ...]:
    """The slots of a fit on one entry; a choice binds where it is one."""
    own = [o.profile for o in fit.options if o.fits and o.board == board.key]
    names = [fit.chosen.profile] if fit.chosen and fit.source != "predicted" else own
    found = [p.name for name in names if (p := board.find(name)) and policy.allows(p)]
    return tuple(Option(entry, name) for name in dict.fromkeys(found))


def _want_options(want: Want, entries: Mapping[EntryKey, Entry]) -> tuple[Option, ...]:
    found = []
    for entry in entries.values():
        for option in want.options(entry.board, False):
            named = [item for item, _ in option]
            if len(named) == 1 and named[0] != WHOLE and entry.board.find(named[0]) and entry.can_make(named[0]):
                found.append(Option(entry.name, named[0]))
    return tuple(dict.fromkeys(found))


def _add_as_asked(
    want: Want,
    entries: Iterable[Entry],
    needs: Counter[tuple[Option, ...]],
    groups: Counter[tuple[str, int]],
) -> None:
    """Whole GPUs, slices of several profiles, or both: each for itself."""
    for item, count in want.asks:
        options = tuple(Option(e.name, p.name) for e in entries if (p := e.board.find(item)) and e.can_make(p.name))
        if item == WHOLE:
            groups["", count] += 1
        elif options:
            needs[options] += count


def _demand(
    entries: Iterable[Entry],
    needs: Mapping[tuple[Option, ...], int],
    groups: Mapping[tuple[str, int], int],
    *,
    pick: bool,
) -> Demand:
    entries = tuple(entries)
    boards = {entry.name: entry.board for entry in entries}
    rows: list[Need] = []
    for options, count in sorted(needs.items(), key=lambda row: [(o.entry, o.profile) for o in row[0]]):
        kept = _recommended(options, boards) if pick else options
        rows.append(Need(f"work-{len(rows)}", "workload", Fraction(count), kept))
    whole = tuple(
        Group(f"whole-{e or 'any'}-{n}", n, count, n > 1, e or None) for (e, n), count in sorted(groups.items())
    )
    return Demand(entries, tuple(rows), whole)


def _recommended(options: tuple[Option, ...], boards: Mapping[str, Board]) -> tuple[Option, ...]:
    """The recommended slot of each entry among those that fit."""
    kept = []
    for entry in dict.fromkeys(o.entry for o in options):
        mine = [o for o in options if o.entry == entry]
        slot = recommended(boards[entry], tuple(boards[entry].profile(o.profile) for o in mine))
        kept += [o for o in mine if slot is None or o.profile == slot.name]
    return tuple(kept)


def held_gpus(fleet: Fleet, usable: Iterable[FleetGpu], entry_of: Mapping[GpuKey, Entry]) -> dict[str, int]:
    held: Counter[str] = Counter()
    nodes: set[tuple[str, str]] = set()
    for gpu in usable:
        entry = entry_of[gpu.key]
        if not in_use(gpu):
            continue
        if entry.scope == "gpu":
            held[entry.name] += 1
        elif (entry.name, gpu.node.name) not in nodes:
            nodes.add((entry.name, gpu.node.name))
            held[entry.name] += len(fleet.of_node(gpu.node.name))
    return {entry.name: held[entry.name] for entry in entry_of.values()}
