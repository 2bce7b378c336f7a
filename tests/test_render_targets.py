"""What the other targets are given, by the rules of each; and that a target gets its own plan or nothing."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from made_plans import SIZES, gpu_plan, operator_plans, plan_of, single_plans
from mig_rules import raw_boards, raw_profiles
from migsaw.cli.shared import load_catalogue
from migsaw.errors import TargetError
from migsaw.model.plan import NodePlan, PoolStep, Step
from migsaw.render.document import Options
from migsaw.render.targets import WAYS, render

CATALOGUE = load_catalogue()
A100 = "a100-sxm4-80gb"
TARGETS = tuple(WAYS)


def files(plan, target, **options: Any) -> dict[str, str]:
    return {file.path: file.text for file in render(plan, target, CATALOGUE, Options(**options))}


def documents(text: str) -> list[Any]:
    return [document for document in YAML(typ="safe", pure=True).load_all(text) if document]


def node(name: str, **more: Any) -> NodePlan:
    return NodePlan(name, **{"owner": "gpu-operator", "changed": False, "strategy": "mixed", **more})


def same(name: str, index: int, board: str, *layout: str):
    return gpu_plan(name, index, board, layout, layout)


# ---- whose plan it is -------------------------------------------------------------------------------------------


@given(operator_plans(), st.sampled_from(TARGETS), st.sampled_from(TARGETS))
def test_a_plan_for_one_target_is_refused_for_another(plan, made_for, asked):
    if made_for == asked:
        return
    plan = plan_of(list(plan.gpus), list(plan.nodes), target=made_for)
    with pytest.raises(TargetError, match=f"the plan was made for {made_for}, not for {asked}"):
        files(plan, asked)


@given(st.one_of(operator_plans(), single_plans()), st.sampled_from(TARGETS))
def test_every_file_says_what_it_is_and_is_the_same_again(plan, target):
    try:
        made = render(plan, target, CATALOGUE, Options())
    except TargetError:
        return
    assert made
    assert [file.path for file in made] == sorted(file.path for file in made)
    assert made == render(plan, target, CATALOGUE, Options())
    for file in made:
        assert plan.made_from.snapshot_sha256 in file.text
        assert file.text.endswith("\n")
        assert not file.path.startswith("/")
        assert ".." not in file.path.split("/")
        if file.path.endswith(".sh"):
            assert file.executable
            assert file.text.startswith("#!/bin/sh\n")


# ---- kubernetes -------------------------------------------------------------------------------------------------


def advertised(plan) -> dict[str, Counter[str]]:
    """Node → resources after the plan, by the device plugin's rules for each strategy."""
    found = {}
    for one in plan.nodes:
        layouts = [gpu.after for gpu in plan.gpus if gpu.node == one.name]
        slices = [text.partition("@")[0] for layout in layouts if layout != ("off",) for text in layout]
        whole = sum(layout == ("off",) for layout in layouts)
        if one.strategy == "mixed":
            found[one.name] = Counter("nvidia.com/mig-" + name.replace("+", ".") for name in slices)
            found[one.name]["nvidia.com/gpu"] += whole
        else:  # all GPUs are cut alike in these plans, or none is
            found[one.name] = Counter({"nvidia.com/gpu": len(slices) or whole})
    return found


@given(st.one_of(operator_plans(), single_plans()))
def test_pods_ask_for_all_that_nodes_offer_and_for_nothing_else(plan):
    offered = sum(advertised(plan).values(), Counter())
    expected = {resource for resource, count in offered.items() if count}
    try:
        made = files(plan, "kubernetes")
    except TargetError:
        assert not expected
        return
    limits = [c["resources"]["limits"] for d in documents(made["pod-resources.yaml"]) for c in d["spec"]["containers"]]
    assert {resource for limit in limits for resource in limit} == expected
    assert all(list(limit.values()) == [1] for limit in limits)


def test_single_strategy_pods_find_their_slice_by_a_label():
    gpus = [same("a", 0, A100, *["1g.10gb"] * 7), same("b", 0, A100, "3g.40gb", "3g.40gb"), same("c", 0, A100, "off")]
    nodes = [
        node("a", strategy="single", pool="small"),
        node("b", strategy="single", pool="big"),
        node("c", strategy="single", pool="big"),
    ]
    made = files(plan_of(gpus, nodes), "kubernetes")
    chosen = [d["spec"]["nodeSelector"] for d in documents(made["pod-resources.yaml"])]
    # the pool's static label where all its nodes offer the same; else a label that the script puts on the nodes
    assert chosen == [
        {"agentpool": "small"},
        {"migsaw/slice": "a100-sxm4-80gb-3g.40gb"},
        {"migsaw/slice": "a100-sxm4-80gb-whole"},
    ]
    lines = [line for line in made["slice-labels.sh"].splitlines() if line.startswith("kubectl")]
    assert lines == [
        "kubectl label node b migsaw/slice=a100-sxm4-80gb-3g.40gb --overwrite",
        "kubectl label node c migsaw/slice=a100-sxm4-80gb-whole --overwrite",
    ]


def test_a_single_node_that_the_plugin_calls_invalid_offers_nothing():
    gpus = [same("a", 0, A100, "1g.10gb"), same("a", 1, A100, "off")]
    with pytest.raises(TargetError, match="no node offers"):
        files(plan_of(gpus, [node("a", strategy="single")]), "kubernetes")


# ---- Azure ML ---------------------------------------------------------------------------------------------------


def cores(text: str) -> float:
    return int(text[:-1]) / 1000 if text.endswith("m") else float(text)


@given(st.one_of(single_plans(), operator_plans()), st.booleans())
def test_instance_types_have_the_documented_shape(plan, allow_mixed):
    try:
        made = files(plan, "azureml", allow_mixed=allow_mixed)
    except TargetError:
        return
    types = documents(made["instance-types.yaml"])
    names = [one["metadata"]["name"] for one in types]
    assert len(names) == len(set(names))
    for one in types:
        assert (one["apiVersion"], one["kind"]) == ("amlarc.azureml.com/v1alpha1", "InstanceType")
        assert re.fullmatch(r"[a-z][a-z0-9]{0,30}", one["metadata"]["name"])
        requests, limits = one["spec"]["resources"]["requests"], one["spec"]["resources"]["limits"]
        assert requests.keys() == {"cpu", "memory"}
        (resource,) = limits.keys() - requests.keys()
        assert {key: limits[key] for key in requests} == requests
        assert limits[resource] == 1
        assert type(limits[resource]) is int
        assert all(isinstance(value, str) for value in requests.values())
        assert cores(requests["cpu"]) >= 0.1
        assert re.fullmatch(r"[1-9]\d*Gi", requests["memory"])
        if resource == "nvidia.com/gpu":
            assert one["spec"]["nodeSelector"]
        else:
            assert allow_mixed
            assert resource.startswith("nvidia.com/mig-")
    if any(next(iter(set(o["spec"]["resources"]["limits"]) - {"cpu", "memory"})) != "nvidia.com/gpu" for o in types):
        assert "not documented for Azure ML" in made["instance-types.yaml"]


@pytest.mark.parametrize(
    ("size", "board", "profile", "gpus", "cpu", "memory"),
    [
        # (96 - 2) / 56 = 1.67 cores; 1900 × 0.95 / 56 = 32.2 GiB
        ("Standard_ND96amsr_A100_v4", A100, "1g.10gb", 8, "1600m", "32Gi"),
        # (24 - 2) / 7 = 3.14; 220 × 0.95 / 7 = 29.8
        ("Standard_NC24ads_A100_v4", "a100-pcie-80gb", "1g.10gb", 1, "3100m", "29Gi"),
        # 2g: three of them stand on a GPU: (80 - 2) / 2 / 3 = 13; 640 × 0.95 / 6 = 101.3
        ("Standard_NC80adis_H100_v5", "h100-nvl-94gb", "2g.24gb", 2, "13", "101Gi"),
        # not a known size: one core and 4 GiB for each compute slice
        (None, A100, "3g.40gb", 4, "3", "12Gi"),
    ],
)
def test_cpu_and_memory_are_the_slice_s_share_of_the_machine(size, board, profile, gpus, cpu, memory):
    most = raw_profiles(board)[profile]["max_instances"]
    mine = [same("a", k, board, *[profile] * most) for k in range(gpus)]
    made = files(plan_of(mine, [node("a", strategy="single", azure_size=size, pool="p")]), "azureml")
    (one,) = documents(made["instance-types.yaml"])
    assert one["spec"]["resources"]["requests"] == {"cpu": cpu, "memory": memory}
    assert one["spec"]["nodeSelector"] == {"agentpool": "p"}


@given(single_plans())
def test_the_shares_of_a_full_machine_fit_into_it(plan):
    try:
        made = files(plan, "azureml")
    except TargetError:
        return
    slices: dict[str, int] = Counter()
    for one in plan.nodes:
        for gpu in (gpu for gpu in plan.gpus if gpu.node == one.name):
            slices[one.name] += 1 if gpu.after == ("off",) else len(gpu.after)
    for one in plan.nodes:
        size = CATALOGUE.azure_sizes.get(one.azure_size or "")
        mine = [gpu for gpu in plan.gpus if gpu.node == one.name]
        if size is None or len(mine) > size.gpus:
            continue
        label = "-".join(
            [mine[0].board, (mine[0].after[0].replace("+", ".") if mine[0].after != ("off",) else "whole")]
        )
        selectors = [{"agentpool": one.pool}, {"migsaw/slice": label}]
        for kind in documents(made["instance-types.yaml"]):
            if kind["spec"]["nodeSelector"] in selectors:
                requests = kind["spec"]["resources"]["requests"]
                assert cores(requests["cpu"]) * slices[one.name] <= size.vcpus
                assert int(requests["memory"][:-2]) * slices[one.name] <= size.memory_gb


def test_a_mixed_only_plan_needs_to_be_asked_for():
    plan = plan_of([same("a", 0, A100, "2g.20gb", "1g.10gb+me")], [node("a", pool="p")])
    with pytest.raises(TargetError, match=r"documented for nvidia\.com/gpu only") as refusal:
        files(plan, "azureml")
    assert "--allow-mixed" in refusal.value.hint
    types = documents(files(plan, "azureml", allow_mixed=True)["instance-types.yaml"])
    asked = {next(iter(one["spec"]["resources"]["limits"].keys() - {"cpu", "memory"})) for one in types}
    assert asked == {"nvidia.com/mig-2g.20gb", "nvidia.com/mig-1g.10gb.me"}


def test_a_name_depends_on_its_own_slice_and_pool_only():
    one = [same("a", 0, A100, *["1g.10gb"] * 7)], [node("a", strategy="single", pool="gpu")]
    more = [*one[0], same("b", 0, A100, "7g.80gb")], [*one[1], node("b", strategy="single", pool="other")]
    names = [
        {d["metadata"]["name"] for d in documents(files(plan_of(*p), "azureml")["instance-types.yaml"])}
        for p in (one, more)
    ]
    assert names == [{"mig1g10gbgpu"}, {"mig1g10gbgpu", "mig7g80gbother"}]


# ---- AKS --------------------------------------------------------------------------------------------------------


def pool_plan(*pools: PoolStep, owner: str = "aks", **more: Any):
    steps = tuple(Step(f"create-pool-{pool.name}", "create-pool", None, pool=pool) for pool in pools)
    gpus = [same("aks-a", 0, "a100-pcie-80gb", *["1g.10gb"] * 7)]
    return plan_of(gpus, [node("aks-a", owner=owner, pool="old")], steps=steps, **more)


def commands(text: str) -> list[list[str]]:
    joined = text.replace("\\\n", " ")
    return [words for line in joined.splitlines() if (words := shlex.split(line, comments=True)) and words[0] == "az"]


def test_a_uniform_pool_is_a_command_and_a_template():
    made = files(pool_plan(PoolStep("mig2ga100", "Standard_NC24ads_A100_v4", 3, ("MIG2g",), "mixed")), "aks")
    (words,) = commands(made["create-pools.sh"])
    assert words[:4] == ["az", "aks", "nodepool", "add"]
    options = dict(zip(words[4::2], words[5::2], strict=True))
    assert options == {
        "--resource-group": "$RESOURCE_GROUP",
        "--cluster-name": "$CLUSTER",
        "--name": "mig2ga100",
        "--mode": "User",
        "--node-vm-size": "Standard_NC24ads_A100_v4",
        "--node-count": "3",
        "--gpu-instance-profile": "MIG2g",
    }
    (resource,) = json.loads(made["pools.arm.json"])["resources"]
    assert resource["properties"]["gpuInstanceProfile"] == "MIG2g"
    assert (resource["properties"]["vmSize"], resource["properties"]["count"]) == ("Standard_NC24ads_A100_v4", 3)
    assert "preview" not in resource["apiVersion"]


def test_several_profiles_on_one_gpu_exist_in_the_preview_template_only():
    made = files(
        pool_plan(PoolStep("mix", "Standard_NC24ads_A100_v4", 1, ("MIG3g", "MIG2g", "MIG1g", "MIG1g"), "mixed")), "aks"
    )
    assert made.keys() == {"pools.arm.json"}
    (resource,) = json.loads(made["pools.arm.json"])["resources"]
    assert resource["apiVersion"].endswith("-preview")
    assert resource["properties"]["gpuProfile"]["nvidia"] == {
        "managementMode": "Managed",
        "migStrategy": "Mixed",
        "migProfiles": ["MIG3g", "MIG2g", "MIG1g", "MIG1g"],
    }
    assert "gpuInstanceProfile" not in resource["properties"]  # the two exclude each other


def test_managed_pools_get_the_managed_preview():
    made = files(
        pool_plan(PoolStep("m", "Standard_NC24ads_A100_v4", 1, ("MIG7g",), "single"), owner="aks-managed"), "aks"
    )
    (words,) = commands(made["create-pools.sh"])
    assert words[-4:] == ["MIG7g", "--enable-managed-gpu=true", "--gpu-mig-strategy", "Single"]


def test_a_pool_without_mig_has_no_profile():
    made = files(pool_plan(PoolStep("whole", "Standard_NC24ads_A100_v4", 1)), "aks")
    assert "MIG" not in " ".join(commands(made["create-pools.sh"])[0])


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (pool_plan(PoolStep("aksMigNode", "Standard_NC24ads_A100_v4", 1, ("MIG1g",))), "pool name 'aksMigNode'"),
        (pool_plan(PoolStep("abcdefghijklm", "Standard_NC24ads_A100_v4", 1, ("MIG1g",))), "pool name 'abcdefghijklm'"),
        (pool_plan(PoolStep("a", "Standard_NC24ads_A100_v4", 1, ("MIG9g",))), "AKS has no GPU instance profile MIG9g"),
        (pool_plan(PoolStep("a", "Standard_NC24ads_A100_v4", 0, ("MIG1g",))), "pool a: 0 nodes"),
        (plan_of([gpu_plan("a", 0, A100, (), ("1g.10gb",))], [node("a")]), "GPU a/0 changes in place"),
        (
            plan_of([], [], steps=(Step("x", "delete-pool", None, pool=PoolStep("old", "s", 1)),)),
            "only new pools are rendered",
        ),
    ],
)
def test_what_aks_cannot_make_is_refused_by_name(plan, reason):
    with pytest.raises(TargetError, match=re.escape(reason)):
        files(plan, "aks")


def test_new_pools_of_the_single_strategy_get_instance_types():
    plan = pool_plan(PoolStep("new", "Standard_NC24ads_A100_v4", 2, ("MIG3g",), "single"))
    types = {one["metadata"]["name"]: one for one in documents(files(plan, "azureml")["instance-types.yaml"])}
    assert types["mig3g40gbnew"]["spec"]["nodeSelector"] == {"agentpool": "new"}


# ---- DRA --------------------------------------------------------------------------------------------------------


def test_every_profile_of_a_dra_board_has_a_template():
    plan = plan_of([same("a", 0, A100), same("b", 0, "a30-24gb")], [node("a", owner="dra"), node("b", owner="dra")])
    found = {}
    for one in documents(files(plan, "dra")["resource-claim-templates.yaml"]):
        assert (one["apiVersion"], one["kind"]) == ("resource.k8s.io/v1", "ResourceClaimTemplate")
        assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", one["metadata"]["name"])
        (request,) = one["spec"]["spec"]["devices"]["requests"]
        assert request["exactly"]["deviceClassName"] == "mig.nvidia.com"
        (selector,) = request["exactly"]["selectors"]
        found[one["metadata"]["name"]] = selector["cel"]["expression"]
    names = {*raw_profiles(A100), *raw_profiles("a30-24gb")}
    assert sorted(found.values()) == sorted(
        f"device.attributes['gpu.nvidia.com'].profile == '{name}'" for name in names
    )


def test_names_of_templates_tell_me_from_minus_me():
    key = "rtx-pro-6000-blackwell-server"
    made = files(plan_of([same("a", 0, key)], [node("a", owner="dra")]), "dra")["resource-claim-templates.yaml"]
    assert len({one["metadata"]["name"] for one in documents(made)}) == len(raw_profiles(key))


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (plan_of([same("a", 0, A100)], [node("a")]), "no node's GPUs are owned by the DRA driver"),
        (plan_of([gpu_plan("a", 0, A100, (), ("1g.10gb",))], [node("a", owner="dra")]), "is to be cut beforehand"),
    ],
)
def test_what_dra_cannot_do_is_refused(plan, reason):
    with pytest.raises(TargetError, match=reason):
        files(plan, "dra")


# ---- device plugin ----------------------------------------------------------------------------------------------


def test_one_strategy_is_set_for_all():
    made = files(plan_of([same("a", 0, A100, "1g.10gb")], [node("a")]), "device-plugin")
    assert made.keys() == {"configmap.yaml", "cluster-policy-patch.yaml", "helm-values.yaml"}
    (config_map,) = documents(made["configmap.yaml"])
    config = YAML(typ="safe", pure=True).load(config_map["data"]["mig-mixed"])
    assert config == {
        "version": "v1",
        "flags": {"migStrategy": "mixed", "plugin": {"sharedDevicesAllocationPolicy": "packed"}},
    }
    (patch,) = documents(made["cluster-policy-patch.yaml"])
    assert patch["spec"]["mig"] == {"strategy": "mixed"}
    assert patch["spec"]["devicePlugin"]["config"] == {"name": config_map["metadata"]["name"], "default": "mig-mixed"}
    (values,) = documents(made["helm-values.yaml"])
    assert values["devicePlugin"]["config"]["data"] == config_map["data"]
    assert "v0.20" in made["configmap.yaml"]


def test_different_strategies_are_chosen_by_label_and_the_operator_s_own_is_unset():
    gpus = [same("a", 0, A100, "1g.10gb"), same("b", 0, A100, "7g.80gb"), same("c", 0, A100, "7g.80gb")]
    nodes = [node("a"), node("b", strategy="single"), node("c", strategy=None)]
    made = files(plan_of(gpus, nodes), "device-plugin")
    (patch,) = documents(made["cluster-policy-patch.yaml"])
    assert patch["spec"]["mig"] == {"strategy": None}
    lines = [line for line in made["labels.sh"].splitlines() if line.startswith("kubectl")]
    assert lines == [
        "kubectl label node a nvidia.com/device-plugin.config=mig-mixed --overwrite",
        "kubectl label node b nvidia.com/device-plugin.config=mig-single --overwrite",
    ]
    assert "strategy not known, left as it is: c" in made["configmap.yaml"]


def test_sizes_of_the_made_up_plans_have_the_boards_they_should():
    for board, size in SIZES.items():
        assert CATALOGUE.azure_sizes[size].board == board
        assert board in raw_boards()
