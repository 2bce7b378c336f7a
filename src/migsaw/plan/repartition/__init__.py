"""PURE: repartition around running work, exact and by GPU state, so that its size does not follow the number of GPUs.

:func:`repartition` is the door; :mod:`steps` orders the changes. Every answer is counted again by :mod:`verify`, every
bound is computed in whole numbers. See ``designs/0011-repartition.md``.
"""

from __future__ import annotations

from migsaw.plan.repartition.make import repartition
from migsaw.plan.repartition.values import (
    AKS_POOL,
    DRA,
    MIG_MANAGER,
    Actuator,
    Ask,
    Change,
    Held,
    Level,
    MoveBudget,
    PoolGpu,
    Repartition,
)

__all__ = [
    "AKS_POOL",
    "DRA",
    "MIG_MANAGER",
    "Actuator",
    "Ask",
    "Change",
    "Held",
    "Level",
    "MoveBudget",
    "PoolGpu",
    "Repartition",
    "repartition",
]
