"""New AKS pools for pods that nothing here can serve: an AKS pool cannot be cut anew, only stood beside.

Packed exactly in the scope of a pool (one profile on every GPU of its nodes) over the sizes that the cluster has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from migsaw.errors import MigsawError
from migsaw.model.boards import Catalogue
from migsaw.model.demand import Demand, Entry, Need, Option
from migsaw.model.money import PriceTable
from migsaw.model.plan import PoolStep
from migsaw.model.snapshot import Node
from migsaw.plan.items import WHOLE, is_single
from migsaw.plan.packing import FacetTable, pack
from migsaw.plan.steps import pool_name
from migsaw.plan.wants import Want


def new_pools(
    wants: Sequence[Want], nodes: Sequence[Node], catalogue: Catalogue, prices: PriceTable, facets: FacetTable
) -> tuple[tuple[PoolStep, ...], frozenset[str]]:
    """(pools, keys of the pods they would serve). Pods tied to existing nodes by a selector cannot be helped so."""
    entries = _entries(nodes, catalogue, prices)
    needs: Counter[tuple[Option, ...]] = Counter()
    served = set()
    for want in wants:
        options = _options(want, entries)
        if options:
            needs[options] += want.count
            served.add(want.pod.key)
    if not needs:
        return (), frozenset()
    rows = sorted(needs.items(), key=lambda row: [(o.entry, o.profile) for o in row[0]])
    demand = Demand(entries, tuple(Need(f"new-{k}", "workload", Fraction(n), o) for k, (o, n) in enumerate(rows)))
    try:
        packing = pack(demand, facets)
    except MigsawError:
        return (), frozenset()
    gpus: Counter[tuple[str, str]] = Counter()
    for row in packing.layouts:
        for name in {p.profile for p in row.layout}:
            gpus[row.entry, name] += row.count
    return _steps(gpus, entries, nodes), frozenset(served)


def _entries(nodes: Sequence[Node], catalogue: Catalogue, prices: PriceTable) -> tuple[Entry, ...]:
    names = sorted({n.azure_size for n in nodes if n.owner in ("aks", "aks-managed") and n.azure_size})
    sizes = [s for name in names if (s := catalogue.azure_sizes.get(name)) and s.repartitionable]
    cost = {s.name: prices.usd_per_gpu_hour(s.name, catalogue.azure_sizes) for s in sizes}
    priced = all(value is not None for value in cost.values())
    return tuple(
        Entry(s.name, catalogue.board(s.board), Fraction(str(cost[s.name])) if priced else None, None, s.gpus, "pool")
        for s in sizes
    )


def _options(want: Want, entries: Sequence[Entry]) -> tuple[Option, ...]:
    if want.pod.node_selector or want.pod.node_affinity or want.count > 1:
        return ()
    found = []
    for entry in entries:
        for option in want.options(entry.board, False):
            name = option[0][0]
            if len(option) == 1 and name != WHOLE and entry.board.find(name) and entry.can_make(name):
                found.append(Option(entry.name, name))
    return tuple(dict.fromkeys(found))


def _steps(gpus: Counter[tuple[str, str]], entries: Sequence[Entry], nodes: Sequence[Node]) -> tuple[PoolStep, ...]:
    taken = {n.pool for n in nodes if n.pool}
    strategy: Literal["single", "mixed"] = "single" if nodes and all(map(is_single, nodes)) else "mixed"
    steps = []
    for (entry_name, profile), count in sorted(gpus.items()):
        entry = next(e for e in entries if e.name == entry_name)
        slices = entry.board.profile(profile).compute_slices
        name = pool_name(f"mig{slices}g{entry.board.key.split('-')[0]}", taken)
        taken.add(name)
        steps.append(PoolStep(name, entry_name, -(-count // entry.gpus_per_node), (f"MIG{slices}g",), strategy))
    return tuple(steps)
