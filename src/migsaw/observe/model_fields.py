"""Fields of a ``config.json``: typed, and each fault named with file, field and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from migsaw.errors import InputError
from migsaw.observe.reading import Document, Place

LARGEST = 10**9  # more of anything is a slip, not a model


@dataclass(frozen=True, slots=True)
class Fields:
    """One mapping of a document. Where several names are given, the first that is there counts."""

    document: Document
    data: dict[str, Any]
    place: Place = ()

    def has(self, name: str) -> bool:
        return self.data.get(name) is not None

    def whole(self, *names: str, default: int | None = None, least: int = 1) -> int:
        name = next((name for name in names if self.has(name)), None)
        if name is None:
            if default is not None:
                return default
            raise self.fault(names[0], "is missing", "a Hugging Face config.json has it; without it nothing is known")
        value = self.data[name]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST:
            raise self.fault(name, f"{value!r} is no whole number from {least} to {LARGEST}")
        return value

    def maybe(self, name: str, least: int = 1) -> int | None:
        return self.whole(name, least=least) if self.has(name) else None

    def flag(self, *names: str, default: bool = False) -> bool:
        name = next((name for name in names if self.has(name)), None)
        if name is None:
            return default
        if not isinstance(self.data[name], bool):
            raise self.fault(name, f"{self.data[name]!r} is neither true nor false")
        return bool(self.data[name])

    def text(self, name: str, default: str = "") -> str:
        value = self.data.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.fault(name, f"{value!r} is no text")
        return value

    def rate(self, *names: str) -> float:
        for name in names:
            value = self.data.get(name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
                raise self.fault(name, f"{value!r} is no number")
            if value:
                return float(value)
        return 0.0

    def inner(self, name: str) -> Fields | None:
        value = self.data.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.fault(name, "is no mapping")
        return Fields(self.document, value, [*self.place, name])

    def divided(self, whole: int, by: int, name: str) -> int:
        if whole % by:
            raise self.fault(name, f"{whole} is no multiple of {by}", "the sizes contradict each other")
        return whole // by

    def fault(self, name: str, message: str, hint: str | None = None) -> InputError:
        return InputError(f"{name} {message}", where=self.document.where([*self.place, name]), hint=hint)
