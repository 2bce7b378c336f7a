"""A plan as tables: numbers worked out by hand for one small fleet, unknowns never 0, the last line counts."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given

from made_plans import gpu_plan, operator_plans, plan_of
from mig_rules import raw_boards
from migsaw.cli.shared import load_catalogue
from migsaw.model.plan import Ideal, IdealRow, Level, NodePlan, Place, PodPlan, Savings, Step
from migsaw.model.reasons import Reason
from migsaw.report.money import percent, savings_line
from migsaw.report.plan import plan_tables, ranges
from migsaw.report.table import Table, to_csv

CATALOGUE = load_catalogue()
A100 = "a100-sxm4-80gb"


def fleet():
    """Seven GPUs of a node: cut anew (0), held (1–3), idle in use (4), whole (5 held, 6 free); one of unknown kind."""
    held = {"pinned": ("1g.10gb",) * 3, "stranded": (0, 1)}
    gpus = [
        gpu_plan("n", 0, A100, ("7g.80gb@0",), ("3g.40gb", "2g.20gb", "1g.10gb"), stranded=(0, 0)),
        *(gpu_plan("n", k, A100, ("1g.10gb",) * 7, ("1g.10gb",) * 7, **held) for k in (1, 2, 3)),
        gpu_plan(
            "n",
            4,
            A100,
            ("3g.40gb@0",),
            ("3g.40gb@0",),
            pinned=("3g.40gb@0",),
            idle_in_use=("3g.40gb@0",),
            stranded=(1, 0),
        ),
        gpu_plan("n", 5, A100, ("off",), ("off",), pinned=("off",)),
        gpu_plan("n", 6, A100, ("off",), ("off",)),
        gpu_plan("m", 0, "z900", ("1g.10gb",), ("1g.10gb",)),
    ]
    pods = (
        PodPlan(
            "ml",
            "waits",
            Reason.SERVED_AFTER_RECUT,
            "once it is cut",
            None,
            Place("n", "2g.20gb"),
            {"nvidia.com/mig-2g.20gb": 1},
        ),
        PodPlan("ml", "big", Reason.NO_ROOM, "every 7g is held", None, None, {"nvidia.com/mig-7g.80gb": 1}),
        PodPlan("ml", "runs", Reason.RUNNING, "", Place("n", "off"), Place("n", "off"), {"nvidia.com/gpu": 1}),
        PodPlan("ml", "many", Reason.RUNNING, "keeps what it holds", None, None, {"nvidia.com/mig-1g.10gb": 2}),
    )
    steps = (
        Step("cut-n", "recut", "n", (0,), (), (), 60.0),
        Step("check-n", "verify", "n", (0,), ("cut-n",), (), 30.0),
        Step("cut-m", "recut", "m", (0,), (), ("ml/runs",), None, False),
    )
    nodes = [NodePlan("n", "gpu-operator", True), NodePlan("m", "unknown", False)]
    return plan_of(gpus, nodes, pods=pods, steps=steps)


def table(plan, title: str) -> tuple[list[dict[str, str]], Table]:
    found = next(one for one in plan_tables(plan, CATALOGUE) if one.title.startswith(title))
    return list(csv.DictReader(io.StringIO(to_csv(found)))), found


def test_gpus_that_stand_alike_share_a_row():
    rows, shown = table(fleet(), "GPUs")
    assert [(row["node"], row["GPU"], row["before"], row["after"], row["reason"]) for row in rows] == [
        ("m", "0", "[1g.10gb]", "same", "AlreadyRight"),
        ("n", "0", "[7g]", "[2g|1g|·|3g]", "Recut"),
        ("n", "1-3", "[3×1g*|4×1g|x]", "same", "AlreadyRight"),
        ("n", "4", "[3g!|····]", "same", "AlreadyRight"),
        ("n", "5", "[off*]", "same", "AlreadyRight"),
        ("n", "6", "[off]", "same", "AlreadyRight"),
    ]
    assert shown.footer == ("* held by a pod   ! held, no activity seen   · free   x stranded: no profile fits",)


def test_pods_that_wait_or_are_disrupted_are_shown_those_not_served_first():
    rows, _ = table(fleet(), "Pods")
    assert [(row["pod"], row["asks"], row["gets"], row["reason"]) for row in rows] == [
        ("ml/big", "1 × mig-7g.80gb", "nothing", "NotEnoughRoom: every 7g is held"),
        ("ml/runs", "1 × gpu", "a whole GPU on n", "Running"),
        ("ml/waits", "1 × mig-2g.20gb", "2g.20gb on n", "ServedAfterRecut: once it is cut"),
    ]


def test_steps_show_time_disruption_and_what_cannot_be_undone():
    rows, shown = table(fleet(), "Steps")
    assert [
        (r["step"], r["what"], r["where"], r["GPU"], r["seconds"], r["disrupts"], r["can be undone"], r["after step"])
        for r in rows
    ] == [
        ("1", "recut", "n", "0", "60", "nobody", "yes", "-"),
        ("2", "verify", "n", "0", "30", "nobody", "yes", "1"),
        ("3", "recut", "m", "0", "n/a (no estimate)", "ml/runs", "no", "-"),
    ]
    assert shown.footer == ("Estimated: 90 s side by side, 90 s one by one, and 1 steps without an estimate.",)


def test_capacity_keeps_idle_in_use_free_and_stranded_apart():
    """In compute slices, by hand. 7 GPUs × 7 = 49. In use: 3 × 3 on GPUs 1–3, and GPU 5 whole: 9 + 7. Idle in use: the
    3g. Promised: the 2g of a pod that waits. Stranded: beside a 3g at 0 one compute slice is lost. Free: the rest."""
    rows, _ = table(fleet(), "Capacity")
    assert [list(row.values()) for row in rows] == [
        [A100, "7", "49", "16", "3", "2", "27", "1"],
        ["z900", "1", "n/a (no geometry)", "n/a", "n/a", "n/a", "n/a", "n/a"],
    ]


def test_what_was_not_computed_is_not_0():
    rows, _ = table(plan_of([gpu_plan("n", 0, A100, (), ())], []), "Capacity")
    assert (rows[0]["free"], rows[0]["stranded"]) == ("n/a (not computed)", "n/a")
    closing = plan_tables(plan_of([], []), CATALOGUE)[-1].footer
    assert "Objective: n/a (not computed)" in closing
    assert "Saves per hour: n/a (not computed)" in closing


def test_the_last_line_counts():
    assert plan_tables(fleet(), CATALOGUE)[-1].footer[-1] == (
        "8 GPUs on 2 nodes: 1 change, 7 stay. 2 pods waiting: 1 served, 1 not. 1 running pod disrupted. 3 steps."
    )
    assert plan_tables(plan_of([], []), CATALOGUE)[-1].footer[-1] == (
        "0 GPUs on 0 nodes: 0 change, 0 stay. 0 pods waiting: 0 served, 0 not. 0 running pods disrupted. 0 steps."
    )


def test_bound_gap_levels_ideal_and_savings_are_said():
    ideal = Ideal(
        gpus_now=9,
        gpus=5,
        objective=17.0,
        lower_bound=17.0,
        gap=0.0,
        unit="USD per hour",
        gpus_with_waiting=6,
        rows=(IdealRow(A100, ("3g.40gb@4", "4g.40gb@0"), 5),),
        savings=Savings(4.0, 13.6, "prices of 2026-11-09"),
        text="whole nodes of 8",
    )
    plan = plan_of(
        [gpu_plan("n", 0, A100, (), (), stranded=(0, 0))],
        [],
        objective=8.0,
        lower_bound=7.0,
        gap=0.125,
        levels=(Level("waiting pods", 1, 1, 0.0),),
        ideal=ideal,
        savings=Savings(1.5, None, "no price for Standard_X"),
        notes=("a note",),
    )
    rows, shown = table(plan, "If everything could restart")
    assert [list(row.values()) for row in rows] == [[A100, "[4g|3g]", "5"]]
    assert shown.footer == (
        "5 GPUs would do the work that holds 9 GPUs now. 17 USD per hour: proven, nothing needs less.",
        "With every pod that waits and could be served here: 6 GPUs.",
        "Saves per hour: 4 GPU-hours, 13.60 USD (prices of 2026-11-09)",
        "whole nodes of 8",
        "",
        "Idle in use: none seen",
        "In use after the plan: 8 GPUs: certified bound 7, gap 12.5 %.",
        "waiting pods: 1; bound 1, gap 0 %",
        "Saves per hour: 1.5 GPU-hours, n/a in money (no price for Standard_X)",
        "a note",
        "1 GPU on 1 node: 0 change, 1 stay. 0 pods waiting: 0 served, 0 not. 0 running pods disrupted. 0 steps.",
    )


@pytest.mark.parametrize(
    ("fraction", "shown"), [(0.0, "0 %"), (0.00001, "< 0.01 %"), (0.0001, "0.01 %"), (0.125, "12.5 %"), (1.0, "100 %")]
)
def test_only_a_gap_of_0_is_shown_as_0(fraction, shown):
    assert percent(fraction) == shown


def test_savings_that_are_not_known_say_why():
    assert savings_line(Savings(None, None, "no prices given")) == "Saves per hour: n/a (no prices given)"


@pytest.mark.parametrize(("numbers", "shown"), [([], ""), ([3], "3"), ([0, 1, 2, 5], "0-2,5"), ([0, 2, 4], "0,2,4")])
def test_ranges(numbers, shown):
    assert ranges(numbers) == shown


@given(operator_plans())
def test_every_gpu_is_in_one_row_and_every_slice_in_one_column(plan):
    rows, _ = table(plan, "GPUs")
    seen = [(row["node"], int(k)) for row in rows for k in _numbers(row["GPU"])]
    assert sorted(seen) == sorted((gpu.node, gpu.index) for gpu in plan.gpus)
    capacity, _ = table(plan, "Capacity")
    for row in capacity:
        mine = [gpu for gpu in plan.gpus if gpu.board == row["board"]]
        assert int(row["slices"]) == len(mine) * raw_boards()[row["board"]]["compute_slices"]


def _numbers(text: str) -> list[int]:
    return [k for part in text.split(",") for k in range(int(part.split("-")[0]), int(part.split("-")[-1]) + 1)]
