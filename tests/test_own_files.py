"""Snapshot and plan files that somebody edited: each impossible value is refused with its place."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from made_plans import operator_plans
from migsaw.cli.shared import load_catalogue
from migsaw.errors import InputError
from migsaw.observe.documents import to_json
from migsaw.observe.own_files import read_plan, read_snapshot

A100 = "a100-sxm4-80gb"

PLAN: dict[str, Any] = {
    "schema": "migsaw/plan/v1",
    "made_from": {"snapshot_sha256": "0" * 64, "resource_versions": {}},
    "target": None,
    "objective": 2.0,
    "lower_bound": 2.0,
    "gap": 0.0,
    "gpus": [
        {"node": "a", "index": 0, "before": ["off"], "after": ["off"], "reason": "Held", "text": "", "board": A100},
        {
            "node": "b",
            "index": 0,
            "before": ["1g.10gb@0", "2g.20gb@2"],
            "after": ["1g.10gb@0", "3g.40gb@4"],
            "reason": "Recut",
            "text": "",
            "board": A100,
            "pinned": ["1g.10gb@0"],
        },
    ],
    "pods": [
        {
            "namespace": "n",
            "name": "p",
            "reason": "ServedAfterRecut",
            "text": "",
            "before": None,
            "after": {"node": "b", "profile": "3g.40gb"},
        }
    ],
    "steps": [
        {"id": "cordon-b", "kind": "cordon", "node": "b"},
        {"id": "recut-b", "kind": "recut", "node": "b", "gpus": [0], "needs": ["cordon-b"], "seconds": 60.0},
    ],
    "savings": {"gpu_hours": None, "usd": None, "source": "not computed"},
    "nodes": [
        {"name": "a", "owner": "gpu-operator", "changed": False},
        {"name": "b", "owner": "gpu-operator", "changed": True},
    ],
}

SNAPSHOT: dict[str, Any] = {
    "schema": "migsaw/snapshot/v1",
    "nodes": [
        {
            "name": "b",
            "gpus": [
                {"index": 0, "board": A100, "mig": "on", "instances": [{"profile": "1g.10gb", "start": 0}]},
                {"index": 1, "board": A100, "mig": "off", "memory_mib": {"used": 3, "capacity": None}},
            ],
        }
    ],
    "pods": [{"namespace": "n", "name": "p", "asks": {"nvidia.com/gpu": 1}}],
}


def edited(data: dict[str, Any], place: str, value: Any) -> dict[str, Any]:
    """A copy with the value at a place such as ``gpus.1.index``; ``+`` appends to a list."""
    copied = copy.deepcopy(data)
    *way, last = [int(step) if step.isdecimal() else step for step in place.split(".")]
    at: Any = copied
    for step in way:
        at = at[step]
    if last == "+":
        at.append(value)
    else:
        at[last] = value
    return copied


def saved(folder: Path, data: dict[str, Any]) -> Path:
    path = folder / "file.json"
    path.write_text(json.dumps(data))
    return path


def test_files_that_can_be_are_read(tmp_path):
    assert read_plan(saved(tmp_path, PLAN), load_catalogue()).gpus[1].after == ("1g.10gb@0", "3g.40gb@4")
    assert read_snapshot(saved(tmp_path, SNAPSHOT)).nodes[0].gpus[0].instances[0].start == 0


@given(plan=operator_plans())
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_legal_plan_is_read_as_it_was_written(tmp_path, plan):
    path = tmp_path / "plan.json"
    path.write_text(to_json(plan))
    assert read_plan(path, load_catalogue()) == plan


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("gpus.1.after", ["1g.10gb@0", "3g.40gb@1"], "3g.40gb cannot start at 1"),
        ("gpus.1.after", ["1g.10gb@0", "3g.40gb", "3g.40gb"], "no placement holds all"),
        ("gpus.1.after", ["1g.10gb@0"] * 2, "instances overlap"),
        ("gpus.1.after", ["1g.10gb"] * 9, "at most 7"),
        ("gpus.1.after", ["1g.10gb", "1g.12gb"], "has no profile 1g.12gb"),
        ("gpus.1.after", ["off", "1g.10gb"], "off stands alone"),
        ("gpus.1.after", ["1g.10gb", "one"], "'one' is not PROFILE@START"),
        ("gpus.1.after", ["3g.40gb@4"], "pinned"),
        ("gpus.0.after", ["7g.80gb"], "a GPU with the reason Held does not change"),
        ("gpus.1.board", "z900", "no known geometry"),
        ("gpus.1.index", -1, "GPU index -1"),
        ("gpus.1.index", 10**30, f"GPU index {10**30}"),
        ("gpus.1.node", "ghost", "ghost is no node of the plan"),
        ("gpus.+", PLAN["gpus"][1], "GPU b/0 is there twice"),
        ("pods.0.after.node", "ghost", "ghost is no node of the plan"),
        ("pods.0.after.profile", "big", "'big' is not PROFILE@START"),
        ("steps", PLAN["steps"][:1], "changes, and no step cuts it"),
        ("steps", PLAN["steps"][::-1], "needs cordon-b, which comes later"),
        ("steps.1.needs", ["x"], "needs x, which is not there"),
        ("steps.1.gpus", [0, 7], "a GPU that b does not have"),
        ("steps.0.node", "ghost", "ghost is no node of the plan"),
        ("steps.0.id", "recut-b", "step recut-b is there twice"),
        ("steps.1.seconds", -5.0, "-5.0 seconds"),
        ("lower_bound", 3.0, "a lower bound of 3 above the objective 2"),
        ("gap", 1.5, "a gap of 1.5"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_with_its_place(tmp_path, place, value, said):
    path = saved(tmp_path, edited(PLAN, place, value))
    with pytest.raises(InputError) as refused:
        read_plan(path, load_catalogue())
    assert said in refused.value.message
    assert refused.value.where.file == str(path)
    assert refused.value.where.place.startswith("$.")


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("nodes.+", SNAPSHOT["nodes"][0], "node b is there twice"),
        ("pods.+", SNAPSHOT["pods"][0], "pod n/p is there twice"),
        ("nodes.0.gpus.1.index", 0, "GPU b/0 is there twice"),
        ("nodes.0.gpus.1.index", -4, "GPU index -4"),
        ("nodes.0.gpus.0.mig", "off", "MIG is off, and it has instances"),
        ("nodes.0.gpus.0.instances.0.start", -1, "start -1"),
        ("nodes.0.gpus.0.instances.0.start", 10**20, f"start {10**20}"),
        ("nodes.0.gpus.1.memory_mib.used", -1, "memory below 0"),
        ("nodes.0.gpus.0.instances.0.memory_mib", {"used": 1, "capacity": -2}, "memory below 0"),
        ("nodes.0.gpus.1.activity", {"sm": 7.0}, "a ratio of 0 to 1"),
        ("pods.0.asks", {"nvidia.com/gpu": -1}, "asks for -1 of nvidia.com/gpu"),
        ("pods.0.asks", {"nvidia.com/gpu": 10**17}, f"asks for {10**17} of nvidia.com/gpu"),
    ],
)
def test_a_snapshot_that_cannot_be_is_refused_with_its_place(tmp_path, place, value, said):
    path = saved(tmp_path, edited(SNAPSHOT, place, value))
    with pytest.raises(InputError) as refused:
        read_snapshot(path)
    assert said in refused.value.message
    assert refused.value.where.file == str(path)
    assert refused.value.where.place.startswith("$.")
