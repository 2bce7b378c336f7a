"""A workload of which only the class is known: its default slot in a plan, in words and JSON, and what beats it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cluster_files import SYSTEM_POD, Files, listing, mixed, pod
from migsaw.cli.shared import load_catalogue, load_facets
from migsaw.fit.estimate_classes import CLASSES, defaults, find_class
from migsaw.model.fits import Fit, Fits, Option, WorkloadRef
from migsaw.model.money import PriceTable
from migsaw.model.plan import Plan
from migsaw.model.policy import Policy
from migsaw.model.refs import PodRef
from migsaw.model.snapshot import Gpu, Instance, Memory, Node, Pod, Snapshot
from migsaw.plan.make import make_plan
from migsaw.plan.planner import Inputs

CATALOGUE = load_catalogue()
A100 = "a100-pcie-80gb"
WHOLE = {"nvidia.com/gpu": 1}
# the table of docs/guides/estimate.md, column a100-pcie-80gb
TABLE = {"tiny inference": "1g.10gb", "LLM inference 8B, 16 bits": "3g.40gb", "QLoRA 8B": "2g.20gb"}


def idle(board: str = A100) -> Node:
    gpu = Gpu(0, "GPU-0", board, None, "on", instances=(Instance("1g.10gb", 7, None, None, "nobody asks", "idle"),))
    return Node("n1", owner="gpu-operator", strategy="mixed", layout_scope="gpu", gpus=(gpu,))


def waiting(name: str | None, asks: dict[str, int] = WHOLE) -> Pod:
    return Pod("ml", "new-0", None, "Pending", asks, workload_class=name)


def made(node: Node, *pods: Pod, fits: Fits | None = None, policy: Policy | None = None) -> Plan:
    inputs = Inputs(Snapshot((node,), pods), "0" * 64, CATALOGUE, policy or Policy(), fits)
    return make_plan(inputs, load_facets(), PriceTable())


@pytest.mark.parametrize(("name", "profile"), TABLE.items())
def test_a_pod_of_which_only_the_class_is_known_gets_the_default_of_the_table(name: str, profile: str) -> None:
    (got,) = made(idle(), waiting(name)).pods
    assert got.after is not None
    assert got.after.profile == profile
    assert got.known_by is not None
    assert (got.known_by.source, got.known_by.workload_class) == ("estimated", name)
    work = next(work for work in CLASSES if work.name == name)
    assert work.assumes in got.known_by.confidence
    need = next(row.need for row in defaults(CATALOGUE.board(A100)) if row.work is work)
    assert need is not None
    assert got.known_by.memory_mib.peak == need.high_mib, "the upper end decides"
    assert f"class {name}, estimated" in got.text
    assert f"its request must become nvidia.com/mig-{profile}: 1" in got.text


def test_without_a_class_the_pod_keeps_what_it_asks_for() -> None:
    (got,) = made(idle(), waiting(None)).pods
    assert got.known_by is None
    assert got.after is None or got.after.profile == "off"


def test_whoever_asks_for_a_slice_knows_more_than_its_class() -> None:
    (got,) = made(idle(), waiting("tiny inference", {"nvidia.com/mig-3g.40gb": 1})).pods
    assert (got.after.profile if got.after else None, got.known_by) == ("3g.40gb", None)


def test_a_fit_beats_the_class_of_the_same_pod() -> None:
    fit = Fit(WorkloadRef("ml", "Pod", "new-0"), "measured", (Option(A100, "4g.40gb", True),), confidence="two trials")
    by_class = Fit(WorkloadRef("ml", "Pod", "new-0"), "estimated", workload_class="tiny inference")
    for rows in ((fit,), (by_class, fit), (fit, by_class)):
        (got,) = made(idle(), waiting("tiny inference"), fits=Fits(rows)).pods
        assert got.after is not None
        assert got.after.profile == "4g.40gb"
        assert got.known_by is not None
        assert (got.known_by.source, got.known_by.workload_class) == ("measured", None)


def test_what_was_seen_of_the_same_workload_silences_its_class() -> None:
    """Of the bare pod's own name one sample is known: the class says nothing any more."""
    holds = Instance("2g.20gb", 3, None, PodRef("ml", "bert-0"), None, "busy", None, Memory(9000, 19968))
    busy = Gpu(1, "GPU-1", A100, None, "on", instances=(holds,))
    from migsaw.model.snapshot import Workload

    bert = Workload("ml", "Deployment", "bert")
    running = Pod("ml", "bert-0", "n1", "Running", {"nvidia.com/mig-2g.20gb": 1}, bert)
    new = replace(waiting("tiny inference"), workload=bert)
    by_class = Fits((Fit(WorkloadRef("ml", "Deployment", "bert"), "estimated", workload_class="tiny inference"),))
    node = replace(idle(), gpus=(*idle().gpus, busy))
    for fits in (None, by_class):
        got = next(p for p in made(node, running, new, fits=fits).pods if p.name == "new-0")
        assert got.known_by is None
        assert "tiny inference" not in got.text
    alone = next(p for p in made(idle(), new, fits=by_class).pods if p.name == "new-0")
    assert alone.after is not None
    assert alone.after.profile == "1g.10gb"


def test_a_policy_gives_the_smallest_allowed_profile_that_holds_the_class() -> None:
    (got,) = made(idle(), waiting("tiny inference"), policy=Policy(profiles=("2g.20gb", "3g.40gb"))).pods
    assert got.after is not None
    assert got.after.profile == "2g.20gb"
    (none,) = made(idle(), waiting("LLM inference 14B, 16 bits"), policy=Policy(profiles=("1g.10gb",))).pods
    assert none.after is None or none.after.profile == "off", "no slice that is not allowed"
    assert "policy allows 1g.10gb; the pod needs" in none.text


def test_a_class_that_no_gpu_holds_is_said_and_nothing_is_made_up() -> None:
    (got,) = made(idle(), waiting("LLM inference 70B, 16 bits")).pods
    assert "class LLM inference 70B, 16 bits, estimated" in got.text
    assert got.after is None or got.after.profile == "off"


def test_a_whole_gpu_that_is_held_is_told_the_slice_of_its_class() -> None:
    def holding(name: str) -> str:
        held = Gpu(0, "GPU-0", A100, None, "off", owner=PodRef("ml", "nb-0"))
        node = replace(idle(), gpus=(held,))
        running = Pod("ml", "nb-0", "n1", "Running", WHOLE, workload_class=name)
        plan = made(node, running)
        assert plan.gpus[0].before == plan.gpus[0].after
        return plan.pods[0].text

    assert "when it starts again, 1g.10gb would hold it; class tiny inference, estimated" in holding("tiny inference")
    assert "no slice would hold it" in holding("LLM inference 14B, 16 bits")


def test_every_class_is_found_by_its_name_and_by_a_label_that_kubernetes_allows() -> None:
    import re

    for work in CLASSES:
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", work.label)
        assert find_class(work.name) is find_class(work.label) is work
    assert len({work.label for work in CLASSES}) == len(CLASSES)
    assert find_class("") is find_class("LoRA 9B") is None


# ---- from files, as a person does it -----------------------------------------------------------------------------


def observed(tmp_path, migsaw, *pods):
    node = mixed("n1", {"1g.5gb": 1})
    (tmp_path / "nodes.json").write_text(listing([node]))
    (tmp_path / "pods.json").write_text(listing([*pods, SYSTEM_POD]))
    words = ("--nodes", tmp_path / "nodes.json", "--pods", tmp_path / "pods.json")
    done = migsaw("observe", *words, "-o", tmp_path / "snapshot.json")
    assert done.returncode == 0, done.stderr
    return json.loads((tmp_path / "snapshot.json").read_text())


def test_label_and_annotation_are_read_and_survive_redaction(tmp_path):
    by_label = pod("ml/a", WHOLE, None, "Pending", labels={"migsaw.io/class": "qlora-8b"})
    by_annotation = pod("ml/b", WHOLE, None, "Pending", annotations={"migsaw.io/class": "QLoRA 8B"})
    for redact in (False, True):
        seen = Files(tmp_path).observe(pods=[by_label, by_annotation, SYSTEM_POD], redact=redact)
        assert [p.workload_class for p in seen.pods] == ["QLoRA 8B", "QLoRA 8B"]


def test_an_unknown_class_on_a_pod_is_an_error_note_with_its_place_and_the_classes(tmp_path):
    odd = pod("ml/a", WHOLE, None, "Pending", labels={"migsaw.io/class": "huge-secret"})
    (note,) = [n for n in Files(tmp_path).observe(pods=[odd, SYSTEM_POD]).notes if n.severity == "error"]
    assert "ml/a: migsaw.io/class is huge-secret, which is no class" in note.text
    assert all(work.label in note.text for work in CLASSES)
    assert note.file.endswith("pods.json")
    hidden = Files(tmp_path).observe(pods=[odd, SYSTEM_POD], redact=True)
    assert not any("huge-secret" in n.text for n in hidden.notes)


def test_an_unknown_class_in_a_file_is_refused_with_file_field_and_the_classes(tmp_path, migsaw):
    snapshot = observed(tmp_path, migsaw, pod("ml/a", WHOLE, None, "Pending"))
    row = "- {workload: {namespace: ml, name: a}, source: estimated, workload_class: lora-9b}\n"
    (tmp_path / "fits.yaml").write_text(f"schema: migsaw/fits/v1\nfits:\n{row}")
    done = migsaw("plan", tmp_path / "snapshot.json", "--fits", tmp_path / "fits.yaml")
    assert done.returncode == 2
    assert "fits.yaml: line 3: workload_class" in done.stderr
    assert "lora-8b" in done.stderr
    snapshot["pods"][0]["workload_class"] = "lora-9b"
    (tmp_path / "snapshot.json").write_text(json.dumps(snapshot))
    done = migsaw("plan", tmp_path / "snapshot.json")
    assert done.returncode == 2
    assert "$.pods[0].workload_class" in done.stderr


@pytest.mark.parametrize("more", ["source: measured", "source: estimated, chosen: {board: a30-24gb, profile: 1g.6gb}"])
def test_beside_a_class_nothing_else_stands(tmp_path, migsaw, more):
    observed(tmp_path, migsaw)
    row = f"- {{workload: {{name: a}}, {more}, workload_class: lora-8b}}\n"
    (tmp_path / "fits.yaml").write_text(f"schema: migsaw/fits/v1\nfits:\n{row}")
    done = migsaw("plan", tmp_path / "snapshot.json", "--fits", tmp_path / "fits.yaml")
    assert done.returncode == 2
    assert "workload_class" in done.stderr


def test_plan_and_explain_say_where_the_slot_comes_from(tmp_path, migsaw):
    observed(tmp_path, migsaw, pod("ml/a", WHOLE, None, "Pending"))
    row = "- {workload: {namespace: ml, name: a}, source: estimated, workload_class: LLM inference 1B, 4 bits}\n"
    row = row.replace("LLM inference 1B, 4 bits", "'LLM inference 1B, 4 bits'")
    (tmp_path / "fits.yaml").write_text(f"schema: migsaw/fits/v1\nfits:\n{row}")
    words = ("plan", tmp_path / "snapshot.json", "--fits", tmp_path / "fits.yaml", "-o", tmp_path / "plan.json")
    done = migsaw(*words)
    assert done.returncode == 0, done.stderr
    (got,) = json.loads((tmp_path / "plan.json").read_text())["pods"]
    assert got["known_by"]["source"] == "estimated"
    assert got["known_by"]["workload_class"] == "LLM inference 1B, 4 bits"
    said = migsaw("explain", tmp_path / "plan.json", "--pod", "ml/a").stdout
    assert "class LLM inference 1B, 4 bits, estimated: by its class alone" in " ".join(said.split())


def test_guide_names_the_labels(migsaw):
    rows = json.loads(migsaw("boards", A100, "--guide", "-o", "json").stdout)["classes"]
    assert [row["label"] for row in rows] == [work.label for work in CLASSES]
