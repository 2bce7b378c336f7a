"""Who holds what: `idle` is never wrong. Clusters whose truth is known are shown with some of it left out."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_files import SYSTEM_POD, Files, mixed, pod, single, slice_lines, whole_lines

LAYOUTS = (  # of one A100-SXM4-40GB, by the published table; GI ids are only labels here
    (("1g.5gb", 7), ("1g.5gb", 8), ("1g.5gb", 9), ("3g.20gb", 1)),
    (("2g.10gb", 3), ("2g.10gb", 5), ("1g.5gb", 13), ("1g.5gb", 11)),
    (("3g.20gb", 1), ("3g.20gb", 2)),
    (("7g.40gb", 0),),
    (("1g.5gb", 7),),
)


def observe_one(files, instances, pods, *, node=None, whole=0, extra=()):
    """One GPU with these (profile, GI id, labelled pod or None)."""
    lines = [
        line
        for profile, gi_id, name in instances
        for line in slice_lines(profile, gi_id, **({"namespace": "ml", "pod": name} if name else {}))
    ]
    advertised = node or mixed("n1", Counter(profile for profile, _, _ in instances), whole=whole)
    snapshot = files.observe(nodes=[advertised], pods=[*pods, SYSTEM_POD], metrics=[*lines, *extra])
    return {i.gi_id: i for i in snapshot.nodes[0].gpus[0].instances}, snapshot


def ask(name, profile, number=1, **more):
    return pod(f"ml/{name}", {f"nvidia.com/mig-{profile}": number}, "n1", **more)


def test_what_nobody_asks_for_is_idle(tmp_path):
    found, _ = observe_one(Files(tmp_path), [("1g.5gb", 7, "a"), ("1g.5gb", 8, None)], [ask("a", "1g.5gb")])
    assert (found[7].state, str(found[7].owner)) == ("busy", "ml/a")
    assert (found[8].state, found[8].owner) == ("idle", None)
    assert found[8].owner_reason


def test_without_pods_nobody_is_idle(tmp_path):
    snapshot = Files(tmp_path).observe(nodes=[mixed("n1", {"1g.5gb": 1})], metrics=slice_lines("1g.5gb", 7))
    (instance,) = snapshot.nodes[0].gpus[0].instances
    assert (instance.state, instance.owner_reason) == ("unknown", "no pods were given (--pods)")


def test_pods_of_one_namespace_make_nobody_idle(tmp_path):
    """`kubectl get pods` without -A: what others hold is not in it."""
    files = {"nodes": [mixed("n1", {"1g.5gb": 1})], "metrics": slice_lines("1g.5gb", 7)}
    snapshot = Files(tmp_path).observe(pods=[pod("ml/cpu-0", {}, "n1")], **files)
    assert snapshot.nodes[0].gpus[0].instances[0].state == "unknown"
    whole = Files(tmp_path).observe(pods=[SYSTEM_POD], **files)  # a cluster at rest
    assert whole.nodes[0].gpus[0].instances[0].state == "idle"
    assert any("kubectl get pods -A" in n.text for n in snapshot.notes)


def test_one_of_several_is_not_told_apart(tmp_path):
    found, _ = observe_one(Files(tmp_path), [("1g.5gb", 7, None), ("1g.5gb", 8, None)], [ask("a", "1g.5gb")])
    assert [(i.state, i.owner) for i in found.values()] == [("unknown", None)] * 2
    assert "ml/a" in found[7].owner_reason


def test_the_holder_is_inferred_where_it_holds_all(tmp_path):
    found, _ = observe_one(Files(tmp_path), [("1g.5gb", 7, None), ("1g.5gb", 8, None)], [ask("a", "1g.5gb", 2)])
    assert [(i.state, str(i.owner)) for i in found.values()] == [("busy", "ml/a")] * 2
    assert all("inferred" in i.owner_reason for i in found.values())


def test_all_are_busy_where_several_pods_hold_all(tmp_path):
    pods = [ask("a", "1g.5gb"), ask("b", "1g.5gb")]
    found, _ = observe_one(Files(tmp_path), [("1g.5gb", 7, None), ("1g.5gb", 8, None)], pods)
    assert [(i.state, i.owner) for i in found.values()] == [("busy", None)] * 2
    assert "ml/a, ml/b" in found[7].owner_reason


def test_more_asked_than_there_is_are_files_of_two_times(tmp_path):
    pods = [ask("a", "1g.5gb"), ask("b", "1g.5gb")]
    found, _ = observe_one(Files(tmp_path), [("1g.5gb", 7, None)], pods)
    assert found[7].state == "unknown"


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_finished_pods_hold_nothing(tmp_path, phase):
    found, snapshot = observe_one(Files(tmp_path), [("1g.5gb", 7, None)], [ask("a", "1g.5gb", phase=phase)])
    assert found[7].state == "idle"
    assert snapshot.pods == ()


def test_a_pod_being_deleted_still_holds(tmp_path):
    pods = [ask("a", "1g.5gb", deletionTimestamp="2026-01-01T00:00:00Z")]
    found, _ = observe_one(Files(tmp_path), [("1g.5gb", 7, None)], pods)
    assert (found[7].state, str(found[7].owner)) == ("busy", "ml/a")


def test_a_pod_that_was_bound_and_has_not_started_holds(tmp_path):
    found, _ = observe_one(Files(tmp_path), [("1g.5gb", 7, None)], [ask("a", "1g.5gb", phase="Pending")])
    assert found[7].state == "busy"


def test_pods_of_other_nodes_do_not_count(tmp_path):
    elsewhere = pod("ml/a", {"nvidia.com/mig-1g.5gb": 1}, "n2")
    found, _ = observe_one(Files(tmp_path), [("1g.5gb", 7, None)], [elsewhere])
    assert found[7].state == "idle"


def test_another_profile_is_not_held_by_it(tmp_path):
    found, _ = observe_one(Files(tmp_path), [("1g.5gb", 7, None), ("2g.10gb", 3, None)], [ask("a", "1g.5gb")])
    assert (found[7].state, found[3].state) == ("busy", "idle")


def test_media_slices_have_a_resource_of_their_own(tmp_path):
    ask_me = pod("ml/a", {"nvidia.com/mig-1g.5gb.me": 1}, "n1")
    found, _ = observe_one(Files(tmp_path), [("1g.5gb", 7, None), ("1g.5gb+me", 8, None)], [ask_me])
    assert (found[7].state, found[8].state) == ("idle", "busy")


def test_work_without_a_holder_is_not_called_idle_where_the_exporter_names_nobody(tmp_path):
    lines = slice_lines("1g.5gb", 7, busy=0.6) + slice_lines("1g.5gb", 8, used=4000)
    files = {"nodes": [mixed("n1", {"1g.5gb": 2})], "pods": [pod("ml/cpu", {}, "n1"), SYSTEM_POD]}
    snapshot = Files(tmp_path).observe(metrics=lines, **files)
    assert [i.state for i in snapshot.nodes[0].gpus[0].instances] == ["unknown", "unknown"]
    calm = Files(tmp_path).observe(metrics=slice_lines("1g.5gb", 7) + slice_lines("1g.5gb", 8), **files)
    assert [i.state for i in calm.nodes[0].gpus[0].instances] == ["idle", "idle"]


def test_an_exporter_that_names_holders_speaks_for_the_kubelet(tmp_path):
    """Its empty label says that nobody holds the instance, whatever a stale counter shows."""
    lines = slice_lines("1g.5gb", 7, namespace="ml", pod="a") + slice_lines("1g.5gb", 8, busy=0.6)
    files = {"nodes": [mixed("n1", {"1g.5gb": 2})], "pods": [ask("a", "1g.5gb"), SYSTEM_POD]}
    states = [i.state for i in Files(tmp_path).observe(metrics=lines, **files).nodes[0].gpus[0].instances]
    assert states == ["busy", "idle"]


def test_a_holder_that_no_pods_file_has_puts_the_pods_in_doubt(tmp_path):
    found, snapshot = observe_one(Files(tmp_path), [("1g.5gb", 7, "gone"), ("1g.5gb", 8, None)], [])
    assert (str(found[7].owner), found[7].state, found[8].state) == ("ml/gone", "busy", "unknown")
    assert any("ml/gone" in n.text and "not in the pods files" in n.text for n in snapshot.notes)


def test_a_finished_holder_is_not_believed(tmp_path):
    pods = [ask("a", "1g.5gb", phase="Succeeded")]
    found, snapshot = observe_one(Files(tmp_path), [("1g.5gb", 7, "a"), ("1g.5gb", 8, None)], pods)
    assert [(i.owner, i.state) for i in found.values()] == [(None, "unknown")] * 2
    assert any("has finished" in n.text for n in snapshot.notes)


def test_a_holder_that_runs_elsewhere_is_not_believed(tmp_path):
    elsewhere = pod("ml/a", {"nvidia.com/mig-1g.5gb": 1}, "n2")
    found, _ = observe_one(Files(tmp_path), [("1g.5gb", 7, "a")], [elsewhere])
    assert (found[7].owner, found[7].state) == (None, "unknown")


def test_a_pod_named_for_more_than_it_asks_holds_nobody_knows_which(tmp_path):
    """Early exporters put the pod on every slice of the GPU."""
    found, snapshot = observe_one(
        Files(tmp_path), [("1g.5gb", 7, "a"), ("1g.5gb", 8, "a"), ("1g.5gb", 9, None)], [ask("a", "1g.5gb")]
    )
    assert {i.state for i in found.values()} == {"unknown"}
    assert any("more instances than it asks for" in n.text for n in snapshot.notes)


def test_shared_slices_are_not_counted(tmp_path):
    """Time-slicing: two pods on one slice, so one pod and two slices prove nothing."""
    shared = pod("ml/a", {"nvidia.com/mig-1g.5gb.shared": 1}, "n1")
    found, _ = observe_one(Files(tmp_path), [("1g.5gb", 7, None)], [shared])
    assert found[7].state == "unknown"


def test_a_pod_that_uses_gpus_without_asking_puts_its_node_in_doubt(tmp_path):
    sly = pod("ml/sly", {}, "n1")
    sly["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    found, snapshot = observe_one(Files(tmp_path), [("1g.5gb", 7, None)], [sly])
    assert found[7].state == "unknown"
    assert snapshot.pods == ()
    sly["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]
    found, _ = observe_one(Files(tmp_path), [("1g.5gb", 7, None)], [sly])
    assert found[7].state == "idle"


def test_the_operators_own_daemons_do_not(tmp_path):
    daemon = pod("gpu-operator/nvidia-dcgm-exporter-x", {}, "n1", ownerReferences=[
        {"kind": "DaemonSet", "name": "nvidia-dcgm-exporter", "controller": True}
    ])  # fmt: skip
    daemon["spec"]["runtimeClassName"] = "nvidia"
    found, _ = observe_one(Files(tmp_path), [("1g.5gb", 7, None)], [daemon])
    assert found[7].state == "idle"
    daemon["metadata"]["ownerReferences"][0]["name"] = "triton"
    found, _ = observe_one(Files(tmp_path), [("1g.5gb", 7, None)], [daemon])
    assert found[7].state == "unknown"


def test_a_claim_does_not_say_for_what(tmp_path):
    claimant = pod("ml/dra", {}, "n1")
    claimant["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    found, _ = observe_one(Files(tmp_path), [("1g.5gb", 7, None)], [claimant])
    assert found[7].state == "unknown"


def test_under_the_single_strategy_pods_ask_for_gpus_and_hold_slices(tmp_path):
    pods = [pod("ml/a", {"nvidia.com/gpu": 1}, "n1")]
    found, _ = observe_one(
        Files(tmp_path),
        [("1g.5gb", 7, "a"), ("1g.5gb", 8, None)],
        pods,
        node=single("n1", "1g.5gb", 2, **{"nvidia.com/mig.config": "all-1g.5gb"}),
    )
    assert (found[7].state, found[8].state) == ("busy", "idle")


def test_whole_gpus_have_holders_too(tmp_path):
    node = mixed("n1", {}, gpus=3, whole=3)
    lines = [*whole_lines(0, namespace="ml", pod="a"), *whole_lines(1), *whole_lines(2)]
    files = Files(tmp_path)
    one = files.observe(nodes=[node], pods=[pod("ml/a", {"nvidia.com/gpu": 1}, "n1"), SYSTEM_POD], metrics=lines)
    assert [g.state for g in one.nodes[0].gpus] == ["busy", "idle", "idle"]
    three = files.observe(nodes=[node], pods=[pod("ml/a", {"nvidia.com/gpu": 3}, "n1"), SYSTEM_POD], metrics=lines)
    assert [(g.state, str(g.owner)) for g in three.nodes[0].gpus] == [("busy", "ml/a")] * 3
    two = files.observe(nodes=[node], pods=[pod("ml/a", {"nvidia.com/gpu": 2}, "n1"), SYSTEM_POD], metrics=lines)
    assert [g.state for g in two.nodes[0].gpus] == ["busy", "unknown", "unknown"]


def test_a_slice_is_not_held_by_a_pod_that_asks_for_a_whole_gpu(tmp_path):
    node = mixed("n1", {"1g.5gb": 1}, gpus=2, whole=1)
    pods = [pod("ml/a", {"nvidia.com/gpu": 1}, "n1"), SYSTEM_POD]
    snapshot = Files(tmp_path).observe(nodes=[node], pods=pods, metrics=slice_lines("1g.5gb", 7) + whole_lines(1))
    cut, whole = snapshot.nodes[0].gpus
    assert (cut.instances[0].state, whole.state, str(whole.owner)) == ("idle", "busy", "ml/a")


@given(st.integers(0, 10**6))
def test_idle_and_busy_are_never_wrong(tmp_path_factory, seed):
    """Random clusters: any part of the exporter's labels may be missing."""
    rng = random.Random(seed)
    files = Files(tmp_path_factory.mktemp("truth"))
    truth, lines, pods, slices = {}, [], [SYSTEM_POD], Counter()
    names_any, gpus = rng.random() < 0.7, rng.randint(1, 3)
    free = []
    for gpu in range(gpus):
        for profile, gi_id in rng.choice(LAYOUTS):
            slices[profile] += 1
            truth[gpu, gi_id] = None
            free.append((gpu, gi_id, profile))
    rng.shuffle(free)
    held = [item for item in free if rng.random() < 0.6]
    labelled = {}
    while held:
        gpu, gi_id, profile = held.pop()
        mine = [(gpu, gi_id)]
        if rng.random() < 0.2 and (more := next((h for h in held if h[2] == profile), None)):
            held.remove(more)
            mine.append(more[:2])
        name = f"p{len(pods)}"
        pods.append(pod(f"ml/{name}", {f"nvidia.com/mig-{profile}": len(mine)}, "n1"))
        for key in mine:
            truth[key] = f"ml/{name}"
            if names_any and rng.random() < 0.8:
                labelled[key] = name
    for gpu, gi_id, profile in free:
        name = labelled.get((gpu, gi_id))
        labels = {"namespace": "ml", "pod": name} if name else {}
        lines += slice_lines(profile, gi_id, gpu, busy=0.5 if truth[gpu, gi_id] else 0.0, **labels)
    if rng.random() < 0.3:
        pods.append(pod("ml/old", {"nvidia.com/mig-1g.5gb": 1}, "n1", phase="Succeeded"))
    node = mixed("n1", slices, gpus=gpus)
    snapshot = files.observe(nodes=[node], pods=rng.sample(pods, len(pods)), metrics=rng.sample(lines, len(lines)))
    seen = {(g.index, i.gi_id): i for g in snapshot.nodes[0].gpus for i in g.instances}
    assert seen.keys() == truth.keys()
    for key, instance in seen.items():
        holder = truth[key]
        assert instance.state != "idle" or holder is None
        assert instance.state != "busy" or holder is not None
        assert instance.owner is None or str(instance.owner) == holder
        assert instance.owner or instance.owner_reason
        if key in labelled:
            assert str(instance.owner) == holder  # what the exporter says is not lost
    if not any(holder for holder in truth.values()):
        assert {i.state for i in seen.values()} <= {"idle"}


def test_a_scrape_target_of_any_name_is_no_holder(tmp_path):
    """honorLabels false and an exporter with another name: `pod` is a pod that asks for no GPU."""
    exporter = pod("monitoring/gpu-metrics-x", {}, "n1")
    lines = slice_lines("1g.5gb", 7, namespace="monitoring", pod="gpu-metrics-x")
    files = {"nodes": [mixed("n1", {"1g.5gb": 1})], "metrics": lines}
    snapshot = Files(tmp_path).observe(pods=[exporter, SYSTEM_POD], **files)
    (instance,) = snapshot.nodes[0].gpus[0].instances
    assert (instance.owner, instance.state) == (None, "unknown")
    assert "asks for no GPU" in instance.owner_reason


@pytest.mark.parametrize("resource", ["volcano.sh/vgpu-number", "nvidia.com/gpumem"])
def test_shares_of_other_schedulers_are_not_counted(tmp_path, resource):
    found, _ = observe_one(Files(tmp_path), [("1g.5gb", 7, None)], [pod("ml/a", {resource: 1}, "n1")])
    assert (found[7].state, resource in found[7].owner_reason) == ("unknown", True)


def test_where_another_cuts_at_arrival_requests_tell_nothing(tmp_path):
    """HAMi turns `nvidia.com/gpu` into a slice of its choice."""
    node = mixed("n1", {"1g.5gb": 1})
    node["metadata"]["annotations"] = {"hami.io/node-nvidia-register": "[]"}
    found, snapshot = observe_one(Files(tmp_path), [("1g.5gb", 7, None)], [], node=node)
    assert (snapshot.nodes[0].owner, found[7].state) == ("hami", "unknown")
