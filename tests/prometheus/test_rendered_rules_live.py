"""What a real Prometheus makes of the rendered scrape rules: each instance with its holder, or with none."""

from __future__ import annotations

import json
import re
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from migsaw.observe.dcgm import subject_of
from migsaw.render.telemetry_scrape import AKS_PORT, NOT_THE_EXPORTER, aks_scrape_config, service_monitor_values

SLICE = 'gpu="0",UUID="GPU-1",modelName="NVIDIA A100-SXM4-80GB",GPU_I_PROFILE="1g.10gb"'
PAGE = f"""\
DCGM_FI_PROF_SM_ACTIVE{{{SLICE},GPU_I_ID="7",Hostname="h",namespace="ml",pod="bert-0",container="main"}} 0.5
DCGM_FI_PROF_SM_ACTIVE{{{SLICE},GPU_I_ID="8",Hostname="h"}} 0
DCGM_FI_PROF_SM_ACTIVE{{{SLICE},GPU_I_ID="9",Hostname="h",namespace="",pod="",container=""}} 0
DCGM_FI_PROF_PCIE_TX_BYTES{{{SLICE},GPU_I_ID="7",Hostname="h"}} 1
"""
TARGET = {
    "__meta_kubernetes_pod_node_name": "aks-gpu-0",
    "__meta_kubernetes_node_name": "aks-gpu-0",
    "__meta_kubernetes_node_address_InternalIP": "127.0.0.1",
    "__meta_kubernetes_node_label_kubernetes_azure_com_dcgm_exporter": "enabled",
}
OF_A_POD = {"namespace": "gpu-operator", "pod": "nvidia-dcgm-exporter-x7", "container": "nvidia-dcgm-exporter"}


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(PAGE.encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def from_monitor(rules: list[Any]) -> list[dict[str, Any]]:
    return [{re.sub(r"[A-Z]", lambda c: "_" + c[0].lower(), k): v for k, v in rule.items()} for rule in rules]


@pytest.fixture(scope="module")
def series(start_prometheus: Callable[..., Any], port: int, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Job → GPU instance → labels. ``bare``: the same without the rule that drops the exporter's own labels."""
    settings = service_monitor_values()
    pods = {"honor_labels": settings["honorLabels"]}
    pods["static_configs"] = [{"targets": [f"127.0.0.1:{port}"], "labels": {**TARGET, **OF_A_POD}}]
    bare = [rule for rule in settings["relabelings"] if rule != NOT_THE_EXPORTER]
    (aks,) = json.loads(json.dumps(aks_scrape_config()).replace(AKS_PORT, str(port)))["scrape_configs"]
    del aks["kubernetes_sd_configs"]  # Debian's Prometheus has no discovery of Kubernetes
    jobs = [
        {**pods, "job_name": "monitor", "relabel_configs": from_monitor(settings["relabelings"])},
        {**pods, "job_name": "bare", "relabel_configs": from_monitor(bare)},
        {**aks, "job_name": "aks", "static_configs": [{"targets": ["127.0.0.1:1"], "labels": TARGET}]},
    ]
    for job in jobs:
        job |= {"scrape_interval": "1s", "scrape_timeout": "1s"}
    path = tmp_path_factory.mktemp("rules")
    with (path / "config.yml").open("w") as opened:
        YAML(typ="safe", pure=True).dump({"scrape_configs": jobs}, opened)
    server = start_prometheus(path / "data", Path(path / "config.yml").read_text())
    found: dict[str, dict[str, dict[str, str]]] = {}
    until = time.monotonic() + 30
    while time.monotonic() < until and {len(mine) for mine in found.values()} != {3}:
        time.sleep(0.2)
        found = {job["job_name"]: {} for job in jobs}
        query = urllib.parse.urlencode({"query": '{__name__=~"DCGM_FI_PROF_SM_ACTIVE"}'})
        with urllib.request.urlopen(f"{server.url}/api/v1/query?{query}") as answer:
            for row in json.load(answer)["data"]["result"]:
                found[row["metric"]["job"]][row["metric"]["GPU_I_ID"]] = row["metric"]
    query = urllib.parse.urlencode({"query": "count by (job) (DCGM_FI_PROF_PCIE_TX_BYTES)"})
    with urllib.request.urlopen(f"{server.url}/api/v1/query?{query}") as answer:
        return found, {row["metric"]["job"] for row in json.load(answer)["data"]["result"]}


@pytest.mark.parametrize("job", ["monitor", "aks"])
def test_every_instance_is_a_series_with_its_own_holder_or_none_and_its_node(series, job):
    subjects = {gi: subject_of(labels) for gi, labels in series[0][job].items()}
    assert {gi: subject.owner for gi, subject in subjects.items()} == {"7": ("ml", "bert-0"), "8": None, "9": None}
    assert {subject.exporter_pod for subject in subjects.values()} == {None}
    assert {subject.identity.hints[0] for subject in subjects.values()} == {("node", "aks-gpu-0")}
    assert {subject.identity.gi_id for subject in subjects.values()} == {7, 8, 9}


def test_without_the_rule_the_exporter_would_stand_in_for_the_holder(series):
    assert series[0]["bare"]["8"]["pod"] == OF_A_POD["pod"]
    assert series[0]["bare"]["7"]["pod"] == "bert-0"


def test_where_samples_are_paid_only_what_is_read_is_kept(series):
    assert series[1] == {"monitor", "bare"}
