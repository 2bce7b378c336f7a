"""observe, recommend, doctor and plan on a real Prometheus that remembers two hours of the demo's cluster."""

from __future__ import annotations

import csv
import io
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_series import Made, write_blocks
from prometheus_client.parser import text_string_to_metric_families

from migsaw.cli.demo_cluster import files
from migsaw.cli.shared import load_catalogue

STEP, HOURS = 30, 2


def remembered(exposition: str, end: float) -> list[Made]:
    """Every line of an exporter's text as a series: a ratio waves by a tenth, memory stays."""
    made = []
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            wave = 0.1 if "PROF" in sample.name else 0.0
            samples = tuple(
                (end - HOURS * 3600 + n * STEP, round(sample.value * (1 + wave * math.sin(n / 7)), 6))
                for n in range(HOURS * 3600 // STEP)
            )
            made.append(Made(sample.name, sample.labels, samples))
    return made


@pytest.fixture(scope="module")
def cluster(start_prometheus: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of the demo's files, and the server's address."""
    folder = tmp_path_factory.mktemp("demo")
    for name, text in files(load_catalogue()).items():
        (folder / name).write_text(text)
    write_blocks(remembered((folder / "metrics.prom").read_text(), time.time()), folder / "data")
    return folder, start_prometheus(folder / "data").url


@pytest.fixture(scope="module")
def snapshot(cluster, migsaw) -> Path:
    folder, url = cluster
    given = ["--nodes", "nodes.json", "--pods", "pods.json", "--prometheus", url, "--window", "90m", "--step", "30s"]
    done = migsaw("observe", *given, "-o", "snapshot.json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "snapshot.json"


def rows(migsaw, snapshot: Path, *more: str) -> dict[str, dict[str, str]]:
    done = migsaw("recommend", "--snapshot", snapshot, *more, "-o", "csv")
    assert done.returncode == 0, done.stderr
    return {row["name"]: row for row in csv.DictReader(io.StringIO(done.stdout))}


def test_the_snapshot_carries_the_window(snapshot):
    telemetry = json.loads(snapshot.read_text())["telemetry"]
    assert telemetry["source"] == "prometheus"
    assert telemetry["server"].startswith("Prometheus 2.")
    assert telemetry["partial"] == []
    window = telemetry["window"]
    assert window["end"] - window["start"] == 90 * 60
    owners = {device["owner"]["pod"] for device in telemetry["devices"] if device["owner"]}
    assert "bert-7d9c5b8f6b-x2x9k" in owners


def test_each_workload_is_judged_by_what_it_did(migsaw, snapshot):
    """By the demo's own figures: two services at 6 % and 9 % of a 3g, a busy pair of GPUs, one notebook at work."""
    found = rows(migsaw, snapshot)
    assert {name: row["verdict"] for name, row in found.items()}.items() >= {
        "bert": "too_big", "reranker": "too_big", "whisper": "too_big", "notebook-alice": "too_big",
    }.items()  # fmt: skip
    assert (found["bert"]["current"], found["bert"]["change"]) == ("3g.40gb", "shrink")
    assert int(found["bert"]["memory_peak_mib"]) == 4310
    assert float(found["bert"]["usd_per_month_then"]) < float(found["bert"]["usd_per_month_now"])
    assert (found["llama-ddp"]["change"], found["llama-ddp"]["recommended"]) == ("stay", "off")
    assert all(int(row["points"]) == 180 for row in found.values())


def test_too_few_points_are_no_verdict(migsaw, snapshot):
    found = rows(migsaw, snapshot, "--points-required", "1000")
    assert {row["change"] for row in found.values()} == {"unknown"}
    assert all("180" in row["reason"] for row in found.values() if row["name"] == "bert")


def test_fits_go_from_recommend_to_plan(migsaw, snapshot, tmp_path):
    assert migsaw("recommend", "--snapshot", snapshot, "--fits", tmp_path / "fits.json").returncode == 0
    done = migsaw("plan", snapshot, "--fits", tmp_path / "fits.json", "-o", tmp_path / "plan.json")
    assert done.returncode == 0, done.stderr


def test_the_doctor_finds_no_error_in_a_healthy_history(migsaw, snapshot):
    done = migsaw("doctor", "--snapshot", snapshot, "-o", "json")
    findings = json.loads(done.stdout)["findings"]
    assert [f for f in findings if f["severity"] == "error"] == []
    assert {f["code"] for f in findings if f["severity"] == "warning"} <= {"MS158"}, "nobody scraped cAdvisor here"


@pytest.mark.parametrize("is_redacted", [False, True])
def test_the_address_is_told_without_its_password(migsaw, cluster, tmp_path, is_redacted):
    _, url = cluster
    given = ["--prometheus", url.replace("//", "//reader:secret@"), "--window", "60m", *["--redact"][:is_redacted]]
    assert migsaw("observe", *given, "-o", tmp_path / "snapshot.json").returncode == 0
    done = migsaw("doctor", "--snapshot", tmp_path / "snapshot.json", "-o", "json")
    evidence = [e for found in json.loads(done.stdout)["findings"] for e in found["evidence"]]
    assert evidence
    assert all(e["file"].startswith("server-") if is_redacted else e["file"] == url for e in evidence)
    text = (tmp_path / "snapshot.json").read_text()
    assert "secret" not in text
    assert (url.rpartition(":")[2] in text) is not is_redacted


def test_recommend_asks_a_server_itself(migsaw, cluster):
    folder, url = cluster
    given = ["--nodes", "nodes.json", "--pods", "pods.json", "--prometheus", url, "--window", "60m", "--low-resource"]
    done = migsaw("recommend", *given, "-o", "json", cwd=folder)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["together"]["gpus"] < found["together"]["gpus_now"]
    assert found["together"]["lower_bound"] <= found["together"]["objective"]
