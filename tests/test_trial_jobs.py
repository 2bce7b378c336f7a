"""Jobs and reservations as values, held to what Kubernetes' and Azure ML's own documents ask of them."""

from __future__ import annotations

import copy
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from migsaw.errors import TargetError
from migsaw.model.trial import Read, RegexReading, Steady, TrialSpec
from migsaw.trial import jobs

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")  # RFC 1123, as metadata.name of a pod must be
VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")  # of a label, at most 63


def spec(**changes) -> TrialSpec:
    words: dict[str, Any] = {
        "name": "Große Modelle/BERT v1.1 " + "x" * 80,
        "command": ("python", "train.py", "it's $HOME; rm"),
        "image": "registry.example/bert:1",
        "env": {"B": "2", "A": "1"},
        "steady": Steady(at_most_seconds=300, start_within_seconds=600),
    }
    return TrialSpec(board="a100-sxm4-80gb", read=Read(regex=RegexReading("(x)")), **{**words, **changes})


@pytest.mark.parametrize(
    ("profile", "resource"),
    [("1g.10gb", "nvidia.com/mig-1g.10gb"), ("1g.10gb+me", "nvidia.com/mig-1g.10gb.me"), ("off", "nvidia.com/gpu")],
)
def test_a_job_asks_for_exactly_one_slice_on_the_reserved_node_only(profile, resource):
    """Every key of the Job, so that nothing else is in it."""
    job = jobs.kubernetes_job(spec(), profile, "ml")
    owner = jobs.holder(spec())
    labels = {"app.kubernetes.io/managed-by": "migsaw", "migsaw.io/trial": owner}
    name = job["metadata"].pop("name")
    assert job == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"namespace": "ml", "labels": labels},
        "spec": {
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            "activeDeadlineSeconds": 600 + 300 + 120,
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "restartPolicy": "Never",
                    "nodeSelector": {"migsaw.io/trial": owner},
                    "tolerations": [
                        {"key": "migsaw.io/trial", "operator": "Equal", "value": owner, "effect": "NoSchedule"}
                    ],
                    "containers": [
                        {
                            "name": "trial",
                            "image": "registry.example/bert:1",
                            "command": ["python", "train.py", "it's $HOME; rm"],
                            "env": [
                                {"name": "A", "value": "1"},
                                {"name": "B", "value": "2"},
                                {"name": "PYTHONUNBUFFERED", "value": "1"},
                            ],
                            "resources": {"requests": {resource: 1}, "limits": {resource: 1}},
                        }
                    ],
                },
            },
        },
    }
    assert LABEL.fullmatch(name)
    assert len(name) + 6 <= 63, "with what a Job adds for its pod"
    assert VALUE.fullmatch(owner)
    assert len(owner) <= 63


def test_names_differ_by_profile_and_conditions():
    names = {jobs.job_name(spec(), p) for p in ("1g.10gb", "1g.10gb+me", "2g.20gb")}
    names |= {jobs.job_name(spec(command=("other",)), "1g.10gb"), jobs.job_name(spec(name="ÜÖ"), "1g.10gb")}
    assert len(names) == 5
    assert all(LABEL.fullmatch(name) for name in names)


def test_an_azure_ml_job_is_one_command_of_the_documented_shape_on_one_instance():
    """learn.microsoft.com, CLI (v2) command job YAML schema; its command is read by a shell."""
    job = jobs.azureml_job(spec(), "1g.10gb", "gpu-cluster", "mig1g10gbpoola")
    assert shlex.split(job.pop("command")) == ["python", "train.py", "it's $HOME; rm"]
    assert LABEL.fullmatch(job.pop("display_name"))
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", job.pop("experiment_name"))
    assert job == {
        "$schema": "https://azuremlschemas.azureedge.net/latest/commandJob.schema.json",
        "type": "command",
        "environment": {"image": "registry.example/bert:1"},
        "environment_variables": {"A": "1", "B": "2", "PYTHONUNBUFFERED": "1"},
        "compute": "azureml:gpu-cluster",
        "resources": {"instance_type": "mig1g10gbpoola", "instance_count": 1},
        "limits": {"timeout": 1020},
        "tags": {"migsaw_trial": jobs.holder(spec()), "migsaw_profile": "1g.10gb"},
    }


@pytest.mark.parametrize(("changes", "says"), [({"image": None}, "no image"), ({"processes": 2}, "2 processes")])
def test_what_a_cluster_cannot_run_is_refused(changes, says):
    for make in (lambda s: jobs.kubernetes_job(s, "1g.10gb"), lambda s: jobs.azureml_job(s, "1g.10gb", "c", "t")):
        with pytest.raises(TargetError, match=says):
            make(spec(**changes))


def test_a_word_that_azure_ml_would_replace_is_refused():
    with pytest.raises(TargetError, match="Azure ML would replace"):
        jobs.azureml_job(spec(command=("echo", "${{inputs.x}}")), "1g.10gb", "c", "t")


# ---- reservation ---------------------------------------------------------------------------------------------------


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386, section 2, word for word."""
    if not isinstance(patch, dict):
        return patch
    target = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        else:
            target[name] = merged(target.get(name), value)
    return target


NODES = [
    {"metadata": {"name": "n", "resourceVersion": "7", "labels": {"a": "b"}}, "spec": {"podCIDR": "10.0.0.0/24"}},
    {
        "metadata": {"name": "n", "resourceVersion": "7", "labels": {}},
        "spec": {
            "taints": [{"key": "sku", "value": "gpu", "effect": "NoSchedule"}, {"key": "x", "effect": "NoExecute"}]
        },
    },
]


@pytest.mark.parametrize("node", NODES)
def test_a_reserved_node_keeps_what_it_has_and_is_given_back_as_it_was(node):
    before = copy.deepcopy(node)
    held = merged(node, jobs.reserve_patch(node, "me"))
    assert held["metadata"]["labels"] == {**node["metadata"]["labels"], "migsaw.io/trial": "me"}
    taint = {"key": "migsaw.io/trial", "value": "me", "effect": "NoSchedule"}
    assert held["spec"]["taints"] == [*node["spec"].get("taints", []), taint]
    assert merged(held, jobs.reserve_patch(held, "me")) == held, "twice is once"
    assert merged(held, jobs.release_patch(held, "me")) == node == before


def test_another_ones_reservation_is_neither_taken_nor_released():
    held = merged(NODES[0], jobs.reserve_patch(NODES[0], "other"))
    with pytest.raises(TargetError, match="reserved for trial other"):
        jobs.reserve_patch(held, "me")
    assert jobs.release_patch(held, "me") is None
    assert jobs.release_patch(NODES[0], "me") is None


@pytest.mark.parametrize("half", ["label", "taint"])
def test_half_a_reservation_that_a_crash_left_is_found_and_released(half):
    held = merged(NODES[1], jobs.reserve_patch(NODES[1], "me"))
    if half == "label":
        held["spec"]["taints"] = NODES[1]["spec"]["taints"]
    else:
        held["metadata"]["labels"] = {}
    assert jobs.reserved_by(held) == "me"
    assert merged(held, jobs.release_patch(held, "me")) == NODES[1]


def test_every_patch_names_the_version_that_it_was_made_for():
    held = merged(NODES[0], jobs.reserve_patch(NODES[0], "me"))
    for patch in (jobs.reserve_patch(NODES[0], "me"), jobs.release_patch(held, "me")):
        assert patch["metadata"]["resourceVersion"] == "7"


# ---- the verb ------------------------------------------------------------------------------------------------------

TEXT = """\
schema: migsaw/trial/v1
name: bert
board: a100-sxm4-80gb
command: [python, train.py]
image: registry.example/bert:1
read: {regex: {pattern: '(x)'}}
profiles: [1g.10gb, 3g.40gb]
"""


def test_the_verb_writes_one_job_for_each_slot_and_says_that_running_them_comes_later(migsaw, tmp_path):
    (tmp_path / "w.yaml").write_text(TEXT)
    done = migsaw("profile", "w.yaml", "--on", "kubernetes", "--out", "jobs", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "later" in done.stderr
    assert sorted(p.name for p in Path(tmp_path, "jobs").iterdir()) == ["1g.10gb.yaml", "3g.40gb.yaml", "reserve.txt"]
    document = YAML(typ="safe").load((tmp_path / "jobs/3g.40gb.yaml").read_text())
    (container,) = document["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/mig-3g.40gb": 1}
    said = (tmp_path / "jobs/reserve.txt").read_text()
    assert "kubectl taint node NODE migsaw.io/trial-" in said
    assert sorted(p.name for p in tmp_path.iterdir()) == ["jobs", "w.yaml"], "no store is made: nothing was measured"


def test_the_verb_needs_an_instance_type_for_each_slot(migsaw, tmp_path):
    (tmp_path / "w.yaml").write_text(TEXT)
    words = ["profile", "w.yaml", "--on", "azureml", "--out", "jobs", "--compute", "c"]
    one = migsaw(*words, "--instance-type", "1g.10gb=small", cwd=tmp_path)
    assert one.returncode == 2
    assert "3g.40gb" in one.stderr
    both = migsaw(*words, "--instance-type", "1g.10gb=small", "--instance-type", "3g.40gb=large", cwd=tmp_path)
    assert both.returncode == 0, both.stderr
    document = YAML(typ="safe").load((tmp_path / "jobs/3g.40gb.yaml").read_text())
    assert document["resources"] == {"instance_type": "large", "instance_count": 1}
