"""``migsaw pack`` as a person calls it: answers worked out by hand, aliases and bindings, and bad input."""

from __future__ import annotations

import json
from typing import Any

import pytest

A100, H100, RTX = "a100-sxm4-80gb", "h100-sxm5-80gb", "rtx-pro-6000-blackwell-server"
HEAD = {"schema": "migsaw/demand/v1"}


@pytest.fixture
def pack(migsaw, tmp_path):
    """Writes a demand (a document or raw text) and runs the verb; returns the finished process."""

    def run(demand: dict[str, Any] | str | bytes, *words: str, name: str = "demand.json"):
        file = tmp_path / name
        content = json.dumps({**HEAD, **demand}) if isinstance(demand, dict) else demand
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return migsaw("pack", name, *words, cwd=tmp_path)

    return run


@pytest.fixture
def answer(pack):
    def run(demand: dict[str, Any] | str, **more: Any) -> dict[str, Any]:
        done = pack(demand, "-o", "json", **more)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


# ---- answers --------------------------------------------------------------------------------------------------------


def test_one_board(answer) -> None:
    """5 + 2*1 + 2*3 + 4*2 = 21 memory slices of 8: three GPUs, 10.20 USD."""
    instances = {"1g.10gb": 5, "1g.20gb": 1, "2g.20gb": 3, "3g.40gb": 2}
    found = answer({"boards": {A100: {"usd_per_hour": 3.40, "at_most": 4}}, "instances": instances})
    assert (found["status"], found["gpus"]) == ("optimal", {"total": 3, A100: 3})
    assert (found["cost_per_hour"], found["lower_bound"], found["gap"]) == (10.2, 10.2, 0)
    assert sum(row["count"] for row in found["layouts"]) == 3
    assert found["assignment"] == []
    assert found["scope_cost"] is None


def test_empty_demand_takes_nothing(answer) -> None:
    for demand in (
        {},
        {"instances": {"1g.10gb": 0}},
        {"workloads": [{"name": "w", "count": 0, "profiles": ["1g.10gb"]}]},
    ):
        found = answer({"boards": {A100: {}}, **demand})
        assert (found["status"], found["gpus"]["total"], found["lower_bound"], found["gap"]) == ("optimal", 0, 0, 0)


def test_media_engines(answer) -> None:
    """One +me.all takes every media engine, so only -me stands beside it; one +me per GPU: three GPUs."""
    found = answer({"boards": {RTX: {}}, "instances": {"1g.24gb+me.all": 1, "1g.24gb-me": 3, "1g.24gb+me": 2}})
    assert found["gpus"] == {"total": 3, RTX: 3}


def test_rate_counts_whole_instances_of_exact_decimals(answer) -> None:
    """Three instances of 0.1 reach 0.3, in binary fractions they would not; a latency at its limit is not usable."""
    slow = {
        "board": A100,
        "profile": "1g.10gb",
        "batch": 1,
        "processes": 2,
        "throughput_per_second": 0.1,
        "latency_ms": 9,
    }
    fast = {**slow, "batch": 64, "throughput_per_second": 9000, "latency_ms": 10}
    service = {
        "name": "s",
        "rate_per_second": 0.3,
        "latency_slo_ms": 20,
        "latency_fraction": 0.5,
        "points": [slow, fast],
    }
    found = answer({"boards": {A100: {}}, "workloads": [service]})
    assert found["assignment"] == [
        {"workload": "s", "board": A100, "profile": "1g.10gb", "batch": 1, "processes": 2, "instances": 3}
    ]


def test_choice_of_profile_and_layout_together(answer) -> None:
    """Two 4g cannot share a GPU, 4g and 3g can: one GPU for two jobs that take either."""
    job = {"name": "bert", "count": 2, "profiles": ["3g.40gb", "4g.40gb"]}
    found = answer({"boards": {A100: {}}, "instances": {"4g.40gb": 1}, "workloads": [{**job, "count": 1}]})
    assert found["gpus"]["total"] == 1
    assert [row["profile"] for row in found["assignment"]] == ["3g.40gb"]


def test_points_from_a_file_beside_the_demand(answer, tmp_path) -> None:
    rows = ["profile,board,throughput_per_second,latency_ms,batch,processes", f"1g.10gb,{A100},373.5,64,8,3"]
    (tmp_path / "points.csv").write_text("\n".join([*rows, "9g.9gb,l40s,1,1,1,1"]))
    service = {"name": "s", "rate_per_second": 829, "latency_slo_ms": 204.5, "latency_fraction": 0.45}
    found = answer({"boards": {A100: {}}, "workloads": [{**service, "points_csv": "points.csv"}]})
    assert [row["instances"] for row in found["assignment"]] == [3]  # 829 / 373.5 = 2.2


@pytest.mark.parametrize("value", ["nan", "inf", "-Infinity", "fast"])
def test_a_point_that_is_no_number_is_refused_with_its_line(migsaw, tmp_path, value) -> None:
    (tmp_path / "points.csv").write_text(f"board,profile,throughput_per_second\n{A100},1g.10gb,{value}\n")
    demand = {"schema": "migsaw/demand/v1", "boards": {A100: {}}}
    service = {"name": "s", "rate_per_second": 1, "points_csv": "points.csv"}
    (tmp_path / "d.json").write_text(json.dumps({**demand, "workloads": [service]}))
    done = migsaw("pack", "d.json", cwd=tmp_path)
    assert done.returncode == 2
    assert f"points.csv: line 2: throughput_per_second: {value!r} is no number" in done.stderr


def test_a_key_that_stands_twice_is_refused(migsaw, tmp_path) -> None:
    (tmp_path / "d.json").write_text('{"schema": "migsaw/demand/v1", "boards": {"a30-24gb": {}}, "boards": {}}')
    done = migsaw("pack", "d.json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "error: d.json: 'boards' stands twice in one object\n")


def test_a_name_means_any_board_that_has_it_and_a_bound_name_one(answer) -> None:
    boards = {A100: {"usd_per_hour": 1}, H100: {"usd_per_hour": 2}, "mine": {"board": A100, "usd_per_hour": 3}}
    free = answer({"boards": boards, "instances": {"7g.79gb": 1}})
    assert free["gpus"] == {"total": 1, A100: 1, H100: 0, "mine": 0}  # 7g.79gb is what old drivers called 7g.80gb
    for bound, entry in ((f"{H100}/7g.80gb", H100), ("mine/nvidia.com/mig-7g.80gb", "mine"), (f"{A100}/7g.80gb", A100)):
        assert answer({"boards": boards, "instances": {bound: 1}})["gpus"][entry] == 1


def test_headroom_is_beyond_the_demand(answer) -> None:
    demand = {"boards": {A100: {}}, "instances": {"7g.80gb": 2}, "policy": {"headroom": {"7g.80gb": 1}}}
    assert answer(demand)["gpus"]["total"] == 3


@pytest.mark.parametrize(
    ("scope", "gpus", "extra"),
    [("gpu", 3, None), ("pool_layout", 4, 1), ("node", 6, 3), ("pool", 6, 3)],
)
def test_scopes(answer, scope: str, gpus: int, extra: int | None) -> None:
    """2 x 3g, 3 x 2g, 7 x 1g in nodes of two: freely three GPUs (21 of 21 compute slices with 2 x 3g apart), two nodes
    of one layout each, three nodes of one profile each."""
    board = {"gpus_per_node": 2, "layout_scope": scope}
    found = answer({"boards": {A100: board}, "instances": {"3g.40gb": 2, "2g.20gb": 3, "1g.10gb": 7}})
    assert found["gpus"]["total"] == gpus
    assert found["scope_cost"] == (None if extra is None else {"gpus": extra, "cost_per_hour": None})


def test_whole_gpus_have_nodes_of_their_own(answer) -> None:
    """Three groups of 3 in nodes of 4 do not share a node: three nodes; without same_node 9 GPUs fill three as well."""
    groups = [{"name": "ddp", "gpus": 3, "count": 3, "same_node": True}]
    node = {"gpus_per_node": 4, "layout_scope": "node"}
    found = answer({"boards": {A100: node}, "whole_gpus": groups, "instances": {"7g.80gb": 1}})
    assert found["gpus"]["total"] == 16
    assert {row["mig"] for row in found["layouts"]} == {"on", "off"}
    free = answer({"boards": {A100: {"gpus_per_node": 4}}, "whole_gpus": groups, "instances": {"7g.80gb": 1}})
    assert free["gpus"]["total"] == 10


def test_yaml_says_the_same_as_json(answer) -> None:
    text = f"schema: migsaw/demand/v1\nboards:\n  {A100}:\ninstances: {{1g.10gb: 8}}\n"
    assert answer(text, name="demand.yaml")["gpus"]["total"] == 2


def test_same_demand_same_bytes(pack) -> None:
    jobs = [{"name": f"j{i}", "count": 5 + i, "profiles": ["1g.20gb", "2g.20gb", "3g.40gb"]} for i in range(5)]
    boards = {
        A100: {"usd_per_hour": 3.4},
        H100: {"usd_per_hour": 5.1},
        "p": {"board": A100, "usd_per_hour": 2, "at_most": 3},
    }
    demand = {"boards": boards, "workloads": jobs, "instances": {"1g.10gb": 9}}
    first, second = (pack(demand, "-o", "json").stdout for _ in range(2))
    assert first == second
    assert first


def test_table_counts_and_proves_in_its_last_line(pack) -> None:
    demand = {
        "boards": {A100: {"usd_per_hour": 3.4}, "new": {"board": "b300-269gb", "usd_per_hour": 9, "gpus_per_node": 2,
                                                       "layout_scope": "node"}},
        "instances": {"1g.10gb": 9, "new/2g.67gb": 1},
        "workloads": [{"name": "bert", "count": 2, "profiles": ["1g.20gb", "3g.40gb"]}],
    }  # fmt: skip
    done = pack(demand)
    last = done.stdout.splitlines()[-1]
    assert last == f"4 GPUs ({A100} 2, new 2), 24.80 USD per hour; proved optimal."
    assert "[7×1g|x]" in done.stdout
    assert "family-assumed" in done.stdout
    assert "2g and 3g slices first" in done.stdout
    assert done.stderr == ""


# ---- bad input ------------------------------------------------------------------------------------------------------

GOOD: dict[str, Any] = {"boards": {A100: {}}, "instances": {"1g.10gb": 3}}
POINT = {"board": A100, "profile": "1g.10gb", "throughput_per_second": 5, "latency_ms": 50}
NO_LATENCY = {**POINT, "latency_ms": None}
RATE = {"name": "svc", "rate_per_second": 9, "points": [POINT]}
JOB = {"name": "job", "count": 1, "profiles": ["1g.10gb"]}

WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("negative count", {"instances": {"1g.10gb": -3}}, "1g.10gb"),
    ("half an instance", {"instances": {"1g.10gb": 2.5}}, "1g.10gb"),
    ("count true", {"instances": {"1g.10gb": True}}, "1g.10gb"),
    ("count in words", {"instances": {"1g.10gb": "3"}}, "1g.10gb"),
    ("absurd count", {"instances": {"1g.10gb": 10**40}}, "1g.10gb"),
    ("unknown board", {"boards": {"a100-sxm9-80gb": {}}}, "a100-sxm9-80gb"),
    ("unknown board of a pool", {"boards": {A100: {}, "p": {"board": "x900"}}}, "x900"),
    ("placements not known", {"boards": {A100: {}, "rtx-pro-5000-blackwell-48gb": {}}}, "rtx-pro-5000-blackwell-48gb"),
    ("unknown profile", {"instances": {"9g.90gb": 1}}, "9g.90gb"),
    ("profile of no listed board", {"instances": {"1g.5gb": 1}}, "1g.5gb"),
    ("bound to no board", {"instances": {f"{H100}/1g.10gb": 1}}, H100),
    ("price on one board only", {"boards": {A100: {"usd_per_hour": 1}, H100: {}}}, "usd_per_hour"),
    ("negative price", {"boards": {A100: {"usd_per_hour": -1}}}, "usd_per_hour"),
    ("unknown key", {"instnaces": {}}, "instnaces"),  # codespell:ignore instnaces
    ("unknown key of a board", {"boards": {A100: {"at_mots": 1}}}, "at_mots"),
    ("unknown scope", {"boards": {A100: {"layout_scope": "rack"}}}, "layout_scope"),
    ("nodes of no GPU", {"boards": {A100: {"gpus_per_node": 0}}}, "gpus_per_node"),
    ("no board", {"boards": {}}, "boards"),
    ("another schema", {"schema": "migsaw/fits/v1"}, "schema"),
    ("policy of an unknown profile", {"policy": {"profiles": ["9g.90gb"]}}, "9g.90gb"),
    ("demanded outside policy", {"policy": {"profiles": ["2g.20gb"]}}, "policy"),
    ("head-room outside policy", {"policy": {"profiles": ["1g.10gb"], "headroom": {"2g.20gb": 1}}}, "2g.20gb"),
    ("neither count nor rate", {"workloads": [{"name": "job"}]}, "count"),
    ("count and rate", {"workloads": [{**JOB, "rate_per_second": 1}]}, "count"),
    ("count without profiles", {"workloads": [{"name": "job", "count": 1}]}, "profiles"),
    ("count with points", {"workloads": [{**JOB, "points": [POINT]}]}, "points"),
    ("rate without points", {"workloads": [{"name": "svc", "rate_per_second": 1}]}, "points"),
    ("rate in words", {"workloads": [{**RATE, "rate_per_second": "high"}]}, "rate_per_second"),
    ("point of no profile", {"workloads": [{**RATE, "points": [{**POINT, "profile": "9g.90gb"}]}]}, "9g.90gb"),
    ("limit without latency", {"workloads": [{**RATE, "latency_slo_ms": 9, "points": [NO_LATENCY]}]}, "latency_ms"),
    ("no points file", {"workloads": [{"name": "svc", "rate_per_second": 1, "points_csv": "none.csv"}]}, "none.csv"),
    ("two workloads of one name", {"workloads": [JOB, JOB]}, "name"),
    ("whole GPUs of unknown nodes", {"whole_gpus": [{"name": "ddp", "gpus": 2}]}, "gpus_per_node"),
    (
        "a group larger than a node",
        {"boards": {A100: {"gpus_per_node": 8}}, "whole_gpus": [{"name": "ddp", "gpus": 16, "same_node": True}]},
        "ddp",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("change", "word"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_wrong_demands_name_file_and_field(pack, change: dict[str, Any], word: str) -> None:
    done = pack({**GOOD, **change}, "-o", "json")
    assert done.returncode == 2, done.stderr
    assert "demand.json" in done.stderr or "none.csv" in done.stderr
    assert word in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


BROKEN = {
    "empty": b"",
    "cut off": b'{"schema": "migsaw/dem',
    "a list": b"[]",
    "not UTF-8": b'{"schema": "migsaw/demand/v1", "boards": {"a\xff\xfe": {}}}',
    "not a number": b'{"schema": "migsaw/demand/v1", "boards": {"a100-sxm4-80gb": {"usd_per_hour": NaN}}}',
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_broken_files(pack, content: bytes) -> None:
    done = pack(content)
    assert done.returncode == 2
    assert "demand.json" in done.stderr
    assert "Traceback" not in done.stderr


def test_yaml_names_the_line(pack) -> None:
    text = f"schema: migsaw/demand/v1\nboards:\n  {A100}:\n    at_most: -1\n"
    done = pack(text, name="demand.yaml")
    assert done.returncode == 2
    assert "demand.yaml: line 4: at_most" in done.stderr


def test_yaml_bomb_is_refused(pack) -> None:
    bomb = "\n".join(["a0: &a0 [x, x]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)])
    done = pack(f"schema: migsaw/demand/v1\n{bomb}\n", name="demand.yaml")
    assert done.returncode == 2
    assert "demand.yaml" in done.stderr


def test_points_file_faults_have_a_line(pack, tmp_path) -> None:
    (tmp_path / "p.csv").write_text(f"board,profile,throughput_per_second\n{A100},1g.10gb,fast\n")
    workload = {"name": "svc", "rate_per_second": 1, "points_csv": "p.csv"}
    done = pack({"boards": {A100: {}}, "workloads": [workload]})
    assert done.returncode == 2
    assert "p.csv: line 2: throughput_per_second" in done.stderr


FEW = {A100: {"at_most": 2}}
INFEASIBLE: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("latency", {"workloads": [{**RATE, "latency_slo_ms": 50}]}, ("svc", "latency")),
    (
        "policy",
        {"policy": {"profiles": ["1g.10gb"]}, "workloads": [{**JOB, "profiles": ["7g.80gb"]}]},
        ("job", "policy"),
    ),
    ("at_most", {"boards": FEW, "instances": {"1g.10gb": 1, "7g.80gb": 3}}, ("7g.80gb", "at_most", A100)),
    ("together", {"boards": FEW, "instances": {"4g.40gb": 2, "7g.80gb": 2}}, ("whole", "at_most", A100)),
    (
        "what AKS cannot make",
        {"boards": {A100: {"layout_scope": "pool"}}, "instances": {"1g.20gb": 1}},
        ("1g.20gb", "scope"),
    ),
    (
        "a group beyond at_most",
        {"boards": {A100: {"at_most": 4, "gpus_per_node": 8}}, "whole_gpus": [{"name": "ddp", "gpus": 8}]},
        ("ddp", "at_most"),
    ),
    (
        "several boards",
        {"boards": {A100: {"at_most": 1}, H100: {"at_most": 1}}, "instances": {"7g.80gb": 3}},
        ("7g.80gb", "at_most", H100),
    ),
]


@pytest.mark.parametrize(("change", "words"), [row[1:] for row in INFEASIBLE], ids=[row[0] for row in INFEASIBLE])
def test_nothing_feasible_gives_the_first_reason(pack, change: dict[str, Any], words: tuple[str, ...]) -> None:
    done = pack({**GOOD, **change}, "-o", "json")
    assert done.returncode == 1
    assert done.stdout == ""
    assert all(word in done.stderr for word in words), done.stderr


@pytest.mark.parametrize("other", ["3.13", "3.120001", "3.1200000000001", "3.123456789012345678901"])
def test_prices_mean_all_their_decimals_and_near_ones_are_still_proved(migsaw, tmp_path, other):
    """10,000 1g slices need ceil(10000 / 7) GPUs of either board: on the cheaper one, to the last decimal."""
    boards = {"a100-sxm4-80gb": {"usd_per_hour": 3.12}, "h100-sxm5-80gb": {"usd_per_hour": "PRICE"}}
    demand = {"schema": "migsaw/demand/v1", "boards": boards, "instances": {"1g.10gb": 10000}}
    (tmp_path / "d.json").write_text(json.dumps(demand).replace('"PRICE"', other))
    found = json.loads(migsaw("pack", tmp_path / "d.json", "-o", "json").stdout)
    assert (found["status"], found["gap"]) == ("optimal", 0)
    assert found["gpus"] == {"total": 1429, "a100-sxm4-80gb": 1429, "h100-sxm5-80gb": 0}
