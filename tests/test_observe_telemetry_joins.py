"""Telemetry of a server beside a snapshot: boards, profiles and owners are joined; redacted, no name is left."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import exporter_texts as texts
from cluster_files import SYSTEM_POD, Files, mixed, pod, slice_lines, whole_lines
from exporter_texts import A100
from migsaw.cli.shared import load_catalogue
from migsaw.model.refs import PodRef
from migsaw.model.telemetry import (
    BoardReading,
    Device,
    Distribution,
    NodeUse,
    PodUse,
    Series,
    Telemetry,
    Window,
)
from migsaw.observe import documents
from migsaw.observe.assemble import Facts, assemble
from migsaw.observe.naming import mark, short_hash
from migsaw.observe.redact import show_names
from migsaw.observe.telemetry import complete

HOUR = Distribution(0.4, 0.1, 0.4, 0.7, 0.9, 0.2)
SERIES = {"sm": Series("DCGM_FI_PROF_SM_ACTIVE", 120, HOUR)}
WINDOW = Window(0, 3600, 30)
UUID = texts.uuid(0)


def raw(gi_id, **more):
    """As a server's labels give it."""
    given = {"node": "10.0.0.4", "index": 0, "uuid": UUID, "product": A100, "owner_reason": "no label names a pod"}
    return Device(gi_id=gi_id, series=SERIES, **(given | more))


def history(*devices, boards=()):
    return Telemetry("prometheus", WINDOW, devices, boards)


@pytest.fixture
def snapshot(tmp_path):
    """A label of GPU instance 5 is wrong and one pod asks for the 1g.5gb: both are told by the Node and the pods."""
    lines = slice_lines("1g.5gb", 7) + slice_lines("3g.20gb", 5) + whole_lines(1)
    node = mixed("n1", {"1g.5gb": 1, "2g.10gb": 1}, gpus=2, whole=1)
    pods = [pod("ml/bert-0", {"nvidia.com/mig-1g.5gb": 1}, "n1"), SYSTEM_POD]
    return Files(tmp_path).observe(nodes=[node], pods=pods, metrics=lines)


def completed(snapshot, *devices, boards=()):
    return complete(history(*devices, boards=boards), snapshot, load_catalogue())


def test_what_labels_leave_out_comes_from_the_snapshot(snapshot):
    telemetry = completed(snapshot, raw(7, profile_label="1g.5gb"), raw(5, profile_label="3g.20gb"))
    five, seven = telemetry.devices
    assert (seven.node, seven.board, seven.profile, seven.profile_label) == ("n1", "a100-sxm4-40gb", "1g.5gb", None)
    assert (seven.owner, seven.owner_source, seven.owner_reason) == (PodRef("ml", "bert-0"), "pods", None)
    assert (five.profile, five.profile_label, five.owner, five.owner_source) == ("2g.10gb", "3g.20gb", None, "none")
    assert five.owner_reason == "no pod of the node is left that could hold it"
    assert (five.series, telemetry.window, telemetry.source) == (SERIES, WINDOW, "prometheus")


def test_completing_again_changes_nothing(snapshot):
    once = completed(snapshot, raw(7), raw(5, profile_label="3g.20gb"), raw(None, uuid=texts.uuid(1)))
    assert complete(once, snapshot, load_catalogue()) == once


def test_a_holder_that_the_labels_name_is_kept_and_free_time_stays_free(snapshot):
    other = PodRef("ml", "earlier")
    devices = (raw(7), raw(7, owner=other, owner_source="label", owner_reason=None))
    free, held = completed(snapshot, *devices).devices
    assert (free.owner, free.owner_reason) == (None, "no label names a pod")
    assert (held.owner, held.owner_source) == (other, "label")


def test_an_instance_that_was_cut_anew_keeps_each_profile_that_it_had(snapshot):
    devices = completed(snapshot, raw(5, profile_label="1g.5gb"), raw(5, profile_label="2g.10gb")).devices
    assert [(d.profile, d.profile_label) for d in devices] == [("1g.5gb", None), ("2g.10gb", None)]


def test_an_instance_of_the_past_keeps_its_label_where_the_board_has_it(snapshot):
    past, strange = completed(snapshot, raw(3, profile_label="3g.20gb"), raw(4, profile_label="9g.99gb")).devices
    assert (past.gi_id, past.profile, past.board) == (3, "3g.20gb", "a100-sxm4-40gb")
    assert (strange.profile, strange.profile_label) == (None, "9g.99gb")


def test_without_a_uuid_node_and_index_are_the_join(snapshot):
    (device,) = completed(snapshot, raw(5, uuid=None, node="n1")).devices
    assert (device.profile, device.uuid) == ("2g.10gb", UUID)


def test_another_gpu_at_the_same_place_is_not_joined(snapshot):
    """A GPU was replaced: series of the old one are in the window."""
    old = raw(5, uuid="GPU-old", node="n1", profile_label="1g.5gb")
    assert completed(snapshot, old).devices == (old,)
    unknown = raw(5, uuid=None, node="n9")
    assert completed(snapshot, unknown).devices == (unknown,)


def test_boards_are_placed_and_their_values_left_alone(snapshot):
    (board,) = completed(snapshot, boards=[BoardReading("10.0.0.4", 3, UUID, 2, HOUR)]).boards
    assert board == BoardReading("n1", 0, UUID, 2, HOUR)


def test_assembling_completes_what_a_server_gave(snapshot):
    facts = Facts(rows=(), telemetry=history(raw(7)))
    assert assemble(facts, load_catalogue()).telemetry == history(raw(7))


def test_telemetry_of_a_scrape_that_is_stripped_and_completed_is_the_same(snapshot):
    """The same joins on both ways: labels only in, the scrape's own devices out."""
    scraped = snapshot.telemetry
    bare = [
        replace(
            d,
            node="10.0.0.4",
            board=None,
            profile=None,
            profile_label=d.profile_label or d.profile,
            owner=None,
            owner_source="none",
            owner_reason="no label names a pod",
        )
        for d in scraped.devices
    ]
    assert completed(snapshot, *bare).devices == scraped.devices


# ---- redaction -------------------------------------------------------------------------------------------------------

SECRETS = ("tungsten", "harrier", "pilot", "bert", "frankfurt", "n1-secret", "acme")


def named_snapshot(folder):
    lines = slice_lines("1g.5gb", 7, Hostname="n1-secret", namespace="tungsten", pod="bert-0")
    lines += slice_lines("1g.5gb", 9, Hostname="harrier-host", exported_pod="pilot-0", exported_namespace="tungsten")
    lines = [line.replace("GPU-0", "GPU-1") if "harrier" in line else line for line in lines]
    lines = [line.replace("exported_pod", 'pod="dcgm-exporter-harrier",exported_pod') for line in lines]
    snapshot = Files(folder).observe(nodes=[mixed("n1-secret", {"1g.5gb": 1})], metrics=lines)
    owner = PodRef("tungsten", "bert-0")
    telemetry = replace(
        snapshot.telemetry,
        pods=(PodUse(owner, HOUR),),
        nodes=(NodeUse("n1-secret", HOUR),),
        server="Prometheus 2.42.0 at https://metrics.acme.example/harrier",
        partial=(
            'DCGM_FI_PROF_SM_ACTIVE: mean of 3 GPUs not read: "{namespace=\\"tungsten\\"}" is too much',
            "the server stopped answering (http://prom.frankfurt:9090/api/v1/query)",
            "no answer from prom.frankfurt:9090",
        ),
        devices=(*snapshot.telemetry.devices, raw(3, owner_reason=f"pod {mark('pod', 'pilot-9')} without a namespace")),
    )
    return replace(snapshot, telemetry=telemetry, notes=())  # in notes the marks are gone already


def test_no_name_is_left_in_redacted_telemetry(tmp_path):
    snapshot = named_snapshot(tmp_path)
    bare = documents.to_json(show_names(snapshot, redact=False))
    hidden = documents.to_json(show_names(snapshot, redact=True))
    assert [name for name in SECRETS if name not in bare] == []
    assert [name for name in SECRETS if name in hidden] == []
    for public in (UUID, "DCGM_FI_PROF_SM_ACTIVE: mean of 3 GPUs not read", "Prometheus 2.42.0", A100):
        assert public in hidden


def test_redacted_telemetry_still_meets_its_nodes_and_pods(tmp_path):
    shown = show_names(named_snapshot(tmp_path), redact=True)
    telemetry, nodes = shown.telemetry, {n.name for n in shown.nodes}
    held = {d.gi_id: d for d in telemetry.devices}
    assert {held[7].node, held[9].node} == nodes == {short_hash("node", n) for n in ("n1-secret", "harrier-host")}
    assert (
        telemetry.pods[0].pod
        == held[7].owner
        == PodRef(short_hash("namespace", "tungsten"), short_hash("pod", "bert-0"))
    )
    assert telemetry.nodes[0].node == held[7].node
    assert held[9].exporter_pod == short_hash("pod", "dcgm-exporter-harrier")
    assert [d.node or "" for d in telemetry.devices] == sorted(d.node or "" for d in telemetry.devices)


def test_a_snapshot_with_telemetry_is_read_back_the_same(tmp_path):
    from migsaw.model.snapshot import Snapshot

    path = tmp_path / "snapshot.json"
    path.write_text(documents.to_json(named_snapshot(tmp_path)))
    assert documents.to_json(documents.read(path, Snapshot)) == path.read_text()
    assert json.loads(path.read_text())["telemetry"]["source"] == "exporter"
