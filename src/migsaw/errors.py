"""The tree of errors. Every error says what happened, where, and what to do next.

    MigsawError                 exit 1
    ├── InputError              exit 2   a file, option or name that a person gave is wrong
    └── InfeasibleError         exit 1   the input is sound, but nothing can satisfy it
        └── TargetError         exit 1   a target cannot express what was asked of it

This module stands below all rooms, so that pure rooms can refuse too.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Where:
    """A place in an input: file name, line (1-based) or path such as ``$.nodes[3].name``, and field."""

    file: str | None = None
    place: str | None = None
    field: str | None = None

    def __str__(self) -> str:
        is_path = bool(self.place and self.place.startswith("$"))  # it names the field itself
        parts = [self.file, self.place if is_path or not self.place else f"line {self.place}"]
        parts += [] if is_path and self.place and self.place.endswith(f".{self.field}") else [self.field]
        return ": ".join(part for part in parts if part)


class MigsawError(Exception):
    """Anything that ends a command. ``hint`` is the next thing to do."""

    exit_code = 1

    def __init__(self, message: str, *, where: Where | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.where, self.hint = message, where, hint

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where and str(self.where) else self.message


class InputError(MigsawError):
    exit_code = 2


class InfeasibleError(MigsawError):
    pass


class TargetError(InfeasibleError):
    pass
