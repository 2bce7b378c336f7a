"""What a person gives to ``migsaw estimate`` → a model and a set-up: ``config.json``, or a file of explicit sizes."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from migsaw.errors import InputError
from migsaw.model.workload_shape import Architecture, EstimateFile, Model, Setup
from migsaw.observe import documents
from migsaw.observe.model_config import parse_model, read_weights
from migsaw.observe.reading import Document, read_document

LEAST_ONE = ("hidden", "layers", "heads", "kv_heads", "head_dim", "intermediate")


def read_asked(path: Path, weights: Path | None = None) -> tuple[Model, Setup]:
    """``weights`` beats what the file names. Raises :class:`InputError` with file, field and hint."""
    document = read_document(path)
    if not isinstance(document.data, dict) or "schema" not in document.data:
        return parse_model(document, weights), Setup()
    asked = documents.parse(document, EstimateFile)
    given = weights or (path.parent / asked.weights if asked.weights else None)
    if (asked.config is None) == (asked.sizes is None):
        hint = "`config: config.json`, or `sizes:` with hidden, layers, heads, …"
        raise InputError("either config or sizes is needed", where=document.where(["config"]), hint=hint)
    if asked.config is not None:
        if asked.quantization is not None:
            hint = "its quantization_config says it; setup.precision asks for another"
            raise InputError("config says it already", where=document.where(["quantization"]), hint=hint)
        return parse_model(read_document(path.parent / asked.config), given), asked.setup
    assert asked.sizes is not None
    _check(asked.sizes, document)
    stored = None if given is None else read_weights(given)
    return Model(asked.sizes.name, asked.sizes, quantization=asked.quantization, weights=stored), asked.setup


def _check(sizes: Architecture, document: Document) -> None:
    for field in fields(sizes):
        value = getattr(sizes, field.name)
        if not isinstance(value, int) or isinstance(value, bool):
            continue
        least = 1 if field.name in LEAST_ONE else 0
        if value < least:
            raise InputError(f"{value} is less than {least}", where=document.where(["sizes", field.name]))
    if sizes.windows and len(sizes.windows) != sizes.layers:
        message = f"{len(sizes.windows)} windows for {sizes.layers} layers"
        raise InputError(message, where=document.where(["sizes", "windows"]), hint="one for each layer, null: all")
    if sizes.experts is not None and sizes.experts.dense_layers > sizes.layers:
        raise InputError("more dense layers than layers", where=document.where(["sizes", "experts", "dense_layers"]))
