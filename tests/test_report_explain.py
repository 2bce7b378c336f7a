"""``migsaw explain``: the reason of every GPU and pod, by every name, and near names where there is none such."""

from __future__ import annotations

import csv
import io
import json

import pytest

from made_plans import gpu_plan, plan_of
from migsaw.cli.shared import load_catalogue
from migsaw.model.money import PriceTable
from migsaw.model.plan import NodePlan
from migsaw.observe.documents import to_json
from migsaw.observe.prices import load_prices
from migsaw.report.explain import explain_gpu
from test_report_plan import fleet


@pytest.fixture
def explain(migsaw, tmp_path):
    (tmp_path / "plan.json").write_text(to_json(fleet()))
    return lambda *words: migsaw("explain", "plan.json", *words, cwd=tmp_path)


def fields(done) -> dict[str, str]:
    assert done.returncode == 0, done.stderr
    return {row[0]: row[1] for row in csv.reader(io.StringIO(done.stdout))}


def test_without_an_option_everything_has_a_reason(explain):
    done = explain()
    lines = done.stdout.splitlines()
    assert sum(line.startswith("GPU ") for line in lines) == 8
    assert sum(line.startswith("pod ") for line in lines) == 4
    assert lines[-1] == "8 GPUs, 4 pods."
    assert json.loads(explain("-o", "json").stdout)["gpus"][0]["reason"] == "Recut"


def test_a_gpu_is_explained(explain):
    shown = fields(explain("--gpu", "n/0", "-o", "csv"))
    assert shown["board"] == "a100-sxm4-80gb (captured)"
    assert shown["before"] == "[7g]  7g.80gb@0"
    assert shown["after"] == "[2g|1g|·|3g]  3g.40gb 2g.20gb 1g.10gb"
    assert shown["reason"] == "Recut"
    assert shown["steps"] == "recut GPU 0, then verify GPU 0"
    assert shown["costs after"] == "n/a (the VM size is not known)"
    held = fields(explain("--gpu", "n/4", "-o", "csv"))
    assert held["after"] == "same"
    assert held["idle in use"] == "3g.40gb@0"
    assert held["stranded after"] == "1 compute and 0 memory slices that no profile can use"


def test_a_pod_is_explained(explain):
    shown = fields(explain("--pod", "ml/big", "-o", "csv"))
    assert shown["gets"] == "nothing from this plan"
    assert shown["reason"] == "NotEnoughRoom: every 7g is held"
    data = json.loads(explain("--pod", "ml/waits", "-o", "json").stdout)
    assert data["pod"]["after"] == {"node": "n", "profile": "2g.20gb"}
    assert [step["id"] for step in data["steps"]] == ["cut-n", "check-n"]
    assert fields(explain("--pod", "ml/runs", "-o", "csv"))["disrupted"] == "yes"


@pytest.mark.parametrize("name", ["1g.10gb", "nvidia.com/mig-1g.10gb", "MIG 1g.10gb"])
def test_a_profile_is_explained_in_every_notation(explain, name):
    done = explain("--profile", name)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "22 before, 23 after, 9 in use."
    rows = json.loads(explain("--profile", name, "-o", "json").stdout)["gpus"]
    assert [(row["node"], row["index"]) for row in rows] == [("n", 0), ("n", 1), ("n", 2), ("n", 3), ("m", 0)]


def test_the_pods_that_ask_for_a_profile_stand_below(explain):
    assert "pod ml/big asks 1 × mig-7g.80gb, not served" in explain("--profile", "7g.79gb").stdout


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (["--gpu", "n/9"], "n/"),
        (["--gpu", "n"], "n/0"),
        (["--pod", "ml/wait"], "ml/waits"),
        (["--pod", "waits"], "ml/waits"),
        (["--profile", "1g.12gb"], "1g.10gb"),
        (["--profile", "large"], "1g.10gb"),
    ],
)
def test_what_is_not_there_is_exit_2_with_near_names(explain, words, near):
    done = explain(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"the plan has no {words[0][2:].replace('gpu', 'GPU')} {words[1]}" in done.stderr
    assert near in done.stderr.splitlines()[-1]


def test_two_questions_at_once_are_a_usage_error(explain):
    assert explain("--gpu", "n/0", "--pod", "ml/big").returncode == 2


def test_the_cost_of_a_slice_is_its_share_of_the_price_with_what_it_strands():
    """Standard_NC24ads_A100_v4, 3.673 USD and one GPU. A 3g at 0 takes four of eight memory slices and strands one of
    seven compute slices beside its three: the larger share is 4/7. At 4 it strands nothing: 4/8."""
    catalogue, prices = load_catalogue(), load_prices()
    assert prices.usd_per_gpu_hour("Standard_NC24ads_A100_v4", catalogue.azure_sizes) == 3.673
    for start, cost in ((0, 3.673 * 4 / 7), (4, 3.673 * 4 / 8)):
        gpu = gpu_plan("n", 0, "a100-pcie-80gb", (), (f"3g.40gb@{start}",))
        plan = plan_of([gpu], [NodePlan("n", "gpu-operator", True, azure_size="Standard_NC24ads_A100_v4")])
        rows = dict(explain_gpu(plan, "n/0", catalogue, prices).table.rows)
        assert rows["costs after"].startswith(f"3g.40gb {cost:.2f} USD; 3.67 USD per GPU-hour (")
        unknown = dict(explain_gpu(plan, "n/0", catalogue, PriceTable()).table.rows)
        assert unknown["costs after"] == "n/a (no price for Standard_NC24ads_A100_v4)"
