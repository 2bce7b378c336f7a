"""The order of a change: cordon, cut, verify, uncordon; nodes are independent of each other.

Seconds are estimates from public reports of mig-manager and of VM reboots, never measurements of this cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from migsaw.model.plan import PoolStep, Step
from migsaw.model.snapshot import Node
from migsaw.plan.fleet import FleetGpu

RECUT_SECONDS = 60.0  # mig-manager pauses its daemons, cuts and restarts them: tens of seconds
REBOOT_SECONDS = 300.0
POOL_SECONDS = 600.0


def recut_steps(node: Node, changed: Sequence[FleetGpu], modes_change: bool, target_is_smi: bool) -> list[Step]:
    """Steps for one node. Nothing that runs is disrupted: only free GPUs are cut, modes change only on free nodes."""
    indices = tuple(g.gpu.index for g in changed)
    reset = modes_change and any(g.board and g.board.mode_change_needs_reset is not False for g in changed)
    reboot = reset and (node.azure_size is not None or node.owner == "unknown")
    steps: list[Step] = []

    def add(kind: str, text: str, seconds: float | None, gpus: tuple[int, ...] = ()) -> None:
        needs = (steps[-1].id,) if steps else ()
        step_id = f"{kind}-{node.name}"
        steps.append(Step(step_id, kind, node.name, gpus, needs, (), seconds, True, None, text))  # type: ignore[arg-type]

    if not target_is_smi:
        add("cordon", "no new pod may land while the GPUs change", 1.0)
    add("recut", _recut_text(modes_change), RECUT_SECONDS, indices)
    if reboot:
        add(
            "reboot",
            "the MIG mode of this board changes only with a reset, in a VM with a reboot of the node",
            REBOOT_SECONDS,
        )
    add("verify", "compare what the node advertises with the plan before it is used", 30.0, indices)
    if not target_is_smi:
        add("uncordon", "only after the check held", 1.0)
    return steps


def _recut_text(modes_change: bool) -> str:
    text = "clear and cut the listed GPUs; all their instances are idle"
    return f"{text}; the MIG mode changes, which resets every GPU of the node" if modes_change else text


def pool_steps(pools: Iterable[PoolStep]) -> list[Step]:
    return [
        Step(f"create-pool-{pool.name}", "create-pool", None, pool=pool, seconds=POOL_SECONDS, text=_pool_text(pool))
        for pool in pools
    ]


def _pool_text(pool: PoolStep) -> str:
    what = f"{pool.nodes} x {pool.azure_size} with {' + '.join(pool.mig_profiles) or 'MIG off'} on every GPU"
    return f"a new pool beside the old ones: {what}; an AKS pool keeps the layout it was made with"


def pool_name(stem: str, taken: Iterable[str]) -> str:
    """A Linux pool name: lower-case letters and digits, at most 12 signs."""
    base = re.sub(r"[^a-z0-9]", "", stem.lower())[:10] or "mig"
    base = base if base[0].isalpha() else f"m{base[:9]}"
    names, number = set(taken), 1
    while (name := base if number == 1 else f"{base}{number}") in names:
        number += 1
    return name
