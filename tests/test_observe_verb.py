"""`migsaw observe` as a user calls it, and the table that it prints, against a node counted by hand."""

from __future__ import annotations

import json

import pytest

from cluster_files import SYSTEM_POD, Files, lgi_table, listing, mixed, pod, slice_lines, whole_lines
from migsaw.cli.shared import load_catalogue
from migsaw.model.snapshot import Gpu, Instance, Node, Note, Snapshot
from migsaw.report.snapshot import snapshot_table

NODE = mixed("n1", {"3g.20gb": 1, "2g.10gb": 1, "1g.5gb": 1}, gpus=3, whole=2)
PODS = [
    pod("ml/bert", {"nvidia.com/mig-3g.20gb": 1}, "n1"),
    pod("ml/idler", {"nvidia.com/mig-2g.10gb": 1}, "n1"),
    pod("ml/ddp", {"nvidia.com/gpu": 1}, "n1"),
    pod("ml/waits", {"nvidia.com/gpu": 1}, phase="Pending"),
    SYSTEM_POD,
]
# memory slices 0-3 bert, 4-5 idler, 6 free; GPU 1 whole and held, GPU 2 whole and free
LINES = [
    *slice_lines("3g.20gb", 2, busy=0.7, namespace="ml", pod="bert"),
    *slice_lines("2g.10gb", 5, busy=0.0, namespace="ml", pod="idler"),
    *slice_lines("1g.5gb", 13),
    *whole_lines(1, util=80, namespace="ml", pod="ddp"),
    *whole_lines(2),
]
LGI = lgi_table([(0, "3g.20gb", 9, 2, 0, 4), (0, "2g.10gb", 14, 5, 4, 2), (0, "1g.5gb", 19, 13, 6, 1)])


@pytest.fixture
def folder(tmp_path):
    files = Files(tmp_path)
    files.path("nodes.json", listing([NODE]))
    files.path("pods.json", listing(PODS))
    files.path("a.prom", "\n".join(LINES[:9]) + "\n")
    files.path("b.prom", "\n".join(LINES[9:]) + "\n")
    files.path("n1.lgi.txt", LGI)
    return tmp_path


GIVEN = ["--nodes", "nodes.json", "--pods", "pods.json", "--smi", "n1.lgi.txt"]


def test_options_take_several_files_or_are_repeated(migsaw, folder):
    forms = (["--metrics", "a.prom", "b.prom"], ["--metrics", "a.prom", "--metrics", "b.prom"])
    found = [migsaw("observe", *form, *GIVEN, "-o", "-", cwd=folder).stdout for form in forms]
    assert found[0] == found[1]
    assert len(json.loads(found[0])["nodes"][0]["gpus"]) == 3


def test_a_document_goes_to_its_file_and_the_table_to_stdout(migsaw, folder):
    done = migsaw("observe", *GIVEN, "--metrics", "a.prom", "b.prom", "-o", "out/snapshot.json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert json.loads((folder / "out/snapshot.json").read_text())["schema"] == "migsaw/snapshot/v1"
    assert "n1" in done.stdout
    assert done.stderr == ""
    piped = migsaw("observe", *GIVEN, "--metrics", "a.prom", "b.prom", "-o", "json", cwd=folder)
    assert json.loads(piped.stdout) == json.loads((folder / "out/snapshot.json").read_text())
    assert "n1" in piped.stderr


def test_the_same_input_gives_the_same_bytes(migsaw, folder):
    texts = set()
    for name in ("one.json", "two.json"):
        migsaw("observe", *GIVEN, "--metrics", "a.prom", "b.prom", "-o", name, cwd=folder)
        texts.add((folder / name).read_bytes())
    assert len(texts) == 1


def test_the_table_keeps_busy_idle_free_and_stranded_apart(migsaw, folder):
    """GPU 0: 3 busy, 2 idle in use, 1 free, and 1 compute slice of 7 that its 3g took from the neighbours."""
    done = migsaw("observe", *GIVEN, "--metrics", "a.prom", "b.prom", cwd=folder)
    rows = {line.split()[1]: line.split() for line in done.stdout.splitlines() if line.startswith("n1 ")}
    assert rows["0"][2:] == ["gpu-operator", "on", "[3g*|2g!|1g|x]", "3", "2", "1", "1", "0"]
    assert rows["1"][2:] == ["gpu-operator", "off", "[off*]", "7", "0", "0", "0", "0"]
    assert rows["2"][2:] == ["gpu-operator", "off", "[off]", "0", "0", "7", "0", "0"]
    last = done.stdout.splitlines()[-1]
    assert "3 GPUs on 1 node, 21 slices: 10 busy, 2 idle in use, 8 free, 1 stranded, 0 not known" in last
    assert "3 placed, 1 waiting" in last


def shown(*gpus, notes=()):
    return snapshot_table(Snapshot(nodes=(Node("n1", gpus=gpus),), notes=notes), load_catalogue())


A100 = "a100-sxm4-40gb"


def test_gpus_that_look_alike_share_a_row_and_add_up():
    (row,) = shown(*(Gpu(index, board=A100, mig="off", state="idle") for index in range(8))).rows
    assert (row[1], row[5], row[8]) == ("0-7", "[off]", str(8 * 7))


def test_what_is_not_known_is_not_free():
    """Beside a 3g the other four memory slices take three compute slices at most: 3g, 2g + 1g or three 1g."""
    instance = Instance("3g.20gb", start=0, state="unknown")
    rows = shown(
        Gpu(0, board=A100, mig="on", instances=(instance,)), Gpu(1, board=A100, mig="on"), Gpu(2, board=A100)
    ).rows
    assert [(row[5], row[8], row[10]) for row in rows] == [
        ("[3g?|····]", "3", "3"),
        ("[?]", "0", "7"),
        ("[?]", "0", "7"),
    ]


def test_an_empty_gpu_with_mig_is_free():
    (row,) = shown(Gpu(0, board=A100, mig="on", state="idle")).rows
    assert (row[5], row[8], row[9]) == ("[········]", "7", "0")


def test_a_board_without_geometry_is_not_available_never_zero():
    (row,) = shown(Gpu(0, product="NVIDIA Z900", mig="on", instances=(Instance("1g.12gb"),))).rows
    assert row[2] == "NVIDIA Z900"
    assert row[6] == "n/a (no geometry)"
    assert set(row[7:11]) == {"n/a"}


def test_instances_that_cannot_all_be_there_count_as_not_known():
    items = (Instance("4g.20gb", start=0, state="idle"), Instance("2g.10gb", start=0, state="idle"))
    (row,) = shown(Gpu(0, board=A100, mig="on", instances=items)).rows
    assert (row[8], row[10]) == ("0", "7")  # free, not known


def test_notes_stand_below_the_table_up_to_a_number():
    notes = tuple(Note("warning", f"text {n}", "f.json", f"line {n}") for n in range(20))
    footer = shown(Gpu(0, board=A100), notes=(*notes, Note("info", "quiet"))).footer
    assert "warning: f.json, line 3: text 3" in footer
    assert "… and 8 more notes in the snapshot" in footer
    assert not any("quiet" in line for line in footer)
    assert footer[-1].endswith("20 warnings.")
