"""Bounds, savings, new pools and the ideal of a plan, on clusters small enough to work out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from migsaw.cli.shared import load_catalogue, load_facets
from migsaw.fit.rules import fits_of_snapshot
from migsaw.model.layouts import Placed
from migsaw.model.money import Price, PriceTable, slice_shares
from migsaw.model.plan import Plan, Target
from migsaw.model.policy import Policy, WholeGpuException
from migsaw.model.reasons import Reason
from migsaw.model.refs import PodRef
from migsaw.model.snapshot import Activity, Gpu, Instance, Memory, Node, Pod, Snapshot, Workload
from migsaw.plan.make import make_plan
from migsaw.plan.planner import Inputs

CATALOGUE, FACETS = load_catalogue(), load_facets()
A100, SIZE = "a100-pcie-80gb", "Standard_NC24ads_A100_v4"
PRICES = PriceTable((Price(SIZE, 3.5, "2026-11-01"),), "a test", "nowhere", "Linux")


def whole(node: int, pod: str, used_mib: int, **more: object) -> Node:
    """A node with one whole A100 held by a pod that was seen to use so much memory."""
    gpu = Gpu(0, f"GPU-{node}", A100, None, "off", PodRef("ml", pod), None, "busy", memory_mib=Memory(used_mib, 81000))
    return replace(Node(f"n{node}", SIZE, None, "gpu-operator", None, "mixed", "gpu", gpus=(gpu,)), **more)  # type: ignore[arg-type]


def holder(node: int, pod: str, gpus: int = 1) -> Pod:
    return Pod("ml", pod, f"n{node}", "Running", {"nvidia.com/gpu": gpus}, Workload("ml", "Deployment", pod[:-2]))


def make(snapshot: Snapshot, policy: Policy | None = None, target: Target | None = None) -> Plan:
    inputs = Inputs(snapshot, "0" * 64, CATALOGUE, policy or Policy(), None, target)
    return make_plan(inputs, FACETS, PRICES)


def test_three_small_pods_on_whole_gpus_would_fit_one() -> None:
    """3 × (8000 + 1200 margin) MiB fit 1g.10gb (9728 MiB); recommended are 2g slices, three of which fill one GPU."""
    snapshot = Snapshot(
        tuple(whole(n, f"bert{n}-0", 8000) for n in range(3)), tuple(holder(n, f"bert{n}-0") for n in range(3))
    )
    ideal = make(snapshot).ideal
    assert ideal is not None
    assert (ideal.gpus_now, ideal.gpus, ideal.gpus_recommended) == (3, 1, 1)
    assert (ideal.objective, ideal.lower_bound, ideal.gap, ideal.unit) == (3.5, 3.5, 0.0, "USD per hour")
    assert ideal.savings is not None
    assert (ideal.savings.gpu_hours, ideal.savings.usd) == (2.0, 7.0)


def test_memory_decides_the_slot_with_its_margin() -> None:
    """9000 MiB + 15 % = 10350 MiB: no longer 1g.10gb (9728), but 2g.20gb and 1g.20gb (19968 both)."""
    snapshot = Snapshot((whole(0, "bert-0", 9000),), (holder(0, "bert-0"),))
    (fit,) = fits_of_snapshot(snapshot, CATALOGUE).fits
    assert {o.profile for o in fit.options if o.fits} == {"1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"}
    assert fit.confidence == "one sample"
    assert fit.source == "predicted"
    small = next(o for o in fit.options if o.profile == "1g.10gb")
    assert (small.memory_mib.peak, small.memory_mib.margin, small.memory_mib.limit) == (9000, 1350, 9728)


def test_active_sms_decide_too_where_they_were_measured() -> None:
    """50 % of the A100's 108 SMs are 54: 4g (56 SMs) and 7g hold them, 3g (42) does not."""
    node = whole(0, "bert-0", 1000)
    node = replace(node, gpus=(replace(node.gpus[0], activity=Activity(sm=0.5)),))
    (fit,) = fits_of_snapshot(Snapshot((node,), (holder(0, "bert-0"),)), CATALOGUE).fits
    assert {o.profile for o in fit.options if o.fits} == {"4g.40gb", "7g.80gb"}


@pytest.mark.parametrize(
    "policy", [Policy(strict=False), Policy(whole_gpus=(WholeGpuException("ml", "bert*"),))], ids=["lax", "excepted"]
)
def test_a_named_exception_keeps_its_whole_gpu(policy: Policy) -> None:
    snapshot = Snapshot(
        tuple(whole(n, f"bert{n}-0", 8000) for n in range(2)), tuple(holder(n, f"bert{n}-0") for n in range(2))
    )
    ideal = make(snapshot, policy).ideal
    assert ideal is not None
    assert ideal.gpus == 2
    assert {row.layout for row in ideal.rows} == {("off",)}


def test_a_pod_of_several_gpus_keeps_them() -> None:
    gpus = tuple(
        Gpu(i, f"GPU-{i}", A100, None, "off", PodRef("ml", "ddp-0"), None, "busy", memory_mib=Memory(900, 81000))
        for i in (0, 1)
    )
    node = Node("n0", None, None, "gpu-operator", None, "mixed", "gpu", gpus=gpus)
    ideal = make(Snapshot((node,), (holder(0, "ddp-0", 2),))).ideal
    assert ideal is not None
    assert (ideal.gpus, ideal.unit) == (2, "GPUs")


def test_a_board_without_price_gives_no_money() -> None:
    node = replace(whole(0, "bert-0", 900), azure_size=None)
    ideal = make(Snapshot((node,), (holder(0, "bert-0"),))).ideal
    assert ideal is not None
    assert ideal.savings is not None
    assert ideal.savings.usd is None
    assert "n/a" in ideal.savings.source


def test_savings_count_the_gpus_that_need_not_be_bought() -> None:
    """Two pods of 3g.40gb wait; the idle GPU is cut for both: one GPU, 3.5 USD per hour."""
    idle = Gpu(0, "GPU-0", A100, None, "on", instances=(Instance("1g.10gb", 7, None, None, "nobody asks", "idle"),))
    node = Node("n0", SIZE, None, "gpu-operator", None, "mixed", "gpu", gpus=(idle,))
    pods = tuple(Pod("ml", f"llm-{k}", None, "Pending", {"nvidia.com/mig-3g.40gb": 1}) for k in range(2))
    plan = make(Snapshot((node,), pods))
    assert (plan.savings.gpu_hours, plan.savings.usd) == (1.0, 3.5)
    assert (plan.objective, plan.lower_bound, plan.gap) == (1.0, 1.0, 0.0)


def test_the_bound_says_what_moving_everything_would_need() -> None:
    """Two GPUs hold one 3g each; 3g + 3g fit one GPU, so 2 are in use and 1 is the bound."""
    gpus = tuple(
        Gpu(
            i,
            f"GPU-{i}",
            A100,
            None,
            "on",
            instances=(Instance("3g.40gb", 1, None, PodRef("ml", f"a-{i}"), None, "busy"),),
        )
        for i in range(2)
    )
    node = Node("n0", SIZE, None, "gpu-operator", None, "mixed", "gpu", gpus=gpus)
    pods = tuple(Pod("ml", f"a-{i}", "n0", "Running", {"nvidia.com/mig-3g.40gb": 1}) for i in range(2))
    plan = make(Snapshot((node,), pods))
    assert (plan.objective, plan.lower_bound, plan.gap) == (2.0, 1.0, 0.5)


def test_an_aks_pool_is_replaced_by_a_new_one_beside_it() -> None:
    """Four 2g.20gb wait, three fit one GPU: two nodes of NC24ads with MIG2g."""
    idle = Gpu(0, "GPU-0", A100, None, "on", instances=(Instance("1g.10gb", 7, None, None, "nobody asks", "idle"),))
    node = Node("n0", SIZE, "gpupool", "aks", None, "mixed", "pool", gpus=(idle,))
    pods = tuple(Pod("ml", f"llm-{k}", None, "Pending", {"nvidia.com/mig-2g.20gb": 1}) for k in range(4))
    plan = make(Snapshot((node,), pods), target="aks")
    assert plan.gpus[0].before == plan.gpus[0].after
    (step,) = plan.steps
    assert step.pool is not None
    assert (step.pool.azure_size, step.pool.nodes, step.pool.mig_profiles) == (SIZE, 2, ("MIG2g",))
    assert {p.reason for p in plan.pods} == {Reason.NEEDS_NEW_POOL}
    assert all(p.after is None for p in plan.pods)


def test_shares_of_a_full_gpu_add_up_and_free_slices_are_nobodys() -> None:
    board = CATALOGUE.board(A100)
    for names in (["3g.40gb", "3g.40gb"], ["1g.10gb"] * 7, ["4g.40gb", "3g.40gb"], ["7g.80gb"]):
        assert math.isclose(sum(s.share for s in slice_shares(board, [Placed(n) for n in names])), 1.0), names
    (alone,) = slice_shares(board, [Placed("2g.20gb")])
    assert math.isclose(alone.share, 2 / 7)  # the rest can still be cut: 3g and 2g
    assert [s.share for s in slice_shares(board, [Placed("3g.40gb")] * 2)] == [0.5, 0.5]  # the stranded slice is theirs


def slices(node: int, *profiles: str, held: str | None = None, strategy: str = "mixed") -> Node:
    """A node with one A100: ``held`` is the first profile's holder, the others are idle."""
    first = PodRef("ml", held) if held else None
    owners = [first, *[None] * (len(profiles) - 1)]
    instances = tuple(
        Instance(profile, k, None, owner, "made up", "busy" if owner else "idle")
        for k, (profile, owner) in enumerate(zip(profiles, owners, strict=True))
    )
    gpu = Gpu(0, f"GPU-{node}", A100, None, "on", instances=instances)
    return Node(f"n{node}", SIZE, None, "gpu-operator", None, strategy, "gpu", gpus=(gpu,))  # type: ignore[arg-type]


def asks(name: str, resource: str) -> Pod:
    return Pod("ml", name, None, "Pending", {f"nvidia.com/{resource}": 1})


def test_pods_on_slices_that_are_free_already_save_nothing() -> None:
    """w-c needs the cut of n1: one GPU that need not be bought. w-a and w-b have their slices without it."""
    held = Pod("ml", "h-0", "n0", "Running", {"nvidia.com/mig-3g.40gb": 1})
    nodes = (slices(0, "3g.40gb", "2g.20gb", "2g.20gb", held="h-0"), slices(1, "4g.40gb"))
    pods = (held, asks("w-a", "mig-2g.20gb"), asks("w-b", "mig-2g.20gb"), asks("w-c", "mig-7g.80gb"))
    savings = make(Snapshot(nodes, pods)).savings
    assert (savings.gpu_hours, savings.usd) == (1.0, 3.5)


def test_a_whole_gpu_made_by_a_cut_is_a_gpu_that_need_not_be_bought() -> None:
    plan = make(Snapshot((slices(0, "4g.40gb"),), (asks("w-a", "gpu"),)))
    assert plan.pods[0].reason == Reason.SERVED_AFTER_RECUT
    assert (plan.savings.gpu_hours, plan.savings.usd) == (1.0, 3.5)


def test_a_pod_with_a_slice_of_any_profile_needs_a_gpu() -> None:
    plan = make(Snapshot((slices(0, *["1g.10gb"] * 7, strategy="single"),), (asks("w-a", "gpu"),)))
    assert (plan.objective, plan.lower_bound, plan.gap) == (1.0, 1.0, 0.0)
