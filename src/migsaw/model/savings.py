"""What an applied plan was to save, and what it did save over equal windows before and after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from migsaw.model.fits import Figure

FORBID = {"extra": "forbid"}


@dataclass(frozen=True, slots=True)
class Saving:
    """GPU-hours and US dollars over ``hours``; None is not known. ``realised`` has its interval."""

    __pydantic_config__ = FORBID

    plan_sha256: str
    hours: float
    predicted_gpu_hours: float | None = None
    predicted_usd: float | None = None
    realised_gpu_hours: Figure | None = None
    realised_usd: Figure | None = None
    source: str = ""
    schema: Literal["migsaw/saving/v1"] = "migsaw/saving/v1"
