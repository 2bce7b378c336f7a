"""``migsaw doctor`` as a user meets it: exit codes, documents, and the demo's cluster, which is healthy."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cluster_files import Files, listing, mixed, pod, slice_lines
from migsaw.cli.demo_cluster import files
from migsaw.cli.shared import load_catalogue
from migsaw.doctor.engine import SEVERITIES, Evidence, Facts, examine, rule
from migsaw.doctor.registry import RULES, doctor
from migsaw.model.snapshot import Snapshot

PAGE = Path(__file__).parents[1] / "docs/reference/doctor.md"


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The demo's files, and the words that give them to a verb."""
    folder, found = tmp_path_factory.mktemp("demo"), files(load_catalogue())
    for name, content in found.items():
        (folder / name).write_text(content)
    smi = [name for name in found if name.endswith(".lgi.txt")]
    return folder, ["--nodes", "nodes.json", "--pods", "pods.json", "--metrics", "metrics.prom", "--smi", *smi]


@pytest.fixture
def sick(tmp_path):
    """One node without profiling: an error."""
    lines = [line for line in slice_lines("3g.20gb", 1, namespace="ml", pod="a") if "_PROF_" not in line]
    lines += [line for line in slice_lines("3g.20gb", 2, namespace="ml", pod="b") if "_PROF_" not in line]
    pods = [pod(f"ml/{name}", {"nvidia.com/mig-3g.20gb": 1}, "n1") for name in "ab"]
    made = Files(tmp_path)
    made.path("nodes.json", listing([mixed("n1", {"3g.20gb": 2})]))
    made.path("pods.json", listing([*pods, pod("kube-system/x", {}, "n1")]))
    made.path("m.prom", "\n".join(lines) + "\n")
    return tmp_path, ["--nodes", "nodes.json", "--pods", "pods.json", "--metrics", "m.prom"]


def test_the_demo_is_healthy(migsaw, demo):
    folder, given = demo
    done = migsaw("doctor", *given, "-o", "json", cwd=folder)
    assert (done.returncode, json.loads(done.stdout), done.stderr) == (0, {"findings": []}, "")
    assert migsaw("doctor", *given, cwd=folder).stdout.endswith("Nothing found.\n")


def test_a_snapshot_is_as_good_as_its_files(migsaw, sick):
    folder, given = sick
    assert migsaw("observe", *given, "-o", "snapshot.json", cwd=folder).returncode == 0
    of_files = migsaw("doctor", *given, "-o", "json", cwd=folder)
    of_snapshot = migsaw("doctor", "--snapshot", "snapshot.json", "-o", "json", cwd=folder)
    assert of_files.returncode == of_snapshot.returncode == 3
    assert of_files.stdout == of_snapshot.stdout


def test_findings_are_as_documented(migsaw, sick):
    folder, given = sick
    done = migsaw("doctor", *given, "-o", "json", cwd=folder)
    document = json.loads(done.stdout)
    assert (done.returncode, list(document)) == (3, ["findings"])
    (finding,) = document["findings"]
    assert list(finding) == ["code", "severity", "title", "evidence", "cause", "next"]
    assert (finding["code"], finding["severity"]) == ("MS101", "error")
    assert [list(row) for row in finding["evidence"]] == [["file", "where", "value"]]
    assert finding["evidence"][0]["value"] == "no profiling series of 2 devices on 1 node"
    assert finding["evidence"][0]["file"] == given[given.index("--metrics") + 1]


def test_tables_name_finding_place_and_next_step(migsaw, sick):
    folder, given = sick
    shown = migsaw("doctor", *given, cwd=folder).stdout
    assert "MS101" in shown
    assert shown.endswith("Found: 1 error.\n")
    header, row = migsaw("doctor", *given, "-o", "csv", cwd=folder).stdout.splitlines()
    assert header == "code,severity,title,file,where,value,cause,next"
    assert row.startswith("MS101,error,")


def test_redacted_names_do_not_show(migsaw, sick):
    folder, given = sick
    plain = migsaw("doctor", *given, "--redact", cwd=folder)
    assert plain.returncode == 3
    assert "n1" not in plain.stdout


def test_infos_alone_are_exit_0(migsaw, demo, tmp_path):
    folder, given = demo
    metrics = (folder / "metrics.prom").read_text()
    instance = re.search(r"^DCGM_FI_DEV_FB_USED(\{.*GPU_I_ID.*\}) ", metrics, re.MULTILINE)
    assert instance
    (tmp_path / "metrics.prom").write_text(metrics + f"DCGM_FI_DEV_GPU_UTIL{instance[1]} 0\n")
    words = [tmp_path / word if word == "metrics.prom" else word for word in given]
    done = migsaw("doctor", *words, "-o", "json", cwd=folder)
    assert [(f["code"], f["severity"]) for f in json.loads(done.stdout)["findings"]] == [("MS118", "info")]
    assert done.returncode == 0


def test_every_rule_is_listed_and_explained(migsaw):
    listed = migsaw("doctor", "--list")
    assert listed.returncode == 0
    assert re.findall(r"^MS\d{3}", listed.stdout, re.MULTILINE) == [rule.code for rule in RULES]
    for form in ("table", "json"):
        shown = migsaw("doctor", "--explain", "ms103", "-o", form)
        assert shown.returncode == 0
        assert "NVIDIA/dcgm-exporter#507" in shown.stdout


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--explain", "MS999"),
        ("--snapshot", "missing.json"),
        ("--snapshot", "snapshot.json", "--nodes", "nodes.json"),
    ],
)
def test_bad_usage_is_exit_2(migsaw, tmp_path, words):
    done = migsaw("doctor", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


def test_codes_are_unique_sorted_and_rules_are_complete():
    codes = [rule.code for rule in RULES]
    assert codes == sorted(set(codes))
    assert all(re.fullmatch(r"MS1\d\d", code) for code in codes)
    for each in RULES:
        assert each.severity in SEVERITIES
        assert each.sources
        assert each.title
        assert not each.title.endswith(".")
        assert each.cause.endswith(".")
        assert each.next.endswith(".")


def test_the_page_explains_every_rule():
    page = PAGE.read_text(encoding="utf-8")
    assert re.findall(r"^## (MS\d{3})$", page, re.MULTILINE) == [rule.code for rule in RULES]


def test_findings_are_ordered_by_severity_then_code_and_evidence_is_not_repeated():
    def always(code, severity):
        made = rule(code, severity, code, cause="c", next="n", sources=())
        return made(lambda facts: [Evidence(None, "b", "2"), Evidence(None, "a", "1"), Evidence(None, "b", "2")])

    rules = [always("MS3", "info"), always("MS2", "error"), always("MS1", "warning"), always("MS0", "info")]
    found = examine(Facts(Snapshot(), load_catalogue()), rules)
    assert [finding.code for finding in found] == ["MS2", "MS1", "MS0", "MS3"]
    assert {finding.evidence for finding in found} == {(Evidence(None, "a", "1"), Evidence(None, "b", "2"))}


def test_nothing_is_found_where_nothing_was_measured():
    assert doctor(Facts(Snapshot(), load_catalogue())) == ()
