"""Requests that cannot be read, and files that show half of a GPU: nothing that runs is ever called free."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from migsaw.cli.demo_cluster import files
from migsaw.cli.shared import load_catalogue
from migsaw.model.layouts import Placed, parse_placed
from migsaw.observe.kube import count
from migsaw.report.glyphs import glyph

NODE = "aks-a100-14820555-vmss000000"  # of the demo: one whole A100
HOLDER = "notebook-alice-0"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in files(load_catalogue()).items():
        (tmp_path / name).write_text(text)
    lines = (tmp_path / "metrics.prom").read_text().splitlines(keepends=True)
    (tmp_path / "metrics.prom").write_text("".join(line for line in lines if NODE not in line))
    return tmp_path


def with_request(folder: Path, change: Any) -> None:
    pods = json.loads((folder / "pods.json").read_text())
    for pod in pods["items"]:
        if pod["metadata"]["name"] == HOLDER:
            change(pod["spec"])
    (folder / "pods.json").write_text(json.dumps(pods))


def gpu(migsaw, folder: Path) -> tuple[dict[str, Any], list[str]]:
    done = migsaw("observe", "--nodes", "nodes.json", "--pods", "pods.json", "-o", "s.json", cwd=folder)
    assert done.returncode == 0, done.stderr
    snapshot = json.loads((folder / "s.json").read_text())
    (found,) = (g for node in snapshot["nodes"] if node["name"] == NODE for g in node["gpus"])
    return found, [note["text"] for note in snapshot["notes"] if note["severity"] == "warning"]


@pytest.mark.parametrize("amount", ["abc", ["2"], None, "-1", "1.5", True, {"a": 1}])
def test_an_amount_that_cannot_be_read_makes_the_node_unknown(migsaw, folder, amount):
    with_request(folder, lambda spec: spec["containers"][0].update(resources={"limits": {"nvidia.com/gpu": amount}}))
    found, warnings = gpu(migsaw, folder)
    assert found["state"] == "unknown"
    assert any(HOLDER in text and "no whole number" in text for text in warnings)


def test_containers_that_are_no_list_make_the_node_unknown(migsaw, folder):
    with_request(folder, lambda spec: spec.update(containers="oops"))
    found, warnings = gpu(migsaw, folder)
    assert found["state"] == "unknown"
    assert any(HOLDER in text and "containers cannot be read" in text for text in warnings)


@pytest.mark.parametrize("amount", [1, "1", "1e0", "1000m", "+1", "1.0", "0.001k", "10e-1"])
def test_every_way_to_write_one_gpu_is_one_gpu(migsaw, folder, amount):
    with_request(folder, lambda spec: spec["containers"][0].update(resources={"limits": {"nvidia.com/gpu": amount}}))
    found, _ = gpu(migsaw, folder)
    assert (found["state"], found["owner"]) == ("busy", {"namespace": "research", "pod": HOLDER})


@pytest.mark.parametrize(
    ("quantity", "number"),
    [
        ("1k", 1000),
        ("1e3", 1000),
        ("2Ki", 2048),
        ("1500m", None),
        ("1e99", None),
        ("１", None),
        ("", None),
        ("1 k", None),
    ],
)
def test_quantities_as_kubernetes_reads_them(quantity, number):
    assert count(quantity) == number


def test_a_start_that_is_known_is_drawn_beside_one_that_is_not():
    board = load_catalogue().board("a100-sxm4-80gb")
    for texts in (("3g.40gb", "3g.40gb@0"), ("3g.40gb@0", "3g.40gb"), ("3g.40gb", "3g.40gb@4")):
        assert glyph(board, texts) == "[3g|3g]"


def test_an_unknown_profile_is_a_word_and_no_error(migsaw, tmp_path):
    assert parse_placed("unknown") == Placed("unknown")
    for name, text in files(load_catalogue()).items():
        (tmp_path / name).write_text(text)
    metrics = (tmp_path / "metrics.prom").read_text().replace('GPU_I_PROFILE="3g.40gb"', 'GPU_I_PROFILE="9g.99gb"')
    (tmp_path / "metrics.prom").write_text(metrics)
    given = ["--nodes", "nodes.json", "--pods", "pods.json", "--metrics", "metrics.prom"]
    for words in (["observe", *given, "-o", "s.json"], ["plan", "s.json", "-o", "p.json"], ["explain", "p.json"]):
        done = migsaw(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
