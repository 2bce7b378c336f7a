"""``migsaw estimate --fits``: an estimate becomes a row of a fits file that a plan uses, and spoils no other row."""

from __future__ import annotations

import json

import pytest

from cluster_files import SYSTEM_POD, listing, mixed, pod

A100 = "NVIDIA A100-SXM4-80GB"
SIZES = """\
schema: migsaw/estimate/v1
sizes:
  {name: mine, kind: decoder, hidden: 4096, layers: 32, heads: 32, kv_heads: 8, head_dim: 128, intermediate: 14336,
   vocab: 128256}
setup: {task: inference, precision: bf16, seq: 8192, batch: 4}
"""
MEMORY = {"1g.10gb": 9728, "1g.20gb": 19968, "2g.20gb": 19968, "3g.40gb": 40192, "4g.40gb": 40192, "7g.80gb": 80896}
CHAT = "ml/Deployment/chat"


@pytest.fixture
def sizes(tmp_path):
    (tmp_path / "sizes.yaml").write_text(SIZES)
    return tmp_path


def estimate(migsaw, folder, *more, fits="fits.json", workload=CHAT):
    return migsaw("estimate", "sizes.yaml", "--fits", fits, "--workload", workload, *more, cwd=folder)


def rows(folder, name="fits.json"):
    return json.loads((folder / name).read_text())["fits"]


def owned(key):
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "chat", "controller": True}
    return pod(key, {"nvidia.com/gpu": 1}, None, "Pending", ownerReferences=[owner])


def planned(migsaw, folder, *pods):
    (folder / "nodes.json").write_text(listing([mixed("n1", {"1g.10gb": 7}, product=A100)]))
    (folder / "pods.json").write_text(listing([*pods, SYSTEM_POD]))
    assert migsaw("observe", "--nodes", "nodes.json", "--pods", "pods.json", "-o", "s.json", cwd=folder).returncode == 0
    done = migsaw("plan", "s.json", "--fits", "fits.json", "-o", "plan.json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "plan.json").read_text())


def test_the_upper_end_of_the_range_decides(migsaw, sizes):
    """Against the profiles' memory as nvidia-smi prints it, and the table of the estimate itself."""
    done = estimate(migsaw, sizes, "--board", "a100-sxm4-80gb")
    assert done.returncode == 0, done.stderr
    (row,) = rows(sizes)
    assert (row["source"], row["chosen"]) == ("estimated", None)
    assert row["workload"]["name"] == "chat"
    plain = migsaw("estimate", "sizes.yaml", "--board", "a100-sxm4-80gb", "-o", "json", cwd=sizes)
    needs = {p["profile"]: p["need_mib"] for b in json.loads(plain.stdout)["boards"] for p in b["profiles"]}
    may = 0
    for option in row["options"]:
        low, high = needs[option["profile"]]["low"], needs[option["profile"]]["high"]
        limit = option["memory_mib"]["limit"]
        assert abs(limit - MEMORY[option["profile"]]) <= 1024
        assert option["memory_mib"]["peak"] == high
        assert option["fits"] == (high <= limit)
        if low <= limit < high:
            may += 1
            assert "may hold it" in option["reason"]
    assert any(option["fits"] for option in row["options"])
    assert not all(option["fits"] for option in row["options"])


def test_training_is_not_given_a_1g_with_the_memory_of_a_2g(migsaw, sizes):
    more = ("--task", "qlora", "--seq", "512", "--checkpointing", "--board", "a100-sxm4-80gb", "--precision", "nf4")
    done = estimate(migsaw, sizes, *more)
    assert done.returncode == 0, done.stderr
    options = {option["profile"]: option for option in rows(sizes)[0]["options"]}
    assert options["2g.20gb"]["fits"]
    assert not options["1g.20gb"]["fits"]
    assert "half the SMs" in options["1g.20gb"]["reason"]


def test_other_rows_stay_as_they_are_and_an_older_estimate_is_replaced(migsaw, sizes):
    other = {"workload": {"selector": {"labels": {"app": "x"}}}, "source": "declared", "verdict": "idle"}
    by_class = {"workload": {"namespace": "ml", "kind": "Deployment", "name": "chat"}, "source": "estimated"}
    by_class["workload_class"] = "notebook"
    last = {"workload": {"azureml": {"experiment": "e"}}, "source": "measured", "confidence": "four trials"}
    document = {"schema": "migsaw/fits/v1", "fits": [other, by_class, last]}
    (sizes / "fits.json").write_text(json.dumps(document))
    for seq in ("8192", "2048", "2048"):
        assert estimate(migsaw, sizes, "--seq", seq).returncode == 0
        got = rows(sizes)
        assert len(got) == 3
        for before, after in ((other, got[0]), (last, got[2])):
            assert {key: after[key] for key in before if key != "workload"} | {"workload": 0} == before | {
                "workload": 0
            }
        assert f"4 × {seq} tokens" in got[1]["confidence"]
        assert got[1]["workload_class"] is None
    assert estimate(migsaw, sizes, workload="ml/Deployment/second").returncode == 0
    assert [row["workload"]["name"] for row in rows(sizes)] == [None, "chat", None, "second"]


@pytest.mark.parametrize("source", ["measured", "predicted", "declared", "certified"])
def test_what_rests_on_more_than_an_estimate_is_never_overwritten(migsaw, sizes, source):
    ref = {"namespace": "ml", "kind": "Deployment", "name": "chat"}
    text = json.dumps({"schema": "migsaw/fits/v1", "fits": [{"workload": ref, "source": source}]})
    (sizes / "fits.json").write_text(text)
    done = estimate(migsaw, sizes)
    assert done.returncode == 0
    assert (sizes / "fits.json").read_text() == text
    assert f"{CHAT} is {source} there" in done.stderr


def test_a_plan_takes_it_gives_the_smallest_that_holds_and_says_that_it_is_estimated(migsaw, sizes):
    """Seven idle slices of 10 GB are too small: the GPU is cut for the smallest that surely holds it, not for 7g."""
    assert estimate(migsaw, sizes, workload="ml/StatefulSet/chat").returncode == 0
    fitting = {o["profile"] for o in rows(sizes)[0]["options"] if o["board"] == "a100-sxm4-80gb" and o["fits"]}
    smallest = min(fitting, key=lambda name: (int(name.split(".")[1][:-2]), name))
    plan = planned(migsaw, sizes, owned("ml/chat-0"))
    (got,) = plan["pods"]
    assert got["after"]["profile"] == smallest
    assert (got["known_by"]["source"], got["known_by"]["workload_class"]) == ("estimated", None)
    assert "estimated by the configuration of mine" in got["text"]
    level = plan["levels"][-1]
    assert level["name"] == "memory slices given to waiting pods"
    assert level["value"] == level["lower_bound"]


def test_nothing_is_written_where_nothing_surely_holds_it(migsaw, sizes):
    done = estimate(migsaw, sizes, "--board", "a30-24gb")
    assert done.returncode == 1
    assert "no fit was written" in done.stderr
    assert not (sizes / "fits.json").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--fits", "fits.json"), "--workload"),
        (("--workload", CHAT), "--fits"),
        (("--fits", "fits.json", "--workload", "chat"), "NAMESPACE/KIND/NAME"),
        (("--fits", "fits.json", "--workload", "a/b/c/d"), "NAMESPACE/KIND/NAME"),
        (("--fits", "fits.csv", "--workload", CHAT), ".json or .yaml"),
    ],
)
def test_the_file_and_the_workload_go_together(migsaw, sizes, words, says):
    done = migsaw("estimate", "sizes.yaml", *words, cwd=sizes)
    assert done.returncode == 2
    assert says in done.stderr
    assert not (sizes / "fits.json").exists()


def test_a_broken_file_is_refused_and_left_alone(migsaw, sizes):
    (sizes / "fits.json").write_text('{"schema": "migsaw/fits/v1", "fits": [{"nonsense": 1}]}')
    done = estimate(migsaw, sizes)
    assert done.returncode == 2
    assert "fits.json" in done.stderr
    assert "nonsense" in (sizes / "fits.json").read_text()
