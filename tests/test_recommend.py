"""Current → recommended: what changes, what does not, what it costs, on clusters small enough to work out by hand."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest

from migsaw.cli.shared import load_catalogue, load_facets
from migsaw.model.fits import Choice, Fit, Fits, MemoryNeed, Option, Verdict, WorkloadRef
from migsaw.model.money import Price, PriceTable
from migsaw.model.policy import Policy
from migsaw.model.recommendation import Recommendation, WorkloadRow
from migsaw.model.refs import PodRef
from migsaw.model.snapshot import Gpu, Instance, Node, Pod, Snapshot, Workload
from migsaw.plan.recommend import recommend
from migsaw.report.recommend import raw_table, recommend_tables
from migsaw.report.table import to_csv

CATALOGUE, FACETS = load_catalogue(), load_facets()
A100, SIZE = "a100-pcie-80gb", "Standard_NC24ads_A100_v4"
PRICES = PriceTable((Price(SIZE, 3.5, "2026-11-01"),), "a test", "nowhere", "Linux")
MONTH = 730 * 3.5  # USD for one such GPU


def node(number: int, *held: tuple[str, str | None], mig: str = "on") -> Node:
    """One A100: (profile, pod that holds it or None)."""
    owners = [(profile, PodRef("ml", pod) if pod else None) for profile, pod in held]
    instances = tuple(
        Instance(profile, k, None, owner, None if owner else "free", "busy" if owner else "idle")
        for k, (profile, owner) in enumerate(owners)
    )
    gpu = Gpu(0, f"GPU-{number}", A100, None, "on", instances=instances)
    if mig == "off":
        gpu = replace(gpu, mig="off", instances=(), owner=owners[0][1], state="busy")
    return Node(f"n{number}", SIZE, None, "gpu-operator", None, "mixed", "gpu", gpus=(gpu,))


def pod(name: str, node: int, asks: str = "mig-3g.40gb", count: int = 1) -> Pod:
    return Pod(
        "ml", name, f"n{node}", "Running", {f"nvidia.com/{asks}": count}, Workload("ml", "Deployment", name[:-2])
    )


def fit(name: str, verdict: Verdict, chosen: str | None, *fitting: str, because: str = "because") -> Fit:
    options = tuple(
        Option(A100, p, p in fitting, MemoryNeed(8000, 1200, 10000))
        for p in ("1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")
    )
    choice = Choice(A100, chosen) if chosen else None
    ref = WorkloadRef("ml", "Deployment", name)
    return Fit(
        ref, "predicted", options, choice, verdict, "500 samples", because, next_step="do this first", points=500
    )


def found(nodes: list[Node], pods: list[Pod], *fits: Fit, prices: PriceTable = PRICES) -> Recommendation:
    snapshot = Snapshot(tuple(nodes), tuple(pods))
    return recommend(snapshot, Fits(fits), Policy(), CATALOGUE, FACETS, prices, 0.1)


def row(recommendation: Recommendation, name: str) -> WorkloadRow:
    (mine,) = (r for r in recommendation.rows if r.name == name)
    return mine


def test_slots_that_are_too_big_become_smaller_and_pay_for_their_share():
    """Two halves of a GPU become 2g slices of one that a third could share: 2/7 of it each, not a half."""
    result = found(
        [node(0, ("3g.40gb", "a-0"), ("3g.40gb", "b-0"))],
        [pod("a-0", 0), pod("b-0", 0)],
        *(fit(n, "too_big", "2g.20gb", "2g.20gb", "3g.40gb", "7g.80gb") for n in "ab"),
    )
    assert [(r.name, r.current, r.change, r.recommended) for r in result.rows] == [
        ("a", "3g.40gb", "shrink", "2g.20gb"),
        ("b", "3g.40gb", "shrink", "2g.20gb"),
    ]
    assert result.rows[0].cost.usd_per_month_now == pytest.approx(MONTH / 2)
    assert result.rows[0].cost.usd_per_month_then == pytest.approx(MONTH * 2 / 7)
    assert (result.waste.slices, result.waste.used, result.waste.idle_in_use, result.waste.stranded) == (7, 4, 2, 1)


def test_whole_gpus_become_slices_of_one():
    names = ("a-0", "b-0", "c-0")
    result = found(
        [node(n, ("off", name), mig="off") for n, name in enumerate(names)],
        [pod(name, n, "gpu") for n, name in enumerate(names)],
        *(fit(name[0], "too_big", "2g.20gb", "2g.20gb", "3g.40gb", "7g.80gb") for name in names),
    )
    assert {(r.current, r.recommended) for r in result.rows} == {("off", "2g.20gb")}
    together = result.together
    assert together is not None
    assert (together.gpus_now, together.gpus, together.lower_bound, together.gap) == (3, 1, 3.5, 0)
    assert together.usd_per_month_now == pytest.approx(3 * MONTH)
    assert together.usd_per_month == pytest.approx(MONTH)


def test_a_pod_with_several_gpus_keeps_them_whatever_its_fit_says():
    both = replace(node(0, ("off", "ddp-0"), mig="off"), gpus=(
        Gpu(0, "GPU-0", A100, None, "off", PodRef("ml", "ddp-0"), None, "busy"),
        Gpu(1, "GPU-1", A100, None, "off", PodRef("ml", "ddp-0"), None, "busy"),
    ))  # fmt: skip
    result = found([both], [pod("ddp-0", 0, "gpu", 2)], fit("ddp", "too_big", "2g.20gb", "2g.20gb"))
    mine = row(result, "ddp")
    assert (mine.gpus_each, mine.recommended, mine.change) == (2, "off", "stay")
    assert "peer-to-peer" in mine.reason


@pytest.mark.parametrize("verdict", ["starved_input", "starved_cpu", "right"])
def test_what_is_starved_or_right_keeps_its_slot_though_a_smaller_one_would_hold_it(verdict):
    nodes, pods = [node(0, ("3g.40gb", "a-0"))], [pod("a-0", 0)]
    result = found(nodes, pods, fit("a", verdict, "1g.10gb", "1g.10gb", "3g.40gb"))
    assert (row(result, "a").change, row(result, "a").recommended) == ("stay", "3g.40gb")
    assert result.waste.idle_in_use == 0


def test_what_is_idle_should_be_released_and_what_is_unknown_is_not_judged():
    result = found(
        [node(0, ("3g.40gb", "a-0"), ("3g.40gb", "b-0"))],
        [pod("a-0", 0), pod("b-0", 0)],
        fit("a", "idle", "3g.40gb", "3g.40gb"),
        fit("b", "unknown", None, because="7 samples of the 100 that are required"),
    )
    assert (row(result, "a").change, row(result, "a").recommended) == ("release", None)
    assert row(result, "a").cost.usd_per_month_then == 0
    assert (row(result, "b").change, row(result, "b").recommended) == ("unknown", None)
    assert (result.waste.idle_in_use, result.waste.used) == (3, 3)
    text = " ".join(cell for table in recommend_tables(result, CATALOGUE) for line in table.rows for cell in line)
    assert "3g.40gb → n/a (see why)" in text
    assert "7 samples of the 100" in text


def test_a_slot_that_is_too_small_grows():
    nodes, pods = [node(0, ("1g.10gb", "a-0"))], [pod("a-0", 0, "mig-1g.10gb")]
    result = found(nodes, pods, fit("a", "too_small", "3g.40gb", "3g.40gb", "7g.80gb"))
    assert (row(result, "a").change, row(result, "a").recommended) == ("grow", "3g.40gb")


def test_a_larger_slot_is_taken_where_all_then_need_fewer_gpus():
    """Best alone are two 4g, which need a GPU each; 3g is acceptable too, and stands beside a 4g."""
    result = found(
        [node(0, ("7g.80gb", "a-0")), node(1, ("7g.80gb", "b-0"))],
        [pod("a-0", 0, "mig-7g.80gb"), pod("b-0", 1, "mig-7g.80gb")],
        *(fit(n, "too_big", "4g.40gb", "3g.40gb", "4g.40gb", "7g.80gb") for n in "ab"),
    )
    assert result.together is not None
    assert (result.together.gpus_alone, result.together.gpus) == (2, 1)
    assert {r.alone for r in result.rows} == {"4g.40gb"}
    assert sorted(r.recommended or "" for r in result.rows) == ["3g.40gb", "4g.40gb"]


def test_without_a_price_money_is_not_known_and_slots_still_are():
    result = found(
        [node(0, ("3g.40gb", "a-0"))], [pod("a-0", 0)], fit("a", "too_big", "1g.10gb", "1g.10gb"), prices=PriceTable()
    )
    cost = row(result, "a").cost
    assert (cost.usd_per_month_now, cost.usd_per_month_then) == (None, None)
    assert SIZE in cost.source
    assert result.waste.usd_per_month is None
    assert result.together is not None
    assert (result.together.unit, result.together.usd_per_month) == ("GPUs", None)
    text = "\n".join(line for table in recommend_tables(result, CATALOGUE) for line in table.footer)
    assert f"n/a (no price for {SIZE})" in text


def test_csv_has_one_number_per_cell_and_nothing_for_unknown():
    result = found([node(0, ("3g.40gb", "a-0"))], [pod("a-0", 0)], fit("a", "too_big", "1g.10gb", "1g.10gb"))
    (line,) = csv.DictReader(io.StringIO(to_csv(raw_table(result))))
    assert (line["current"], line["recommended"]) == ("3g.40gb", "1g.10gb")
    assert (line["points"], line["memory_peak_mib"]) == ("500", "8000")
    assert float(line["usd_per_month_now"]) == pytest.approx(MONTH * 3 / 7, rel=0.2)
    unpriced = found([node(0, ("3g.40gb", "a-0"))], [pod("a-0", 0)], prices=PriceTable())
    (line,) = csv.DictReader(io.StringIO(to_csv(raw_table(unpriced))))
    assert (line["usd_per_month_now"], line["points"], line["recommended"]) == ("", "", "")


def test_an_empty_cluster_is_no_error(migsaw, tmp_path):
    (tmp_path / "s.json").write_text(json.dumps({"schema": "migsaw/snapshot/v1"}))
    done = migsaw("recommend", "--snapshot", tmp_path / "s.json")
    assert done.returncode == 0, done.stderr
    assert "n/a (nothing is held)" in done.stdout


def test_a_snapshot_and_its_sources_do_not_go_together(migsaw, tmp_path):
    done = migsaw("recommend", "--snapshot", tmp_path / "s.json", "--nodes", tmp_path / "n.json")
    assert done.returncode == 2
    assert "--snapshot" in done.stderr


def test_a_running_workload_whose_instance_nobody_knows_is_named() -> None:
    known, lost = pod("bert-0", 0), pod("llama-0", 0)
    result = found([node(0, ("3g.40gb", "bert-0"), ("3g.40gb", None))], [known, lost], fit("bert", "right", None))
    assert [row.name for row in result.rows] == ["bert"]
    assert result.notes[0] == "running, and without a row since nobody says what they hold: ml/Deployment/llama"
