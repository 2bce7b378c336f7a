"""Azure ML job files through the real azure-ai-ml SDK, offline: what is rendered is what the SDK understands."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

TEXT = """\
schema: migsaw/trial/v1
name: "Große Modelle/BERT"
board: a100-sxm4-80gb
command: [python, train.py, "it's $HOME; rm", "--lr=1e-3"]
image: registry.example/bert:1
env: {OMP_NUM_THREADS: "4", "YES": "on", AT: "12:30", N: "1_000"}
read: {regex: {pattern: '(x)'}}
steady: {at_most_seconds: 300, start_within_seconds: 600}
"""
# the SDK's public attributes of a loaded job
LOADS = """\
import json, logging, sys, warnings
warnings.simplefilter("ignore"); logging.disable(logging.WARNING)
from azure.ai.ml import load_job
job = load_job(sys.argv[1])
said = [type(job).__name__, job.command, job.compute, job.environment.image, job.environment_variables,
        job.resources.instance_type, job.resources.instance_count, job.limits.timeout, job.experiment_name, job.tags]
print(json.dumps(said))
"""
TYPES = {"1g.10gb": "mig1g10gb", "3g.40gb": "mig-3g", "7g.80gb": "mig7", "2g.20gb": "mig2", "4g.40gb": "mig4"}
WORDS = ["profile", "w.yaml", "--on", "azureml", "--out", "jobs", "--compute", "gpu-cluster"]
WORDS += [word for profile, name in TYPES.items() for word in ("--instance-type", f"{profile}={name}")]


@pytest.fixture(scope="module")
def sdk() -> None:
    try:
        found = importlib.util.find_spec("azure.ai.ml")
    except ModuleNotFoundError:
        found = None
    if found is None:
        pytest.skip("azure-ai-ml is not installed (pip install 'migsaw[azure]')")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "w.yaml").write_text(TEXT)
    return tmp_path


def test_the_sdk_understands_every_job_as_it_was_meant(sdk, migsaw, folder):
    done = migsaw(*WORDS, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "validated offline by azure-ai-ml " in done.stderr
    assert "experimental" not in done.stderr
    assert {path.stem for path in (folder / "jobs").iterdir()} == TYPES.keys()
    for profile, name in TYPES.items():
        path = folder / "jobs" / f"{profile}.yaml"
        loaded = subprocess.run([sys.executable, "-c", LOADS, str(path)], capture_output=True, text=True, check=True)
        kind, command, *rest, tags = json.loads(loaded.stdout)
        assert kind == "Command"
        assert shlex.split(command) == ["python", "train.py", "it's $HOME; rm", "--lr=1e-3"]
        env = {"OMP_NUM_THREADS": "4", "PYTHONUNBUFFERED": "1", "YES": "on", "AT": "12:30", "N": "1_000"}
        image = "registry.example/bert:1"
        assert rest == ["gpu-cluster", image, env, name, 1, 1020, "migsaw-trials-gro-e-modelle-bert"]
        assert tags["migsaw_profile"] == profile


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        ("resources", {"instance_type": "s", "limits": {"nvidia.com/gpu": 1}}, "resources.limits: Unknown field."),
        ("limits", {"timeout": "soon"}, "limits.timeout: Not a valid integer."),
        ("command", None, "command: "),
        ("nonsense", 1, "nonsense: Unknown field."),
        ("type", "no-such-type", ""),
    ],
)
def test_what_the_sdk_refuses_is_refused_with_file_and_field(sdk, migsaw, folder, place, value, says):
    assert migsaw(*WORDS, cwd=folder).returncode == 0
    path = folder / "jobs/1g.10gb.yaml"
    document = YAML(typ="safe").load(path.read_text())
    document[place] = value
    path.write_text(json.dumps(document))  # JSON is YAML
    code = (
        "import sys; from pathlib import Path; from migsaw.azureml.validate import validated\n"
        "from migsaw.errors import InputError\n"
        "try: print(validated([Path(sys.argv[1])]))\n"
        "except InputError as problem: print('REFUSED', problem)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"REFUSED {path}: azure-ai-ml refuses it: {says}"), done.stdout
    assert len(done.stdout) < 1000


def test_without_the_sdk_the_jobs_are_written_and_one_line_says_what_is_missing(migsaw, folder):
    """A file in the way of the SDK's packages stands for a machine that has none."""
    (folder / "azure.py").write_text("")
    paths = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    done = migsaw(*WORDS, cwd=folder, PYTHONPATH=paths)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "validated" in line]
    assert line == "not validated: azure-ai-ml is not installed (pip install 'migsaw[azure]')"
    assert (folder / "jobs/1g.10gb.yaml").exists()


@pytest.mark.parametrize("name", ["Mig 1G", "mig_1g", "-a", "x" * 64])
def test_a_name_that_no_instance_type_can_have_is_refused(migsaw, folder, name):
    """The SDK takes any text; Kubernetes does not."""
    words = [word.replace("1g.10gb=mig1g10gb", f"1g.10gb={name}") for word in WORDS]
    done = migsaw(*words, cwd=folder)
    assert done.returncode == 2
    assert "no name of an InstanceType" in done.stderr
    assert not (folder / "jobs").exists()
