"""What several verbs need: the catalogue as a value."""

from __future__ import annotations

from migsaw import catalogue
from migsaw.model.boards import Catalogue
from migsaw.model.catalogue import parse_catalogue


def load_catalogue() -> Catalogue:
    return parse_catalogue(catalogue.read("boards.json"), catalogue.read("azure_sizes.json"))
