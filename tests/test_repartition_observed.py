"""Repartition of an observed fleet: what nobody can be sure of stays where it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from migsaw.cli.shared import load_catalogue
from migsaw.model.policy import Policy
from migsaw.model.refs import PodRef
from migsaw.model.snapshot import Gpu, Instance, Node, Pod, Snapshot, Workload
from migsaw.plan.fleet import build_fleet
from migsaw.plan.repartition import Ask, MoveBudget, PoolGpu, repartition
from migsaw.plan.repartition.observed import demand_of, pool_of

A30 = "a30-24gb"
WEB = Workload("ns", "Deployment", "web")


def instance(profile: str, start: int | None, state: str = "idle", pod: str | None = None) -> Instance:
    owner = PodRef("ns", pod) if pod else None
    return Instance(profile, None, start, owner, None if owner else "made up", state)  # type: ignore[arg-type]


def gpu(index: int, *instances: Instance) -> Gpu:
    return Gpu(index, f"GPU-{index}", A30, None, "on", None, None, "idle", instances)


def node(*gpus: Gpu, **more) -> Node:
    fields = {"owner": "gpu-operator", "strategy": "mixed", "layout_scope": "gpu", **more}
    return Node("node-0", gpus=gpus, **fields)


def running(pod: str, profile: str, workload: Workload | None = None) -> Pod:
    return Pod("ns", pod, "node-0", "Running", {f"nvidia.com/mig-{profile}": 1}, workload)


BIG = Pod("ns", "big", None, "Pending", {"nvidia.com/mig-4g.24gb": 1})


def pool(snapshot: Snapshot) -> tuple[PoolGpu, ...]:
    return pool_of(build_fleet(snapshot, load_catalogue(), Policy(), None), snapshot)


def values(snapshot: Snapshot, budgets: dict[str, MoveBudget] | None = None) -> tuple[int, ...]:
    demand = demand_of(build_fleet(snapshot, load_catalogue(), Policy(), None), snapshot)
    found = repartition(pool(snapshot), Ask(demand, budgets=budgets or {}))
    return tuple(level.value for level in found.levels)


def test_a_service_moves_within_its_budget_and_lands_beside():
    gpus = (gpu(0, instance("1g.6gb", None, "busy", "web-1")), gpu(1, instance("1g.6gb", None)))
    snapshot = Snapshot((node(*gpus),), (BIG, running("web-1", "1g.6gb", WEB)))
    assert values(snapshot) == (0, 0, 0, 1, 60), "the idle GPU is cut; nobody needs to move"
    full = (gpus[0], gpu(1, instance("2g.12gb", None, "busy", "fit"), instance("1g.6gb", None)))
    snapshot = Snapshot((node(*full),), (BIG, running("web-1", "1g.6gb", WEB), running("fit", "2g.12gb")))
    assert values(snapshot) == (4, 0, 0, 0, 0)
    assert values(snapshot, {str(WEB): MoveBudget()}) == (0, 1, 0, 1, 60)


@pytest.mark.parametrize(
    "doubtful",
    [
        instance("1g.6gb", None, "unknown"),
        instance("1g.6gb", None, "busy"),  # by a pod that nobody can name
        instance("1g.6gb", None, "unknown", "web-1"),
    ],
)
def test_what_nobody_can_name_is_pinned_whatever_the_budgets(doubtful):
    snapshot = Snapshot((node(gpu(0, doubtful)),), (BIG, running("web-1", "1g.6gb", WEB)))
    assert values(snapshot, {str(WEB): MoveBudget()}) == (4, 0, 0, 0, 0)


@pytest.mark.parametrize("more", [{"owner": "aks"}, {"owner": "hami"}, {"mig_config_state": "pending"}])
def test_nodes_that_cannot_change_serve_as_they_are(more):
    idle = node(gpu(0, instance("2g.12gb", None), instance("2g.12gb", None)), **more)
    assert values(Snapshot((idle,), (BIG,))) == (4, 0, 0, 0, 0)
    small = replace(BIG, asks={"nvidia.com/mig-2g.12gb": 2})
    assert values(Snapshot((idle,), (small,))) == (0, 0, 0, 0, 0)
    assert values(Snapshot((replace(idle, schedulable=False),), (small,))) == (4, 0, 0, 0, 0)


def test_a_change_of_mode_needs_a_node_that_holds_nothing():
    off = Gpu(0, "GPU-0", A30, None, "off", None, None, "idle")
    assert values(Snapshot((node(off),), (BIG,))) == (0, 0, 0, 1, 360)
    whole = replace(off, index=1, uuid="GPU-1", owner=PodRef("ns", "whole"), state="busy")
    held = Pod("ns", "whole", "node-0", "Running", {"nvidia.com/gpu": 1}, WEB)
    assert values(Snapshot((node(off, whole),), (BIG, held)), {str(WEB): MoveBudget()}) == (4, 0, 0, 0, 0)


def test_single_strategy_nodes_and_unknown_boards_are_left_out():
    single = node(gpu(0, instance("4g.24gb", None)), strategy="single")
    assert pool(Snapshot((single,), (BIG,))) == ()
    strange = node(replace(gpu(0), board=None, product="a board that nobody knows"))
    assert pool(Snapshot((strange,), (BIG,))) == ()
