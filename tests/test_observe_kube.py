"""kubectl output in every form, and what a pod asks for, belongs to and may use."""

from __future__ import annotations

import io
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_files import SYSTEM_POD, Files, listing, mixed, node, pod, slice_lines
from migsaw.cli.output import to_yaml
from migsaw.errors import InputError
from migsaw.model.snapshot import Requirement, Taint, Toleration, Workload
from migsaw.observe import jsonstream
from migsaw.observe.jsonstream import JsonStream
from migsaw.observe.pods import asked

NODES = [mixed("n1", {"1g.5gb": 1}), mixed("n2", {"2g.10gb": 1})]


def forms():
    bare = [{key: value for key, value in item.items() if key != "kind"} for item in NODES]
    node_list = {"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": bare}
    both = json.loads(listing([*NODES, pod("ml/a")]))
    return {
        "list.json": listing(NODES),
        "nodelist.json": json.dumps(node_list),
        "nodes and pods.json": json.dumps(both),
        "one line each.json": "\n".join(json.dumps(item) for item in NODES),
        "array.json": json.dumps(NODES),
        "indented.json": json.dumps(json.loads(listing(NODES)), indent=4),
        "bom.json": "\ufeff" + listing(NODES),
        "list.yaml": "# Please edit the object below.\n#\n" + to_yaml(json.loads(listing(NODES))),
        "nodelist.yaml": to_yaml(node_list),
        "documents.yaml": "---\n".join(to_yaml(item) for item in NODES),
        "no suffix": to_yaml(json.loads(listing(NODES))),
        "json in a .txt": listing(NODES),
    }


@pytest.mark.parametrize("name", forms())
def test_every_form_of_kubectl_output(tmp_path, name):
    snapshot = Files(tmp_path).observe(nodes={name: forms()[name]})
    assert [n.name for n in snapshot.nodes] == ["n1", "n2"]
    assert [[i.profile for g in n.gpus for i in g.instances] for n in snapshot.nodes] == [["1g.5gb"], ["2g.10gb"]]
    assert snapshot.resource_versions == {"Node/n1": "7", "Node/n2": "7"}


def test_one_object_alone(tmp_path):
    for name, text in {"n.json": json.dumps(NODES[0]), "n.yaml": to_yaml(NODES[0])}.items():
        assert [n.name for n in Files(tmp_path).observe(nodes={name: text}).nodes] == ["n1"]


def test_several_files_are_one_cluster(tmp_path):
    files = {"a.json": listing(NODES[:1]), "b.json": listing(NODES[1:])}
    assert [n.name for n in Files(tmp_path).observe(nodes=files).nodes] == ["n1", "n2"]


def test_of_two_objects_of_one_node_the_later_is_used(tmp_path):
    old, new = mixed("n1", {"1g.5gb": 1}), mixed("n1", {"2g.10gb": 1})
    new["metadata"]["resourceVersion"] = "10"
    for files in ({"a.json": listing([old]), "b.json": listing([new])}, {"a.json": listing([new, old])}):
        snapshot = Files(tmp_path).observe(nodes=files)
        assert [i.profile for i in snapshot.nodes[0].gpus[0].instances] == ["2g.10gb"]
        assert any("given twice" in n.text for n in snapshot.notes)


def test_items_that_are_none_are_named(tmp_path):
    items = [NODES[0], "text", {"kind": "Node", "metadata": None}, {"kind": "Node"}, NODES[1]]
    snapshot = Files(tmp_path).observe(nodes={"n.json": json.dumps({"kind": "List", "items": items})})
    assert [n.name for n in snapshot.nodes] == ["n1", "n2"]
    assert [n.where for n in snapshot.notes if "left out" in n.text] == ["$.items[1]", "$.items[2]", "$.items[3]"]


@pytest.mark.parametrize(
    "spoil",
    [
        {"metadata": {"name": "odd"}},
        {"metadata": {"name": "odd", "labels": None}, "spec": None, "status": None},
        {"metadata": {"name": "odd", "labels": [], "annotations": "x"}, "spec": [], "status": {"capacity": []}},
        {
            "metadata": {"name": "odd", "labels": {"a": None, "b": 1, "c": True, "d": {}}},
            "spec": {"taints": [None, 3, {}]},
        },
        {"metadata": {"name": "odd"}, "status": {"capacity": {"nvidia.com/gpu": "many"}, "conditions": [7]}},
    ],
)
def test_a_node_without_labels_or_of_strange_shape_harms_nobody(tmp_path, spoil):
    snapshot = Files(tmp_path).observe(nodes=[NODES[0], {"apiVersion": "v1", "kind": "Node"} | spoil])
    assert [n.name for n in snapshot.nodes] == ["n1"]


def test_nodes_without_gpus_are_left_out(tmp_path):
    snapshot = Files(tmp_path).observe(nodes=[NODES[0], node("cpu", {}, {"agentpool": "system"})])
    assert [n.name for n in snapshot.nodes] == ["n1"]


def test_cordoned_and_not_ready_nodes_take_no_pods(tmp_path):
    cordoned = mixed("n1", {"1g.5gb": 1}) | {"spec": {"unschedulable": True}}
    lost = mixed("n2", {"1g.5gb": 1})
    lost["status"]["conditions"] = [
        {"type": "MemoryPressure", "status": "False"},
        {"type": "Ready", "status": "Unknown"},
    ]
    fine = mixed("n3", {"1g.5gb": 1})
    del fine["status"]["conditions"]
    nodes = Files(tmp_path).observe(nodes=[cordoned, lost, fine]).nodes
    assert [n.schedulable for n in nodes] == [False, False, True]


def test_taints_and_tolerations(tmp_path):
    taints = [{"key": "sku", "value": "gpu", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}]
    tainted = mixed("n1", {"1g.5gb": 1}) | {"spec": {"taints": taints}}
    tolerant = pod("ml/a", {"nvidia.com/gpu": 1}, phase="Pending")
    tolerant["spec"]["tolerations"] = [{"operator": "Exists"}, {"key": "sku", "value": "gpu", "effect": "NoSchedule"}]
    snapshot = Files(tmp_path).observe(nodes=[tainted], pods=[tolerant])
    assert snapshot.nodes[0].taints == (Taint("a", "", "NoExecute"), Taint("sku", "gpu", "NoSchedule"))
    (found,) = snapshot.pods
    assert found.tolerations == (Toleration(None, "Exists"), Toleration("sku", "Equal", "gpu", "NoSchedule"))


def test_what_pods_select_by_is_kept_of_nodes(tmp_path):
    picky = pod("ml/a", {"nvidia.com/gpu": 1}, phase="Pending", labels={"app": "a"})
    picky["spec"]["nodeSelector"] = {"team": "vision"}
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["1", "2"]}]}]
    picky["spec"]["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    }
    machine = mixed("n1", {"1g.5gb": 1})
    machine["metadata"]["labels"] |= {"team": "vision", "zone": "1", "other": "x", "agentpool": "p"}
    snapshot = Files(tmp_path).observe(nodes=[machine], pods=[picky])
    (found,) = snapshot.pods
    assert (found.node_selector, found.labels) == ({"team": "vision"}, {"app": "a"})
    assert found.node_affinity == ((Requirement("zone", "In", ("1", "2")),),)
    labels = snapshot.nodes[0].labels
    assert labels == {"agentpool": "p", "kubernetes.io/hostname": "n1", "team": "vision", "zone": "1"}


# ---- what a pod asks for -------------------------------------------------------------------------------------------


def container(number=0, resource="nvidia.com/gpu", part="limits", **more):
    return {"resources": {part: {resource: str(number), "cpu": "1"}}, **more}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [container(1), container(2)]}, {"nvidia.com/gpu": 3}),
        ({"containers": [container(1, part="requests")]}, {"nvidia.com/gpu": 1}),
        ({"containers": [container(1)], "initContainers": [container(4)]}, {"nvidia.com/gpu": 4}),
        ({"containers": [container(2)], "initContainers": [container(1), container(1)]}, {"nvidia.com/gpu": 2}),
        # a sidecar runs beside the containers, and beside the init containers after it
        (
            {"containers": [container(1)], "initContainers": [container(2, restartPolicy="Always")]},
            {"nvidia.com/gpu": 3},
        ),
        (
            {"containers": [], "initContainers": [container(1, restartPolicy="Always"), container(3)]},
            {"nvidia.com/gpu": 4},
        ),
        (
            {"containers": [], "initContainers": [container(3), container(1, restartPolicy="Always")]},
            {"nvidia.com/gpu": 3},
        ),
        (
            {"containers": [container(1, "nvidia.com/mig-1g.5gb"), container(1, "nvidia.com/mig-2g.10gb.shared")]},
            {"nvidia.com/mig-1g.5gb": 1, "nvidia.com/mig-2g.10gb.shared": 1},
        ),
        ({"containers": [container(0), {"resources": None}, {}]}, {}),
        ({"containers": None}, {}),
    ],
)
def test_what_the_scheduler_sets_aside(spec, expected):
    assert asked(spec) == expected


def test_finished_pods_and_pods_without_gpus_are_not_kept(tmp_path):
    ask = {"nvidia.com/gpu": 1}
    pods = [pod("ml/a", ask, "n1"), pod("ml/b", ask, phase="Pending"), pod("ml/c", ask, "n1", phase="Failed")]
    pods += [pod("ml/d", ask, "n1", phase="Succeeded"), pod("ml/e", {}, "n1"), SYSTEM_POD]
    snapshot = Files(tmp_path).observe(pods=pods)
    assert [(p.key, p.node, p.phase, p.asks) for p in snapshot.pods] == [
        ("ml/a", "n1", "Running", ask),
        ("ml/b", None, "Pending", ask),
    ]
    assert snapshot.resource_versions == {"Pod/ml/a": "9", "Pod/ml/b": "9"}


def test_a_resource_name_that_nothing_advertises_is_noted(tmp_path):
    """As the AKS documentation once wrote it."""
    snapshot = Files(tmp_path).observe(pods=[pod("ml/a", {"nvidia.com/mig1g.5gb": 1}, phase="Pending")])
    assert any("nvidia.com/mig-1g.5gb?" in n.text and n.where == "$.items[0]" for n in snapshot.notes)


@pytest.mark.parametrize(
    ("owner", "metadata", "expected"),
    [
        (("ReplicaSet", "bert-7d9c"), {"labels": {"pod-template-hash": "7d9c"}}, ("Deployment", "bert")),
        (("ReplicaSet", "bert-7d9c"), {}, ("ReplicaSet", "bert-7d9c")),
        (("StatefulSet", "db"), {}, ("StatefulSet", "db")),
        # 29411280 minutes after 1970 is 2025-12-02T12:00Z
        (("Job", "nightly-29411280"), {"creationTimestamp": "2025-12-02T12:00:04Z"}, ("CronJob", "nightly")),
        (("Job", "train-20251202"), {"creationTimestamp": "2025-12-02T12:00:04Z"}, ("Job", "train-20251202")),
        (("Job", "nightly-29411280"), {}, ("Job", "nightly-29411280")),
        (("PyTorchJob", "ddp"), {}, ("PyTorchJob", "ddp")),
        (None, {}, None),
    ],
)
def test_the_workload_is_what_recurs(tmp_path, owner, metadata, expected):
    owners = {"ownerReferences": [{"kind": owner[0], "name": owner[1], "controller": True}]} if owner else {}
    (found,) = Files(tmp_path).observe(pods=[pod("ml/a", {"nvidia.com/gpu": 1}, **metadata, **owners)]).pods
    assert found.workload == (Workload("ml", *expected) if expected else None)


# ---- large and broken JSON -----------------------------------------------------------------------------------------

DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


def stream(text):
    return [item.data for item in JsonStream(io.BytesIO(text.encode()), "f").items()]


@given(st.lists(DATA, max_size=6), st.sampled_from([None, 4]), st.integers(1, 40), st.booleans())
def test_items_come_out_as_the_standard_library_reads_them(monkeypatch_chunk, items, indent, chunk, first):
    """Whatever the pieces in which the file arrives."""
    document = {"items": items, "kind": "List"} if first else {"kind": "List", "a": [1], "items": items}
    with monkeypatch_chunk(chunk):
        assert stream(json.dumps(document, indent=indent)) == items


@given(st.lists(DATA, max_size=4), st.integers(1, 40), st.data())
def test_a_file_cut_off_anywhere_is_refused_with_its_line(monkeypatch_chunk, items, chunk, data):
    text = json.dumps({"items": items, "kind": "List"}, indent=2)
    cut = data.draw(st.integers(1, len(text) - 1))
    with monkeypatch_chunk(chunk), pytest.raises(InputError) as caught:
        stream(text[:cut])
    assert 1 <= int(caught.value.where.place) <= text[:cut].count("\n") + 1


@pytest.fixture(scope="session")
def monkeypatch_chunk():
    def smaller(size):
        patch = pytest.MonkeyPatch()
        context = patch.context()
        return _Chunk(context, size)

    return smaller


class _Chunk:
    def __init__(self, context, size):
        self._context, self._size = context, size

    def __enter__(self):
        patch = self._context.__enter__()
        patch.setattr(jsonstream, "CHUNK", self._size)
        patch.setattr(jsonstream, "_NEAR_THE_END", 10**6)
        return patch

    def __exit__(self, *problem):
        return self._context.__exit__(*problem)


def test_broken_in_the_middle_of_a_large_file_is_found_there(tmp_path):
    rng, items = random.Random(1), [pod(f"ml/p{n}", {"nvidia.com/gpu": 1}) for n in range(4000)]
    lines = json.dumps({"kind": "List", "items": items}, indent=1).split("\n")
    at = rng.randrange(len(lines) // 3, len(lines) // 2)
    lines[at] = lines[at].replace('"', "'", 1) if '"' in lines[at] else lines[at] + " oops"
    with pytest.raises(InputError) as caught:
        Files(tmp_path).observe(pods={"pods.json": "\n".join(lines)})
    assert abs(int(caught.value.where.place) - (at + 1)) <= 1


def test_metrics_join_by_the_exporters_pod_ip(tmp_path):
    exporter = pod("monitoring/gpu-metrics-1", {}, "n1")
    exporter["status"]["podIP"] = "10.1.2.3"
    lines = slice_lines("1g.5gb", 7, Hostname=None, instance="10.1.2.3:9400")
    snapshot = Files(tmp_path).observe(nodes=NODES, pods=[exporter, SYSTEM_POD], metrics=lines)
    assert [i.gi_id for i in snapshot.nodes[0].gpus[0].instances] == [7]
