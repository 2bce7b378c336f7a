"""What restarting everything would allow: the same work packed on an empty fleet, exactly, with its proof.

Two answers: every slot that fits may be used, and the recommended policy chose the slots (2g and 3g first). Their
difference is what the recommendation costs or saves.
"""

from __future__ import annotations

from migsaw.errors import MigsawError
from migsaw.model.money import PriceTable
from migsaw.model.plan import Ideal, IdealRow, Savings
from migsaw.plan.packing import FacetTable, LayoutRow, Packing, pack
from migsaw.plan.work import Work


def ideal_of(work: Work, facets: FacetTable, prices: PriceTable, sizes: tuple[str, ...]) -> Ideal | None:
    """None where nothing is held; a text with the reason where the work cannot be packed at all."""
    now = sum(work.gpus_held.values())
    if not now:
        return None
    try:
        best, chosen = pack(work.held, facets), pack(work.recommended, facets)
    except MigsawError as problem:
        return Ideal(now, now, float(now), 0.0, 1.0, text=f"n/a ({problem.message})")
    usd = _usd(work, best)
    source = f"prices: {prices.describe(sizes)}" if usd is not None else "money n/a (no price for a size)"
    return Ideal(
        gpus_now=now,
        gpus=best.total,
        objective=float(best.objective),
        lower_bound=float(best.lower_bound),
        gap=float(best.gap),
        unit="GPUs" if best.usd_per_hour is None else "USD per hour",
        gpus_with_waiting=_with_waiting(work, facets),
        gpus_recommended=chosen.total,
        scope_cost_gpus=best.scope_cost.gpus if best.scope_cost else None,
        scope_cost_usd=_scope_usd(best),
        rows=tuple(
            IdealRow(r.entry, tuple(map(str, r.layout)) if r.mig_on else ("off",), r.count) for r in best.layouts
        ),
        savings=Savings(float(now - best.total), usd, f"per hour, if all work were restarted; {source}"),
        text=_text(work, best, chosen),
    )


def _shown(row: LayoutRow) -> tuple[str, ...]:
    return tuple(map(str, row.layout)) if row.mig_on else ("off",)


def _with_waiting(work: Work, facets: FacetTable) -> int | None:
    try:
        return pack(work.all, facets).total
    except MigsawError:
        return None


def _scope_usd(best: Packing) -> float | None:
    cost = best.scope_cost.usd_per_hour if best.scope_cost else None
    return None if cost is None else round(float(cost), 4)


def _usd(work: Work, best: Packing) -> float | None:
    if best.usd_per_hour is None:
        return None
    now = sum((e.usd_per_hour or 0) * work.gpus_held[e.name] for e in work.entries)
    return round(float(now - best.usd_per_hour), 4)


def _text(work: Work, best: Packing, chosen: Packing) -> str:
    more = float(chosen.objective - best.objective)
    unit = "USD per hour" if best.usd_per_hour is not None else "GPUs"
    difference = f"{more:g} {unit} more than the optimum" if more else "which costs no more than the optimum"
    left = f"; {work.left_out} GPUs of boards without known placements are left out" if work.left_out else ""
    return f"Taking 2g and 3g slices first, as recommended: {chosen.total} GPUs, {difference}{left}"
