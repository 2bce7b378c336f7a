"""One truth, written as every generation of exporters would, is one telemetry; and what real exporters get wrong."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from itertools import product

import pytest

import exporter_texts as texts
from cluster_files import SYSTEM_POD, Files, lgi_table, mixed, pod, series, slice_lines, whole_lines
from exporter_texts import A100, BLANKS, EXPORTER, FIELDS, LABELS, NODE, UIDS, Thing
from migsaw.cli.shared import load_catalogue
from migsaw.errors import InputError
from migsaw.model.refs import PodRef
from migsaw.model.snapshot import Activity
from migsaw.model.telemetry import BoardReading, Device, Distribution, Series
from migsaw.observe import exporter
from migsaw.observe.files import InputFiles, observe_files

BOARD = {"power": 163.25, "temperature": 41, "clock": 1410}
BUSY = {"graphics": 0.91, "sm": 0.64, "occupancy": 0.31, "tensor": 0.22, "dram": 1.07, "used": 4384, "free": 480}
HALF = {"graphics": None, "sm": 0.0, "tensor": 187432.0, "used": 9000, "free": 855}
TRUTH = (
    Thing(0, 7, "1g.5gb", "bert-0", BUSY, BOARD),
    Thing(0, 5, "2g.10gb", "llama-0", HALF, BOARD),
    Thing(0, 9, "1g.5gb", None, {"graphics": 0.0, "used": None, "free": None}, BOARD),
    Thing(1, None, None, "whisper-0", {"graphics": 0.5, "used": 20000, "free": 20000, "util": 57}, {"power": 301.5}),
)
NODES = [mixed(NODE, {"1g.5gb": 2, "2g.10gb": 1}, gpus=2, whole=1)]
PODS = [
    pod("ml/bert-0", {"nvidia.com/mig-1g.5gb": 1}, NODE, uid=UIDS["bert-0"]),
    pod("ml/llama-0", {"nvidia.com/mig-2g.10gb": 1}, NODE, uid=UIDS["llama-0"]),
    pod("ml/whisper-0", {"nvidia.com/gpu": 1}, NODE, uid=UIDS["whisper-0"]),
    pod(f"gpu-operator/{EXPORTER}", {}, NODE),
    SYSTEM_POD,
]


def single(value):
    return Distribution(mean=value, low=value, median=value, high=value, peak=value, deviation=0.0)


def expected_series(values, fields):
    """By the stated rule: blanks and what is far above 1 are dropped and counted, a little above 1 is kept."""
    found = {}
    for signal, value in values.items():
        if value is None:
            found[signal] = Series(fields[signal], 0, None, blanks=1)
        elif signal not in ("used", "free", "util") and value > 1.2:
            found[signal] = Series(fields[signal], 0, None, spikes=1)
        else:
            is_above = signal not in ("used", "free", "util") and value > 1
            found[signal] = Series(fields[signal], 1, single(value), above_one=int(is_above))
    return found


def expected_devices(labels, fields, honor):
    source = "pod uid" if labels.owner is None else "label"
    if not honor and labels.owner == ("namespace", "pod"):
        source = "exported label"
    return {
        (t.gpu, t.gi): Device(
            node=NODE,
            index=t.gpu,
            uuid=texts.uuid(t.gpu),
            gi_id=t.gi,
            product=A100,
            board="a100-sxm4-40gb",
            profile=t.profile,
            owner=PodRef("ml", t.pod) if t.pod else None,
            owner_source=source if t.pod else "none",
            exporter_pod=None if honor else EXPORTER,
            has_claim=labels.claim and t.pod is not None,
            series=expected_series(t.values, fields),
        )
        for t in TRUTH
    }


BOARDS = (
    BoardReading(NODE, 0, texts.uuid(0), 3, single(163.25), single(41.0), single(1410.0)),
    BoardReading(NODE, 1, texts.uuid(1), 1, single(301.5)),
)


def observe(folder, **how):
    return Files(folder).observe(nodes=NODES, pods=PODS, metrics={"m.prom": texts.text(TRUTH, **how)})


def check(snapshot, labels, fields, honor, label_of=lambda profile: None):
    telemetry = snapshot.telemetry
    assert (telemetry.source, telemetry.window, telemetry.partial) == ("exporter", None, ())
    assert telemetry.families == tuple(sorted(set(fields.values())))
    wanted = expected_devices(labels, fields, honor)
    assert {(d.index, d.gi_id) for d in telemetry.devices} == set(wanted)
    for device in telemetry.devices:
        assert (device.owner is None) == bool(device.owner_reason)
        want = wanted[device.index, device.gi_id]
        assert replace(device, owner_reason=None) == replace(want, profile_label=label_of(want.profile))
    assert telemetry.boards == BOARDS


@pytest.mark.parametrize("honor", [True, False])
@pytest.mark.parametrize("fields", FIELDS)
@pytest.mark.parametrize("labels", LABELS)
def test_every_generation_of_labels_and_fields_is_the_same_telemetry(tmp_path, labels, fields, honor):
    how = {"labels": LABELS[labels], "fields": FIELDS[fields]}
    for blank in BLANKS.values():
        check(observe(tmp_path, **how, honor=honor, blank=blank), LABELS[labels], FIELDS[fields], honor)


@pytest.mark.parametrize("honor", [True, False])
@pytest.mark.parametrize("fields", FIELDS)
@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("called", ["<<<NULL>>>", "", "N/A", "3g.20gb", "4g.20gb", "7g.79gb"])
def test_a_profile_label_that_is_null_or_wrong_is_corrected_by_what_the_node_advertises(
    tmp_path, labels, fields, honor, called
):
    """One answer is left for GPU instance 5; a label that says something else stays visible."""
    how = {"labels": LABELS[labels], "fields": FIELDS[fields], "honor": honor, "called": {"2g.10gb": called}}
    snapshot = observe(tmp_path, **how)
    shown = called if "g." in called else None
    check(snapshot, LABELS[labels], FIELDS[fields], honor, lambda profile: shown if profile == "2g.10gb" else None)
    instances = {i.gi_id: i for i in snapshot.nodes[0].gpus[0].instances}
    assert (instances[5].profile, instances[5].memory_mib.capacity) == ("2g.10gb", 9855)
    assert any("GPU instance 5" in n.text for n in snapshot.notes)


def test_the_nodes_are_the_same_in_every_generation_too(tmp_path):
    """Without owner_reason and state: under DRA requests do not tell who holds what."""
    seen = set()
    for labels, fields, honor in product(LABELS.values(), FIELDS.values(), (True, False)):
        gpus = observe(tmp_path, labels=labels, fields=fields, honor=honor).nodes[0].gpus
        bare = (replace(i, owner_reason=None, state="unknown") for gpu in gpus for i in gpu.instances)
        seen.add((*bare, *(replace(g, instances=(), owner_reason=None, state="unknown") for g in gpus)))
    (same,) = seen
    assert [i.activity for i in same[:3]] == [Activity(sm=0.0), Activity(0.91, 0.64, 0.22, 1.07), Activity(0.0)]


def test_the_first_exporters_names_of_fields(tmp_path):
    """2018: `dcgm_…` families, lower-case uuid, no MIG."""
    where = {"UUID": None, "uuid": "GPU-00000000-0000-4000-8000-000000000000"}
    values = {"dcgm_fb_used": 20, "dcgm_fb_free": 40000, "dcgm_gpu_utilization": 3, "dcgm_power_usage": 55.5}
    values |= {"dcgm_gpu_temp": 33, "dcgm_sm_clock": 210, "dcgm_total_energy_consumption": 123456789}
    telemetry = Files(tmp_path).observe(metrics=[series(name, n, **where) for name, n in values.items()]).telemetry
    (device,), (board,) = telemetry.devices, telemetry.boards
    assert {s: (x.name, x.values.mean) for s, x in device.series.items()} == {
        "used": ("dcgm_fb_used", 20),
        "free": ("dcgm_fb_free", 40000),
        "util": ("dcgm_gpu_utilization", 3),
    }
    assert board == BoardReading("n1", 0, device.uuid, 1, single(55.5), single(33.0), single(210.0))
    assert telemetry.families == tuple(sorted(values))


# ---- values ----------------------------------------------------------------------------------------------------------


def instance_7(*lines):
    return [series(name, value, GPU_I_PROFILE="1g.5gb", GPU_I_ID="7") for name, value in lines]


@pytest.mark.parametrize(
    ("value", "kept", "spikes", "above", "blanks"),
    [
        ("0.31", 0.31, 0, 0, 0),
        ("1", 1.0, 0, 0, 0),
        ("1.07", 1.07, 0, 1, 0),
        ("1.2", 1.2, 0, 1, 0),
        ("1.2001", None, 1, 0, 0),
        ("187432.0", None, 1, 0, 0),
        ("4294967295", None, 0, 0, 1),  # a wrapped 32-bit counter lies among the blanks
        ("-0.5", None, 0, 0, 1),
    ],
)
def test_spikes_and_ratios_above_one(tmp_path, value, kept, spikes, above, blanks):
    (device,) = Files(tmp_path).observe(metrics=instance_7(("DCGM_FI_PROF_SM_ACTIVE", value))).telemetry.devices
    found = device.series["sm"]
    assert (found.samples, found.spikes, found.above_one, found.blanks) == (
        int(kept is not None),
        spikes,
        above,
        blanks,
    )
    assert found.values == (None if kept is None else single(kept))


def test_a_percentage_is_no_ratio(tmp_path):
    (device,) = Files(tmp_path).observe(metrics=whole_lines(util=97)).telemetry.devices
    assert device.series["util"] == Series("DCGM_FI_DEV_GPU_UTIL", 1, single(97.0))


def test_utilisation_zero_on_an_instance_is_no_sign_of_idleness(tmp_path):
    snapshot = Files(tmp_path).observe(metrics=instance_7(("DCGM_FI_DEV_GPU_UTIL", 0)))
    (instance,) = snapshot.nodes[0].gpus[0].instances
    assert (instance.activity, instance.state) == (None, "unknown")
    (device,) = snapshot.telemetry.devices
    assert set(device.series) == {"util"}  # the doctor's evidence, and no ratio


def test_missing_is_not_zero_and_zero_is_not_missing(tmp_path):
    (device,) = Files(tmp_path).observe(metrics=instance_7(("DCGM_FI_PROF_SM_ACTIVE", 0))).telemetry.devices
    assert device.series == {"sm": Series("DCGM_FI_PROF_SM_ACTIVE", 1, single(0.0))}


def test_board_values_are_the_largest_and_never_the_sum(tmp_path):
    """Exporters read a board once per instance, so the copies differ a little; one is blank."""
    watts = {7: 250.0, 8: 251.5, 9: 250.5, 10: 2147483632}
    lines = [series("DCGM_FI_DEV_POWER_USAGE", w, GPU_I_PROFILE="1g.5gb", GPU_I_ID=str(gi)) for gi, w in watts.items()]
    (board,) = Files(tmp_path).observe(metrics=lines).telemetry.boards
    assert (board.power_watts, board.repeated_on) == (single(251.5), 3)
    assert (board.temperature_celsius, board.sm_clock_mhz, board.energy_joules) == (None, None, None)


def test_two_scrapes_are_one_sample_in_one_file_and_in_two(tmp_path):
    first = texts.text(TRUTH, LABELS["2021"], FIELDS["ACTIVE"])
    once = Files(tmp_path).observe(nodes=NODES, pods=PODS, metrics={"a.prom": first}).telemetry
    for metrics in ({"a.prom": first + first}, {"a.prom": first, "b.prom": first}):
        found = Files(tmp_path).observe(nodes=NODES, pods=PODS, metrics=metrics).telemetry
        assert replace(found, read_from=once.read_from) == once


def test_of_two_scrapes_the_larger_value_counts_and_a_blank_does_not(tmp_path):
    values = (("DCGM_FI_PROF_SM_ACTIVE", 0.2), ("DCGM_FI_PROF_SM_ACTIVE", "NaN"), ("DCGM_FI_PROF_SM_UTIL_RATIO", 0.6))
    for lines in (values, values[::-1]):
        (device,) = Files(tmp_path).observe(metrics=instance_7(*lines)).telemetry.devices
        assert device.series == {"sm": Series("DCGM_FI_PROF_SM_ACTIVE", 1, single(0.6))}


@pytest.mark.parametrize("values", [(0.3, 187432.0), (187432.0, 0.3)])
def test_a_spike_beside_a_good_copy_is_no_lost_sample(tmp_path, values):
    lines = instance_7(*(("DCGM_FI_PROF_SM_ACTIVE", value) for value in values))
    (device,) = Files(tmp_path).observe(metrics=lines).telemetry.devices
    assert device.series["sm"] == Series("DCGM_FI_PROF_SM_ACTIVE", 1, single(0.3))


@pytest.mark.parametrize("watts", [(250, 249), (249, 250)])
def test_of_two_scrapes_the_larger_board_value_counts(tmp_path, watts):
    lines = instance_7(*(("DCGM_FI_DEV_POWER_USAGE", value) for value in watts))
    (board,) = Files(tmp_path).observe(metrics=lines).telemetry.boards
    assert (board.power_watts, board.repeated_on) == (single(250.0), 1)


def test_a_line_of_no_name_is_not_read_though_its_labels_are_known(tmp_path):
    lines = slice_lines("1g.5gb", 7)
    odd = "what is this" + lines[0][lines[0].index("{") :]
    with_odd, without = (Files(tmp_path).observe(metrics=given).telemetry for given in ([*lines, odd], lines))
    assert with_odd == without


def test_the_time_of_a_series_is_that_of_its_newest_sample(tmp_path):
    lines = [f"{line} {1764547200000 + n * 1000}" for n, line in enumerate(slice_lines("1g.5gb", 7))]
    (device,) = Files(tmp_path).observe(metrics=lines).telemetry.devices
    assert {s.last for s in device.series.values()} == {1764547202.0}


# ---- owners ----------------------------------------------------------------------------------------------------------


def test_a_shared_instance_is_shown_in_the_hands_of_each_holder(tmp_path):
    lines = [line for name in ("a", "b") for line in slice_lines("1g.5gb", 7, used=900, namespace="ml", pod=name)]
    devices = Files(tmp_path).observe(metrics=lines).telemetry.devices
    assert [str(d.owner) for d in devices] == ["ml/a", "ml/b"]
    assert {d.series["used"].values.peak for d in devices} == {900}


def test_of_several_holders_those_that_finished_hold_nothing(tmp_path):
    lines = [line for name in ("a", "b") for line in slice_lines("1g.5gb", 7, namespace="ml", pod=name)]
    ask = {"nvidia.com/mig-1g.5gb": 1}
    pods = [pod("ml/a", ask, "n1", phase="Failed"), pod("ml/b", ask, "n1"), SYSTEM_POD]
    (device,) = Files(tmp_path).observe(nodes=[mixed("n1", {"1g.5gb": 1})], pods=pods, metrics=lines).telemetry.devices
    assert (str(device.owner), device.owner_source) == ("ml/b", "label")


def test_an_owner_inferred_by_counting_says_so(tmp_path):
    lines = slice_lines("1g.5gb", 7) + slice_lines("2g.10gb", 5)
    node, pods = mixed("n1", {"1g.5gb": 1, "2g.10gb": 1}), [pod("ml/a", {"nvidia.com/mig-1g.5gb": 1}, "n1"), SYSTEM_POD]
    devices = Files(tmp_path).observe(nodes=[node], pods=pods, metrics=lines).telemetry.devices
    found = {d.gi_id: (d.owner, d.owner_source, bool(d.owner_reason)) for d in devices}
    assert found == {7: (PodRef("ml", "a"), "pods", False), 5: (None, "none", True)}


def test_a_holder_that_the_pods_contradict_is_none(tmp_path):
    lines = slice_lines("1g.5gb", 7, namespace="ml", pod="gone")
    pods = [pod("ml/gone", {"nvidia.com/mig-1g.5gb": 1}, "n1", phase="Succeeded"), SYSTEM_POD]
    (device,) = Files(tmp_path).observe(nodes=[mixed("n1", {"1g.5gb": 1})], pods=pods, metrics=lines).telemetry.devices
    assert (device.owner, device.owner_source) == (None, "none")
    assert "finished" in device.owner_reason


@pytest.mark.parametrize("given", ["status", "spec"])
def test_a_claim_names_the_pod_that_has_it(tmp_path, given):
    """No pod label, only DRA's: the pod's own list of claims is the join; two pods of one claim name nobody."""

    def with_claim(key):
        made = pod(key, {}, "n1")
        made["spec"]["resourceClaims"] = [{"name": "gpu"} | ({"resourceClaimName": "c1"} if given == "spec" else {})]
        if given == "status":
            made["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": "c1"}]
        return made

    lines = slice_lines("1g.5gb", 7, dra_claim_name="c1", dra_claim_namespace="ml", dra_pool_name="n1")
    files = {"nodes": [mixed("n1", {"1g.5gb": 1})], "metrics": lines}
    (one,) = Files(tmp_path).observe(**files, pods=[with_claim("ml/a"), SYSTEM_POD]).telemetry.devices
    assert (one.owner, one.owner_source, one.has_claim) == (PodRef("ml", "a"), "dra claim", True)
    (other,) = Files(tmp_path).observe(**files, pods=[with_claim("else/a"), SYSTEM_POD]).telemetry.devices
    (shared,) = Files(tmp_path).observe(**files, pods=[with_claim("ml/a"), with_claim("ml/b")]).telemetry.devices
    assert (other.owner, shared.owner) == (None, None)


# ---- profiles --------------------------------------------------------------------------------------------------------


def test_the_drivers_table_beats_the_label(tmp_path):
    smi = {"n1.lgi.txt": lgi_table([(0, "2g.10gb", 14, 5, 0, 2)])}
    (device,) = Files(tmp_path).observe(metrics=slice_lines("1g.5gb", 5), smi=smi).telemetry.devices
    assert (device.profile, device.profile_label) == ("2g.10gb", "1g.5gb")


def test_the_drivers_list_beats_the_label(tmp_path):
    listed = f"GPU 0: {A100} (UUID: {texts.uuid(0)})\n  MIG 2g.10gb     Device  0: (UUID: MIG-{texts.uuid(0)}/5/0)\n"
    (device,) = Files(tmp_path).observe(metrics=slice_lines("1g.5gb", 5), smi={"n1.list.txt": listed}).telemetry.devices
    assert (device.profile, device.profile_label) == ("2g.10gb", "1g.5gb")


def test_a_compute_instance_in_the_drivers_list_is_no_profile(tmp_path):
    listed = f"GPU 0: {A100} (UUID: {texts.uuid(0)})\n"
    listed += f"  MIG 1c.2g.10gb  Device  0: (UUID: MIG-{texts.uuid(0)}/5/0)\n"
    (device,) = (
        Files(tmp_path).observe(metrics=slice_lines("2g.10gb", 5), smi={"n1.list.txt": listed}).telemetry.devices
    )
    assert (device.profile, device.profile_label) == ("2g.10gb", None)


def test_a_node_that_does_not_say_all_overrules_no_label(tmp_path):
    node = mixed("n1", {"2g.10gb": 1})
    del node["metadata"]["labels"]["nvidia.com/mig.strategy"]
    (device,) = Files(tmp_path).observe(nodes=[node], metrics=labelled(100, 100)).telemetry.devices
    assert device.profile == "3g.20gb"


def test_the_capacity_of_a_corrected_profile_is_the_catalogues_where_nobody_measured(tmp_path):
    lines = [series("DCGM_FI_PROF_SM_ACTIVE", 0.5, GPU_I_PROFILE="<<<NULL>>>", GPU_I_ID="5")]
    (gpu,) = Files(tmp_path).observe(nodes=[mixed("n1", {"2g.10gb": 1})], metrics=lines).nodes[0].gpus
    assert [(i.profile, i.memory_mib.capacity) for i in gpu.instances] == [("2g.10gb", 9856)]


def test_a_rounded_label_is_the_catalogues_profile_and_stays_visible(tmp_path):
    lines = slice_lines("7g.79gb", 0, modelName="NVIDIA H100 80GB HBM3")
    (device,) = Files(tmp_path).observe(metrics=lines).telemetry.devices
    assert (device.profile, device.profile_label) == ("7g.80gb", "7g.79gb")


def labelled(used, free, profile="3g.20gb", gi_id="1"):
    labels = {"GPU_I_PROFILE": profile, "GPU_I_ID": gi_id}
    return [series("DCGM_FI_DEV_FB_USED", used, **labels), series("DCGM_FI_DEV_FB_FREE", free, **labels)]


def test_a_label_that_its_own_memory_confirms_is_not_overruled(tmp_path):
    """The exporter shows 3g.20gb with its 19.6 GiB, the node advertises 2g.10gb: files of different times."""
    snapshot = Files(tmp_path).observe(nodes=[mixed("n1", {"2g.10gb": 1})], metrics=labelled(100, 19868))
    assert snapshot.telemetry.devices[0].profile == "3g.20gb"
    assert any("different times" in n.text for n in snapshot.notes)


def test_a_wrong_label_with_several_answers_is_unknown(tmp_path):
    lines = labelled(100, 100) + labelled(100, 100, gi_id="2")
    node = mixed("n1", {"2g.10gb": 1, "1g.5gb": 1})
    telemetry = Files(tmp_path).observe(nodes=[node], metrics=lines).telemetry
    assert [(d.profile, d.profile_label) for d in telemetry.devices] == [(None, "3g.20gb")] * 2


def test_other_numbers_of_instances_are_no_wrong_label(tmp_path):
    node = mixed("n1", {"1g.5gb": 4})
    (device,) = Files(tmp_path).observe(nodes=[node], metrics=labelled(100, 100)).telemetry.devices
    assert device.profile == "3g.20gb"


# ---- families and versions -------------------------------------------------------------------------------------------


def test_families_that_nobody_reads_never_reach_the_parser(tmp_path, monkeypatch):
    parsed = []

    def spy(line):
        parsed.append(line)
        return real(line)

    real = exporter.text_string_to_metric_families
    monkeypatch.setattr(exporter, "text_string_to_metric_families", spy)
    unread = ["DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_EXP_CLOCK_EVENTS_COUNT", "http_requests"]
    lines = [series(name, n, err_code=str(n)) for name in unread for n in range(50)]
    telemetry = Files(tmp_path).observe(metrics=[*lines, *slice_lines("1g.5gb", 7)]).telemetry
    assert len(parsed) == 1  # the labels of the three lines are the same
    assert telemetry.families == (
        "DCGM_EXP_CLOCK_EVENTS_COUNT",
        "DCGM_FI_DEV_FB_FREE",
        "DCGM_FI_DEV_FB_USED",
        "DCGM_FI_DEV_XID_ERRORS",
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "DCGM_FI_PROF_PCIE_TX_BYTES",
    )


def test_text_of_unread_families_only_is_refused_by_what_it_has(tmp_path):
    with pytest.raises(InputError, match="what a GPU does: DCGM_FI_DEV_XID_ERRORS"):
        Files(tmp_path).observe(metrics=[series("DCGM_FI_DEV_XID_ERRORS", 0)])


@pytest.mark.parametrize(
    ("builds", "dcgm", "version"),
    [
        ((), None, None),
        (("3.3.5-3.4.1",), "3.3.5", "3.4.1"),
        (("4.6.0-4.8.3-distroless",), "4.6.0", "4.8.3"),
        (("4.8.3",), None, "4.8.3"),
        (("4.8.3", "4.8.4"), None, None),
        (("dev",), None, None),
    ],
)
def test_versions_only_where_a_text_says_them(tmp_path, builds, dcgm, version):
    """The driver's version, a label of every line, is not DCGM's."""
    lines = slice_lines("1g.5gb", 7, DCGM_FI_DRIVER_VERSION="550.90.07")
    lines += [f'dcgm_exporter_build_info{{version="{build}"}} 1' for build in builds]
    telemetry = Files(tmp_path).observe(metrics=lines).telemetry
    assert (telemetry.dcgm_version, telemetry.exporter_version) == (dcgm, version)


def test_without_exporter_text_there_is_no_telemetry(tmp_path):
    assert Files(tmp_path).observe(nodes=NODES).telemetry is None


def test_the_order_of_lines_changes_nothing(tmp_path):
    lines = texts.text(TRUTH, LABELS["2021"], FIELDS["ACTIVE"]).splitlines()
    wanted = Files(tmp_path).observe(nodes=NODES, pods=PODS, metrics=lines).telemetry
    for seed in range(20):
        mixed_up = random.Random(seed).sample(lines, len(lines))
        assert Files(tmp_path).observe(nodes=NODES, pods=PODS, metrics=mixed_up).telemetry == wanted


# ---- real dumps ------------------------------------------------------------------------------------------------------

DUMPS = (
    "lt2.9__mig__metrics__Empty_mig_disabled.ini",
    "lt2.9__mig__metrics__Emtpy_MIG_enabled.ini",
    "lt2.9__mig__metrics__Idle_1g.5gb_allocated.ini",
    "lt2.9__mig__metrics__Active_1g.5gb.ini",
    "lt2.9__mig__metrics__Active_2x1g.5gb_+_2g.10gb.ini",
    "lt2.9__fraction__metrics__1_workload.ini",
)
RENAMED = {old: new for kind, old in FIELDS["ACTIVE"].items() if (new := FIELDS["DCGM 4.6"][kind]) != old}


def renamed_fields(content):
    return re.sub(r"\bDCGM_\w+", lambda name: RENAMED.get(name[0], name[0]), content)


def renamed_labels(content):
    names = {"UUID": "uuid", "Hostname": "hostname", "GPU_I_ID": "gpu_i_id", "GPU_I_PROFILE": "gpu_i_profile"}
    names |= {"namespace": "pod_namespace", "pod": "pod_name", "container": "container_name"}
    return re.sub(r'(\w+)="', lambda name: f'{names.get(name[1], name[1])}="', content)


def without_empty(content):
    return re.sub(r',\w+=""', "", content)


def not_honored(content):
    target = 'pod="nvidia-dcgm-exporter-zz",namespace="gpu-operator",container="exporter"}'
    moved = re.sub(r'\b(pod|namespace|container)="', r'exported_\1="', content)
    return without_empty(re.sub(r"\}(?= \S+$)", f",{target}", moved, flags=re.MULTILINE))


@pytest.mark.parametrize("name", DUMPS)
@pytest.mark.parametrize("rewrite", [renamed_fields, renamed_labels, without_empty, not_honored])
def test_real_dumps_in_every_generation_are_the_same_models(data_dir, tmp_path, name, rewrite):
    content = (data_dir / "dcgm_exporter" / name).read_text()

    def model(text):
        path = tmp_path / "m.prom"
        path.write_text(text)
        snapshot = observe_files(InputFiles(metrics=(path,)), load_catalogue())
        devices = tuple(
            replace(
                d,
                owner_source="none",  # which label named the holder is what differs
                exporter_pod=None,
                series={k: replace(s, name=RENAMED.get(s.name, s.name)) for k, s in d.series.items()},
            )
            for d in snapshot.telemetry.devices
        )
        families = tuple(sorted(RENAMED.get(f, f) for f in snapshot.telemetry.families))
        return replace(snapshot, telemetry=replace(snapshot.telemetry, devices=devices, families=families))

    assert rewrite(content) != content or "DCGM_FI_PROF" not in content
    assert model(rewrite(content)) == model(content)


def test_a_gpu_whose_mig_is_on_is_no_device_by_itself(data_dir):
    """The exporter shows the board, the node that MIG is on: there is no whole GPU to hand out."""
    folder = data_dir / "dcgm_exporter"
    files = InputFiles(nodes=(folder / "lt2.9__mig__node__3_instances.yaml",), metrics=(folder / DUMPS[1],))
    telemetry = observe_files(files, load_catalogue()).telemetry
    assert (telemetry.devices, len(telemetry.boards)) == ((), 1)


def test_a_real_dump_was_read_off_by_hand(data_dir):
    dump = data_dir / "dcgm_exporter/lt2.9__mig__metrics__Active_2x1g.5gb_+_2g.10gb.ini"
    telemetry = observe_files(InputFiles(metrics=(dump,)), load_catalogue()).telemetry
    found = {
        d.gi_id: (d.profile, d.series["used"].values.peak, d.series["graphics"].values.peak) for d in telemetry.devices
    }
    assert found == {5: ("2g.10gb", 153, 0.000036), 7: ("1g.5gb", 98, 0.000062), 9: ("1g.5gb", 4384, 0.999917)}
    (board,) = telemetry.boards
    assert board.repeated_on == 3
    assert (board.sm_clock_mhz.peak, len(telemetry.families)) == (1410, 14)
    assert (telemetry.dcgm_version, telemetry.exporter_version) == (None, None)
