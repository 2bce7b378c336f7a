"""The scripts are run by a real shell against a driver that is as strict as NVIDIA's (``fake_driver``)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from made_plans import BOARDS, gpu_plan, layouts, plan_of, words
from mig_rules import is_legal
from migsaw.cli.shared import load_catalogue
from migsaw.errors import TargetError
from migsaw.model.plan import NodePlan
from migsaw.render.document import Options
from migsaw.render.targets import render

CATALOGUE = load_catalogue()
TESTS = Path(__file__).parent
A100 = "a100-sxm4-80gb"


def scripts(gpus, node="vm", owner="unknown", target=None):
    plan = plan_of(gpus, [NodePlan(node, owner, True)], target=target)
    return render(plan, "nvidia-smi", CATALOGUE, Options())


class Machine:
    """GPUs with a driver, and a shell that finds it under the name nvidia-smi."""

    def __init__(self, folder: Path, gpus: dict[int, tuple[str, Any]], needs_reset: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.file = folder, folder / "state.json"
        state = {
            str(index): {
                "board": board,
                "mode": "Disabled" if layout is None else "Enabled",
                "instances": [[name, start, k + 1, False] for k, (name, start) in enumerate(layout or ())],
                "compute": [k + 1 for k, _ in enumerate(layout or ())],
                "needs_reset": needs_reset,
            }
            for index, (board, layout) in gpus.items()
        }
        self.save(state)
        program = folder / "nvidia-smi"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {TESTS}/fake_driver.py {self.file} "$@"\n')
        program.chmod(0o755)

    def save(self, state: dict[str, Any]) -> None:
        self.file.write_text(json.dumps(state))

    @property
    def state(self) -> dict[str, Any]:
        return json.loads(self.file.read_text())

    def layout(self, index: int) -> list[tuple[str, int]] | None:
        gpu = self.state[str(index)]
        assert sorted(gpu["compute"]) == sorted(one[2] for one in gpu["instances"])
        return None if gpu["mode"] == "Disabled" else sorted((name, start) for name, start, _, _ in gpu["instances"])

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        (self.folder / "script.sh").write_text(script)
        env = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}", "PYTHONPATH": str(TESTS)}
        return subprocess.run(["sh", self.folder / "script.sh"], env=env, capture_output=True, text=True, check=False)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_script_makes_exactly_the_layout_and_touches_no_other_gpu(data, tmp_path_factory):
    board = data.draw(st.sampled_from(BOARDS))
    pairs = data.draw(
        st.lists(st.tuples(st.none() | layouts(board), st.none() | layouts(board)), min_size=1, max_size=2)
    )
    known = data.draw(st.booleans())
    gpus = [gpu_plan("vm", k, board, words(old, known), words(new, True)) for k, (old, new) in enumerate(pairs)]
    machine = Machine(tmp_path_factory.mktemp("vm"), {k: (board, old) for k, (old, _) in enumerate(pairs)})
    for script in scripts(gpus):
        done = machine.run(script.text)
        assert done.returncode == 0, done.stdout + done.stderr
    for k, (old, new) in enumerate(pairs):
        same = known and old == new
        assert machine.layout(k) == (None if new is None else sorted(old if same else new))


@given(data=st.data())
def test_lists_can_be_created_in_any_order_because_every_instance_has_its_place(data):
    board = data.draw(st.sampled_from(BOARDS))
    after = data.draw(layouts(board))
    for script in scripts([gpu_plan("vm", 0, board, (), words(after, False))]):
        made: list[tuple[str, int]] = []
        for found in re.findall(r"^nvidia-smi mig -i 0 -cgi (\S+) -C$", script.text, re.MULTILINE):
            for word in found.split(","):
                identity, start = word.split(":")
                profile = CATALOGUE.board(board).by_id(int(identity))
                made.append((profile.name, int(start)))
        assert is_legal(board, made)
        assert sorted(name for name, _ in made) == sorted(name for name, _ in after)


def test_what_is_in_use_is_not_touched(tmp_path):
    gpu = gpu_plan(
        "vm",
        0,
        A100,
        ("1g.10gb@0", "1g.10gb@1", "3g.40gb@4"),
        ("2g.20gb@0", "1g.10gb@2", "3g.40gb@4"),
        pinned=("3g.40gb@4",),
    )
    machine = Machine(tmp_path, {0: (A100, (("1g.10gb", 0), ("1g.10gb", 1), ("3g.40gb", 4)))})
    state = machine.state
    state["0"]["instances"][2][3] = True
    machine.save(state)
    (script,) = scripts([gpu])
    done = machine.run(script.text)
    assert done.returncode == 0, done.stdout + done.stderr
    assert machine.layout(0) == [("1g.10gb", 2), ("2g.20gb", 0), ("3g.40gb", 4)]
    assert machine.state["0"]["instances"][0] == ["3g.40gb", 4, 3, True]  # the very instance, not a new one


def test_a_busy_gpu_stops_the_script_before_anything_is_made(tmp_path):
    machine = Machine(tmp_path, {0: (A100, (("7g.80gb", 0),))})
    state = machine.state
    state["0"]["instances"][0][3] = True
    machine.save(state)
    (script,) = scripts([gpu_plan("vm", 0, A100, ("7g.80gb@0",), ("3g.40gb@4",))])
    assert machine.run(script.text).returncode != 0
    assert machine.layout(0) == [("7g.80gb", 0)]


def test_a_mode_that_waits_for_a_reset_stops_the_script_and_it_can_run_again(tmp_path):
    (script,) = scripts([gpu_plan("vm", 0, A100, ("off",), ("4g.40gb@0", "3g.40gb@4"))])
    machine = Machine(tmp_path, {0: (A100, None)}, needs_reset=True)
    done = machine.run(script.text)
    assert done.returncode == 1
    assert "Reset the GPU or reboot" in done.stderr
    state = machine.state
    state["0"]["mode"] = state["0"]["pending"]  # the reboot
    machine.save(state)
    assert machine.run(script.text).returncode == 0
    assert machine.layout(0) == [("3g.40gb", 4), ("4g.40gb", 0)]


@pytest.mark.parametrize(("board", "expected"), [(A100, "reboot"), ("h100-nvl-94gb", "needs no reset")])
def test_a_mode_change_says_what_the_board_needs(board, expected):
    name = "7g.80gb" if board == A100 else "7g.94gb"
    (script,) = scripts([gpu_plan("vm", 0, board, ("off",), (name,))])
    assert re.search(rf"^# GPU 0 \({board}\): MIG on\. .*{expected}", script.text, re.MULTILINE)


@pytest.mark.parametrize(
    ("gpu", "reason"),
    [
        (
            gpu_plan("vm", 0, A100, ("1g.10gb", "3g.40gb"), ("2g.20gb", "3g.40gb"), pinned=("3g.40gb",)),
            "3g.40gb stays in use, and it cannot be told from what goes",
        ),
        (gpu_plan("vm", 0, "what is this", (), ("1g.10gb",)), "the board is not known"),
        (gpu_plan("vm", 0, A100, (), ("3g.40gb", "3g.40gb", "1g.10gb")), "no placement on a100-sxm4-80gb holds"),
    ],
)
def test_what_cannot_be_told_apart_is_refused(gpu, reason):
    with pytest.raises(TargetError, match=re.escape(reason)):
        scripts([gpu])


def test_a_node_with_an_owner_is_refused_unless_it_was_planned_so():
    gpu = gpu_plan("vm", 0, A100, (), ("1g.10gb",))
    with pytest.raises(TargetError, match="gpu-operator owns its GPUs"):
        scripts([gpu], owner="gpu-operator")
    assert scripts([gpu], owner="gpu-operator", target="nvidia-smi")


@pytest.mark.parametrize("name", ["../../etc/cron.d/x", "a b", "vm\nrm -rf /", "-rf", ""])
def test_a_script_s_name_never_leaves_the_folder(name):
    (script,) = scripts([gpu_plan(name, 0, A100, (), ("1g.10gb@0",))], node=name)
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*\.sh", script.path)
    assert "\nrm -rf /" not in script.text
