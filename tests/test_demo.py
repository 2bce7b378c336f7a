"""The made-up cluster of ``migsaw demo`` could exist: its files agree with each other and with the geometry."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest

from migsaw.cli.demo_cluster import files
from migsaw.cli.shared import load_catalogue


@pytest.fixture(scope="module")
def cluster():
    found = files(load_catalogue())
    nodes, pods = (json.loads(found[name])["items"] for name in ("nodes.json", "pods.json"))
    series = [
        (family, dict(re.findall(r'(\w+)="([^"]*)"', labels)), float(value))
        for family, labels, value in re.findall(r"^(\w+)\{(.*)\} (\S+)$", found["metrics.prom"], re.MULTILINE)
    ]
    return found, nodes, pods, series


def _held(series):
    """(namespace, pod) → resources it holds, as the exporter's labels say."""
    held = {}
    for family, labels, _ in series:
        if family == "DCGM_FI_DEV_FB_USED" and labels["pod"]:
            profile = labels.get("GPU_I_PROFILE")
            resource = f"nvidia.com/mig-{profile}" if profile else "nvidia.com/gpu"
            held.setdefault((labels["namespace"], labels["pod"]), Counter())[resource] += 1
    return held


def test_running_pods_hold_what_they_ask_for(cluster):
    _, _, pods, series = cluster
    asked = {
        (pod["metadata"]["namespace"], pod["metadata"]["name"]): {
            name: int(number) for name, number in pod["spec"]["containers"][0]["resources"]["requests"].items()
        }
        for pod in pods
        if pod["status"]["phase"] == "Running"
    }
    assert asked == _held(series)
    assert len(asked) == 7


def test_nodes_advertise_what_the_exporter_shows(cluster):
    _, nodes, _, series = cluster
    shown = {}
    for family, labels, _ in series:
        if family == "DCGM_FI_DEV_FB_USED":
            profile = labels.get("GPU_I_PROFILE")
            resource = f"nvidia.com/mig-{profile}" if profile else "nvidia.com/gpu"
            shown.setdefault(labels["Hostname"], Counter())[resource] += 1
    for node in nodes:
        advertised = {name: int(number) for name, number in node["status"]["allocatable"].items() if number != "0"}
        assert advertised == shown[node["metadata"]["name"]]
    assert len(nodes) == 4


def test_instances_do_not_overlap_and_stay_within_eight_memory_slices(cluster):
    found, *_ = cluster
    tables = {name: text for name, text in found.items() if name.endswith(".lgi.txt")}
    assert len(tables) == 3
    for text in tables.values():
        taken = Counter()
        for gpu, start, size in re.findall(r"^\| +(\d+) .* (\d+):(\d+) +\|$", text, re.MULTILINE):
            taken.update((gpu, slot) for slot in range(int(start), int(start) + int(size)))
        assert set(taken.values()) == {1}
        assert max(slot for _, slot in taken) < 8


def test_activity_is_a_ratio_and_memory_fits(cluster):
    *_, series = cluster
    ratios = [value for family, _, value in series if family.startswith("DCGM_FI_PROF")]
    assert ratios
    assert all(0 <= value <= 1 for value in ratios)
    assert all(value >= 0 for family, _, value in series if family == "DCGM_FI_DEV_FB_FREE")


def test_pending_pods_wait_for_what_no_node_has(cluster):
    _, nodes, pods, _ = cluster
    waiting = Counter(
        resource
        for pod in pods
        if pod["status"]["phase"] == "Pending"
        for resource in pod["spec"]["containers"][0]["resources"]["requests"]
    )
    assert waiting == {"nvidia.com/mig-2g.20gb": 3, "nvidia.com/mig-1g.20gb": 1, "nvidia.com/gpu": 1}
    advertised = {name for node in nodes for name in node["status"]["allocatable"]}
    assert not advertised & {"nvidia.com/mig-2g.20gb", "nvidia.com/mig-1g.20gb"}
