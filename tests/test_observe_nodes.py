"""What a Node object alone allows to conclude, who cuts its GPUs, and the contradictions that people have met."""

from __future__ import annotations

import pytest

from cluster_files import OPERATOR, SYSTEM_POD, Files, lgi_table, mixed, node, pod, single, slice_lines, whole_lines

AKS = {"kubernetes.azure.com/agentpool": "p1", "agentpool": "p1"}
A100_80 = "NVIDIA A100 80GB PCIe"


def observe_node(tmp_path, item, **more):
    snapshot = Files(tmp_path).observe(nodes=[item], **more)
    (found,) = snapshot.nodes
    return found, snapshot


def texts(snapshot):
    return "\n".join(n.text for n in snapshot.notes)


# ---- who cuts the GPUs, and how finely -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "more", "owner", "scope"),
    [
        (OPERATOR | {"nvidia.com/mig.strategy": "mixed"}, {}, "gpu-operator", "gpu"),
        (OPERATOR | {"nvidia.com/mig.strategy": "single"}, {}, "gpu-operator", "node"),
        (OPERATOR | AKS | {"nvidia.com/mig.strategy": "mixed"}, {}, "gpu-operator", "gpu"),
        ({"nvidia.com/gpu.deploy.mig-manager": "paused-for-mig-change"}, {}, "gpu-operator", None),
        ({"nvidia.com/gpu.deploy.driver": "pre-installed"}, {}, "gpu-operator", None),
        (AKS | {"nvidia.com/mig.strategy": "single"}, {}, "aks", "pool"),
        (AKS | {"kubernetes.azure.com/dcgm-exporter": "enabled"}, {}, "aks-managed", "pool"),
        ({"agentpool": "p1"}, {}, "aks", "pool"),
        ({}, {}, "unknown", None),
        (OPERATOR, {"annotations": {"hami.io/node-nvidia-register": "[]"}}, "hami", "gpu"),
        ({}, {"amounts": {"mig.das.com/1g.5gb": 7}}, "das", "gpu"),
    ],
)
def test_who_cuts_the_gpus(tmp_path, labels, more, owner, scope):
    item = node("n1", {"nvidia.com/gpu": 1} | more.get("amounts", {}), {"nvidia.com/gpu.present": "true"} | labels)
    item["metadata"]["annotations"] = more.get("annotations")
    found, _ = observe_node(tmp_path, item)
    assert (found.owner, found.layout_scope) == (owner, scope)
    assert found.owner_reason


def test_two_owners_of_one_node_are_told(tmp_path):
    plugin = pod(
        "dra/x", {}, "n1", ownerReferences=[{"kind": "DaemonSet", "name": "nvidia-dra-driver-gpu-kubelet-plugin"}]
    )
    found, snapshot = observe_node(tmp_path, mixed("n1", {"1g.5gb": 1}), pods=[plugin, SYSTEM_POD])
    assert found.owner == "dra"
    assert "label nvidia.com/mig.config" in texts(snapshot)


@pytest.mark.parametrize(
    ("amounts", "label", "strategy"),
    [
        ({"nvidia.com/mig-1g.5gb": 7}, None, "mixed"),
        ({"nvidia.com/gpu": 7}, None, None),  # seven slices or seven GPUs: nobody says
        ({"nvidia.com/mig-1g.5gb": 0, "nvidia.com/gpu": 1}, None, None),
        ({"nvidia.com/gpu": 1}, "none", "none"),
        ({"nvidia.com/gpu": 1}, "odd", None),
    ],
)
def test_the_strategy_is_read_or_follows_from_what_is_advertised(tmp_path, amounts, label, strategy):
    labels = {"nvidia.com/mig.strategy": label} if label else {}
    assert observe_node(tmp_path, node("n1", amounts, labels))[0].strategy == strategy


# ---- boards and instances without exporter text --------------------------------------------------------------------


def test_the_board_by_vm_size_where_nothing_else_says(tmp_path):
    labels = AKS | {"node.kubernetes.io/instance-type": "Standard_NC48ads_A100_v4"}
    found, _ = observe_node(tmp_path, node("n1", {"nvidia.com/gpu": 2}, labels))
    assert (found.azure_size, found.pool) == ("Standard_NC48ads_A100_v4", "p1")
    assert [(g.index, g.board) for g in found.gpus] == [(0, "a100-pcie-80gb"), (1, "a100-pcie-80gb")]


def test_a_product_nobody_knows_is_not_overruled_by_the_size(tmp_path):
    labels = {"node.kubernetes.io/instance-type": "Standard_NC24ads_A100_v4", "nvidia.com/gpu.product": "NVIDIA-Z900"}
    found, _ = observe_node(tmp_path, node("n1", {"nvidia.com/gpu": 1}, labels))
    assert found.gpus[0].board is None


def test_product_and_size_that_contradict_are_noted(tmp_path):
    item = mixed("n1", {}, whole=1)
    item["metadata"]["labels"]["node.kubernetes.io/instance-type"] = "Standard_NC40ads_H100_v5"
    _, snapshot = observe_node(tmp_path, item)
    assert "its product is a100-sxm4-40gb, but a Standard_NC40ads_H100_v5 has h100-nvl-94gb" in texts(snapshot)


def test_sizes_of_other_clouds_are_no_azure_sizes(tmp_path):
    item = mixed("n1", {"1g.5gb": 1})
    item["metadata"]["labels"]["node.kubernetes.io/instance-type"] = "p4d.24xlarge"
    assert observe_node(tmp_path, item)[0].azure_size is None


def test_one_gpu_holds_all_that_its_node_advertises(tmp_path):
    found, _ = observe_node(tmp_path, mixed("n1", {"1g.5gb": 2, "2g.10gb": 1}))
    (gpu,) = found.gpus
    assert (gpu.mig, [i.profile for i in gpu.instances]) == ("on", ["1g.5gb", "1g.5gb", "2g.10gb"])
    assert all(i.gi_id is None and i.start is None for i in gpu.instances)


def test_full_gpus_of_one_profile_leave_no_doubt(tmp_path):
    """7 x 1g fill an A100, so 14 fill two; an A100 holds three 2g and two 3g."""
    for profile, number in (("1g.5gb", 14), ("2g.10gb", 6), ("3g.20gb", 4), ("7g.40gb", 2)):
        found, _ = observe_node(tmp_path, mixed("n1", {profile: number}, gpus=2))
        assert [[i.profile for i in g.instances] for g in found.gpus] == [[profile] * (number // 2)] * 2


def test_the_single_strategy_counts_slices(tmp_path):
    found, _ = observe_node(tmp_path, single("n1", "2g.10gb", 6))
    assert [(g.index, g.mig, [i.profile for i in g.instances]) for g in found.gpus] == [
        (0, "on", ["2g.10gb"] * 3),
        (1, "on", ["2g.10gb"] * 3),
    ]


def test_which_of_several_gpus_holds_what_is_not_guessed(tmp_path):
    found, snapshot = observe_node(tmp_path, mixed("n1", {"1g.5gb": 7, "3g.20gb": 1}, gpus=2))
    assert [(g.mig, g.instances, g.state) for g in found.gpus] == [("unknown", (), "unknown")] * 2
    assert "GPU 0, 1: what it holds is not known; the node advertises 7 x 1g.5gb, 1 x 3g.20gb" in texts(snapshot)


def test_a_single_strategy_node_of_unknown_size_gets_no_gpus(tmp_path):
    found, snapshot = observe_node(tmp_path, single("n1", "2g.10gb", 5))
    assert found.gpus == ()
    assert "how many GPUs it has is not known" in texts(snapshot)


def test_whole_gpus_without_exporter_text(tmp_path):
    found, _ = observe_node(tmp_path, mixed("n1", {}, gpus=2, whole=2), pods=[SYSTEM_POD])
    assert [(g.mig, g.state) for g in found.gpus] == [("off", "idle")] * 2


def test_idle_slices_of_the_node_object_alone(tmp_path):
    """No exporter at all: pods and totals are enough where they leave one answer."""
    asks = {"nvidia.com/mig-2g.10gb": 1}
    found, _ = observe_node(
        tmp_path, mixed("n1", {"1g.5gb": 2, "2g.10gb": 1}), pods=[pod("ml/a", asks, "n1"), SYSTEM_POD]
    )
    states = [(i.profile, i.state, str(i.owner)) for i in found.gpus[0].instances]
    assert states == [("1g.5gb", "idle", "None"), ("1g.5gb", "idle", "None"), ("2g.10gb", "busy", "ml/a")]


def test_time_slicing_does_not_multiply_slices(tmp_path):
    item = mixed("n1", {"1g.5gb": 2})
    shown = item["status"]["capacity"] | {"nvidia.com/mig-1g.5gb": "8"}
    item["status"]["capacity"] = item["status"]["allocatable"] = shown
    item["metadata"]["labels"]["nvidia.com/mig-1g.5gb.replicas"] = "4"
    assert len(observe_node(tmp_path, item)[0].gpus[0].instances) == 2


def test_a_slice_is_named_as_the_catalogue_names_it(tmp_path):
    """gpu-feature-discovery#7: a label of 3g.21gb beside a resource of 3g.20gb."""
    item = mixed("n1", {"3g.20gb": 2})
    del item["metadata"]["labels"]["nvidia.com/mig-3g.20gb.count"]
    item["metadata"]["labels"]["nvidia.com/mig-3g.21gb.count"] = "2"
    found, snapshot = observe_node(tmp_path, item)
    assert [i.profile for i in found.gpus[0].instances] == ["3g.20gb", "3g.20gb"]
    assert "labels count" not in texts(snapshot)


def test_suffixes_are_kept_apart(tmp_path):
    """k8s-device-plugin PR#1807."""
    product = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
    slices = {"1g.24gb": 1, "1g.24gb-me": 1, "1g.24gb+me.all": 1}
    item = mixed("n1", slices, gpus=2, product=product)
    _, snapshot = observe_node(tmp_path, item)
    assert "1 x 1g.24gb, 1 x 1g.24gb+me.all, 1 x 1g.24gb-me" in texts(snapshot)


# ---- contradictions ------------------------------------------------------------------------------------------------


def test_resources_of_an_earlier_layout_that_stay_behind_with_zero(tmp_path):
    found, snapshot = observe_node(tmp_path, mixed("n1", {"1g.5gb": 0, "2g.10gb": 3}))
    assert [i.profile for i in found.gpus[0].instances] == ["2g.10gb"] * 3
    assert found.allocatable == {"nvidia.com/gpu": 0, "nvidia.com/mig-2g.10gb": 3}
    assert snapshot.notes == ()


def test_more_than_the_gpus_can_hold_is_stale(tmp_path):
    """k8s-device-plugin#240: 56 x 1g and 8 x 7g on eight GPUs at once."""
    found, snapshot = observe_node(tmp_path, mixed("n1", {"1g.5gb": 56, "7g.40gb": 8}, gpus=8))
    assert "more than 8 x a100-sxm4-40gb can hold" in texts(snapshot)
    assert {(g.mig, g.instances) for g in found.gpus} == {("unknown", ())}


def test_labels_edited_by_hand_are_not_believed(tmp_path):
    """gpu-operator#981."""
    item = mixed("n1", {"1g.5gb": 2})
    item["metadata"]["labels"]["nvidia.com/mig-1g.5gb.count"] = "56"
    found, snapshot = observe_node(tmp_path, item)
    assert len(found.gpus[0].instances) == 2
    assert "labels count 56 x 1g.5gb, the kubelet advertises 2 x 1g.5gb" in texts(snapshot)


def test_success_and_an_invalid_product_is_a_failure_with_the_right_name(tmp_path):
    """gpu-operator#603: all-1g.5gb asked of an 80 GB board."""
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-80GB-PCIe-MIG-INVALID", "nvidia.com/gpu.count": "0"}
    labels |= {"nvidia.com/mig.strategy": "single", "nvidia.com/mig.config": "all-1g.5gb"}
    labels |= {"nvidia.com/mig.config.state": "success", "nvidia.com/gpu.present": "true"}
    _, snapshot = observe_node(tmp_path, node("n1", {"nvidia.com/gpu": 0}, labels))
    (note,) = [n for n in snapshot.notes if "invalid" in n.text]
    assert note.severity == "error"
    assert "although the state is success; a100-pcie-80gb has no 1g.5gb, but 1g.10gb" in note.text


@pytest.mark.parametrize(("state", "severity"), [("pending", "warning"), ("rebooting", "warning"), ("failed", "error")])
def test_a_change_under_way_or_failed_is_told(tmp_path, state, severity):
    item = mixed("n1", {"1g.5gb": 1})
    item["metadata"]["labels"] |= {
        "nvidia.com/mig.config.state": state,
        "nvidia.com/gpu.deploy.device-plugin": "paused-for-mig-change",
    }
    found, snapshot = observe_node(tmp_path, item)
    assert found.mig_config_state == state
    assert [n.severity for n in snapshot.notes if f"state is {state}" in n.text] == [severity]
    assert "1 operator daemons are paused" in texts(snapshot)


def test_a_config_without_a_state_has_not_been_applied(tmp_path):
    """gpu-operator#2670: the label is preset on a new node."""
    item = mixed("n1", {}, whole=1)
    del item["metadata"]["labels"]["nvidia.com/mig.config.state"]
    assert "has not been made yet" in texts(observe_node(tmp_path, item)[1])


def test_mig_capable_and_nobody_to_cut_it(tmp_path):
    item = mixed("n1", {}, whole=1)
    del item["metadata"]["labels"]["nvidia.com/gpu.deploy.mig-manager"]
    item["metadata"]["labels"]["nvidia.com/gpu.deploy.driver"] = "true"
    assert "nobody will re-cut it" in texts(observe_node(tmp_path, item)[1])


def test_single_strategy_and_partial_mig(tmp_path):
    """k8s-device-plugin#260."""
    lines = [line for gi in range(7, 14) for line in slice_lines("1g.5gb", gi)] + whole_lines(1)
    _, snapshot = observe_node(tmp_path, single("n1", "1g.5gb", 7), metrics=lines)
    assert "MIG is on for some GPUs only" in texts(snapshot)


def test_a_mode_that_waits_for_a_reboot(tmp_path):
    """gpu-operator#1845."""
    csv = "index, name, mig.mode.current, mig.mode.pending\n0, NVIDIA A100 80GB PCIe, Disabled, Enabled\n"
    found, snapshot = observe_node(tmp_path, mixed("n1", {}, whole=1, product=A100_80), smi={"n1.csv": csv})
    assert found.gpus[0].mig == "pending"
    assert "GPU 0: MIG mode changes with the next reset or reboot" in texts(snapshot)


def test_instances_gone_that_the_kubelet_still_advertises(tmp_path):
    """k8s-device-plugin#225: after a reboot; #992: the plugin has not noticed."""
    _, snapshot = observe_node(tmp_path, mixed("n1", {"1g.5gb": 7}), metrics=slice_lines("1g.5gb", 7))
    assert "1 x 1g.5gb were seen, the kubelet advertises 7 x 1g.5gb" in texts(snapshot)


def test_slices_without_profiling_data_are_not_idle(tmp_path):
    """dcgm-exporter#507."""
    lines = slice_lines("1g.5gb", 7) + slice_lines("1g.5gb", 8)[:2]
    found, snapshot = observe_node(tmp_path, mixed("n1", {"1g.5gb": 2}), metrics=lines)
    assert [i.activity is None for i in found.gpus[0].instances] == [False, True]
    assert "no activity of 1 of 2 instances" in texts(snapshot)


def test_instances_that_cannot_stand_together_were_not_there_at_one_time(tmp_path):
    """Two dumps in one file: 4g + 4g."""
    _, snapshot = observe_node(
        tmp_path, mixed("n1", {"4g.20gb": 1}), metrics=slice_lines("4g.20gb", 1) + slice_lines("4g.20gb", 2)
    )
    assert "were the files made at different times?" in texts(snapshot)
    overlap = lgi_table([(0, "2g.10gb", 14, 3, 0, 2), (0, "1g.5gb", 19, 9, 1, 1)])
    snapshot = Files(tmp_path).observe(nodes=[mixed("n1", {"2g.10gb": 1, "1g.5gb": 1})], smi={"n1.lgi.txt": overlap})
    assert "overlap" in texts(snapshot)


def test_a_gpu_that_changed_its_uuid_between_two_files(tmp_path):
    lines = slice_lines("1g.5gb", 7) + slice_lines("1g.5gb", 8, UUID="GPU-11111111-0000-4000-8000-000000000000")
    found, snapshot = observe_node(tmp_path, mixed("n1", {"1g.5gb": 1}), metrics=lines)
    assert len(found.gpus) == 1
    assert any(n.severity == "error" and "both said to be GPU 0" in n.text for n in snapshot.notes)


# ---- mig-parted: a wish beside what is there -----------------------------------------------------------------------

PARTED = """\
version: v1
mig-configs:
  custom:
    - devices: [0]
      mig-enabled: true
      mig-devices: {{"{profile}": {number}}}
    - devices: [1]
      mig-enabled: false
"""


def wish(profile, number):
    return {"c.yaml": PARTED.format(profile=profile, number=number)}


def test_a_wish_that_is_met_is_no_news(tmp_path):
    lines = slice_lines("1g.5gb", 7) + whole_lines(1)
    item = mixed("n1", {"1g.5gb": 1}, gpus=2, whole=1)
    _, snapshot = observe_node(tmp_path, item, metrics=lines, mig_parted=wish("1g.5gb", 1))
    assert "the config" not in texts(snapshot)


def test_a_wish_that_is_not_met_is_noted_and_never_taken_for_what_is_there(tmp_path):
    lines = slice_lines("1g.5gb", 7) + slice_lines("1g.5gb", 8, 1)
    item = mixed("n1", {"1g.5gb": 2}, gpus=2)
    found, snapshot = observe_node(tmp_path, item, metrics=lines, mig_parted=wish("2g.10gb", 3))
    assert [[i.profile for i in g.instances] for g in found.gpus] == [["1g.5gb"], ["1g.5gb"]]
    assert "GPU 0: the config custom asks for 3 x 2g.10gb, and it has 1 x 1g.5gb" in texts(snapshot)
    assert "GPU 1: the config custom asks for MIG off, and it is on" in texts(snapshot)


def test_a_profile_that_the_board_does_not_have(tmp_path):
    """mig-parted PR#101: 1g.11gb on an H100 NVL, which has 1g.12gb."""
    h100 = {"modelName": "NVIDIA H100 NVL"}
    item = mixed("n1", {"1g.12gb": 1}, product="NVIDIA H100 NVL")
    _, snapshot = observe_node(tmp_path, item, metrics=slice_lines("1g.12gb", 7, **h100), mig_parted=wish("1g.11gb", 7))
    assert any(n.severity == "error" and "1g.11gb, which h100-nvl-94gb does not have" in n.text for n in snapshot.notes)


def test_a_config_that_no_file_has(tmp_path):
    item = mixed("n1", {"1g.5gb": 1})
    item["metadata"]["labels"]["nvidia.com/mig.config"] = "other"
    _, snapshot = observe_node(tmp_path, item, mig_parted=wish("1g.5gb", 1))
    assert "names the config other, which no --mig-parted file has" in texts(snapshot)


def test_the_names_that_mig_parted_gives_itself_need_no_file(tmp_path):
    """gpu-operator#693: all-1g.10gb asked, one is there."""
    item = mixed("n1", {"1g.10gb": 1}, product=A100_80)
    item["metadata"]["labels"]["nvidia.com/mig.config"] = "all-1g.10gb"
    _, snapshot = observe_node(tmp_path, item, metrics=slice_lines("1g.10gb", 7, modelName=A100_80))
    assert "asks for 7 x 1g.10gb, and it has 1 x 1g.10gb" in texts(snapshot)


def test_an_export_is_what_is_there(tmp_path):
    """`nvidia-mig-parted export` of one node, where nothing else tells the layouts of its two GPUs."""
    text = PARTED.format(profile="3g.20gb", number=1).replace("custom", "current")
    found, _ = observe_node(tmp_path, mixed("n1", {"3g.20gb": 1}, gpus=2, whole=1), mig_parted={"n1.yaml": text})
    assert [(g.mig, [i.profile for i in g.instances]) for g in found.gpus] == [("on", ["3g.20gb"]), ("off", [])]


# ---- counts that cannot count, and files that contradict each other ------------------------------------------------


@pytest.mark.parametrize("count", ["100000", "99999999999999999999", "-3", "1.5", "x"])
def test_a_count_label_that_counts_nothing_is_noted_and_not_believed(tmp_path, count):
    item = node("n1", {"nvidia.com/gpu": 2}, {"nvidia.com/gpu.product": "NVIDIA-A30", "nvidia.com/gpu.count": count})
    found, snapshot = observe_node(tmp_path, item)
    assert len(found.gpus) == 2
    assert f"nvidia.com/gpu.count is '{count}'" in texts(snapshot)


def test_a_kubelet_that_advertises_too_many_gpus_is_not_believed(tmp_path):
    item = node("n1", {"nvidia.com/gpu": 99999999}, {"nvidia.com/gpu.product": "NVIDIA-A30"})
    found, snapshot = observe_node(tmp_path, item)
    assert found.gpus == ()
    assert "99999999 whole GPUs: not believed" in texts(snapshot)


def test_labels_and_kubelet_that_count_differently_are_noted(tmp_path):
    labels = {"nvidia.com/gpu.product": "NVIDIA-A30", "nvidia.com/gpu.count": "8"}
    _, snapshot = observe_node(tmp_path, node("n1", {"nvidia.com/gpu": 2}, labels))
    assert "labels count 8 GPUs, the kubelet advertises 2" in texts(snapshot)
    _, same = observe_node(tmp_path, node("n1", {"nvidia.com/gpu": 8}, labels))
    assert "labels count" not in texts(same)


def test_more_whole_gpus_than_there_are_read_as_a_sentence(tmp_path):
    labels = {"nvidia.com/gpu.product": "NVIDIA-A30", "nvidia.com/gpu.count": "2"}
    _, snapshot = observe_node(tmp_path, node("n1", {"nvidia.com/gpu": 20}, labels))
    assert "it advertises 20 whole GPUs, more than 2 x a30-24gb can hold" in texts(snapshot)


def test_a_strategy_that_there_is_not_is_noted(tmp_path):
    item = mixed("n1", {"1g.5gb": 7})
    item["metadata"]["labels"]["nvidia.com/mig.strategy"] = "weird"
    found, snapshot = observe_node(tmp_path, item)
    assert found.strategy is None
    assert "nvidia.com/mig.strategy is 'weird'" in texts(snapshot)


def test_nodes_without_any_gpu_are_told(tmp_path):
    snapshot = Files(tmp_path).observe(nodes=[node("n1", {}, {})])
    assert snapshot.nodes == ()
    assert "no node here shows a GPU" in texts(snapshot)


def test_pods_on_nodes_that_are_not_there_are_told(tmp_path):
    ghost = [pod(f"ml/p{n}", {"nvidia.com/gpu": 1}, "ghost") for n in range(2)]
    cpu = pod("ml/q", {"nvidia.com/gpu": 1}, "cpu-only")
    nodes = [mixed("n1", {"1g.5gb": 7}), node("cpu-only", {}, {})]
    snapshot = Files(tmp_path).observe(nodes=nodes, pods=[*ghost, cpu, SYSTEM_POD])
    assert "2 pods with GPUs on node ghost, which is not among the nodes" in texts(snapshot)
    assert "1 pod with GPUs on node cpu-only, which shows no GPU" in texts(snapshot)


@pytest.mark.parametrize(("number", "is_told"), [(7, False), (8, True)])
def test_more_pods_than_the_kubelet_has_slices_are_told(tmp_path, number, is_told):
    pods = [pod(f"ml/p{n}", {"nvidia.com/mig-1g.5gb": 1}, "n1") for n in range(number)]
    snapshot = Files(tmp_path).observe(nodes=[mixed("n1", {"1g.5gb": 7})], pods=[*pods, SYSTEM_POD])
    said = "8 pods with GPUs ask for more than the kubelet advertises: 8 x nvidia.com/mig-1g.5gb of 7"
    assert (said in texts(snapshot)) == is_told


def test_time_slicing_is_told_and_amounts_are_devices(tmp_path):
    labels = {"nvidia.com/gpu.product": "NVIDIA-A30", "nvidia.com/gpu.count": "2", "nvidia.com/gpu.replicas": "4"}
    found, snapshot = observe_node(tmp_path, node("n1", {"nvidia.com/gpu": 8}, labels))
    assert (len(found.gpus), found.allocatable) == (2, {"nvidia.com/gpu": 2})
    assert "nvidia.com/gpu: time-slicing or MPS lets several pods share one" in texts(snapshot)


def test_a_waiting_pod_that_is_being_deleted_waits_for_nothing(tmp_path):
    leaving = pod("ml/a", {"nvidia.com/gpu": 1}, None, "Pending", deletionTimestamp="2026-01-01T00:00:00Z")
    snapshot = Files(tmp_path).observe(nodes=[mixed("n1", {"1g.5gb": 7})], pods=[leaving, SYSTEM_POD])
    assert snapshot.pods == ()
