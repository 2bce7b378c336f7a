"""``render --for telemetry``: the files read back by the rules of those who will read them, and by our readers."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from made_plans import SHA, gpu_plan, operator_plans, plan_of
from migsaw.cli.shared import load_catalogue
from migsaw.model import dcgm_fields
from migsaw.model.plan import NodePlan, PoolStep, Step
from migsaw.model.reasons import Reason
from migsaw.model.telemetry import MEMORY, RATIOS
from migsaw.observe import kube_state, neighbours
from migsaw.observe.dcgm import subject_of
from migsaw.observe.documents import to_json
from migsaw.render.document import Options
from migsaw.render.targets import WAYS, render
from migsaw.render.telemetry_counters import CADVISOR, KUBE_STATE, NODE_EXPORTER

CATALOGUE = load_catalogue()
A100 = "a100-sxm4-80gb"

# dcgm_fields.h of DCGM 4.6.0: names that are defined, old ones as aliases, with their ids
PUBLISHED_IDS = {
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 1001,
    "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO": 1001,
    "DCGM_FI_PROF_SM_ACTIVE": 1002,
    "DCGM_FI_PROF_SM_UTIL_RATIO": 1002,
    "DCGM_FI_PROF_SM_OCCUPANCY": 1003,
    "DCGM_FI_PROF_SM_OCCUPANCY_RATIO": 1003,
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 1004,
    "DCGM_FI_PROF_TENSOR_UTIL_RATIO": 1004,
    "DCGM_FI_PROF_DRAM_ACTIVE": 1005,
    "DCGM_FI_PROF_DRAM_UTIL_RATIO": 1005,
    "DCGM_FI_DEV_FB_FREE": 251,
    "DCGM_FI_DEV_FB_USED": 252,
    "DCGM_FI_DEV_GPU_UTIL": 203,
    "DCGM_FI_DEV_GPU_UTIL_RATIO": 203,
    "DCGM_FI_DEV_POWER_USAGE": 155,
    "DCGM_FI_DEV_BOARD_POWER_WATTS": 155,
    "DCGM_FI_DEV_GPU_TEMP": 150,
    "DCGM_FI_DEV_GPU_TEMP_CELSIUS": 150,
    "DCGM_FI_DEV_SM_CLOCK": 100,
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 156,
}
# the lines of dcgm-exporter's own etc/default-counters.csv (4.8.2), commented ones too: what every version knows
DEFAULT_COUNTERS = {
    "DCGM_FI_DEV_SM_CLOCK": "gauge",
    "DCGM_FI_DEV_GPU_TEMP": "gauge",
    "DCGM_FI_DEV_POWER_USAGE": "gauge",
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": "counter",
    "DCGM_FI_DEV_GPU_UTIL": "gauge",
    "DCGM_FI_DEV_XID_ERRORS": "gauge",
    "DCGM_FI_DEV_FB_FREE": "gauge",
    "DCGM_FI_DEV_FB_USED": "gauge",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": "gauge",
    "DCGM_FI_PROF_SM_ACTIVE": "gauge",
    "DCGM_FI_PROF_SM_OCCUPANCY": "gauge",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "gauge",
    "DCGM_FI_PROF_DRAM_ACTIVE": "gauge",
}
NOT_READ = (
    "DCGM_FI_DEV_ENC_UTIL",
    "DCGM_FI_DEV_FB_USED_PERCENT",
    "DCGM_FI_DEV_FB_RESERVED",
    "DCGM_FI_DEV_GPU_TEMP_LIMIT",
    "DCGM_FI_PROF_SM_ACTIVE_total",
    "XDCGM_FI_PROF_SM_ACTIVE",
    "DCGM_FI_PROF_PCIE_TX_BYTES",
    "dcgm_exporter_build_infos",
    "up",
    "",
)


def plan_with(*owners: str, after: tuple[str, ...] = ("1g.10gb",) * 7, **more: Any):
    nodes = [NodePlan(f"node-{owner}", owner, False) for owner in owners]  # type: ignore[arg-type]
    return plan_of([gpu_plan(node.name, 0, A100, after, after) for node in nodes], nodes, **more)


def files(plan) -> dict[str, str]:
    return {file.path: file.text for file in render(plan, "telemetry", CATALOGUE, Options())}


def document(text: str) -> Any:
    """One YAML document; duplicate keys are an error of this reader."""
    (found,) = YAML(typ="safe", pure=True).load_all(text)
    return found


ALL = files(plan_with("unknown"))


# ---- the counters file: Go's encoding/csv with Comment '#', then three trimmed columns ------------------------------


def read_counters(text: str) -> dict[str, str]:
    """Field → type, as ``ReadCSVFile`` and ``ExtractCounters`` of dcgm-exporter read it, and stricter in characters."""
    assert text.isascii()
    assert "\t" not in text
    assert "\r" not in text
    found: dict[str, str] = {}
    for line in text.split("\n"):
        if line == "" or line.startswith("#"):
            continue
        assert '"' not in line, "a quote inside a bare column is an error of encoding/csv"
        columns = [column.strip(" ") for column in line.split(",")]
        assert len(columns) == 3, line
        name, kind, said = columns
        assert kind in ("gauge", "counter", "histogram", "summary", "label")
        assert said
        assert name not in found
        found[name] = kind
    return found


def test_the_counters_have_what_every_exporter_knows_by_the_right_type():
    found = read_counters(ALL["counters.csv"])
    assert found == {name: DEFAULT_COUNTERS[name] for name in found}


@pytest.mark.parametrize("owner", ["gpu-operator", "aks", "unknown"])
def test_a_reader_of_what_the_counters_turn_on_finds_every_signal(owner):
    found = read_counters(files(plan_with(owner))["counters.csv"])
    read = {dcgm_fields.FIELDS[name] for name in found if name in dcgm_fields.FIELDS}
    boards = {dcgm_fields.BOARD_FIELDS[name] for name in found if name in dcgm_fields.BOARD_FIELDS}
    assert read == {*RATIOS, *MEMORY}
    assert boards == {"power_watts", "temperature_celsius", "sm_clock_mhz", "energy_millijoules"}
    assert found.keys() - dcgm_fields.FIELDS.keys() - dcgm_fields.BOARD_FIELDS.keys() == {"DCGM_FI_DEV_XID_ERRORS"}


def test_the_table_of_fields_has_the_published_ids():
    shown = {name: f.id for f in (*dcgm_fields.DEVICE, *dcgm_fields.BOARD) for name in f.names}
    assert {name: number for name, number in shown.items() if name.startswith("DCGM_")} == PUBLISHED_IDS
    assert all(name.startswith("dcgm_") for name in shown.keys() - PUBLISHED_IDS.keys())
    assert len({f.id for f in (*dcgm_fields.DEVICE, *dcgm_fields.BOARD)}) == 12


def test_gpu_util_is_asked_for_only_where_a_gpu_may_be_whole():
    def has_util(plan) -> bool:
        return "DCGM_FI_DEV_GPU_UTIL" in read_counters(files(plan)["counters.csv"])

    assert not has_util(plan_with("gpu-operator"))
    assert not has_util(plan_with("gpu-operator", after=()))
    assert has_util(plan_with("gpu-operator", after=("off",)))
    assert has_util(plan_of([], []))
    unseen = gpu_plan("node", 0, A100, (), ())
    unseen = type(unseen)("node", 0, (), (), Reason.MAY_BE_HELD, "", board=A100)
    assert has_util(plan_of([unseen], [NodePlan("node", "unknown", False)]))
    for profiles in ((), ("MIG1g",)):
        step = Step("s1", "create-pool", None, pool=PoolStep("new", "Standard_NC24ads_A100_v4", 1, profiles))
        assert has_util(plan_with("aks", steps=(step,))) == (not profiles)


# ---- what is kept ----------------------------------------------------------------------------------------------------


def keep_lists() -> list[str]:
    job = document(document(ALL["aks-managed/ama-metrics-prometheus-config.yaml"])["data"]["prometheus-config"])
    found = [job["scrape_configs"][0]["metric_relabel_configs"][0]["regex"]]
    for folder in ("gpu-operator", "daemonset"):
        monitor = document(ALL[f"{folder}/azure-pod-monitor.yaml"])
        (rule,) = monitor["spec"]["podMetricsEndpoints"][0]["metricRelabelings"]
        assert (rule["sourceLabels"], rule["action"]) == (["__name__"], "keep")
        found.append(rule["regex"])
    return [*found, toml("default-targets-metrics-keep-list")["dcgmexporter"]]


def toml(section: str) -> dict[str, Any]:
    settings = document(ALL["azure-monitor/ama-metrics-settings-configmap.yaml"])
    return tomllib.loads(settings["data"][section])


def test_every_keep_list_keeps_all_that_is_read_in_either_generation_and_no_more():
    read = {*dcgm_fields.FIELDS, *dcgm_fields.BOARD_FIELDS, dcgm_fields.BUILD_INFO}
    assert read >= PUBLISHED_IDS.keys()
    for regex in keep_lists():
        assert all(re.fullmatch(regex, family) for family in read)
        assert not [family for family in NOT_READ if re.fullmatch(regex, family)]
        assert len(regex.split("|")) == len(read)


def asked_families() -> set[str]:
    """Families in the readers' own source: strings that are, or begin with, a family's name."""
    name = re.compile(r"(kube|container|node)_[a-z_]+(?=\Z|\{)")
    texts = [Path(module.__file__ or "").read_text() for module in (kube_state, neighbours)]
    strings = [
        node.value
        for text in texts
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return {found[0] for text in strings if (found := name.match(text))}


def test_the_families_of_neighbours_are_those_that_are_asked_for():
    assert {*KUBE_STATE, *CADVISOR, *NODE_EXPORTER} == asked_families()


def test_azures_settings_are_read_by_its_rules():
    data = document(ALL["azure-monitor/ama-metrics-settings-configmap.yaml"])["data"]
    assert data["schema-version"] == "v1"
    assert len(data["config-version"]) <= 10
    kept = toml("default-targets-metrics-keep-list")
    assert kept.pop("minimalingestionprofile") is True
    assert set(kept) == {"dcgmexporter", "kubestate", "cadvisor", "nodeexporter"}
    # not in the minimal ingestion profile, and read here
    assert "kube_job_owner" in kept["kubestate"].split("|")
    assert "container_oom_events_total" in kept["cadvisor"].split("|")
    assert set(kept["nodeexporter"].split("|")) == set(NODE_EXPORTER)


def test_the_built_in_job_is_off_only_where_another_stands_in():
    def scraped(plan) -> dict[str, Any]:
        text = files(plan)["azure-monitor/ama-metrics-settings-configmap.yaml"]
        return tomllib.loads(document(text)["data"]["default-scrape-settings-enabled"])

    assert scraped(plan_with("aks-managed"))["dcgmexporter"] is False
    assert "dcgmexporter" not in scraped(plan_with("aks", "gpu-operator"))
    assert all(scraped(plan_with("aks"))[name] is True for name in ("kubestate", "cadvisor", "nodeexporter"))


def test_the_allow_list_of_kube_state_metrics_has_its_form():
    (labels,) = document(ALL["kube-state-metrics/helm-values.yaml"])["metricLabelsAllowlist"]
    found = re.fullmatch(r"nodes=\[([^\[\]]+)\]", labels)
    assert found
    assert "nvidia.com/mig.config" in found[1].split(",")
    allowed = document(ALL["kube-state-metrics/metric-allowlist.yaml"])["metricAllowlist"]
    assert set(allowed) == {*KUBE_STATE, "kube_node_labels", "kube_node_status_allocatable"}


# ---- how it is scraped -----------------------------------------------------------------------------------------------


def relabel(labels: dict[str, str], rules: list[dict[str, Any]]) -> dict[str, str] | None:
    """Prometheus' relabelling (documented defaults; patterns anchored) for the actions used; None: dropped."""
    labels = dict(labels)
    for rule in rules:
        rule = {re.sub(r"[A-Z]", lambda c: "_" + c[0].lower(), key): value for key, value in rule.items()}
        known = {"source_labels", "separator", "target_label", "regex", "replacement", "action"}
        assert rule.keys() <= known
        action, regex = rule.get("action", "replace"), rule.get("regex", "(.*)")
        if action == "labeldrop":
            assert rule.keys() == {"action", "regex"}
            labels = {name: value for name, value in labels.items() if not re.fullmatch(regex, name)}
            continue
        joined = rule.get("separator", ";").join(labels.get(name, "") for name in rule.get("source_labels", ()))
        found = re.fullmatch(regex, joined)
        if action == "keep":
            if not found:
                return None
            continue
        assert action == "replace"
        if found:
            labels[rule["target_label"]] = rule.get("replacement", "$1").replace("$1", joined)
    return labels


def endpoints() -> dict[str, dict[str, Any]]:
    found = {}
    for path, text in ALL.items():
        content = document(text) if path.endswith(".yaml") else {}
        for key in ("podMetricsEndpoints", "endpoints"):
            if key in content.get("spec", {}):
                (found[path],) = content["spec"][key]
    found["operator"] = document(ALL["gpu-operator/cluster-policy-patch.yaml"])["spec"]["dcgmExporter"][
        "serviceMonitor"
    ]
    found["operator helm"] = document(ALL["gpu-operator/helm-values.yaml"])["dcgmExporter"]["serviceMonitor"]
    found["chart"] = document(ALL["daemonset/helm-values.yaml"])["serviceMonitor"]
    return found


TARGET = {
    "__meta_kubernetes_pod_node_name": "aks-gpu-0",
    "namespace": "gpu-operator",
    "pod": "nvidia-dcgm-exporter-x7",
    "container": "nvidia-dcgm-exporter",
    "instance": "10.0.0.4:9400",
}
SAMPLE = {"gpu": "0", "UUID": "GPU-1", "GPU_I_ID": "7", "GPU_I_PROFILE": "1g.10gb", "Hostname": "aks-gpu-0"}


@pytest.mark.parametrize("path", endpoints())
def test_an_instance_keeps_its_holder_and_its_node_and_gets_no_other(path):
    endpoint = endpoints()[path]
    assert endpoint["honorLabels"] is True
    assert endpoint["interval"] == "30s"
    labels = relabel(TARGET, endpoint["relabelings"])
    assert labels is not None
    target = {name: value for name, value in labels.items() if not name.startswith("__")}
    held = subject_of({**target, **SAMPLE, "namespace": "ml", "pod": "bert-0", "container": "main"})
    assert (held.owner, held.owner_source, held.exporter_pod) == (("ml", "bert-0"), "label", None)
    idle = subject_of({**target, **SAMPLE})
    assert (idle.owner, idle.exporter_pod) == (None, None)
    assert idle.identity.hints[0] == ("node", "aks-gpu-0")


def test_monitors_have_the_fields_of_their_kinds():
    for path, text in ALL.items():
        if not path.endswith("-monitor.yaml"):
            continue
        content = document(text)
        is_azure = path.endswith("azure-pod-monitor.yaml")
        group = "azmonitoring.coreos.com/v1" if is_azure else "monitoring.coreos.com/v1"
        assert content["apiVersion"] == group
        spec = content["spec"]
        limits = {"labelLimit": 63, "labelNameLengthLimit": 511, "labelValueLengthLimit": 1023}
        assert {key: spec[key] for key in limits if key in spec} == (limits if is_azure else {})
        assert content["kind"] == ("PodMonitor" if "podMetricsEndpoints" in spec else "ServiceMonitor")
        assert spec.keys() <= {*limits, "selector", "namespaceSelector", "podMetricsEndpoints", "endpoints"}
        assert ("kubectl api-resources --api-group=azmonitoring.coreos.com" in text) == is_azure


def aks_job() -> dict[str, Any]:
    text = document(ALL["aks-managed/ama-metrics-prometheus-config.yaml"])["data"]["prometheus-config"]
    assert "$" not in text
    (job,) = document(text)["scrape_configs"]
    return job


def test_the_exporter_that_aks_manages_is_reached_on_its_port_with_the_labels_of_instances():
    job = aks_job()
    node = {
        "__meta_kubernetes_node_name": "aks-gpu-0",
        "__meta_kubernetes_node_address_InternalIP": "10.0.0.4",
        "__address__": "10.0.0.4:10250",
    }
    enabled = "__meta_kubernetes_node_label_kubernetes_azure_com_dcgm_exporter"
    assert relabel(node, job["relabel_configs"]) is None
    target = relabel({**node, enabled: "enabled"}, job["relabel_configs"])
    assert target is not None
    assert target["__address__"] == "10.0.0.4:19400"
    assert target["node"] == "aks-gpu-0"
    assert job["honor_labels"] is True
    assert job["kubernetes_sd_configs"] == [{"role": "node"}]
    sample = {"__name__": "DCGM_FI_PROF_GR_ENGINE_ACTIVE", **SAMPLE}
    assert relabel(sample, job["metric_relabel_configs"]) == sample
    assert relabel({**sample, "__name__": "go_goroutines"}, job["metric_relabel_configs"]) is None


@pytest.fixture(scope="module")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not here (Debian: apt install prometheus)")
    return found


def test_prometheus_takes_the_rules(promtool, tmp_path):
    def snake(rule: dict[str, Any]) -> dict[str, Any]:
        return {re.sub(r"[A-Z]", lambda c: "_" + c[0].lower(), key): value for key, value in rule.items()}

    static = [{"targets": ["127.0.0.1:9400"]}]
    # Debian builds Prometheus without the discovery of Kubernetes
    aks = {key: value for key, value in aks_job().items() if key != "kubernetes_sd_configs"}
    jobs = [{**aks, "static_configs": static}]
    for name, endpoint in endpoints().items():
        jobs.append(
            {
                "job_name": name,
                "honor_labels": endpoint["honorLabels"],
                "scrape_interval": endpoint["interval"],
                "scrape_timeout": endpoint["scrapeTimeout"],
                "static_configs": static,
                "relabel_configs": [snake(rule) for rule in endpoint["relabelings"]],
                "metric_relabel_configs": [snake(rule) for rule in endpoint.get("metricRelabelings", [])],
            }
        )
    path = tmp_path / "prometheus.yml"
    with path.open("w") as opened:
        YAML(typ="safe", pure=True).dump({"scrape_configs": jobs}, opened)
    done = subprocess.run([promtool, "check", "config", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# ---- the mounts ------------------------------------------------------------------------------------------------------


def test_the_same_counters_are_mounted_everywhere_under_the_key_that_is_read():
    lines = [read_counters(ALL["counters.csv"])]
    operator = document(ALL["gpu-operator/configmap.yaml"])
    policy = document(ALL["gpu-operator/cluster-policy-patch.yaml"])["spec"]["dcgmExporter"]
    assert policy["config"]["name"] == operator["metadata"]["name"]
    lines.append(read_counters(operator["data"]["dcgm-metrics.csv"]))
    helm = document(ALL["gpu-operator/helm-values.yaml"])["dcgmExporter"]["config"]
    assert helm["create"] is True
    lines.append(read_counters(helm["data"]))
    lines.append(read_counters(document(ALL["daemonset/helm-values.yaml"])["customMetrics"]))
    own = document(ALL["daemonset/configmap.yaml"])
    ((key, text),) = own["data"].items()
    lines.append(read_counters(text))
    assert all(found == lines[0] for found in lines)

    pod = document(ALL["daemonset/daemonset-patch.yaml"])["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    (volume,) = (volume for volume in pod["volumes"] if "configMap" in volume)
    assert volume["configMap"]["name"] == own["metadata"]["name"]
    env = {item["name"]: item["value"] for item in container["env"]}
    assert env["DCGM_EXPORTER_COLLECTORS"] == f"{mounts[volume['name']]}/{key}"
    assert env["DCGM_EXPORTER_KUBERNETES"] == "true"
    assert "SYS_ADMIN" in container["securityContext"]["capabilities"]["add"]
    assert mounts.keys() == {volume["name"] for volume in pod["volumes"]}


@pytest.mark.parametrize(
    ("owners", "folders"),
    [
        (("gpu-operator",), {"gpu-operator"}),
        (("aks",), {"daemonset"}),
        (("aks-managed",), {"aks-managed"}),
        (("aks", "gpu-operator"), {"daemonset", "gpu-operator"}),
        (("dra",), {"daemonset", "gpu-operator"}),
        (("unknown",), {"aks-managed", "daemonset", "gpu-operator"}),
        ((), {"aks-managed", "daemonset", "gpu-operator"}),
    ],
)
def test_who_owns_the_gpus_says_which_ways_are_rendered(owners, folders):
    made = files(plan_with(*owners))
    tops = {path.split("/")[0] for path in made if "/" in path}
    assert tops == {"azure-monitor", "kube-state-metrics", *folders}
    for folder in ("aks-managed", "daemonset", "gpu-operator"):
        assert (f"\n## {folder}\n" in made["README.md"]) == (folder in folders)
    if "dra" in owners:
        assert document(made["daemonset/helm-values.yaml"])["kubernetesDRA"] == {"enabled": True}


def test_what_aks_leaves_unset_is_said():
    text = files(plan_with("aks-managed"))["README.md"]
    for word in ("SM_ACTIVE", "SM_OCCUPANCY", "19400", "no series names a pod", "dcgmexporter = false"):
        assert word in text


# ---- as every rendering ----------------------------------------------------------------------------------------------


@given(operator_plans(), st.sampled_from([None, *WAYS]))
def test_any_plan_will_do_and_gives_the_same_bytes_again(plan, target):
    plan = plan_of(list(plan.gpus), list(plan.nodes), target=target)
    made = render(plan, "telemetry", CATALOGUE, Options())
    assert made == render(plan, "telemetry", CATALOGUE, Options())
    assert [file.path for file in made] == sorted(file.path for file in made)
    for file in made:
        assert SHA in file.text[:4096]
        assert "\t" not in file.text
        assert file.text.endswith("\n")
        if file.path.endswith(".yaml"):
            document(file.text)


def test_a_name_cannot_leave_its_line():
    node = NodePlan("evil`\n## daemonset\n{x}", "gpu-operator", False)
    text = files(plan_of([], [node]))["README.md"]
    assert "\n## daemonset\n" not in text
    assert "For: `evil" in text


def test_the_verb_writes_the_folder_and_no_plan_is_made_for_it(migsaw, tmp_path):
    (tmp_path / "plan.json").write_text(to_json(plan_with("aks-managed", target="aks")))
    done = migsaw("render", "plan.json", "--for", "telemetry", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    written = {str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*") if p.is_file()}
    assert written == set(files(plan_with("aks-managed")))
    assert done.stdout.split() == [f"out/{name}" for name in sorted(written)]
    refused = migsaw("plan", "plan.json", "--for", "telemetry", "-o", "x.json", cwd=tmp_path)
    assert refused.returncode == 2
    assert "'telemetry'" in refused.stderr


def test_a_way_of_an_earlier_rendering_is_not_left_beside_the_new_ones(migsaw, tmp_path):
    (tmp_path / "old.json").write_text(to_json(plan_with("aks-managed")))
    (tmp_path / "new.json").write_text(to_json(plan_with("gpu-operator")))
    assert migsaw("render", "old.json", "--for", "telemetry", "--out", "out", cwd=tmp_path).returncode == 0
    again = migsaw("render", "old.json", "--for", "telemetry", "--out", "out", cwd=tmp_path)
    assert again.returncode == 0
    refused = migsaw("render", "new.json", "--for", "telemetry", "--out", "out", cwd=tmp_path)
    assert refused.returncode == 2
    assert "aks-managed/ama-metrics-prometheus-config.yaml" in refused.stderr
