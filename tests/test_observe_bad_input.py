"""Every kind of bad file: exit 2 with the file, the place and what to do, never a traceback.

And large files: read in little memory, or refused with the limit.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_files import SYSTEM_POD, Files, lgi_table, listing, mixed, outcome, pod, slice_lines, whole_lines
from migsaw.cli.output import to_yaml
from migsaw.cli.shared import load_catalogue
from migsaw.errors import InputError
from migsaw.model.snapshot import Snapshot
from migsaw.observe.files import InputFiles, observe_files

NODES, PODS = listing([mixed("n1", {"1g.5gb": 1})]), listing([pod("ml/a", {"nvidia.com/gpu": 1}), SYSTEM_POD])
METRICS = "\n".join(slice_lines("1g.5gb", 7)) + "\n"
SMI = lgi_table([(0, "1g.5gb", 19, 7, 0, 1)])
PARTED = """\
version: v1
mig-configs:
  custom:
    - devices: all
      mig-enabled: true
      mig-devices: {"1g.5gb": 1}
"""
GOOD = {"nodes": NODES, "pods": PODS, "metrics": METRICS, "smi": SMI, "mig_parted": PARTED}
NAMES = {"nodes": "n.json", "pods": "p.json", "metrics": "m.prom", "smi": "n1.lgi.txt", "mig_parted": "c.yaml"}

BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 10)}]\n" for n in range(8)
)


def refused(tmp_path, option, name, content):
    with pytest.raises(InputError) as caught:
        Files(tmp_path).observe(**{option: {name: content}})
    assert caught.value.where is not None
    assert caught.value.where.file == str(tmp_path / name)
    assert caught.value.exit_code == 2
    return caught.value


@pytest.mark.parametrize("option", GOOD)
@pytest.mark.parametrize("content", [b"", b"  \n\n", b"\xff\xfe\x00", b"\x80abc", b"\x00" * 40])
def test_empty_and_wrongly_encoded_files(tmp_path, option, content):
    problem = refused(tmp_path, option, NAMES[option], content)
    assert problem.where.place


@pytest.mark.parametrize("option", GOOD)
def test_powershells_utf16_is_told_apart(tmp_path, option):
    problem = refused(tmp_path, option, NAMES[option], GOOD[option].encode("utf-16"))
    assert "UTF-16" in problem.message
    assert "Out-File -Encoding utf8" in problem.hint


@pytest.mark.parametrize("option", GOOD)
@pytest.mark.parametrize("other", GOOD)
def test_a_file_given_to_another_option_is_sent_where_it_belongs(tmp_path, option, other):
    if option == other:
        return
    problem = refused(tmp_path, option, f"x-{NAMES[other]}", GOOD[other])
    if not (option == "metrics" and other in ("nodes", "pods")):  # all that --metrics sees of these is JSON
        assert f"--{other.replace('_', '-')}" in problem.hint


@pytest.mark.parametrize("option", ["nodes", "pods"])
def test_yaml_of_the_other_kind(tmp_path, option):
    other = "pods" if option == "nodes" else "nodes"
    assert f"--{other}" in refused(tmp_path, option, "x.yaml", to_yaml(json.loads(GOOD[other]))).hint


@pytest.mark.parametrize("option", ["nodes", "pods"])
@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("x.json", '{\n "items": [\n  {"kind": ', "3"),
        ("x.json", '{\n "items": [\n  {"kind": "a" "b"}\n]}', "3"),
        ("x.json", '{\n "items": [NaN]}', "2"),
        ("x.json", '{\n "items": [\n]\n}\n}\n', "5"),
        ("x.json", "[" * 5000, "1"),
        ("x.yaml", "a: 1\nb: [1, 2\nc: 3\n", "3"),
        ("x.yaml", "a: 1\na: 2\n", "2"),
        ("x.yaml", "kind: &k *k\n", "1"),
    ],
)
def test_broken_json_and_yaml_have_a_line(tmp_path, option, name, content, place):
    assert refused(tmp_path, option, name, content).where.place == place


@pytest.mark.parametrize("option", ["nodes", "pods", "mig_parted"])
def test_a_yaml_bomb_is_refused(tmp_path, option):
    assert "aliases" in refused(tmp_path, option, "bomb.yaml", BOMB).message


def test_an_object_that_contains_itself(tmp_path):
    assert "aliases" in refused(tmp_path, "nodes", "x.yaml", "&a {kind: Node, metadata: *a}\n").message


def test_large_yaml_is_refused_with_a_way_out(tmp_path):
    problem = refused(tmp_path, "pods", "x.yaml", "# " + "x" * (9 << 20))
    assert "8 MiB" in problem.message
    assert "-o json" in problem.hint


def test_large_exporter_text_is_refused_with_its_limit(tmp_path):
    path = tmp_path / "m.prom"
    with path.open("wb") as file:
        file.truncate((256 << 20) + 1)
    with pytest.raises(InputError) as caught:
        observe_files(InputFiles(metrics=(path,)), load_catalogue())
    assert "256 MiB" in caught.value.message


@pytest.mark.parametrize("option", [o.replace("_", "-") for o in GOOD])
def test_what_cannot_be_read_is_named(migsaw, tmp_path, option):
    (tmp_path / "folder").mkdir()
    for name in ("folder", "missing"):
        done = migsaw("observe", f"--{option}", name, cwd=tmp_path)
        assert done.returncode == 2
        assert f"error: {name}: cannot be read" in done.stderr
        assert "Traceback" not in done.stderr


def test_nothing_to_observe(migsaw, tmp_path):
    done = migsaw("observe", cwd=tmp_path)
    assert done.returncode == 2
    assert "--nodes" in done.stderr


def test_json_given_to_metrics_is_an_answer_of_prometheus(tmp_path):
    answer = json.dumps({"status": "success", "data": {"resultType": "vector", "result": []}})
    assert "JSON" in refused(tmp_path, "metrics", "m.json", answer).message


def test_prometheus_text_without_a_gpu(tmp_path):
    assert "no series" in refused(tmp_path, "metrics", "m.prom", "# HELP up x\nup 1\n").message


def test_a_series_without_a_gpu_is_named(tmp_path):
    text = "\n".join([*whole_lines(), 'DCGM_FI_DEV_SM_CLOCK{Hostname="n1"} 3'])
    notes = Files(tmp_path).observe(metrics={"m.prom": text}).notes
    assert [(n.file, n.where) for n in notes if "names no GPU" in n.text] == [(str(tmp_path / "m.prom"), "line 3")]


def test_an_unknown_board_is_shown_and_noted(tmp_path):
    odd = mixed("odd", {"1g.12gb": 2}, product="NVIDIA Z900 96GB")
    snapshot = Files(tmp_path).observe(nodes=[odd, mixed("n1", {"1g.5gb": 1})])
    gpu = next(n for n in snapshot.nodes if n.name == "odd").gpus[0]
    assert (gpu.board, gpu.product) == (None, "NVIDIA-Z900-96GB")
    assert any("odd" in n.text and "Z900" in n.text and n.file for n in snapshot.notes)


def test_names_that_hold_others_are_told_apart(tmp_path):
    """GH200 is no H200, an H100 NVL is no H100 PCIe."""
    products = {"n1": "NVIDIA GH200 480GB", "n2": "NVIDIA H200", "n3": "NVIDIA H100 NVL", "n4": "NVIDIA H100 PCIe"}
    nodes = [mixed(name, {}, whole=1, product=product) for name, product in products.items()]
    boards = [n.gpus[0].board for n in Files(tmp_path).observe(nodes=nodes).nodes]
    assert boards == ["gh200-96gb", "h200-sxm5-141gb", "h100-nvl-94gb", "h100-pcie-80gb"]


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ('"1g.5gb": 1', '"1g.5gb": -1', "6"),
        ('"1g.5gb": 1', '"1g.5gb": 0', "6"),
        ('"1g.5gb": 1', '"1g.5gb": 1.5', "6"),
        ('"1g.5gb": 1', '"lots": 1', "6"),
        ("mig-enabled: true", "mig-enabled: 1", "5"),
        ("mig-enabled: true", "mig-enabled: false", "6"),
        ("devices: all", "devices: [-1]", "4"),
        ("devices: all", "device: all", "4"),
        ("version: v1", "version: v2", "1"),
        ("version: v1", "version: v1\nmore: 1", "2"),
        ("- devices: all", "- device-filter: A100\n      devices: all", "4"),
    ],
)
def test_mig_parted_files_are_read_as_strictly_as_mig_parted_does(tmp_path, old, new, place):
    assert old in PARTED
    assert refused(tmp_path, "mig_parted", "c.yaml", PARTED.replace(old, new)).where.place == place


@given(st.sampled_from(list(GOOD)), st.data())
def test_a_changed_byte_is_read_refused_or_noted(tmp_path_factory, option, data):
    """Whatever happens, it is no other exception than a refusal."""
    content = bytearray(GOOD[option].encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    files = Files(tmp_path_factory.mktemp("bytes"))
    found = outcome(lambda: files.observe(**{option: {NAMES[option]: bytes(content)}}))
    assert isinstance(found, Snapshot) or (found.where and found.where.file == str(files.folder / NAMES[option]))


MEASURE = """
import resource, sys
from pathlib import Path
from migsaw.cli.shared import load_catalogue
from migsaw.observe.files import InputFiles, observe_files
start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
snapshot = observe_files(InputFiles(pods=(Path(sys.argv[1]),)), load_catalogue())
print(len(snapshot.pods), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is measured on Linux")
def test_a_pods_list_is_read_in_a_small_part_of_its_size(tmp_path):
    """60 MB; 600 MB took 63 MiB in all."""
    filler = {"env": [{"name": f"V{k}", "value": "x" * 80} for k in range(60)]}
    path, number = tmp_path / "pods.json", 6000
    with path.open("w") as file:
        file.write('{"apiVersion": "v1", "items": [\n')
        for n in range(number):
            item = pod(f"ml/p{n}", {"nvidia.com/gpu": 1} if n % 100 == 0 else {}, f"n{n % 50}")
            item["spec"]["containers"][0] |= filler
            file.write(("," if n else "") + json.dumps(item, indent=4) + "\n")
        file.write('], "kind": "List"}')
    size = path.stat().st_size
    assert size > 55e6
    done = subprocess.run([sys.executable, "-c", MEASURE, path], capture_output=True, text=True, check=True)
    kept, grown_kib = map(int, done.stdout.split())
    assert kept == number // 100
    assert grown_kib * 1024 < size / 2
