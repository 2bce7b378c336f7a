"""Random legal plans for tests of what is rendered and shown; the layouts obey ``mig_rules``."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from mig_rules import is_legal, placements
from migsaw.model.plan import GpuPlan, MadeFrom, NodePlan, Plan, Savings, Step
from migsaw.model.reasons import Reason

BOARDS = (
    "a100-sxm4-80gb",
    "a100-sxm4-40gb",
    "h100-nvl-94gb",
    "h200-sxm5-141gb",
    "a30-24gb",
    "rtx-pro-6000-blackwell-server",
)
SIZES = {
    "a100-sxm4-80gb": "Standard_ND96amsr_A100_v4",
    "a100-sxm4-40gb": "Standard_ND96asr_v4",
    "h100-nvl-94gb": "Standard_NC80adis_H100_v5",
    "h200-sxm5-141gb": "Standard_ND96isr_H200_v5",
}
SHA = "0123456789abcdef" * 4

Layout = tuple[tuple[str, int], ...]


@st.composite
def layouts(draw: st.DrawFn, board: str) -> Layout:
    """A legal layout: of some random placements those that fit beside the ones before."""
    some = draw(st.lists(st.sampled_from(placements(board)), max_size=12))
    chosen: list[tuple[str, int]] = []
    for placement in some:
        if is_legal(board, [*chosen, placement]):
            chosen.append(placement)
    return tuple(sorted(chosen, key=lambda one: one[1]))


def words(layout: Layout | None, known: bool) -> tuple[str, ...]:
    """In a plan's words; without starts where they are not known."""
    if layout is None:
        return ("off",)
    return tuple(f"{name}@{start}" if known else name for name, start in layout)


def gpu_plan(
    node: str, index: int, board: str, before: tuple[str, ...], after: tuple[str, ...], **more: Any
) -> GpuPlan:
    reason = Reason.RECUT if before != after else Reason.ALREADY_RIGHT
    return GpuPlan(node, index, before, after, reason, "", board=board, **more)


def recuts(gpus: list[GpuPlan]) -> tuple[Step, ...]:
    """One step for each node that changes."""
    changed: dict[str, list[int]] = {}
    for gpu in gpus:
        if gpu.before != gpu.after:
            changed.setdefault(gpu.node, []).append(gpu.index)
    return tuple(Step(f"recut-{node}", "recut", node, tuple(found), seconds=60.0) for node, found in changed.items())


def plan_of(gpus: list[GpuPlan], nodes: list[NodePlan], **more: Any) -> Plan:
    values: dict[str, Any] = {
        "made_from": MadeFrom(SHA),
        "target": None,
        "objective": None,
        "lower_bound": None,
        "gap": None,
        "pods": (),
        "steps": recuts(gpus),
        "savings": Savings(None, None, "not computed"),
    }
    return Plan(gpus=tuple(gpus), nodes=tuple(nodes), **{**values, **more})


@st.composite
def node_gpus(draw: st.DrawFn, node: str, board: str, same: bool = False) -> list[GpuPlan]:
    """The GPUs of one node, some of them changed. ``same``: no change."""
    known, gpus = draw(st.booleans()), []
    for index in range(draw(st.integers(1, 4))):
        before = words(draw(st.none() | layouts(board)), known)
        after = before if same or draw(st.booleans()) else words(draw(st.none() | layouts(board)), known)
        gpus.append(gpu_plan(node, index, board, before, after))
    return gpus


def names() -> st.SearchStrategy[str]:
    """Node names, most of them as Kubernetes allows, some as nobody should: they come from files."""
    usual = st.from_regex(r"[a-z][a-z0-9-]{0,20}[a-z0-9]", fullmatch=True)
    return st.one_of(
        usual, usual, usual, st.sampled_from(["a b", "x; rm -rf ~", "-n", "$(id)", "o'neil", "../up", "ü"])
    )


@st.composite
def operator_plans(draw: st.DrawFn) -> Plan:
    """Plans for the GPU Operator: mixed strategy, nothing held."""
    gpus: list[GpuPlan] = []
    nodes: list[NodePlan] = []
    for name in sorted(draw(st.sets(names(), min_size=1, max_size=4))):
        board = draw(st.sampled_from(BOARDS))
        mine = draw(node_gpus(name, board, draw(st.booleans())))
        changed = any(gpu.before != gpu.after for gpu in mine)
        config = draw(st.sampled_from([None, "all-balanced", "custom-a", "all-disabled"]))
        nodes.append(NodePlan(name, "gpu-operator", changed, None, SIZES.get(board), "mixed", "gpu", config))
        gpus += mine
    return plan_of(gpus, nodes)


@st.composite
def single_plans(draw: st.DrawFn) -> Plan:
    """Plans of the single strategy: one profile on all GPUs of a node."""
    gpus: list[GpuPlan] = []
    nodes: list[NodePlan] = []
    for number in range(draw(st.integers(1, 4))):
        name, board = f"node-{number}", draw(st.sampled_from(BOARDS))
        profile = draw(st.sampled_from(sorted({name for name, _ in placements(board)})))
        full: list[tuple[str, int]] = []
        for placement in placements(board, [profile]):
            if is_legal(board, [*full, placement]):
                full.append(placement)
        after = words(draw(st.sampled_from([None, tuple(full)])), False)
        before = after if draw(st.booleans()) else ("off",)
        gpus += [gpu_plan(name, index, board, before, after) for index in range(draw(st.integers(1, 3)))]
        pool = draw(st.sampled_from([None, "gpua", "gpub"]))
        nodes.append(NodePlan(name, "gpu-operator", before != after, pool, SIZES.get(board), "single", "node", None))
    return plan_of(gpus, nodes)
