"""`--redact` hides every name and keeps every join; the order of files, items, series and labels changes nothing."""

from __future__ import annotations

import json
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_files import OPERATOR, Files, listing, mixed, pod, single, slice_lines, whole_lines
from migsaw.observe import documents
from migsaw.observe.naming import hidden, mark, plain, short_hash
from test_observe_smi import CSV

NODES = ("aks-vision-1234-vmss000000", "gpu-frankfurt-1", "gpu-frankfurt-2")
NAMESPACES = ("ml-vision", "ml-secret", "kube-system")
WORDS = ("bert", "pilot", "tungsten", "harrier")  # of pods, workloads, pools, labels and configs


def cluster():
    """Every place where a name can stand, and every kind of contradiction that a note could quote."""
    one = mixed(NODES[0], {"1g.5gb": 2, "2g.10gb": 1}, gpus=2, whole=1)
    one["metadata"]["labels"] |= {
        "kubernetes.azure.com/agentpool": "harrier",
        "agentpool": "harrier",
        "team": "tungsten",
    }
    one["metadata"]["labels"] |= {"nvidia.com/mig.config": "pilot-config", "acme.example/owner": "tungsten"}
    one["spec"] = {"taints": [{"key": "team", "value": "tungsten", "effect": "NoSchedule"}]}
    two = single(NODES[1], "3g.20gb", 2, **OPERATOR)
    three = mixed(NODES[2], {"1g.5gb": 9}, product="NVIDIA Z900 96GB")
    ask = {"nvidia.com/mig-1g.5gb": 1}
    owner = [{"kind": "ReplicaSet", "name": "bert-abc", "controller": True}]
    pods = [
        pod("ml-vision/bert-abc-0", ask, NODES[0], labels={"app": "bert", "acme.example/owner": "tungsten"}),
        pod("ml-secret/pilot-0", ask, NODES[0], ownerReferences=owner, labels={"pod-template-hash": "abc"}),
        pod("ml-secret/pilot-1", {"nvidia.com/gpu": 1}, NODES[1]),
        pod("ml-secret/pilot-9", ask, NODES[2], phase="Failed"),
        pod("ml-vision/harrier-0", {"nvidia.com/mig1g.5gb": 1}, phase="Pending"),
        pod("kube-system/tungsten-x", {}, NODES[2]),
    ]
    pods[0]["spec"]["nodeSelector"] = {"team": "tungsten", "agentpool": "harrier", "acme.example/owner": "tungsten"}
    pods[0]["spec"]["tolerations"] = [{"key": "team", "value": "tungsten"}]
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [NODES[0]]}]}]
    pods[0]["spec"]["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    }
    pods[5]["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    lines = slice_lines("1g.5gb", 7, Hostname=NODES[0], namespace="ml-vision", pod="bert-abc-0")
    lines += slice_lines("1g.5gb", 8, Hostname=NODES[0]) + slice_lines("2g.10gb", 3, Hostname=NODES[0])
    lines += whole_lines(1, Hostname=NODES[0], namespace="ml-secret", pod="pilot-gone")
    lines += slice_lines("3g.20gb", 1, Hostname=NODES[1], namespace="ml-secret", pod="pilot-1")
    lines += slice_lines("3g.20gb", 2, Hostname=NODES[1], namespace="ml-secret", pod="pilot-1")
    lines += slice_lines("1g.5gb", 7, Hostname="harrier-host-7", namespace="ml-secret", pod="pilot-9")
    return [one, two, three], pods, lines


def given_files(rng=None):
    nodes, pods, lines = cluster()

    def mixed_up(items):
        return rng.sample(items, len(items)) if rng else items

    def labels(line):
        name, inside, value = re.fullmatch(r"(\w+)\{(.*)\} (.*)", line).groups()
        return f"{name}{{{','.join(mixed_up(inside.split(',')))}}} {value}"

    half = len(pods) // 2
    return {
        "nodes": dict(mixed_up([(f"nodes-{k}.json", listing([node])) for k, node in enumerate(mixed_up(nodes))])),
        "pods": dict(
            mixed_up([("a.json", listing(mixed_up(pods[:half]))), ("b.json", listing(mixed_up(pods[half:])))])
        ),
        "metrics": {"harrier.prom": "\n".join(labels(line) for line in mixed_up(lines))},
        "smi": {f"{NODES[1]}.csv": CSV.format("Enabled", "Enabled")},
    }


@pytest.fixture
def both(tmp_path):
    files = Files(tmp_path)
    return files.observe(**given_files()), files.observe(**given_files(), redact=True)


def test_no_name_is_left_anywhere(both):
    bare, hidden_one = map(documents.to_json, both)
    secrets = [*NODES, *NAMESPACES, *WORDS, "frankfurt", "vision", "secret", "acme", "pilot-config", "harrier-host-7"]
    assert [name for name in (*NODES, *NAMESPACES, *WORDS, "harrier-host-7") if name not in bare] == []
    assert [name for name in secrets if name in hidden_one] == []


def test_what_every_cluster_has_in_common_stays(both):
    bare, redacted = both
    for one, other in zip(
        sorted((g.uuid or "", len(g.instances), g.board or "", g.mig) for n in bare.nodes for g in n.gpus),
        sorted((g.uuid or "", len(g.instances), g.board or "", g.mig) for n in redacted.nodes for g in n.gpus),
        strict=True,
    ):
        assert one == other
    assert sorted(str(p.asks) for p in bare.pods) == sorted(str(p.asks) for p in redacted.pods)
    assert [n.severity for n in redacted.notes].count("warning") == [n.severity for n in bare.notes].count("warning")


def test_every_join_is_kept(both):
    """Pods run on the same nodes, hold the same instances, select the same labels, in the same namespaces."""
    bare, redacted = both

    def joins(snapshot):
        names = {n.name: index for index, n in enumerate(sorted(snapshot.nodes, key=lambda n: str(n.gpus)))}
        pods = {p.key: f"{sorted(p.asks)}{p.phase}{len(p.labels)}" for p in snapshot.pods}
        held = [
            (names[n.name], g.index, i.gi_id, pods.get(str(i.owner)), i.state)
            for n in snapshot.nodes
            for g in n.gpus
            for i in g.instances
        ]
        placed = [(pods[p.key], names.get(p.node or "")) for p in snapshot.pods]
        selected = [
            (pods[p.key], names[n.name])
            for p in snapshot.pods
            for n in snapshot.nodes
            if p.node_selector and p.node_selector.items() <= n.labels.items()
        ]
        hosts = [
            (pods[p.key], names[n.name])
            for p in snapshot.pods
            for n in snapshot.nodes
            for term in p.node_affinity
            for row in term
            if n.labels.get(row.key) in row.values
        ]
        tolerated = [
            (pods[p.key], names[n.name])
            for p in snapshot.pods
            for n in snapshot.nodes
            for t in p.tolerations
            if (t.key, t.value) in {(taint.key, taint.value) for taint in n.taints}
        ]
        versions = {f"Node/{n.name}" for n in snapshot.nodes} | {f"Pod/{p.key}" for p in snapshot.pods}
        loose = sorted(key.split("/")[0] for key in snapshot.resource_versions if key not in versions)
        pools = [n.labels.get("agentpool") == n.pool for n in snapshot.nodes]
        spaces = sorted([p.namespace for p in snapshot.pods].count(s) for s in {p.namespace for p in snapshot.pods})
        parts = (held, placed, selected, hosts, tolerated)
        return [sorted(part, key=str) for part in parts], loose, sorted(pools), spaces

    first, second = joins(bare), joins(redacted)
    assert first == second
    assert all(first[0])  # each kind of join occurs
    assert first[1] == []


def test_the_same_name_has_the_same_hash_in_every_run(tmp_path, both):
    again = Files(tmp_path).observe(**given_files(), redact=True)
    assert documents.to_json(again) == documents.to_json(both[1])


def test_the_command_hides_names_in_its_table_too(migsaw, tmp_path):
    Files(tmp_path).observe(**given_files())
    words = ["observe", "--nodes", *given_files()["nodes"], "--pods", "a.json", "b.json", "--metrics", "harrier.prom"]
    done = migsaw(*words, "--redact", "-o", "s.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [name for name in (*NODES, *NAMESPACES, *WORDS) if name in done.stdout + done.stderr] == []


@given(st.text(), st.text(min_size=1), st.sampled_from(["node", "pod", "label"]))
def test_marks_come_off_or_are_hidden(before, name, kind):
    """Whatever signs a name has."""
    before = re.sub("[\ue000-\ue002]", "", before)
    clean = re.sub("[\ue000-\ue002]", "", name)
    text = f"{before}{mark(kind, name)} ends"
    assert plain(text) == f"{before}{clean} ends"
    assert hidden(text, short_hash) == f"{before}{short_hash(kind, clean)} ends"


# ---- order ---------------------------------------------------------------------------------------------------------


@given(st.integers(0, 10**6))
def test_the_order_of_the_input_changes_nothing(tmp_path_factory, seed):
    straight, mixed_up = given_files(), given_files(random.Random(seed))
    one = documents.plain(Files(tmp_path_factory.mktemp("a")).observe(**straight))
    other = documents.plain(Files(tmp_path_factory.mktemp("b")).observe(**mixed_up))
    for part in ("nodes", "pods", "resource_versions", "geometries", "taken_at"):
        assert one[part] == other[part]
    # notes name the first place, which moves with the lines; what they say does not
    assert sorted(n["text"] for n in one["notes"]) == sorted(n["text"] for n in other["notes"])


def test_lists_are_in_canonical_order(tmp_path):
    snapshot = Files(tmp_path).observe(**given_files(random.Random(3)))
    assert [n.name for n in snapshot.nodes] == sorted(n.name for n in snapshot.nodes)
    assert [(p.namespace, p.name) for p in snapshot.pods] == sorted((p.namespace, p.name) for p in snapshot.pods)
    for node in snapshot.nodes:
        assert [g.index for g in node.gpus] == sorted(g.index for g in node.gpus)
        for gpu in node.gpus:
            assert [i.gi_id for i in gpu.instances] == sorted(i.gi_id for i in gpu.instances)
    assert list(snapshot.resource_versions) == sorted(snapshot.resource_versions)


def test_a_snapshot_that_was_written_is_read_back_the_same(tmp_path):
    from migsaw.model.snapshot import Snapshot

    snapshot = Files(tmp_path).observe(**given_files())
    path = tmp_path / "snapshot.json"
    path.write_text(documents.to_json(snapshot))
    assert documents.to_json(documents.read(path, Snapshot)) == path.read_text()
    assert json.loads(path.read_text())["schema"] == "migsaw/snapshot/v1"
