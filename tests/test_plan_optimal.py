"""The planner against exhaustive search: on small fleets no other cut serves more, and none cuts fewer GPUs."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

from migsaw.cli.shared import load_catalogue
from migsaw.model.policy import Policy
from migsaw.model.refs import PodRef
from migsaw.model.snapshot import Gpu, Instance, Node, Pod, Snapshot
from migsaw.plan.planner import Inputs, draft_plan

CATALOGUE = load_catalogue()
BOARD = "a30-24gb"
# worked out by hand from the A30's four memory slices: every multiset of 1g, 2g, 4g that fits
MEMORY = {"1g.6gb": 1, "2g.12gb": 2, "4g.24gb": 4}
MULTISETS = [
    Counter({"1g.6gb": a, "2g.12gb": b, "4g.24gb": c})
    for a, b, c in itertools.product(range(5), range(3), range(2))
    if a + 2 * b + 4 * c <= 4
]


def random_snapshot(rng: random.Random) -> Snapshot:
    nodes, pods = [], []
    for n in range(rng.randint(1, 2)):
        gpus = []
        for index in range(rng.randint(1, 2)):
            layout = list((rng.choice(MULTISETS)).elements())
            instances = []
            for k, profile in enumerate(layout):
                state = rng.choice(["idle", "idle", "idle", "busy", "unknown"])
                owner = PodRef("ns", f"run-{n}-{index}-{k}") if state == "busy" else None
                if owner:
                    pods.append(Pod("ns", owner.pod, f"node-{n}", "Running", {f"nvidia.com/mig-{profile}": 1}))
                instances.append(Instance(profile, k, None, owner, "made up", state))
            gpus.append(Gpu(index, f"GPU-{n}-{index}", BOARD, None, "on", None, None, "idle", tuple(instances)))
        nodes.append(Node(f"node-{n}", owner="gpu-operator", strategy="mixed", layout_scope="gpu", gpus=tuple(gpus)))
    for k in range(rng.randint(1, 5)):
        profile, count = rng.choice(list(MEMORY)), rng.choice([1, 1, 1, 2])
        selector = {"kubernetes.io/hostname": "node-0"} if rng.random() < 0.2 else {}
        pods.append(
            Pod("ns", f"wait-{k}", None, "Pending", {f"nvidia.com/mig-{profile}": count}, node_selector=selector)
        )
    return Snapshot(tuple(nodes), tuple(pods))


def brute_force(snapshot: Snapshot) -> tuple[int, int]:
    """(memory slices unserved, GPUs cut) of the best plan, by trying every cut and every assignment."""
    waiting = [p for p in snapshot.pods if p.node is None]
    choices = []
    for node in snapshot.nodes:
        for gpu in node.gpus:
            idle = Counter(i.profile for i in gpu.instances if i.state == "idle")
            options = [(0, idle)]
            if all(i.state == "idle" for i in gpu.instances):
                options += [(1, m) for m in MULTISETS]
            choices.append([(node.name, cut, offers) for cut, offers in options])
    best = (10**9, 10**9)
    for combo in itertools.product(*choices):
        cut = sum(c for _, c, _ in combo)
        room: dict[str, Counter[str]] = {}
        for name, _, offers in combo:
            room.setdefault(name, Counter()).update(offers)
        best = min(best, (least_unserved(waiting, room), cut))
    return best


def least_unserved(waiting: list[Pod], room: dict[str, Counter[str]]) -> int:
    if not waiting:
        return 0
    pod, rest = waiting[0], waiting[1:]
    ((resource, count),) = pod.asks.items()
    profile = resource.removeprefix("nvidia.com/mig-")
    best = count * MEMORY[profile] + least_unserved(rest, room)
    for name, free in room.items():
        wanted = pod.node_selector.get("kubernetes.io/hostname", name)
        if wanted == name and free[profile] >= count:
            free[profile] -= count
            best = min(best, least_unserved(rest, room))
            free[profile] += count
    return best


@pytest.mark.parametrize("seed", range(60))
def test_no_other_plan_serves_more_or_cuts_less(seed: int) -> None:
    snapshot = random_snapshot(random.Random(seed))
    draft = draft_plan(Inputs(snapshot, "0" * 64, CATALOGUE, Policy()))
    unserved, headroom, cut = draft.assignment.levels
    assert (unserved.value, cut.value) == brute_force(snapshot)
    assert unserved.lower_bound == unserved.value, "the bound must meet what exhaustive search proved"
    assert headroom.value == 0
    assert len(draft.after) == cut.value
