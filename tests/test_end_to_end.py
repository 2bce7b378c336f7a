"""The main job from files to objects: a real A100 node whose facts were worked out by hand, and the demo's cluster.

The golden files of the demo are in ``tests/golden``; ``make golden`` writes them anew.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from mig_parted_format import gpus_of, read_mig_parted

GOLDEN = Path(__file__).parent / "golden"
README = Path(__file__).parents[1] / "README.md"


@pytest.fixture(scope="module")
def real(data_dir, migsaw, tmp_path_factory):
    """The thin thread: three files of a real node through observe, plan, explain and render."""
    folder, dumps = tmp_path_factory.mktemp("real"), data_dir / "dcgm_exporter"
    given = ["--nodes", dumps / "lt2.9__mig__node__3_instances.yaml", "--pods", dumps / "lt2.9__mig__pod__1g-5gb.yaml"]
    given += ["--metrics", dumps / "lt2.9__mig__metrics__Active_2x1g.5gb_+_2g.10gb.ini"]
    steps = (
        ["observe", *given, "-o", "snapshot.json"],
        ["plan", "snapshot.json", "-o", "plan.json"],
        ["explain", "plan.json"],
        ["render", "plan.json", "--for", "mig-manager", "--out", "render"],
    )
    said = {}
    for words in steps:
        done = migsaw(*words, cwd=folder)
        assert done.returncode == 0, done.stderr
        said[words[0]] = done.stdout
    return folder, said


def test_the_real_node_is_seen_as_it_was(real):
    folder, _ = real
    snapshot = json.loads((folder / "snapshot.json").read_text())
    (node,) = snapshot["nodes"]
    assert node["name"] == "qa-mig-worker-gpu-a100"
    assert (node["owner"], node["strategy"], node["layout_scope"]) == ("gpu-operator", "mixed", "gpu")
    (gpu,) = node["gpus"]
    assert (gpu["index"], gpu["board"], gpu["mig"]) == (0, "a100-sxm4-40gb", "on")
    assert gpu["uuid"] == "GPU-7099682b-a20d-2bcc-74ab-b9060454d81e"
    instances = {i["gi_id"]: i for i in gpu["instances"]}
    assert {gi: i["profile"] for gi, i in instances.items()} == {7: "1g.5gb", 9: "1g.5gb", 5: "2g.10gb"}
    assert {i["start"] for i in instances.values()} == {None}  # nothing in these files gives one


def test_memory_and_activity_are_those_of_the_scrape(real):
    folder, _ = real
    gpu = json.loads((folder / "snapshot.json").read_text())["nodes"][0]["gpus"][0]
    shown = {i["gi_id"]: (i["memory_mib"]["used"], i["activity"]["graphics"]) for i in gpu["instances"]}
    assert shown == {7: (98, 0.000062), 9: (4384, 0.999917), 5: (153, 0.000036)}
    assert {i["gi_id"]: i["memory_mib"]["capacity"] for i in gpu["instances"]} == {7: 4864, 9: 4864, 5: 9855}


def test_nobody_is_named_as_owner_and_the_reason_is_given(real):
    """This exporter leaves pod labels empty on MIG, and the one pod asks by an annotation of its own scheduler."""
    folder, _ = real
    snapshot = json.loads((folder / "snapshot.json").read_text())
    instances = snapshot["nodes"][0]["gpus"][0]["instances"]
    assert [i["owner"] for i in instances] == [None] * 3
    assert all(i["owner_reason"] for i in instances)


def test_the_plan_leaves_a_node_alone_whose_holders_nobody_can_name(real):
    folder, said = real
    plan = json.loads((folder / "plan.json").read_text())
    (gpu,) = plan["gpus"]
    assert sorted(gpu["before"]) == ["1g.5gb", "1g.5gb", "2g.10gb"]
    assert gpu["after"] == gpu["before"]
    assert plan["lower_bound"] <= plan["objective"]
    assert gpu["reason"] in said["explain"]


def test_the_real_node_ends_in_a_file_that_a_strict_reader_accepts(real):
    folder, _ = real
    (config,) = read_mig_parted((folder / "render/mig-parted.yaml").read_text()).values()
    assert gpus_of(config) == {0: {"1g.5gb": 2, "2g.10gb": 1}}


def test_the_real_node_is_cut_for_a_waiting_pod_when_it_is_empty(data_dir, migsaw, tmp_path):
    """The same node while it had MIG on and no instances, and a pod that waits for 3g.20gb.

    Its Node object is of another time; here it advertises no slices either.
    """
    dumps = data_dir / "dcgm_exporter"
    node = (dumps / "lt2.9__mig__node__3_instances.yaml").read_text()
    (tmp_path / "node.yaml").write_text(re.sub(r'(nvidia.com/mig-[12]g\.\d+gb(?:\.count)?): "[12]"', r'\1: "0"', node))
    resources = {"limits": {"nvidia.com/mig-3g.20gb": "1"}}
    pod = {"metadata": {"namespace": "ml", "name": "tune-0"}, "status": {"phase": "Pending"}}
    pod |= {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "main", "resources": resources}]}}
    (tmp_path / "pods.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod]}))
    given = ["--nodes", "node.yaml", "--pods", "pods.json"]
    given += ["--metrics", dumps / "lt2.9__mig__metrics__Emtpy_MIG_enabled.ini"]
    assert migsaw("observe", *given, "-o", "snapshot.json", cwd=tmp_path).returncode == 0
    assert migsaw("plan", "snapshot.json", "-o", "plan.json", cwd=tmp_path).returncode == 0
    assert migsaw("render", "plan.json", "--for", "mig-manager", "--out", ".", cwd=tmp_path).returncode == 0
    configs = read_mig_parted((tmp_path / "mig-parted.yaml").read_text())
    chosen = re.search(r"nvidia.com/mig.config=(\S+)", (tmp_path / "labels.sh").read_text())
    assert chosen is not None
    wanted = gpus_of(configs[chosen[1]])[0]
    assert wanted is not None
    assert wanted["3g.20gb"] >= 1
    assert sum(int(name[0]) * count for name, count in wanted.items()) <= 7  # compute slices of an A100


@pytest.fixture(scope="module")
def demo(migsaw, tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    done = migsaw("demo", "--out", folder)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout.replace(str(folder), "DEMO")


def _golden_files(folder: Path, said: str) -> dict[str, str]:
    rendered = {p.relative_to(folder).as_posix(): p.read_text() for p in folder.glob("render/**/*") if p.is_file()}
    return {"demo.txt": said, "plan.json": (folder / "plan.json").read_text(), **rendered}


def test_the_demo_is_as_it_was_looked_at(demo):
    found = _golden_files(*demo)
    if os.environ.get("MIGSAW_WRITE_GOLDEN"):
        shutil.rmtree(GOLDEN, ignore_errors=True)
        for name, text in found.items():
            (GOLDEN / name).parent.mkdir(parents=True, exist_ok=True)
            (GOLDEN / name).write_text(text)
    kept = {p.relative_to(GOLDEN).as_posix() for p in GOLDEN.glob("**/*") if p.is_file()}
    assert kept == set(found)
    assert {name: (GOLDEN / name).read_text() for name in found} == found


def test_the_demo_serves_the_four_pods_that_one_gpu_can_hold(demo):
    """Three 2g.20gb and a 1g.20gb, two memory slices each, tile the eight of the idle A100 exactly.

    Nothing else that is free holds any of them, and no node has four whole GPUs for the fifth pod.
    """
    folder, _ = demo
    plan = json.loads((folder / "plan.json").read_text())
    served = {pod["name"]: pod["after"] for pod in plan["pods"] if pod["before"] is None}
    names = ["embedder-78b6f4d5c8-4kx2p", "embedder-78b6f4d5c8-j7c9m", "embedder-78b6f4d5c8-zr5wd"]
    place = "aks-a100x4-30274113-vmss000000"
    assert [served[name] for name in names] == [{"node": place, "profile": "2g.20gb"}] * 3
    assert served["lora-mistral-6hdvb"] == {"node": place, "profile": "1g.20gb"}
    assert served["llama-70b-0"] is None


def test_the_demo_touches_nothing_that_runs(demo):
    folder, _ = demo
    plan = json.loads((folder / "plan.json").read_text())
    assert [step["disrupts"] for step in plan["steps"] if step["disrupts"]] == []
    changed = {(gpu["node"], gpu["index"]) for gpu in plan["gpus"] if gpu["before"] != gpu["after"]}
    assert changed == {("aks-a100x4-30274113-vmss000000", 1)}


def test_the_demo_renders_a_file_that_a_strict_reader_accepts(demo):
    folder, _ = demo
    configs = read_mig_parted((folder / "render/mig-parted.yaml").read_text())
    labels = (folder / "render/labels.sh").read_text()
    (chosen,) = re.findall(r"^kubectl label node aks-a100x4-30274113-vmss000000 \S+=(\S+)", labels, re.MULTILINE)
    assert gpus_of(configs[chosen]) == {0: {"3g.40gb": 2}, 1: {"2g.20gb": 3, "1g.20gb": 1}, 2: None, 3: None}


def test_the_readme_shows_what_the_demo_prints(demo):
    _, said = demo
    shown = "".join(re.findall(r"```text\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)).splitlines()
    printed = said.splitlines()
    stale = [line for line in shown if line != "…" and not any(p.startswith(line.removesuffix(" …")) for p in printed)]
    assert len(shown) > 10
    assert stale == []
