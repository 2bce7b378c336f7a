"""``migsaw render``: what lies in the folder afterwards, whatever happens, and what a shell makes of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from made_plans import gpu_plan, operator_plans, plan_of
from migsaw.cli.render import write_all
from migsaw.cli.shared import load_catalogue
from migsaw.errors import InputError, TargetError
from migsaw.model.plan import NodePlan
from migsaw.observe.documents import to_json
from migsaw.render.document import MARK, Options, RenderedFile
from migsaw.render.targets import render
from test_render_mig_manager import labels

A100 = "a100-sxm4-80gb"


def saved(folder: Path, **more) -> Path:
    gpus = [gpu_plan("gpu-a", 0, A100, ("7g.80gb@0",), ("3g.40gb", "2g.20gb", "1g.10gb"))]
    plan = plan_of(gpus, [NodePlan("gpu-a", "gpu-operator", True, strategy="mixed", mig_config="all-7g.80gb")], **more)
    (folder / "plan.json").write_text(to_json(plan))
    return folder


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_files_are_written_and_named(migsaw, tmp_path):
    done = migsaw("render", "plan.json", "--for", "mig-manager", "--out", "out", cwd=saved(tmp_path))
    assert done.returncode == 0, done.stderr
    names = ["cluster-policy-patch.yaml", "configmap.yaml", "labels.sh", "mig-parted.yaml"]
    assert done.stdout.split() == [f"out/{name}" for name in names]
    assert set(tree(tmp_path)) == {"plan.json", *(f"out/{name}" for name in names)}
    assert os.access(tmp_path / "out/labels.sh", os.X_OK)
    assert not os.access(tmp_path / "out/configmap.yaml", os.X_OK)


@pytest.mark.parametrize("target", ["aks", "dra", "nvidia-smi", "azureml"])
def test_a_refusal_leaves_no_file(migsaw, tmp_path, target):
    before = tree(saved(tmp_path))
    done = migsaw("render", "plan.json", "--for", target, "--out", "out", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert tree(tmp_path) == before


def test_a_plan_for_another_target_is_refused_by_name(migsaw, tmp_path):
    before = tree(saved(tmp_path, target="mig-manager"))
    done = migsaw("render", "plan.json", "--for", "kubernetes", "--out", "out", cwd=tmp_path)
    assert done.returncode == 1
    assert "the plan was made for mig-manager, not for kubernetes" in done.stderr
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ('{"schema": "migsaw/plan/v1"', "not JSON"),
        ('{"schema": "migsaw/snapshot/v1"}', "expected migsaw/plan/v1"),
        ('{"schema": "migsaw/plan/v1", "gpus": 3}', "$.made_from"),
    ],
)
def test_what_is_no_plan_is_a_usage_error(migsaw, tmp_path, text, said):
    (tmp_path / "plan.json").write_text(text)
    done = migsaw("render", "plan.json", "--for", "mig-manager", "--out", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "plan.json" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_layout_that_cannot_be_read_is_named(migsaw, tmp_path):
    plan = plan_of([gpu_plan("a", 0, A100, (), ("3 slices",))], [NodePlan("a", "gpu-operator", True)])
    (tmp_path / "plan.json").write_text(to_json(plan))
    done = migsaw("render", "plan.json", "--for", "mig-manager", "--out", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert "$.gpus[0]" in done.stderr
    assert "'3 slices' is not PROFILE@START" in done.stderr


def test_files_of_an_earlier_rendering_are_replaced_or_refused(tmp_path):
    (tmp_path / "mine.txt").write_text("of a person")
    write_all(tmp_path, [RenderedFile("a.yaml", f"# {MARK} 1\n"), RenderedFile("b.yaml", f"# {MARK} 1\n")])
    write_all(tmp_path, [RenderedFile("a.yaml", f"# {MARK} 2\n"), RenderedFile("b.yaml", f"# {MARK} 2\n")])
    before = tree(tmp_path)
    assert before["a.yaml"] == f"# {MARK} 2\n".encode()
    with pytest.raises(InputError, match=r"b\.yaml: is of an earlier rendering"):
        write_all(tmp_path, [RenderedFile("a.yaml", f"# {MARK} 3\n")])
    assert tree(tmp_path) == before


def test_where_one_file_cannot_be_written_none_is_left(tmp_path):
    (tmp_path / "out/b.yaml").mkdir(parents=True)  # a folder stands in the way
    with pytest.raises(InputError):
        write_all(tmp_path / "out", [RenderedFile("a.yaml", "1\n"), RenderedFile("b.yaml", "2\n")])
    assert tree(tmp_path) == {}


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=operator_plans())
def test_names_of_nodes_reach_kubectl_as_they_are(plan, tmp_path_factory):
    """The script is run by a real shell with a kubectl that notes its words: no name does anything else."""
    try:
        made = {file.path: file.text for file in render(plan, "mig-manager", load_catalogue(), Options())}
    except TargetError:
        return
    folder = tmp_path_factory.mktemp("shell")
    program = "import json,sys; open(sys.argv[1], 'a').write(json.dumps(sys.argv[2:]) + chr(10))"
    (folder / "kubectl").write_text(f'#!/bin/sh\nexec {sys.executable} -c "{program}" {folder}/calls "$@"\n')
    (folder / "kubectl").chmod(0o755)
    (folder / "labels.sh").write_text(made["labels.sh"])
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "labels.sh"], cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    calls = (
        [json.loads(line) for line in (folder / "calls").read_text().splitlines()]
        if (folder / "calls").exists()
        else []
    )
    assert calls == [
        ["label", "node", node, f"nvidia.com/mig.config={config}", "--overwrite"]
        for node, config in labels(made["labels.sh"]).items()
    ]
    assert {path.name for path in folder.iterdir()} <= {"kubectl", "labels.sh", "calls"}
