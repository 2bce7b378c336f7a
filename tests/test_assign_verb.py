"""``migsaw assign`` as people call it: a store in, fits out that a plan takes, faults named with where and hint."""

from __future__ import annotations

import csv
import io
import json

import pytest

from cluster_files import listing, mixed, pod
from measured import BOARD, stored, trial

JOB = [{"apiVersion": "batch/v1", "kind": "Job", "name": "m", "controller": True, "uid": "1"}]
RATES = {"2g.10gb": 100.0, "3g.20gb": 130.0, "7g.40gb": 190.0}


@pytest.fixture
def store(tmp_path):
    trials = [trial("1g.5gb")] + [trial(p, r, startup_seconds=20.0, memory_peak_mib=6000) for p, r in RATES.items()]
    return stored(tmp_path / "store.db", trials)


def test_the_fits_go_through_a_plan(migsaw, tmp_path, store):
    """A free GPU cut as one 7g, a job that waits for a whole GPU: with its fit the plan cuts the chosen slot."""
    (tmp_path / "nodes.json").write_text(listing([mixed("n1", {"7g.40gb": 1})]))
    waiting = pod("ml/m-0", {"nvidia.com/gpu": 1}, phase="Pending", ownerReferences=JOB)
    system = pod("kube-system/kube-proxy-x", node="n1")  # so the pods are those of the whole cluster
    (tmp_path / "pods.json").write_text(listing([system, waiting]))
    observed = migsaw("observe", "--nodes", "nodes.json", "--pods", "pods.json", "-o", "snapshot.json", cwd=tmp_path)
    assert observed.returncode == 0, observed.stderr
    done = migsaw("assign", "--store", store, "-o", "fits.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (fit,) = json.loads((tmp_path / "fits.json").read_text())["fits"]
    assert fit["chosen"] == {"board": BOARD, "profile": "2g.10gb"}  # 2/7 ÷ 100 < 1/2 ÷ 130 < 1 ÷ 190
    planned = migsaw("plan", "snapshot.json", "--fits", "fits.json", "-o", "plan.json", cwd=tmp_path)
    assert planned.returncode == 0, planned.stderr
    plan = json.loads((tmp_path / "plan.json").read_text())
    (row,) = plan["pods"]
    assert row["after"] == {"node": "n1", "profile": "2g.10gb"}
    assert "2g.10gb" in [item.partition("@")[0] for item in plan["gpus"][0]["after"]]


def test_the_fits_are_in_the_store_too(migsaw, tmp_path, store):
    done = migsaw("assign", "--store", store, "-o", "json", "--throughput", "120")
    rows = [json.loads(line) for line in migsaw("store", "export", "--store", store).stdout.splitlines()]
    (kept,) = [row for row in rows if row["kind"] == "fits"]
    assert kept["subject"] == trial("7g.40gb").fingerprint
    assert kept["document"] == json.loads(done.stdout)
    assert kept["document"]["fits"][0]["chosen"]["profile"] == "3g.20gb"


def test_the_table_names_the_source_of_each_number(migsaw, store):
    done = migsaw("assign", "--store", store)
    rows = {cells[0 if cells[0] != "*" else 1]: line for line in done.stdout.splitlines() if (cells := line.split())}
    assert rows["2g.10gb"].startswith("*")
    assert "measured" in rows["2g.10gb"]
    assert "predicted (90 %)" in rows["4g.20gb"]
    assert "out of memory" in rows["1g.5gb"]
    assert "Slot: 2g.10gb on a100-sxm4-40gb: least cost per finished unit of 5 slots that serve." in done.stdout


def test_csv_has_raw_numbers(migsaw, store):
    done = migsaw("assign", "--store", store, "--units-per-run", "1000", "-o", "csv")
    rows = {row["profile"]: row for row in csv.DictReader(io.StringIO(done.stdout))}
    assert float(rows["2g.10gb"]["seconds"]) == pytest.approx(30.0)
    assert float(rows["2g.10gb"]["gpu_seconds"]) == pytest.approx(60 / 7)
    assert rows["2g.10gb"]["chosen"] == "True"
    assert rows["1g.5gb"]["throughput_per_second"] == rows["1g.5gb"]["seconds"] == ""


def test_a_file_says_what_each_workload_must_reach(migsaw, tmp_path, store):
    (tmp_path / "slos.yaml").write_text(
        "schema: migsaw/slos/v1\nobjectives:\n- workload: {name: m}\n  units_per_run: 1900\n  deadline_seconds: 31\n"
    )
    done = migsaw("assign", "--store", store, "--slos", tmp_path / "slos.yaml", "-o", "json")
    (fit,) = json.loads(done.stdout)["fits"]
    assert fit["chosen"]["profile"] == "7g.40gb"  # 20 + 1900/190 = 30 s; 3g takes 20 + 1900/130 = 34.6 s
    assert fit["because"] == "the only slot that is known to serve (limits: 31 s a run)"
    reasons = {o["profile"]: (o["fits"], o["reason"]) for o in fit["options"]}
    assert reasons["2g.10gb"] == (False, "takes 39 s, the deadline is 31 s")


def test_where_nothing_serves_it_fails_and_says_why(migsaw, store):
    done = migsaw("assign", "--store", store, "--throughput", "1e6", "-o", "json")
    assert done.returncode == 1
    assert "no workload got a slot" in done.stderr
    (fit,) = json.loads(done.stdout)["fits"]
    assert fit["chosen"] is None
    assert not any(o["fits"] for o in fit["options"])


FILES = {
    "no schema": ("objectives: []\n", "line 1: schema: there is no schema"),
    "unknown field": ("schema: migsaw/slos/v1\nobjectives:\n- {deadline: 3}\n", "line 3"),
    "not positive": (
        "schema: migsaw/slos/v1\nobjectives:\n- units_per_run: 9\n  deadline_seconds: -1\n",
        "line 4: deadline_seconds: -1.0 is not a positive number",
    ),
    "no run": (
        "schema: migsaw/slos/v1\nobjectives:\n- deadline_seconds: 9\n",
        "line 3: deadline_seconds: what a run is, is not said",
    ),
    "misspelt": (
        "schema: migsaw/slos/v1\nobjectives:\n- workload: {name: n}\n",
        "line 3: workload: no measured workload has name: n",
    ),
    "two names": (
        "schema: migsaw/slos/v1\nobjectives:\n- workload_in_cluster: {name: a, azureml: {experiment: b}}\n",
        "line 3: workload_in_cluster: a workload is named in exactly one way",
    ),
}


@pytest.mark.parametrize("case", FILES)
def test_a_wrong_file_is_named_with_line_and_field(migsaw, tmp_path, store, case):
    text, said = FILES[case]
    (tmp_path / "slos.yaml").write_text(text)
    done = migsaw("assign", "--store", store, "--slos", tmp_path / "slos.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--deadline", "3h"], "--deadline: what a run is, is not said; give --units-per-run"),
        (["--units-per-run", "-3"], "--units-per-run: -3.0 is not a positive number"),
        (["--throughput", "nan"], "--throughput: nan is not a positive number"),
        (["--workload", "bert"], "'bert' is not FACT=VALUE"),
        (["--workload", "name=bert"], "no measured workload has name=bert"),
        (["--azure-size", "Standard_X"], "unknown VM size Standard_X"),
        (["--slos", "x.yaml", "--throughput", "3"], "give it without the options for that"),
        (["--store", "none.db"], "there is no store"),
    ],
)
@pytest.mark.parametrize("verb", ["assign", "cost"])
def test_a_wrong_option_is_exit_2(migsaw, tmp_path, store, verb, words, said):
    done = migsaw(verb, "--store", store, *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize("device", ["cpu", "simulated"])
def test_a_store_of_rehearsals_gives_no_slot(migsaw, tmp_path, device):
    path = stored(tmp_path / "s.db", [trial("7g.40gb", 5.0, device=device)])
    done = migsaw("assign", "--store", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"device: {device}" in done.stderr


def test_an_empty_store_is_said(migsaw, tmp_path):
    done = migsaw("assign", "--store", stored(tmp_path / "s.db", []))
    assert done.returncode == 2
    assert "no measurement is there" in done.stderr


def shown(migsaw, store, *words):
    done = migsaw("assign", "--store", store, "-o", "json", *words)
    assert done.returncode == 0, done.stderr
    (fit,) = json.loads(done.stdout)["fits"]
    return {(o["board"], o["profile"]): o for o in fit["options"]}


def test_a_sibling_board_is_predicted_and_says_so(migsaw, store):
    """The same SMs, 1.31 times the bandwidth (2039 to 1555 GB/s): between as fast and 1.31 times as fast."""
    found = shown(migsaw, store, "--sibling", "a100-sxm4-80gb")
    for there, here in (("2g.20gb", "2g.10gb"), ("3g.40gb", "3g.20gb"), ("7g.80gb", "7g.40gb")):
        option, rate = found["a100-sxm4-80gb", there], RATES[here]
        figure = option["throughput_per_second"]
        assert figure["source"] == "predicted"
        assert 0.99 * rate <= figure["value"] <= 2039 / 1555 * rate * 1.01
        assert figure["low"] < 0.95 * figure["value"] < 1.05 * figure["value"] < figure["high"]
        assert "predicted from a100-sxm4-40gb, unchecked" in option["reason"]
    ours = found[BOARD, "2g.10gb"]["throughput_per_second"]
    assert (ours["value"], ours["source"]) == (100.0, "measured")


def test_a_sibling_holds_by_its_own_memory(migsaw, store):
    """1g.5gb ran out of memory on the measured board; 1g.10gb of the larger one has as much as the 2g that ran."""
    found = shown(migsaw, store, "--sibling", "a100-pcie-80gb")
    assert not found[BOARD, "1g.5gb"]["fits"]
    assert found["a100-pcie-80gb", "1g.10gb"]["memory_mib"]["limit"] == 9728


@pytest.mark.parametrize(
    ("board", "said"),
    [
        ("h100-sxm5-80gb", "h100-sxm5-80gb is Hopper, a100-sxm4-40gb is Ampere"),
        ("a100-sxm-64gb", "SMs or memory bandwidth of a100-sxm-64gb are not known"),
        ("z900", "unknown board z900"),
    ],
)
def test_a_board_that_nothing_is_known_of_is_refused(migsaw, store, board, said):
    done = migsaw("assign", "--store", store, "--sibling", board)
    assert done.returncode == 2
    assert said in done.stderr
