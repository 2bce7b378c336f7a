"""The mig-parted file gives every GPU exactly what the plan says, and labels touch changed nodes only."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from ruamel.yaml import YAML

from made_plans import gpu_plan, operator_plans, plan_of, single_plans
from mig_parted_format import gpus_of, read_mig_parted
from migsaw.cli.shared import load_catalogue
from migsaw.errors import TargetError
from migsaw.model.plan import NodePlan, PoolStep, Step
from migsaw.render.document import Options
from migsaw.render.targets import render

CATALOGUE = load_catalogue()


def wanted(texts: tuple[str, ...]) -> Counter[str] | None:
    return None if texts == ("off",) else Counter(text.partition("@")[0] for text in texts)


def files(plan, target="mig-manager"):
    return {file.path: file.text for file in render(plan, target, CATALOGUE, Options())}


def labels(script: str) -> dict[str, str]:
    """Node → config, from the script's commands as a shell would split them."""
    found: dict[str, str] = {}
    for line in script.splitlines():
        parts = shlex.split(line, comments=True)
        if parts[:3] == ["kubectl", "label", "node"]:
            node, label, *rest = parts[3:]
            assert rest == ["--overwrite"]
            key, _, value = label.partition("=")
            assert key == "nvidia.com/mig.config"
            assert node not in found
            assert re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", value)
            found[node] = value
    return found


def differs(gpu) -> bool:
    return wanted(gpu.before) != wanted(gpu.after)


@given(operator_plans())
def test_every_changed_node_gets_exactly_its_layout(plan):
    moved = [gpu for gpu in plan.gpus if sorted(gpu.before) != sorted(gpu.after) and not differs(gpu)]
    if moved:  # the same instances in other places: mig-parted cannot choose places
        with pytest.raises(TargetError, match="cannot choose starts"):
            files(plan)
        return
    changed = {gpu.node for gpu in plan.gpus if differs(gpu)}
    made = files(plan)
    assert labels(made["labels.sh"]).keys() == changed
    if not changed:
        assert made.keys() == {"labels.sh", "mig-parted.yaml"}  # what nodes have, to compare them with
        assert "Nothing to change" in made["labels.sh"]
        return
    configs = read_mig_parted(made["mig-parted.yaml"])
    for node, config in labels(made["labels.sh"]).items():
        expected = {gpu.index: wanted(gpu.after) for gpu in plan.gpus if gpu.node == node}
        assert gpus_of(configs[config]) == expected


@given(single_plans())
def test_single_strategy_nodes_get_exactly_their_layout_too(plan):
    made = files(plan)
    for node, config in labels(made["labels.sh"]).items():
        expected = {gpu.index: wanted(gpu.after) for gpu in plan.gpus if gpu.node == node}
        assert gpus_of(read_mig_parted(made["mig-parted.yaml"])[config]) == expected


@given(operator_plans())
def test_the_config_map_holds_the_same_file_and_same_plan_gives_same_bytes(plan):
    try:
        made = files(plan)
    except TargetError:
        return
    assert files(plan) == made
    if "configmap.yaml" in made:
        config_map = YAML(typ="safe", pure=True).load(made["configmap.yaml"])
        assert (config_map["kind"], config_map["data"].keys()) == ("ConfigMap", {"config.yaml"})
        assert read_mig_parted(config_map["data"]["config.yaml"]) == read_mig_parted(made["mig-parted.yaml"])
        patch = YAML(typ="safe", pure=True).load(made["cluster-policy-patch.yaml"])
        assert patch["spec"]["migManager"]["config"]["name"] == config_map["metadata"]["name"]


def node(name: str, **more: Any) -> NodePlan:
    values = {"owner": "gpu-operator", "changed": True, "strategy": "mixed", **more}
    return NodePlan(name, **values)


A100 = "a100-sxm4-80gb"


def test_equal_nodes_share_a_config_and_its_name_depends_on_the_layout_only():
    one = gpu_plan("a", 0, A100, (), ("3g.40gb@4", "1g.10gb@0"))
    two = gpu_plan("b", 0, A100, ("off",), ("1g.10gb", "3g.40gb"))
    both = labels(files(plan_of([one, two], [node("a"), node("b")]))["labels.sh"])
    assert both["a"] == both["b"]
    assert labels(files(plan_of([one], [node("a")]))["labels.sh"])["a"] == both["a"]


def test_what_nodes_have_today_is_kept_under_its_name():
    """A custom file replaces the operator's whole file, and a restarted mig-manager applies its label again."""
    gpus = [
        gpu_plan("a", 0, A100, ("7g.80gb@0",), ("1g.10gb",) * 7),
        gpu_plan("b", 0, A100, ("2g.20gb@0",), ("2g.20gb@0",)),
        gpu_plan("c", 0, A100, ("off",), ("off",)),
        gpu_plan("d", 0, A100, (), ()),
    ]
    nodes = [
        node("a", mig_config="all-7g.80gb"),
        node("b", mig_config="mine"),
        node("c", mig_config="both"),
        node("d", mig_config="both"),
    ]
    made = files(plan_of(gpus, nodes))
    configs = read_mig_parted(made["mig-parted.yaml"])
    assert gpus_of(configs["all-7g.80gb"]) == {0: Counter({"7g.80gb": 1})}
    assert gpus_of(configs["mine"]) == {0: Counter({"2g.20gb": 1})}
    assert configs["all-disabled"] == [{"devices": "all", "mig-enabled": False}]
    assert "both" not in configs  # used with two layouts: it is named, not guessed
    assert "# both: nodes use it with layouts that differ or were not seen" in made["mig-parted.yaml"]


def test_a_label_that_has_the_new_value_already_is_tried_again():
    """An apply that failed, or said success without cutting: the name means what it is to be, not what is there."""
    gpu = gpu_plan("a", 0, A100, ("1g.10gb@0",), ("3g.40gb", "3g.40gb"))
    first = labels(files(plan_of([gpu], [node("a")]))["labels.sh"])["a"]
    made = files(plan_of([gpu], [node("a", mig_config=first)]))
    assert gpus_of(read_mig_parted(made["mig-parted.yaml"])[first]) == {0: Counter({"3g.40gb": 2})}
    assert "delete pod -l app=nvidia-mig-manager --field-selector spec.nodeName=a\n" in made["labels.sh"]


def test_layouts_that_were_not_wholly_seen_are_never_written_down_as_todays():
    """A mig-manager that restarts would apply them."""
    gpus = [
        gpu_plan("a", 0, A100, ("7g.80gb@0",), ("1g.10gb",) * 7),
        gpu_plan("b", 0, A100, ("2g.20gb@0",), ("2g.20gb@0",), is_layout_known=False),
        gpu_plan("c", 0, A100, ("2g.20gb@0",), ("2g.20gb@0",)),
        gpu_plan("d", 0, A100, (), (), is_layout_known=False),
    ]
    nodes = [node("a"), node("b", mig_config="team"), node("c", mig_config="team"), node("d", mig_config="dark")]
    made = files(plan_of(gpus, nodes))["mig-parted.yaml"]
    assert {"team", "dark"}.isdisjoint(read_mig_parted(made))
    assert "# team: nodes use it with layouts that differ or were not seen. Copy it" in made
    assert "# dark: nodes use it with layouts that differ or were not seen. Copy it" in made


def test_mode_changes_say_what_they_reset():
    a100 = files(plan_of([gpu_plan("a", 0, A100, ("off",), ("7g.80gb",))], [node("a")]))["labels.sh"]
    h100 = files(plan_of([gpu_plan("a", 0, "h100-nvl-94gb", ("off",), ("7g.94gb",))], [node("a")]))["labels.sh"]
    same = files(plan_of([gpu_plan("a", 0, A100, (), ("7g.80gb",))], [node("a")]))["labels.sh"]
    assert "every GPU of the node is reset" in a100
    assert "every GPU of the node is reset" in h100
    assert "reboot" in a100
    assert "reboot" not in h100
    assert "reset" not in same


@pytest.mark.parametrize(
    ("gpus", "nodes", "steps", "reason"),
    [
        (
            [gpu_plan("a", 0, A100, (), ("1g.10gb",))],
            [node("a", owner="aks")],
            (),
            "node a changes, but aks owns its GPUs",
        ),
        (
            [gpu_plan("a", 0, A100, (), ("1g.10gb",))],
            [node("a", owner="dra")],
            (),
            "node a changes, but dra owns its GPUs",
        ),
        (
            [gpu_plan("a", 0, A100, ("1g.10gb@0", "3g.40gb@4"), ("2g.20gb@0", "3g.40gb@4"), pinned=("3g.40gb@4",))],
            [node("a")],
            (),
            "GPU a/0 changes, but 3g.40gb@4 stays in use: mig-manager clears the whole GPU",
        ),
        ([gpu_plan("a", 0, A100, ("1g.10gb@0",), ("1g.10gb@1",))], [node("a")], (), "GPU a/0 only moves instances"),
        (
            [gpu_plan("a", 0, A100, (), ("1g.10gb",)), gpu_plan("a", 1, A100, (), ("2g.20gb",))],
            [node("a", strategy="single")],
            (),
            "node a has the single strategy",
        ),
        (
            [
                gpu_plan("a", 0, A100, ("off",), ()),
                gpu_plan("a", 1, A100, ("1g.10gb",), ("1g.10gb",), pinned=("1g.10gb",)),
            ],
            [node("a")],
            (),
            "node a turns MIG on or off, which resets all its GPUs, but GPU a/1 is in use",
        ),
        (
            [],
            [],
            (Step("s", "create-pool", None, pool=PoolStep("new", "Standard_NC24ads_A100_v4", 1)),),
            "makes node pool new",
        ),
    ],
)
def test_what_mig_manager_cannot_do_is_refused_by_name(gpus, nodes, steps, reason):
    with pytest.raises(TargetError, match=re.escape(reason)):
        files(plan_of(gpus, nodes, steps=steps))
