"""Nothing that runs is touched: each rule of a safe change, on the smallest cluster that shows it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from migsaw.cli.shared import load_catalogue, load_facets
from migsaw.errors import TargetError
from migsaw.model.fits import Choice, Fit, Fits, Option, WorkloadRef
from migsaw.model.plan import Plan
from migsaw.model.policy import Policy
from migsaw.model.reasons import Reason
from migsaw.model.refs import PodRef
from migsaw.model.snapshot import Gpu, Instance, Node, Pod, ReportedProfile, Snapshot, Taint, Toleration
from migsaw.observe.prices import load_prices
from migsaw.plan import make
from migsaw.plan.planner import Inputs, draft_plan, write_up
from migsaw.plan.shares import Shares, shares_of

CATALOGUE = load_catalogue()
A100 = "a100-pcie-80gb"
BUSY = Instance("1g.10gb", 7, None, PodRef("ml", "bert-0"), None, "busy")
IDLE = Instance("1g.10gb", 8, None, None, "no pod asks for it", "idle")
UNKNOWN = Instance("1g.10gb", 9, None, None, "two pods could hold it", "unknown")


def gpu(index: int, *instances: Instance, mig: str = "on", **more: object) -> Gpu:
    return replace(Gpu(index, f"GPU-{index}", A100, None, mig, instances=instances), **more)  # type: ignore[arg-type]


def node(*gpus: Gpu, **more: object) -> Node:
    base = Node("n1", owner="gpu-operator", strategy="mixed", layout_scope="gpu", gpus=gpus)
    return replace(base, **more)  # type: ignore[arg-type]


def waiting(profile: str, count: int = 1, name: str = "new-0", **more: object) -> Pod:
    return replace(Pod("ml", name, None, "Pending", {f"nvidia.com/mig-{profile}": count}), **more)  # type: ignore[arg-type]


def whole(namespace: str) -> Pod:
    return Pod(namespace, "whole-0", None, "Pending", {"nvidia.com/gpu": 1})


def inputs_of(node: Node, *pods: Pod, fits: Fits | None = None, **more: object) -> Inputs:
    return Inputs(replace(Snapshot((node,), pods), **more), "0" * 64, CATALOGUE, Policy(), fits)  # type: ignore[arg-type]


def make_plan(inputs: Inputs) -> Plan:
    return make.make_plan(inputs, load_facets(), load_prices())


def plan(
    node: Node, *pods: Pod, policy: Policy | None = None, target: str | None = None, fits: Fits | None = None
) -> Plan:
    inputs = Inputs(Snapshot((node,), pods), "0" * 64, CATALOGUE, policy or Policy(), fits, target)  # type: ignore[arg-type]
    return write_up(inputs, draft_plan(inputs))


def test_an_idle_gpu_is_cut_for_what_waits() -> None:
    result = plan(node(gpu(0, IDLE)), waiting("3g.40gb"))
    assert "3g.40gb" in result.gpus[0].after
    assert result.gpus[0].reason == Reason.RECUT
    assert result.pods[0].reason == Reason.SERVED_AFTER_RECUT
    assert [s.kind for s in result.steps] == ["cordon", "recut", "verify", "uncordon"]
    assert all(s.disrupts == () for s in result.steps)


@pytest.mark.parametrize(("instance", "reason"), [(BUSY, Reason.HELD), (UNKNOWN, Reason.MAY_BE_HELD)])
def test_a_gpu_with_one_held_instance_stays(instance: Instance, reason: Reason) -> None:
    result = plan(node(gpu(0, instance, IDLE)), waiting("3g.40gb"))
    assert result.gpus[0].after == result.gpus[0].before
    assert result.gpus[0].reason == reason
    assert result.pods[0].after is None
    assert result.pods[0].reason == Reason.NO_ROOM
    assert result.steps == ()


def test_a_mode_change_is_refused_beside_anything_that_runs() -> None:
    free = gpu(1, mig="off", state="idle")
    assert plan(node(gpu(0, BUSY), free), waiting("3g.40gb")).gpus[1].reason == Reason.NODE_HELD
    alone = plan(node(gpu(0, IDLE), free), waiting("3g.40gb", 1), waiting("7g.80gb", 1, "new-1"))
    assert {g.reason for g in alone.gpus} == {Reason.RECUT}
    assert any("resets every GPU" in s.text for s in alone.steps if s.kind == "recut")


def test_an_ampere_vm_reboots_for_a_mode_change_and_hopper_does_not() -> None:
    off = gpu(0, mig="off", state="idle")
    ampere = plan(node(off, azure_size="Standard_NC24ads_A100_v4"), waiting("2g.20gb"))
    assert "reboot" in [s.kind for s in ampere.steps]
    hopper = plan(node(replace(off, board="h100-nvl-94gb"), azure_size="Standard_NC40ads_H100_v5"), waiting("2g.24gb"))
    assert [s.kind for s in hopper.steps] == ["cordon", "recut", "verify", "uncordon"]


def test_a_whole_gpu_in_use_or_in_doubt_is_not_cut() -> None:
    held = gpu(0, mig="off", state="busy", owner=PodRef("ml", "train-0"))
    assert plan(node(held), waiting("2g.20gb")).gpus[0].reason == Reason.HELD
    doubt = gpu(0, mig="unknown", state="unknown")
    assert plan(node(doubt), waiting("2g.20gb")).gpus[0].reason == Reason.MAY_BE_HELD
    unseen = gpu(0, mig="on", state="unknown")  # MIG is on, and nothing showed its instances
    assert plan(node(unseen), waiting("2g.20gb")).gpus[0].reason == Reason.MAY_BE_HELD
    pending = gpu(0, mig="pending", state="idle")
    assert plan(node(pending), waiting("2g.20gb")).gpus[0].reason == Reason.REBOOT_PENDING


def test_a_gpu_of_which_nobody_says_the_mode_is_neither_cut_nor_counted_as_free() -> None:
    dark = gpu(0, mig="unknown", state="idle")
    assert plan(node(dark), waiting("2g.20gb")).gpus[0].reason == Reason.MODE_UNKNOWN
    assert plan(node(dark), whole("ml")).pods[0].reason == Reason.NO_ROOM
    assert shares_of(dark, CATALOGUE.board(A100)) == Shares(unknown=7)


IMPOSSIBLE = tuple(Instance("3g.40gb", k, None, None, "no pod asks for it", "idle") for k in (1, 2, 3))


def test_instances_that_cannot_all_be_there_are_neither_given_out_nor_cut() -> None:
    torn = gpu(0, *IMPOSSIBLE)
    result = plan(node(torn), waiting("3g.40gb"))
    assert result.gpus[0].reason == Reason.MAY_BE_HELD
    assert "3 x 3g.40gb on one GPU, at most 2" in result.gpus[0].text
    assert result.gpus[0].after == result.gpus[0].before
    assert result.pods[0].reason == Reason.NO_ROOM
    assert shares_of(torn, CATALOGUE.board(A100)) == Shares(unknown=7)


@pytest.mark.parametrize(
    "neighbour", [gpu(1, *IMPOSSIBLE), gpu(1, replace(IDLE, profile="unknown"))], ids=["impossible", "no profile"]
)
def test_no_config_is_written_over_a_gpu_whose_layout_cannot_be_named(neighbour: Gpu) -> None:
    result = plan(node(gpu(0, IDLE), neighbour), waiting("7g.80gb"))
    assert result.gpus[0].reason == Reason.NODE_HELD
    assert "GPU 1 of the node holds is not known" in result.gpus[0].text


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"owner": "aks", "layout_scope": "pool"}, Reason.OWNER_CANNOT_RECUT),
        ({"owner": "unknown"}, Reason.OUT_OF_SCOPE),
        ({"owner": "hami"}, Reason.OUT_OF_SCOPE),
        ({"schedulable": False}, Reason.NODE_UNAVAILABLE),
        ({"mig_config_state": "pending"}, Reason.NODE_UNAVAILABLE),
        ({"azure_size": "Standard_NC128ds_xl_RTXPRO6000BSE_v6"}, Reason.HOST_OWNS_MIG),
    ],
)
def test_nodes_that_no_plan_may_touch(more: dict[str, object], reason: Reason) -> None:
    result = plan(node(gpu(0, IDLE), **more), waiting("3g.40gb"))
    assert result.gpus[0].reason == reason
    assert result.gpus[0].after == ("1g.10gb",)


@pytest.mark.parametrize("unseen", [gpu(1, mig="on", state="unknown"), gpu(1, mig="unknown", state="idle")])
def test_no_config_is_written_over_a_gpu_that_nobody_looked_into(unseen: Gpu) -> None:
    """A mig-parted config names every GPU of the node; an empty layout for the unseen one would clear it."""
    result = plan(node(gpu(0, IDLE), unseen), waiting("3g.40gb"))
    assert result.gpus[0].reason == Reason.NODE_HELD
    assert result.gpus[0].after == result.gpus[0].before


def test_an_existing_free_slice_is_used_before_anything_is_cut() -> None:
    result = plan(node(gpu(0, BUSY, IDLE)), waiting("1g.10gb"))
    assert result.pods[0].reason == Reason.FITS_FREE_SLICE
    assert result.steps == ()


def test_single_strategy_changes_a_node_only_as_a_whole() -> None:
    fits = Fits((Fit(WorkloadRef("ml", "Pod", "new-0"), "measured", chosen=Choice(A100, "3g.40gb")),))
    pod = Pod("ml", "new-0", None, "Pending", {"nvidia.com/gpu": 1})
    single = {"strategy": "single", "layout_scope": "node"}
    free = plan(node(gpu(0, IDLE), gpu(1, IDLE), **single), pod, fits=fits)
    assert [g.after for g in free.gpus] == [("3g.40gb", "3g.40gb")] * 2
    held = plan(node(gpu(0, IDLE), gpu(1, BUSY), **single), pod, fits=fits)
    assert [g.after for g in held.gpus] == [("1g.10gb",)] * 2
    assert held.gpus[0].reason == Reason.NODE_HELD


def test_a_pod_without_fit_takes_any_slice_of_a_single_node_but_none_is_cut_for_it() -> None:
    pod = Pod("ml", "new-0", None, "Pending", {"nvidia.com/gpu": 1})
    single = {"strategy": "single", "layout_scope": "node"}
    assert plan(node(gpu(0, BUSY, IDLE), **single), pod).pods[0].reason == Reason.FITS_FREE_SLICE
    assert plan(node(gpu(0, BUSY), **single), pod).pods[0].reason == Reason.NO_ROOM


def test_taints_and_selectors_are_those_of_the_scheduler() -> None:
    taint = Taint("sku", "gpu", "NoSchedule")
    closed = plan(node(gpu(0, IDLE), taints=(taint,)), waiting("1g.10gb"))
    assert closed.pods[0].reason == Reason.NO_MATCHING_NODE
    assert "sku=gpu:NoSchedule" in closed.pods[0].text
    tolerant = waiting("1g.10gb", tolerations=(Toleration("sku", "Equal", "gpu"),))
    assert plan(node(gpu(0, IDLE), taints=(taint,)), tolerant).pods[0].reason == Reason.FITS_FREE_SLICE
    elsewhere = waiting("1g.10gb", node_selector={"agentpool": "other"})
    assert plan(node(gpu(0, IDLE)), elsewhere).pods[0].reason == Reason.NO_MATCHING_NODE


def test_policy_limits_what_is_cut_not_what_exists() -> None:
    policy = Policy(profiles=("2g.20gb",))
    assert plan(node(gpu(0, IDLE)), waiting("3g.40gb"), policy=policy).pods[0].reason == Reason.NOT_ALLOWED
    assert plan(node(gpu(0, IDLE)), waiting("1g.10gb"), policy=policy).pods[0].reason == Reason.FITS_FREE_SLICE
    assert set(plan(node(gpu(0, IDLE)), waiting("2g.20gb"), policy=policy).gpus[0].after) == {"2g.20gb"}


def test_headroom_is_cut_for_when_nothing_waits() -> None:
    result = plan(node(gpu(0, IDLE)), policy=Policy(headroom={"2g.20gb": 2}))
    assert result.gpus[0].after.count("2g.20gb") >= 2


def test_a_profile_that_no_board_has_is_named() -> None:
    result = plan(node(gpu(0, IDLE)), waiting("1g.5gb"))
    assert result.pods[0].reason == Reason.NO_SUCH_PROFILE
    assert "1g.5gb" in result.pods[0].text
    assert A100 in result.pods[0].text


def test_a_target_that_fits_no_node_is_refused_by_name() -> None:
    with pytest.raises(TargetError, match="no node here is for aks"):
        plan(node(gpu(0, IDLE)), target="aks")
    with pytest.raises(TargetError, match="no node has the single strategy"):
        plan(node(gpu(0, IDLE)), target="azureml")


def test_a_cut_gpu_leaves_nothing_that_a_slice_could_use() -> None:
    result = plan(node(gpu(0, IDLE)), waiting("3g.40gb"))
    assert result.gpus[0].after == ("1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb") or result.gpus[0].stranded == (0, 0)
    assert result.gpus[0].stranded == (0, 0)


@pytest.mark.parametrize("asks", ["nvidia.com/mig-1g.10gb", "nvidia.com/mig-1g.10gb.shared"])
def test_a_running_pod_that_no_instance_names_holds_any_of_its_profile(asks: str) -> None:
    runs = Pod("ml", "run-0", "n1", "Running", {asks: 1})
    result = plan(node(gpu(0, IDLE), gpu(1, replace(IDLE, profile="2g.20gb"))), runs, waiting("7g.80gb"))
    assert [g.reason for g in result.gpus] == [Reason.MAY_BE_HELD, Reason.RECUT]
    assert "ml/run-0" in result.gpus[0].text


def test_a_running_pod_that_no_gpu_names_holds_any_whole_gpu_of_its_node() -> None:
    off = gpu(0, mig="off", state="idle")
    runs = Pod("ml", "run-0", "n1", "Running", {"nvidia.com/gpu": 1})
    result = plan(node(off, replace(off, index=1)), runs, waiting("3g.40gb"))
    assert {g.reason for g in result.gpus} == {Reason.MAY_BE_HELD}
    assert result.steps == ()


def test_a_fit_never_leads_to_a_profile_that_policy_forbids() -> None:
    options = tuple(Option(A100, name, True) for name in ("1g.10gb", "2g.20gb"))
    fits = Fits((Fit(WorkloadRef("ml", None, "new-0"), "declared", options),))
    result = plan(node(gpu(0, IDLE)), waiting("2g.20gb"), policy=Policy(profiles=("2g.20gb",)), fits=fits)
    assert result.pods[0].after is not None
    assert (result.pods[0].after.profile, result.pods[0].reason) == ("2g.20gb", Reason.SERVED_AFTER_RECUT)
    refused = plan(node(gpu(0, IDLE)), waiting("2g.20gb"), policy=Policy(profiles=("3g.40gb",)), fits=fits)
    assert refused.pods[0].reason == Reason.NOT_ALLOWED


def test_policy_knows_every_name_of_a_profile() -> None:
    result = plan(node(gpu(0, IDLE)), waiting("7g.79gb"), policy=Policy(profiles=("7g.80gb",)))
    assert result.pods[0].reason == Reason.SERVED_AFTER_RECUT


def test_only_pods_that_the_cut_serves_are_named_for_it() -> None:
    """Two free 2g serve two of the three; the cut of the other GPU is for the third alone."""
    free = Instance("2g.20gb", 3, None, None, "no pod asks for it", "idle")
    pods = [waiting("2g.20gb", name=f"small-{n}") for n in range(2)] + [waiting("7g.80gb", name="large-0")]
    result = plan(node(gpu(0, BUSY, free, replace(free, gi_id=4)), gpu(1, IDLE)), *pods)
    assert "large-0" in result.gpus[1].text
    assert "small" not in result.gpus[1].text
    reasons = {pod.name: pod.reason for pod in result.pods}
    assert reasons == {
        "large-0": Reason.SERVED_AFTER_RECUT, "small-0": Reason.FITS_FREE_SLICE, "small-1": Reason.FITS_FREE_SLICE,
    }  # fmt: skip


def test_a_waiting_pod_that_asks_for_nothing_is_served_as_it_is() -> None:
    result = plan(node(gpu(0, IDLE)), Pod("ml", "new-0", None, "Pending", {}))
    assert (result.pods, result.steps) == ((), ())


@pytest.mark.parametrize("profile", ["unknown", "1g.99gb"])
def test_a_held_instance_of_no_known_profile_is_planned_around(profile: str) -> None:
    odd = replace(BUSY, profile=profile)
    result = make_plan(inputs_of(node(gpu(0, odd), gpu(1, IDLE), strategy="mixed"), waiting("1g.10gb")))
    assert result.gpus[0].reason == Reason.HELD
    assert result.lower_bound is not None
    assert result.lower_bound <= (result.objective or 0)


def test_a_driver_that_reported_only_some_profiles_rules_for_its_gpu_alone() -> None:
    """A pasted `-lgipp` that is cut off: GPU 0 has 1g.10gb only, its neighbour all profiles."""
    some = {"a100/some": (ReportedProfile("1g.10gb", 19, (0, 1, 2, 3, 4, 5, 6), 1, 7),)}
    cut = node(gpu(0, IDLE, geometry="a100/some"), gpu(1, IDLE))
    result = make_plan(inputs_of(cut, waiting("3g.40gb"), geometries=some))
    assert result.pods[0].reason == Reason.SERVED_AFTER_RECUT
    assert [g.reason for g in result.gpus] == [Reason.NO_DEMAND, Reason.RECUT]


def test_a_pod_of_several_slices_is_told_of_all() -> None:
    pod = Pod("ml", "two", None, "Pending", {"nvidia.com/mig-1g.10gb": 1, "nvidia.com/mig-2g.20gb": 1})
    (found,) = plan(node(gpu(0, IDLE)), pod).pods
    assert found.text == "1g.10gb and 2g.20gb on n1 once its GPUs are cut anew"


def test_fits_of_workloads_that_are_not_there_are_told() -> None:
    fits = Fits(tuple(Fit(WorkloadRef("ml", "Pod", name), "measured", chosen=Choice(A100, "3g.40gb")) for name in "ab"))
    result = make_plan(inputs_of(node(gpu(0, IDLE)), replace(waiting("1g.10gb"), name="a"), fits=fits))
    assert result.notes == ("1 of the fits fit no pod of the snapshot: ml/Pod/b",)


def test_a_node_whose_plugin_has_the_strategy_none_is_not_cut_and_offers_no_slice() -> None:
    result = plan(node(gpu(0, IDLE), strategy="none"), waiting("1g.10gb"), waiting("3g.40gb", name="new-1"))
    assert result.gpus[0].reason == Reason.OUT_OF_SCOPE
    assert all(p.after is None for p in result.pods)


def test_what_the_kubelet_does_not_offer_is_not_promised() -> None:
    """Three of seven are unhealthy, one is asked for by a running pod: three are left."""
    many = [replace(IDLE, gi_id=n) for n in range(6)]
    unwell = node(gpu(0, BUSY, *many), allocatable={"nvidia.com/mig-1g.10gb": 4})
    running = Pod("ml", "bert-0", "n1", "Running", {"nvidia.com/mig-1g.10gb": 1})
    pods = [waiting("1g.10gb", name=f"new-{n}") for n in range(5)]
    result = make_plan(inputs_of(unwell, running, *pods))
    assert sum(p.reason == Reason.FITS_FREE_SLICE for p in result.pods) == 3
    assert "3 x 1g.10gb look free, but the kubelet does not offer them" in result.notes[0]


def test_unhealthy_slices_are_not_cut_anew() -> None:
    unwell = node(gpu(0, *(replace(IDLE, gi_id=n) for n in range(7))), allocatable={"nvidia.com/mig-1g.10gb": 4})
    result = plan(unwell, *(waiting("1g.10gb", name=f"new-{n}") for n in range(6)))
    assert result.gpus[0].reason == Reason.NODE_UNAVAILABLE
    assert result.steps == ()


def test_a_node_that_is_not_cut_alike_is_mended() -> None:
    """The single strategy calls it invalid and offers nothing; one profile on all of its GPUs is what helps."""
    fits = Fits((Fit(WorkloadRef("ml", "Pod", "new-0"), "measured", chosen=Choice(A100, "3g.40gb")),))
    pod = Pod("ml", "new-0", None, "Pending", {"nvidia.com/gpu": 1})
    single = {"strategy": "single", "layout_scope": "node", "allocatable": {"nvidia.com/gpu": 0}}
    result = plan(node(gpu(0, IDLE), gpu(1, state="idle"), **single), pod, fits=fits)
    assert [g.after for g in result.gpus] == [("3g.40gb", "3g.40gb")] * 2


def test_a_layout_that_the_single_strategy_calls_invalid_offers_nothing() -> None:
    pod = Pod("ml", "new-0", None, "Pending", {"nvidia.com/gpu": 1})
    single = {"strategy": "single", "layout_scope": "node", "allocatable": {"nvidia.com/gpu": 0}}
    assert plan(node(gpu(0, IDLE, IDLE), **single), pod).pods[0].after is None


def test_a_node_of_which_the_exporter_shows_only_some_instances_is_not_cut() -> None:
    part = node(gpu(0, IDLE), gpu(1, mig="on", state="idle"), allocatable={"nvidia.com/mig-1g.10gb": 5})
    result = plan(part, waiting("3g.40gb"))
    assert {g.reason for g in result.gpus} == {Reason.MAY_BE_HELD}
    assert "advertises 5 x 1g.10gb here, 1 were seen" in result.gpus[0].text
    assert not any(g.is_layout_known for g in result.gpus)


def test_azureml_cuts_only_nodes_of_the_single_strategy() -> None:
    single = Node("n2", owner="gpu-operator", strategy="single", layout_scope="node", gpus=(gpu(0, IDLE),))
    snapshot = Snapshot((node(gpu(0, IDLE)), single), (waiting("3g.40gb"),))
    inputs = Inputs(snapshot, "0" * 64, CATALOGUE, Policy(), None, "azureml")
    result = write_up(inputs, draft_plan(inputs))
    assert result.gpus[0].reason == Reason.OUT_OF_SCOPE


def test_pods_of_several_instances_see_past_a_report_that_says_what_the_catalogue_says() -> None:
    """`-lgipp` was given for one of two GPUs: both have the board's own geometry, so both serve one pod."""
    board = CATALOGUE.board(A100)
    full = tuple(
        ReportedProfile(p.name, p.profile_id or 0, p.starts or (), p.memory_slices or 0, p.max_instances)
        for p in board.profiles
    )
    two_g = Instance("2g.20gb", 3, None, None, "no pod asks for it", "idle")
    apart = node(gpu(0, two_g, geometry="x"), gpu(1, two_g))
    result = make_plan(inputs_of(apart, waiting("2g.20gb", 2), geometries={"x": full}))
    assert result.pods[0].reason == Reason.FITS_FREE_SLICE


def test_nothing_is_proven_of_pods_that_span_unlike_gpus_of_a_node() -> None:
    """An A100 and an A30, both whole and free: the programme serves a pod from one kind, so its bound must not lie."""
    off = {"mig": "off", "state": "idle"}
    mixed = node(gpu(0, **off), gpu(1, board="a30-24gb", **off))  # type: ignore[arg-type]
    (level, *_) = plan(mixed, Pod("ml", "ddp", None, "Pending", {"nvidia.com/gpu": 2})).levels
    assert level.lower_bound == 0


def test_work_on_whole_gpus_keeps_its_board_when_everything_restarts() -> None:
    """An idle A100 is cheaper, but nobody measured the job there."""
    h100 = replace(gpu(0, mig="off", state="busy", owner=PodRef("ml", "ddp")), board="h100-nvl-94gb")
    a100 = Node("n2", "Standard_NC24ads_A100_v4", owner="gpu-operator", strategy="mixed", gpus=(gpu(0, BUSY),))
    first = node(h100, azure_size="Standard_NC40ads_H100_v5")
    running = Pod("ml", "ddp", "n1", "Running", {"nvidia.com/gpu": 1})
    snapshot = Snapshot((first, a100), (running,))
    ideal = make_plan(Inputs(snapshot, "0" * 64, CATALOGUE, Policy())).ideal
    assert ideal is not None
    assert {row.board.split()[0]: row.layout for row in ideal.rows if row.layout == ("off",)} == {
        "h100-nvl-94gb": ("off",)
    }


def test_layouts_that_cannot_be_give_no_numbers() -> None:
    result = make_plan(inputs_of(node(gpu(0, *IMPOSSIBLE))))
    assert result.gpus[0].stranded is None
    assert result.ideal is None or result.ideal.savings.gpu_hours >= 0  # type: ignore[operator]


def test_what_may_be_held_is_told_from_what_is() -> None:
    found = plan(node(gpu(0, BUSY, UNKNOWN, IDLE))).gpus[0]
    assert (found.pinned, found.unsure) == (("1g.10gb", "1g.10gb"), ("1g.10gb",))
    dark = plan(node(gpu(0, mig="on", state="unknown"))).gpus[0]
    assert (dark.before, dark.is_layout_known) == ((), False)


def test_on_single_nodes_a_request_for_a_profile_is_told_what_to_ask() -> None:
    single = {"strategy": "single", "layout_scope": "node"}
    (pod,) = plan(node(gpu(0, IDLE), **single), waiting("1g.10gb")).pods
    assert pod.reason == Reason.NO_SUCH_PROFILE
    assert "ask for nvidia.com/gpu: 1" in pod.text


def test_new_pools_of_a_single_cluster_are_single_and_say_what_to_ask_for() -> None:
    aks = node(gpu(0, BUSY), owner="aks", strategy="single", layout_scope="pool", azure_size="Standard_NC24ads_A100_v4")
    fits = Fits((Fit(WorkloadRef("ml", "Pod", "new-0"), "measured", chosen=Choice(A100, "2g.20gb")),))
    pod = Pod("ml", "new-0", None, "Pending", {"nvidia.com/gpu": 1})
    result = make_plan(inputs_of(aks, pod, fits=fits))
    (step,) = [s.pool for s in result.steps if s.pool]
    assert step is not None
    assert step.strategy == "single"
    assert "asked for by nvidia.com/gpu: 1" in result.pods[0].text
