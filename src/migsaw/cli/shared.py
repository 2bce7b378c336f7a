"""What several verbs need of the package's own data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from migsaw import catalogue
from migsaw.model.boards import Catalogue
from migsaw.model.catalogue import parse_catalogue

if TYPE_CHECKING:
    from migsaw.plan.packing import FacetTable


def load_catalogue() -> Catalogue:
    return parse_catalogue(catalogue.read("boards.json"), catalogue.read("azure_sizes.json"))


def load_facets() -> FacetTable:
    from migsaw.plan.packing import parse_facets

    return parse_facets(catalogue.read("facets.json"))
