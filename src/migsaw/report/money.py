"""Money and savings in words. What is not known is n/a with its reason, never 0. The figures are made elsewhere."""

from __future__ import annotations

from collections.abc import Iterable

from migsaw.model.boards import Board
from migsaw.model.layouts import parse_placed
from migsaw.model.money import slice_shares
from migsaw.model.plan import Savings
from migsaw.report.table import na


def usd(value: float | None, why: str) -> str:
    """``12.34 USD``; ``why`` says why it is not known."""
    return na(why) if value is None else f"{value:,.2f} USD"


def number(value: float | None, why: str) -> str:
    """Up to three decimals, without trailing zeros."""
    return na(why) if value is None else f"{value:,.3f}".rstrip("0").rstrip(".")


def savings_line(savings: Savings) -> str:
    """One sentence with its source; both figures are per hour of operation."""
    if savings.gpu_hours is None and savings.usd is None:
        return f"Saves per hour: {na(savings.source)}"
    hours = f"{number(savings.gpu_hours, savings.source)} GPU-hour{'' if savings.gpu_hours == 1 else 's'}"
    if savings.usd is None:
        return f"Saves per hour: {hours}, n/a in money ({savings.source})"
    return f"Saves per hour: {hours}, {usd(savings.usd, '')} ({savings.source})"


def percent(fraction: float) -> str:
    """A gap of exactly 0 is ``0 %``; a smaller one than can be shown is not."""
    if 0 < fraction < 0.0001:
        return "< 0.01 %"
    return f"{fraction * 100:.2f}".rstrip("0").rstrip(".") + " %"


def slice_costs(board: Board, texts: Iterable[str], usd_per_gpu_hour: float) -> str:
    """What each kind of slice of a layout costs per hour, what it strands included."""
    shares = slice_shares(board, [parse_placed(text) for text in texts])
    costs = {share.placed.profile: share.share * usd_per_gpu_hour for share in shares}
    return ", ".join(f"{profile} {usd(cost, '')}" for profile, cost in sorted(costs.items())) or "no slices"
