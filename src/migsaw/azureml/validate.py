"""Job files held to azure-ai-ml's own schema, offline: no network, no credentials.

The SDK refuses unknown keys and wrong types. It does not look whether a compute, an InstanceType or an input exists:
only the service can tell that.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from migsaw.errors import InputError, Where

SDK = "azure-ai-ml"
INSTALL = "pip install 'migsaw[azure]'"


def validated(paths: Iterable[Path]) -> str | None:
    """The SDK and its version, which loads every one of these files; None where it is not installed.

    Raises :class:`InputError` with the file and the fields that the SDK refuses.
    """
    if not _is_here():
        return None
    from importlib.metadata import version

    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)  # of experimental classes that no job uses
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the marshmallow that it was written for
            from azure.ai.ml import load_job

            for path in paths:
                _load(load_job, path)
    finally:
        logging.disable(disabled)
    return f"{SDK} {version(SDK)}"


def _is_here() -> bool:
    try:
        return importlib.util.find_spec("azure.ai.ml") is not None
    except ModuleNotFoundError:
        return False


def _load(load_job: Any, path: Path) -> None:
    try:
        load_job(str(path))
    except Exception as problem:  # the SDK's, marshmallow's and its YAML reader's: none is a common one
        said = "; ".join(_faults(str(problem)))
        raise InputError(f"{SDK} refuses it: {said}", where=Where(str(path))) from None


def _faults(text: str) -> list[str]:
    """``resources.limits: Unknown field.``: what the SDK wraps into two layers of JSON and advice."""
    outer = _json_in(text)
    errors = outer.get("errors") if isinstance(outer, dict) else None
    inner = _json_in(str(errors[0].get("message"))) if errors else outer
    return list(_flat("", inner)) if isinstance(inner, dict) else [text.strip().splitlines()[0]]


def _json_in(text: str) -> Any:
    try:
        return json.JSONDecoder().raw_decode(text, text.index("{"))[0]
    except ValueError:
        return None


def _flat(at: str, fault: Any) -> Iterator[str]:
    if isinstance(fault, dict):
        for key, value in fault.items():
            yield from _flat(f"{at}.{key}" if at else str(key), value)
    else:
        yield f"{at}: {' '.join(map(str, fault)) if isinstance(fault, list) else fault}"
