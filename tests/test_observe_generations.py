"""Every generation of dcgm-exporter's labels and fields leads to the same instance, holder and activity."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_files import SYSTEM_POD, Files, mixed, pod, series, slice_lines, whole_lines
from migsaw.errors import InputError
from migsaw.model.refs import PodRef
from migsaw.observe.dcgm import is_blank
from migsaw.observe.exporter import parse_metrics

HOLDER = PodRef("ml", "bert-0")
NODE = mixed("n1", {"1g.5gb": 2})
PODS = [pod("ml/bert-0", {"nvidia.com/mig-1g.5gb": 1}, "n1", uid="uid-1"), SYSTEM_POD]
EXPORTER = pod("gpu-operator/nvidia-dcgm-exporter-x7", {}, "n1")
OLD = {"UUID": None, "uuid": "GPU-00000000-0000-4000-8000-000000000000"}

# generation → labels of the held instance, labels of the free one
LABELS = {
    "2021": ({"namespace": "ml", "pod": "bert-0", "container": "c"}, {"namespace": "", "pod": "", "container": ""}),
    "no empty labels": ({"namespace": "ml", "pod": "bert-0"}, {}),
    "lower-case uuid, pod_name": (OLD | {"pod_namespace": "ml", "pod_name": "bert-0", "container_name": "c"}, OLD),
    "hostname of 2026": (
        {"Hostname": None, "hostname": "n1", "namespace": "ml", "pod": "bert-0", "pci_bus_id": "00000000:00:1E.0"},
        {"Hostname": None, "hostname": "n1"},
    ),
    "honorLabels false": (
        {
            "namespace": "gpu-operator",
            "pod": "nvidia-dcgm-exporter-x7",
            "exported_namespace": "ml",
            "exported_pod": "bert-0",
        },
        {"namespace": "gpu-operator", "pod": "nvidia-dcgm-exporter-x7", "container": "exporter"},
    ),
    "host is the exporter's pod": (
        {"Hostname": "nvidia-dcgm-exporter-x7", "namespace": "ml", "pod": "bert-0"},
        {"Hostname": "nvidia-dcgm-exporter-x7", "namespace": "", "pod": ""},
    ),
    "node label of a scrape": (
        {"Hostname": "odd", "node": "n1", "namespace": "ml", "pod": "bert-0"},
        {"Hostname": "odd", "node": "n1"},
    ),
    "pod uid only": ({"pod_uid": "uid-1", "pod": ""}, {"pod": ""}),
    "no namespace": ({"pod": "bert-0"}, {"pod": ""}),
}


@pytest.mark.parametrize("generation", LABELS)
def test_labels_of_every_generation(tmp_path, generation):
    held, free = LABELS[generation]
    lines = slice_lines("1g.5gb", 7, **held) + slice_lines("1g.5gb", 9, **free)
    snapshot = Files(tmp_path).observe(nodes=[NODE], pods=[*PODS, EXPORTER], metrics=lines)
    (node,) = snapshot.nodes
    (gpu,) = node.gpus
    assert (node.name, gpu.uuid) == ("n1", "GPU-00000000-0000-4000-8000-000000000000")
    found = {i.gi_id: (i.profile, i.owner, i.state) for i in gpu.instances}
    assert found == {7: ("1g.5gb", HOLDER, "busy"), 9: ("1g.5gb", None, "idle")}


@pytest.mark.parametrize(
    ("graphics", "sm", "tensor", "dram", "util"),
    [
        (
            "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
            "DCGM_FI_PROF_SM_ACTIVE",
            "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
            "DCGM_FI_PROF_DRAM_ACTIVE",
            "DCGM_FI_DEV_GPU_UTIL",
        ),
        (
            "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO",
            "DCGM_FI_PROF_SM_UTIL_RATIO",
            "DCGM_FI_PROF_TENSOR_UTIL_RATIO",
            "DCGM_FI_PROF_DRAM_UTIL_RATIO",
            "DCGM_FI_DEV_GPU_UTIL_RATIO",
        ),
    ],
)
def test_both_generations_of_field_names(tmp_path, graphics, sm, tensor, dram, util):
    labels = {"GPU_I_PROFILE": "1g.5gb", "GPU_I_ID": "7"}
    lines = [series(name, n / 10, **labels) for n, name in enumerate((graphics, sm, tensor, dram), start=1)]
    snapshot = Files(tmp_path).observe(metrics=[*lines, series(util, 40, 1)])
    cut, whole = snapshot.nodes[0].gpus
    shown = cut.instances[0].activity
    assert (shown.graphics, shown.sm, shown.tensor, shown.dram) == (0.1, 0.2, 0.3, 0.4)
    assert (cut.mig, whole.mig) == ("on", "off")  # utilisation of a whole GPU exists only without MIG


@pytest.mark.parametrize(
    "blank",
    [
        "2147483632",
        "2147483633",
        "2147483634",
        "2147483635",
        "9223372036854775792",
        "9223372036854775793",
        "9223372036854775794",
        "9223372036854775795",
        "9.223372036854776e+18",
        "140737488355328.000000",
        "140737488355329.000000",
        "140737488355330.000000",
        "140737488355331.000000",
        "NaN",
        "+Inf",
    ],
)
def test_blanks_are_missing_not_values(tmp_path, blank):
    labels = {"GPU_I_PROFILE": "1g.5gb", "GPU_I_ID": "7"}
    families = ("DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_SM_ACTIVE")
    snapshot = Files(tmp_path).observe(metrics=[series(name, blank, **labels) for name in families])
    (instance,) = snapshot.nodes[0].gpus[0].instances
    assert instance.activity is None
    assert (instance.memory_mib.used, instance.memory_mib.capacity) == (None, 4864)  # capacity: the catalogue's


def test_a_blank_before_the_sum_does_not_spoil_the_capacity(tmp_path):
    labels = {"GPU_I_PROFILE": "1g.5gb", "GPU_I_ID": "7"}
    lines = [series("DCGM_FI_DEV_FB_USED", 300, **labels), series("DCGM_FI_DEV_FB_FREE", 2147483632, **labels)]
    (instance,) = Files(tmp_path).observe(metrics=lines).nodes[0].gpus[0].instances
    assert (instance.memory_mib.used, instance.memory_mib.capacity) == (300, 4864)


@given(st.floats(min_value=0, max_value=200_000))
def test_no_figure_of_a_gpu_is_blank(value):
    """Ratios are 0..1, percentages 0..100, memory in MiB far below a terabyte."""
    assert not is_blank(value)


@given(st.sampled_from([2**31 - 16, 2**47, 2**63 - 16, 2**64, math.inf, math.nan, -1]), st.integers(0, 3))
def test_every_blank_is_blank(base, more):
    assert is_blank(float(base) + more if base != -1 else -1.0 - more)


def test_ratios_above_one_are_kept_with_a_note_or_left_out(tmp_path):
    labels = {"GPU_I_PROFILE": "2g.10gb", "GPU_I_ID": "3"}
    lines = [series("DCGM_FI_PROF_SM_ACTIVE", 1.07, **labels), series("DCGM_FI_PROF_DRAM_ACTIVE", 187432.0, **labels)]
    snapshot = Files(tmp_path).observe(metrics=lines)
    shown = snapshot.nodes[0].gpus[0].instances[0].activity
    assert (shown.sm, shown.dram) == (1.07, None)
    assert {n.where for n in snapshot.notes if "ratio" in n.text} == {"line 1", "line 2"}


def test_utilisation_on_slices_does_not_mean_that_mig_is_off(tmp_path):
    labels = {"GPU_I_PROFILE": "1g.5gb", "GPU_I_ID": "7"}
    (gpu,) = Files(tmp_path).observe(metrics=[series("DCGM_FI_DEV_GPU_UTIL", 0, **labels)]).nodes[0].gpus
    assert gpu.mig == "on"
    assert [i.gi_id for i in gpu.instances] == [7]


def test_neighbours_of_one_gpu_are_kept_apart(tmp_path):
    """Key: UUID and GI id. One works, one does not, on two GPUs with the same GI ids."""
    lines = [
        line for gpu in (0, 1) for gi in (1, 2) for line in slice_lines("3g.20gb", gi, gpu, busy=0.5 * gi + gpu / 10)
    ]
    gpus = Files(tmp_path).observe(metrics=lines).nodes[0].gpus
    assert [[i.activity.graphics for i in gpu.instances] for gpu in gpus] == [[0.5, 1.0], [0.6, 1.1]]


def test_the_exporters_shorter_name_of_a_profile_is_the_catalogues(tmp_path):
    h100 = {"modelName": "NVIDIA H100 80GB HBM3"}
    (gpu,) = Files(tmp_path).observe(metrics=slice_lines("7g.79gb", 0, **h100)).nodes[0].gpus
    assert [i.profile for i in gpu.instances] == ["7g.80gb"]


@pytest.mark.parametrize("null", ["<<<NULL>>>", ""])
def test_a_null_profile_is_filled_only_where_the_node_leaves_one_answer(tmp_path, null):
    files, node = Files(tmp_path), mixed("n1", {"1g.5gb": 1, "2g.10gb": 1})
    lines = slice_lines("1g.5gb", 7) + slice_lines(null, 3)
    told = files.observe(nodes=[node], metrics=lines)
    assert {i.gi_id: i.profile for i in told.nodes[0].gpus[0].instances} == {7: "1g.5gb", 3: "2g.10gb"}
    alone = files.observe(metrics=lines)
    assert {i.gi_id: i.profile for i in alone.nodes[0].gpus[0].instances} == {7: "1g.5gb", 3: "unknown"}
    assert any("GPU instance 3" in n.text and n.where == "line 4" for n in alone.notes)


def test_an_instance_of_unknown_profile_is_never_idle(tmp_path):
    lines = slice_lines("1g.5gb", 7, namespace="ml", pod="bert-0") + slice_lines("<<<NULL>>>", 3)
    snapshot = Files(tmp_path).observe(nodes=[mixed("n1", {"1g.5gb": 1})], pods=PODS, metrics=lines)
    states = {i.gi_id: i.state for i in snapshot.nodes[0].gpus[0].instances}
    assert states == {7: "busy", 3: "unknown"}


def test_dra_labels_name_the_holder_and_the_start(tmp_path):
    claim = {
        "dra_claim_name": "c",
        "dra_claim_namespace": "ml",
        "dra_driver_name": "gpu.nvidia.com",
        "dra_pool_name": "n1",
    }
    device = claim | {"dra_device_name": "gpu-0-mig-1g5gb-19-6", "dra_mig_profile": "1g.5gb"}
    lines = slice_lines("1g.5gb", 7, namespace="ml", pod="bert-0", **device)
    (node,) = Files(tmp_path).observe(nodes=[NODE], metrics=lines).nodes
    (instance,) = node.gpus[0].instances
    assert (instance.start, instance.owner) == (6, HOLDER)
    assert (node.owner, node.layout_scope) == ("dra", "gpu")


def test_a_dra_device_of_another_profile_gives_no_start(tmp_path):
    lines = slice_lines("1g.5gb", 7, dra_device_name="gpu-0-mig-2g10gb-14-2")
    (instance,) = Files(tmp_path).observe(metrics=lines).nodes[0].gpus[0].instances
    assert instance.start is None


def test_the_time_is_that_of_the_samples(tmp_path):
    lines = [f"{line} {1764547200000 + n * 1000}" for n, line in enumerate(slice_lines("1g.5gb", 7))]
    assert Files(tmp_path).observe(metrics=lines).taken_at == "2025-12-01T00:00:02Z"
    assert Files(tmp_path).observe(metrics=slice_lines("1g.5gb", 7)).taken_at is None


def test_gpus_that_the_exporter_leaves_out_are_inferred_from_the_inventory(tmp_path):
    node = mixed("n1", {"1g.5gb": 7}, gpus=3, whole=2)
    lines = [line for gi in range(7, 14) for line in slice_lines("1g.5gb", gi, 1)]
    snapshot = Files(tmp_path).observe(nodes=[node], metrics=lines)
    gpus = snapshot.nodes[0].gpus
    assert [(g.index, g.mig, len(g.instances)) for g in gpus] == [(0, "unknown", 0), (1, "on", 7), (2, "unknown", 0)]
    assert any("3 GPUs" in n.text and "GPU 1 were seen" in n.text for n in snapshot.notes)


def test_two_exporters_in_one_federated_text(tmp_path):
    lines = whole_lines(0, Hostname="n1") + [line.replace("GPU-0", "GPU-1") for line in whole_lines(0, Hostname="n2")]
    nodes = Files(tmp_path).observe(metrics=lines).nodes
    assert [(n.name, [g.index for g in n.gpus]) for n in nodes] == [("n1", [0]), ("n2", [0])]


def test_series_of_switches_and_processors_are_no_gpus(tmp_path):
    lines = [*whole_lines(), 'DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT{nvswitch="nvswitch0",Hostname="n1"} 40']
    snapshot = Files(tmp_path).observe(metrics=[*lines, "up 1", 'node_load1{instance="n1:9100"} 0.5'])
    assert [g.index for g in snapshot.nodes[0].gpus] == [0]
    assert not [n for n in snapshot.notes if "names no GPU" in n.text]


def test_one_gpu_shared_by_two_pods_is_busy_and_says_so(tmp_path):
    lines = [line for name in ("a", "b") for line in slice_lines("1g.5gb", 7, namespace="ml", pod=name)]
    snapshot = Files(tmp_path).observe(metrics=lines)
    (instance,) = snapshot.nodes[0].gpus[0].instances
    assert (str(instance.owner), instance.state) == ("ml/a", "busy")
    assert any("ml/a, ml/b share one device" in n.text for n in snapshot.notes)


@given(st.text(max_size=200))
def test_a_strange_line_costs_a_note_not_the_file(tmp_path_factory, line):
    """Whatever it is, GPU instance 7 is still there."""
    good = slice_lines("1g.5gb", 7)
    try:
        scrape = parse_metrics("\n".join([*good, line.replace("\r", ""), *good]), "f")
    except InputError:
        return  # it makes the file look like one of another kind, which is said
    assert 7 in {row.identity.gi_id for row in scrape.rows}
    assert all(note.where for note in scrape.notes)


@given(st.data())
def test_a_line_cut_off_anywhere_is_named_or_harmless(data):
    good, last = slice_lines("1g.5gb", 7), series("DCGM_FI_DEV_FB_USED", 77, GPU_I_PROFILE="1g.5gb", GPU_I_ID="9")
    cut = data.draw(st.integers(1, last.index("}")))
    scrape = parse_metrics("\n".join([*good, last[:cut]]), "f")
    assert {row.identity.gi_id for row in scrape.rows} == {7}
    assert [note.where for note in scrape.notes] == ["line 4"]
