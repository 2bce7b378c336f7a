"""How one value points at a pod. Apart, so that snapshot and telemetry can both use it."""

from __future__ import annotations

from dataclasses import dataclass

FORBID = {"extra": "forbid"}


@dataclass(frozen=True, slots=True)
class PodRef:
    __pydantic_config__ = FORBID

    namespace: str
    pod: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.pod}"
