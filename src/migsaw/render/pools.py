"""What AKS can express: pools of one size with one of five GPU instance profiles, or (preview) one layout on every GPU.

Facts: ``az aks nodepool add --gpu-instance-profile`` knows MIG1g, MIG2g, MIG3g, MIG4g and MIG7g; the node script cuts
every GPU into GI profile ids 19 × 7, 14 × 3, 9 × 2, 5 or 0. The preview API (2026-08-02-preview) adds
``gpuProfile.nvidia.migProfiles``, an ordered list for every GPU, instead of ``gpuInstanceProfile``. Nothing of this can
be changed on a pool that exists.
"""

from __future__ import annotations

import re

from migsaw.errors import TargetError
from migsaw.model.boards import Catalogue, Profile
from migsaw.model.names import WHOLE_GPU_RESOURCE, resource_name
from migsaw.model.plan import NodePlan, Plan, PoolStep
from migsaw.render.cuts import Offer

AKS_PROFILE_IDS = {"MIG1g": 19, "MIG2g": 14, "MIG3g": 9, "MIG4g": 5, "MIG7g": 0}
UNIFORM_COUNTS = {"MIG1g": 7, "MIG2g": 3, "MIG3g": 2, "MIG4g": 1, "MIG7g": 1}

_POOL_NAME = re.compile(r"[a-z][a-z0-9]{0,11}")


def new_pools(plan: Plan) -> tuple[PoolStep, ...]:
    """The pools that the plan makes. Raises :class:`TargetError` for steps or pools that AKS cannot carry out so."""
    steps = [step for step in plan.steps if step.pool or step.kind.endswith("-pool")]
    odd = [step for step in steps if step.kind != "create-pool" or step.pool is None]
    if odd:
        raise TargetError(
            f"step {odd[0].id} ({odd[0].kind}): only new pools are rendered, old ones are retired by hand"
        )
    pools = tuple(step.pool for step in steps if step.pool)
    for pool in pools:
        _check_pool(pool)
    return pools


def _check_pool(pool: PoolStep) -> None:
    if not _POOL_NAME.fullmatch(pool.name):
        raise TargetError(f"pool name {pool.name!r}: AKS takes 1 to 12 lower-case letters and digits, a letter first")
    unknown = [name for name in pool.mig_profiles if name not in AKS_PROFILE_IDS]
    if unknown:
        raise TargetError(
            f"pool {pool.name}: AKS has no GPU instance profile {unknown[0]}",
            hint=f"it has {', '.join(AKS_PROFILE_IDS)}",
        )
    if pool.nodes < 1:
        raise TargetError(f"pool {pool.name}: {pool.nodes} nodes")


def uniform(pool: PoolStep) -> str | None:
    """The one profile on every GPU; None for MIG off and for a layout of its own."""
    names = set(pool.mig_profiles)
    if len(names) != 1:
        return None
    (name,) = names
    return name if len(pool.mig_profiles) in (1, UNIFORM_COUNTS[name]) else None


def pool_profiles(pool: PoolStep, catalogue: Catalogue) -> tuple[tuple[Profile, int], ...]:
    """The profiles on every GPU of the pool with their numbers; empty where the board of the size is not known."""
    board = catalogue.find(pool.azure_size)
    name = uniform(pool)
    counts = {name: UNIFORM_COUNTS[name]} if name else {n: pool.mig_profiles.count(n) for n in pool.mig_profiles}
    found = [(board.by_id(AKS_PROFILE_IDS[name]), count) for name, count in counts.items()] if board else []
    return tuple((profile, count) for profile, count in found if profile is not None)


def pool_offers(plan: Plan, catalogue: Catalogue) -> tuple[Offer, ...]:
    """What the new pools will advertise, by the strategy that the plan gives them; none where it gives none."""
    found = []
    for pool in new_pools(plan):
        board, size = catalogue.find(pool.azure_size), catalogue.azure_sizes.get(pool.azure_size)
        gpus = pool.nodes * (size.gpus if size else 1)
        node = NodePlan(f"new pool {pool.name}", "aks", True, pool.name, pool.azure_size, pool.strategy)
        key = board.key if board else None
        if not pool.mig_profiles:
            found.append(Offer(node, pool.strategy or "none", key, None, WHOLE_GPU_RESOURCE, gpus))
        for profile, count in pool_profiles(pool, catalogue) if pool.strategy in ("single", "mixed") else ():
            resource = WHOLE_GPU_RESOURCE if pool.strategy == "single" else resource_name(profile.name)
            found.append(Offer(node, pool.strategy or "none", key, profile.name, resource, count * gpus))
    return tuple(found)
