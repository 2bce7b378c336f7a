"""Price tables: the package's dated one, or a user's file of the same shape."""

from __future__ import annotations

from pathlib import Path

from migsaw import catalogue
from migsaw.model.money import PriceTable
from migsaw.observe.documents import parse, read
from migsaw.observe.reading import Document, parse_json


def load_prices(path: Path | None = None) -> PriceTable:
    if path is not None:
        return read(path, PriceTable)
    name = "prices.json"
    text = catalogue.read(name).decode()
    return parse(Document(name, text, parse_json(text, name), True), PriceTable)
