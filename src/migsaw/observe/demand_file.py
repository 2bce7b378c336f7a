"""The words of ``demand.yaml`` (``docs/reference/schemas/demand.json``), validated by pydantic. No name is resolved.

Numbers mean exactly the decimals that are written: the file is read with :class:`decimal.Decimal` in place of floats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from migsaw.model.demand import Scope

FORBID = {"extra": "forbid"}
LARGEST = 10**24
SMALLEST_EXPONENT = -24


def _exact(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        raise ValueError(f"{value!r} is no number")
    number = Decimal(value)
    if number < 0:
        raise ValueError(f"{value} is negative")
    if number > LARGEST or (number and number.adjusted() < SMALLEST_EXPONENT):
        raise ValueError("the number is too large or too small to mean something")
    return number


def _whole(value: Any) -> int:
    number = _exact(value)
    if number != int(number):
        raise ValueError(f"{value} is no whole number")
    return int(number)


Count = Annotated[int, BeforeValidator(_whole)]
Positive = Annotated[int, BeforeValidator(_whole), Field(ge=1)]
Exact = Annotated[Decimal, BeforeValidator(_exact)]


@dataclass(frozen=True, slots=True)
class BoardEntry:
    """A supply of GPUs. ``board`` where the key is a name of your own, such as that of a pool."""

    __pydantic_config__ = FORBID

    board: str | None = None
    usd_per_hour: Exact | None = None
    at_most: Count | None = None
    gpus_per_node: Positive | None = None
    layout_scope: Scope = "gpu"


@dataclass(frozen=True, slots=True)
class PolicyWords:
    __pydantic_config__ = FORBID

    profiles: tuple[str, ...] | None = None
    strict: Annotated[bool, Field(strict=True)] = False
    headroom: Mapping[str, Count] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WholeGpus:
    __pydantic_config__ = FORBID

    name: str
    gpus: Positive
    count: Count = 1
    same_node: Annotated[bool, Field(strict=True)] = False


@dataclass(frozen=True, slots=True)
class Point:
    """What one instance of a profile does, all its processes together."""

    __pydantic_config__ = FORBID

    board: str
    profile: str
    throughput_per_second: Exact
    latency_ms: Exact | None = None
    batch: Count | None = None
    processes: Count | None = None


@dataclass(frozen=True, slots=True)
class WorkloadWords:
    """``count`` with ``profiles``, or ``rate_per_second`` with ``points`` or ``points_csv``."""

    __pydantic_config__ = FORBID

    name: str
    count: Count | None = None
    profiles: tuple[str, ...] | None = None
    rate_per_second: Exact | None = None
    latency_slo_ms: Exact | None = None
    latency_fraction: Exact = Decimal(1)
    points: tuple[Point, ...] | None = None
    points_csv: str | None = None


@dataclass(frozen=True, slots=True)
class DemandFile:
    __pydantic_config__ = FORBID

    boards: Annotated[Mapping[str, BoardEntry | None], Field(min_length=1)]
    policy: PolicyWords = field(default_factory=PolicyWords)
    instances: Mapping[str, Count] = field(default_factory=dict)
    whole_gpus: tuple[WholeGpus, ...] = ()
    workloads: tuple[WorkloadWords, ...] = ()
    schema: Literal["migsaw/demand/v1"] = "migsaw/demand/v1"
