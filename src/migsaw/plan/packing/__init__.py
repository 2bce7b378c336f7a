"""PURE: exact packing. A demand and a set of boards → the fewest GPUs or the least cost, the layouts, and a proof.

:func:`pack` is the door. One board with plain instances needs no solver (:mod:`facets`, :mod:`peel`); alternatives
are an integer programme (:mod:`build`, :mod:`search`). Every plan is counted again by :mod:`verify` before it is given
out, and every bound is computed in whole numbers. See ``designs/0003-exact-packing.md``.
"""

from __future__ import annotations

from migsaw.plan.packing.answer import AssignmentRow, LayoutRow, Packing, ScopeCost
from migsaw.plan.packing.facets import FacetTable, parse_facets
from migsaw.plan.packing.solve import pack, pack_by_rule

__all__ = ["AssignmentRow", "FacetTable", "LayoutRow", "Packing", "ScopeCost", "pack", "pack_by_rule", "parse_facets"]
