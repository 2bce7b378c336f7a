"""Real dcgm-exporter dumps of an A100 node: every GPU instance, its profile and its holder.

What is right was read off the files by hand; see the SOURCE.md beside them.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from migsaw.cli.shared import load_catalogue
from migsaw.observe.files import InputFiles, observe_files

GPU = "GPU-7099682b-a20d-2bcc-74ab-b9060454d81e"
NODE, POD = "lt2.9__mig__node__3_instances.yaml", "lt2.9__mig__pod__1g-5gb.yaml"
DUMPS = {  # file → (MIG mode that the text alone shows, {GI id: profile})
    "lt2.9__mig__metrics__Empty_mig_disabled.ini": ("off", {}),
    "lt2.9__mig__metrics__Emtpy_MIG_enabled.ini": ("unknown", {}),
    "lt2.9__mig__metrics__Idle_1g.5gb_allocated.ini": ("on", {8: "1g.5gb"}),
    "lt2.9__mig__metrics__Active_1g.5gb.ini": ("on", {9: "1g.5gb"}),
    "lt2.9__mig__metrics__Active_2x1g.5gb_+_2g.10gb.ini": ("on", {7: "1g.5gb", 9: "1g.5gb", 5: "2g.10gb"}),
}


@pytest.fixture
def dumps(data_dir) -> Path:
    return data_dir / "dcgm_exporter"


def observe(**given):
    return observe_files(InputFiles(**given), load_catalogue())


@pytest.mark.parametrize("name", DUMPS)
def test_every_instance_is_there_once_and_nobody_is_named(dumps, name):
    mode, instances = DUMPS[name]
    (node,) = observe(metrics=(dumps / name,)).nodes
    (gpu,) = node.gpus
    assert (gpu.index, gpu.uuid, gpu.board, gpu.mig) == (0, GPU, "a100-sxm4-40gb", mode)
    assert {i.gi_id: i.profile for i in gpu.instances} == instances
    assert {i.start for i in gpu.instances} <= {None}  # a GI id never gives a start
    assert all(i.owner is None and i.owner_reason for i in gpu.instances)
    assert all(i.state == "unknown" for i in gpu.instances)  # no pods were given


@pytest.mark.parametrize("name", DUMPS)
def test_lines_that_are_no_prometheus_text_are_named(dumps, name):
    lines = (dumps / name).read_text().split("\n")
    odd = [n for n, line in enumerate(lines, start=1) if line.strip() and not line.startswith(("#", "DCGM"))]
    (note,) = [n for n in observe(metrics=(dumps / name,)).notes if "no Prometheus text" in n.text]
    assert note.file == str(dumps / name)
    assert note.where == f"line {odd[0]}"
    assert ("such lines" in note.text) == (len(odd) > 1)


def test_the_only_gpu_node_is_meant_where_the_exporters_pod_is_not_known(dumps):
    files = {"nodes": (dumps / NODE,), "metrics": (dumps / "lt2.9__mig__metrics__Active_1g.5gb.ini",)}
    snapshot = observe(**files)
    assert [n.name for n in snapshot.nodes] == ["qa-mig-worker-gpu-a100"]
    assert any("nvidia-dcgm-exporter-km55s" in n.text and n.severity == "info" for n in snapshot.notes)
    assert snapshot.resource_versions == {"Node/qa-mig-worker-gpu-a100": "2491211"}


def test_the_node_object_alone_gives_the_layout_of_its_one_gpu(dumps):
    (node,) = observe(nodes=(dumps / NODE,)).nodes
    (gpu,) = node.gpus
    assert sorted(i.profile for i in gpu.instances) == ["1g.5gb", "1g.5gb", "2g.10gb"]
    assert {i.gi_id for i in gpu.instances} == {None}
    assert (gpu.mig, node.strategy, node.owner, node.mig_config_state) == ("on", "mixed", "gpu-operator", "success")
    assert node.allocatable == {"nvidia.com/gpu": 0, "nvidia.com/mig-1g.5gb": 2, "nvidia.com/mig-2g.10gb": 1}


def test_a_pod_that_got_its_slice_from_another_scheduler_makes_nobody_idle(dumps):
    """It asks for no resource and sets NVIDIA_VISIBLE_DEVICES: GI 9 works at 99 %, and no count could tell."""
    active = dumps / "lt2.9__mig__metrics__Active_2x1g.5gb_+_2g.10gb.ini"
    snapshot = observe(nodes=(dumps / NODE,), pods=(dumps / POD,), metrics=(active,))
    states = {i.gi_id: i.state for i in snapshot.nodes[0].gpus[0].instances}
    assert states == {5: "unknown", 7: "unknown", 9: "unknown"}
    assert snapshot.pods == ()
    assert any("runai-team-a/job-2-0-0" in n.text and "NVIDIA_VISIBLE_DEVICES" in n.text for n in snapshot.notes)
    assert any("run.ai/mig.config" in n.text for n in snapshot.notes)


def test_a_node_that_advertises_what_the_exporter_does_not_show_is_not_called_empty(dumps):
    files = {"nodes": (dumps / NODE,), "metrics": (dumps / "lt2.9__mig__metrics__Emtpy_MIG_enabled.ini",)}
    snapshot = observe(**files)
    (gpu,) = snapshot.nodes[0].gpus
    assert (gpu.mig, gpu.instances, gpu.state) == ("on", (), "unknown")
    assert any("2 x 1g.5gb, 1 x 2g.10gb" in n.text for n in snapshot.notes)


def test_whole_gpus_without_mig_have_the_holder_that_the_exporter_names(dumps):
    snapshot = observe(
        nodes=(dumps / "lt2.9__fraction__node__1_workload.yaml",),
        metrics=(dumps / "lt2.9__fraction__metrics__1_workload.ini",),
    )
    (node,) = snapshot.nodes
    first, second = node.gpus
    assert (first.board, first.product, first.mig, first.state) == (None, "Tesla T4", "off", "busy")
    assert str(first.owner) == "runai-reservation/runai-reservation-gpu-qa-mig-worker-gpu-1-kvltw"
    assert (second.owner, second.state) == (None, "unknown")
    assert first.memory_mib.used == 128
    assert any("Tesla T4" in n.text for n in snapshot.notes)


def test_dumps_of_different_times_are_told_by_the_uuid_they_share(dumps):
    snapshot = observe(metrics=tuple(dumps / name for name in DUMPS))
    assert len(snapshot.nodes) == len(DUMPS)  # each has another exporter pod as its host
    assert any(n.severity == "error" and GPU in n.text for n in snapshot.notes)


def test_no_value_in_a_snapshot_is_a_blank(dumps):
    for name in DUMPS:
        text = str(observe(metrics=(dumps / name,)))
        assert not [n for n in re.findall(r"\d{10,}", text) if float(n) >= 2147483632]
