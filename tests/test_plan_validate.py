"""A plan against newer snapshots: each way in which it stops to hold has its own failure, and nothing else has one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from migsaw.cli.shared import load_catalogue
from migsaw.model.plan import Plan
from migsaw.model.policy import Policy
from migsaw.model.refs import PodRef
from migsaw.model.snapshot import Gpu, Instance, Node, Pod, Snapshot
from migsaw.plan.planner import Inputs, draft_plan, write_up
from migsaw.plan.validate import Failure, validate

CATALOGUE = load_catalogue()
A30 = "a30-24gb"


def idle(profile: str, gi_id: int = 0) -> Instance:
    return Instance(profile, gi_id, None, None, "nobody asks for it", "idle")


def busy(profile: str, pod: str, gi_id: int = 0) -> Instance:
    return Instance(profile, gi_id, None, PodRef("ns", pod), None, "busy")


def mig_gpu(index: int, *instances: Instance, board: str = A30) -> Gpu:
    return Gpu(index, f"GPU-{index}", board, None, "on", None, None, "idle", instances)


def node(*gpus: Gpu, name: str = "node-0") -> Node:
    return Node(name, owner="gpu-operator", strategy="mixed", layout_scope="gpu", gpus=gpus)


def waiting(name: str, profile: str) -> Pod:
    return Pod("ns", name, None, "Pending", {f"nvidia.com/mig-{profile}": 1})


BEFORE = Snapshot(
    (node(mig_gpu(0, idle("2g.12gb"), idle("2g.12gb", 1)), mig_gpu(1, busy("4g.24gb", "run"))),),
    (waiting("big", "4g.24gb"), Pod("ns", "run", "node-0", "Running", {"nvidia.com/mig-4g.24gb": 1})),
)


def plan_of(snapshot: Snapshot) -> Plan:
    inputs = Inputs(snapshot, "0" * 64, CATALOGUE, Policy())
    return write_up(inputs, draft_plan(inputs))


@pytest.fixture(scope="module")
def plan() -> Plan:
    made = plan_of(BEFORE)
    assert [(g.index, g.before, g.after) for g in made.gpus if g.before != g.after] == [
        (0, ("2g.12gb", "2g.12gb"), ("4g.24gb",))
    ]
    return made


def with_node(changed: Node) -> Snapshot:
    return replace(BEFORE, nodes=(changed,))


def with_gpu(gpu: Gpu) -> Snapshot:
    return with_node(node(gpu, BEFORE.nodes[0].gpus[1]))


NODE, FREE = BEFORE.nodes[0], BEFORE.nodes[0].gpus[0]


def test_it_holds_for_its_own_snapshot_and_for_changes_elsewhere(plan):
    assert validate(plan, BEFORE) == ()
    neighbour = mig_gpu(1, idle("4g.24gb"))  # the run beside has ended
    assert validate(plan, with_node(node(FREE, neighbour))) == ()
    more = replace(BEFORE, pods=(*BEFORE.pods, waiting("other", "1g.6gb")), nodes=(*BEFORE.nodes, node(name="new")))
    assert validate(plan, more) == ()


@pytest.mark.parametrize(
    ("failure", "snapshot"),
    [
        (Failure.NODE_GONE, replace(BEFORE, nodes=(replace(NODE, name="other"),))),
        (Failure.NODE_UNAVAILABLE, with_node(replace(NODE, schedulable=False))),
        (Failure.NODE_BUSY, with_node(replace(NODE, mig_config_state="pending"))),
        (Failure.OWNER_CHANGED, with_node(replace(NODE, owner="dra"))),
        (Failure.STRATEGY_CHANGED, with_node(replace(NODE, strategy="single"))),
        (Failure.GPU_GONE, with_node(node(NODE.gpus[1]))),
        (Failure.GPU_REPLACED, with_gpu(replace(FREE, uuid="GPU-new"))),
        (Failure.GPU_REPLACED, with_gpu(replace(FREE, board="h100-sxm5-80gb"))),
        (Failure.LAYOUT_CHANGED, with_gpu(mig_gpu(0, idle("2g.12gb")))),
        (Failure.LAYOUT_CHANGED, with_gpu(mig_gpu(0))),
        (Failure.NOW_HELD, with_gpu(mig_gpu(0, busy("2g.12gb", "new"), idle("2g.12gb", 1)))),
        (Failure.NOW_HELD, with_gpu(mig_gpu(0, replace(idle("2g.12gb"), state="busy"), idle("2g.12gb", 1)))),
        (Failure.MAY_BE_HELD, with_gpu(mig_gpu(0, replace(idle("2g.12gb"), state="unknown"), idle("2g.12gb", 1)))),
        (Failure.DEMAND_GONE, replace(BEFORE, pods=BEFORE.pods[1:])),
        (Failure.DEMAND_GONE, replace(BEFORE, pods=(replace(BEFORE.pods[0], node="node-0"), BEFORE.pods[1]))),
    ],
)
def test_each_failure_has_its_type(plan, failure, snapshot):
    faults = validate(plan, snapshot)
    assert {fault.failure for fault in faults} == {failure}
    assert all(fault.text for fault in faults)
    assert all((fault.node is None) == (failure is Failure.DEMAND_GONE) for fault in faults)


def test_several_failures_are_all_told(plan):
    bad = with_node(replace(node(mig_gpu(0, busy("2g.12gb", "new")), NODE.gpus[1]), schedulable=False))
    assert [fault.failure for fault in validate(plan, bad)] == [
        Failure.NODE_UNAVAILABLE,
        Failure.LAYOUT_CHANGED,
        Failure.NOW_HELD,
    ]


def test_pods_that_a_step_may_end_do_not_stand_in_its_way(plan):
    steps = tuple(replace(s, disrupts=("ns/new",)) if s.kind == "recut" else s for s in plan.steps)
    allowed = replace(plan, steps=steps)
    held = with_gpu(mig_gpu(0, busy("2g.12gb", "new"), idle("2g.12gb", 1)))
    assert validate(allowed, held) == ()
    away = replace(BEFORE, pods=(*BEFORE.pods, Pod("ns", "new", "node-9", "Running")))
    assert [fault.failure for fault in validate(allowed, away)] == [Failure.POD_MOVED]


def test_a_change_of_mode_looks_at_the_neighbours_too():
    off = Gpu(0, "GPU-0", A30, None, "off", None, None, "idle")
    other = Gpu(1, "GPU-1", A30, None, "off", None, None, "idle")
    before = Snapshot((node(off, other),), (waiting("small", "1g.6gb"),))
    made = plan_of(before)
    assert [g.index for g in made.gpus if g.before != g.after] == [0]
    assert validate(made, before) == ()
    held = replace(other, owner=PodRef("ns", "whole"), state="busy")
    assert [f.failure for f in validate(made, replace(before, nodes=(node(off, held),)))] == [Failure.NOW_HELD]
    unknown = replace(other, state="unknown")
    assert [f.failure for f in validate(made, replace(before, nodes=(node(off, unknown),)))] == [Failure.MAY_BE_HELD]
    taken = replace(off, owner=PodRef("ns", "whole"), state="busy")
    assert [f.failure for f in validate(made, replace(before, nodes=(node(taken, other),)))] == [Failure.NOW_HELD]


def test_a_plan_that_changes_nothing_cannot_fail():
    quiet = Snapshot(BEFORE.nodes, BEFORE.pods[1:])
    assert validate(plan_of(quiet), Snapshot()) == ()
