"""``migsaw boards``, ``layouts`` and ``completion`` as a person calls them."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mig_rules import all_layouts, known_boards, maximal_layouts, raw_boards, raw_profiles
from migsaw.cli.main import VERBS


def test_boards_lists_every_board_with_its_evidence(migsaw):
    done = migsaw("boards")
    assert done.returncode == 0
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    for key, board in raw_boards().items():
        assert board["evidence"] in lines[key]
        assert ("yes" in lines[key].split()) == (key in known_boards())
    known = len(known_boards())
    total = len(raw_boards())
    assert done.stdout.splitlines()[-1] == f"{total} boards: placements of {known} known, of {total - known} not."


def test_boards_as_json_has_null_and_a_reason_for_what_is_not_known(migsaw):
    boards = {board["key"]: board for board in json.loads(migsaw("boards", "-o", "json").stdout)["boards"]}
    assert boards.keys() == raw_boards().keys()
    thor = boards["thor-igpu"]
    assert (thor["planned"], thor["refusal"]) == (False, "placements not known")
    assert {profile["starts"] for profile in thor["profiles"]} == {None}
    assert boards["a100-pcie-80gb"]["azure_sizes"] == [
        "Standard_NC24ads_A100_v4",
        "Standard_NC48ads_A100_v4",
        "Standard_NC96ads_A100_v4",
    ]


def test_one_board_shows_what_nvidia_smi_prints(migsaw):
    """The rows of `nvidia-smi mig -lgip` and `-lgipp` of an H100 NVL (Azure Standard_NC40ads_H100_v5)."""
    done = migsaw("boards", "Standard_NC40ads_H100_v5", "-o", "csv")
    rows = {row["profile"]: row for row in csv.DictReader(io.StringIO(done.stdout))}
    assert {name: (row["id"], row["SMs"], row["starts:size"], row["max"]) for name, row in rows.items()} == {
        "1g.12gb": ("19", "16", "0-6:1", "7"),
        "1g.12gb+me": ("20", "16", "0-6:1", "1"),
        "1g.24gb": ("15", "26", "0,2,4,6:2", "4"),
        "2g.24gb": ("14", "32", "0,2,4:2", "3"),
        "3g.47gb": ("9", "60", "0,4:4", "2"),
        "4g.47gb": ("5", "64", "0:4", "1"),
        "7g.94gb": ("0", "132", "0:8", "1"),
    }
    assert rows["1g.12gb+me"]["resource"] == "nvidia.com/mig-1g.12gb.me"
    assert all(row["sources"] for row in rows.values())


@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml", "csv", "md"])
def test_every_format_works(migsaw, form):
    for words in (["boards"], ["boards", "a30-24gb"], ["layouts", "a30-24gb"]):
        done = migsaw(*words, "-o", form)
        assert done.returncode == 0, done.stderr
        assert done.stdout
        assert "\x1b" not in done.stdout


def test_an_unknown_board_is_a_usage_error_with_near_names(migsaw):
    done = migsaw("boards", "a100-sxm4-90gb")
    assert (done.returncode, done.stdout) == (2, "")
    assert "unknown board a100-sxm4-90gb" in done.stderr
    assert "a100-sxm4-80gb" in done.stderr


@pytest.mark.parametrize(
    ("words", "last"),
    [
        (
            ["a100-sxm4-80gb", "--profiles", "1g.10gb,2g.20gb,3g.40gb,4g.40gb,7g.80gb"],
            "298 states (the empty GPU included), 19 maximal placement sets, 14 distinct maximal multisets.",
        ),
        (
            ["a100-sxm4-80gb"],
            "2319 states (the empty GPU included), 239 maximal placement sets, 64 distinct maximal multisets.",
        ),
        (
            ["a30-24gb", "--maximal", "--profiles", "1g.6gb, 2g.12gb,nvidia.com/mig-4g.24gb"],
            "26 states (the empty GPU included), 5 maximal placement sets, 4 distinct maximal multisets.",
        ),
    ],
)
def test_layouts_are_counted_last(migsaw, words, last):
    lines = migsaw("layouts", *words).stdout.splitlines()
    assert lines[-1] == last
    rows = 5 if "--maximal" in words else int(last.split()[0])
    assert sum(line.startswith("[") for line in lines) == rows


def test_layouts_as_json_are_those_of_exhaustion(migsaw):
    key, names = "a30-24gb", list(raw_profiles("a30-24gb"))
    data = json.loads(migsaw("layouts", key, "-o", "json").stdout)
    shown = {frozenset(one["placements"]): one["maximal"] for one in data["layouts"]}
    expected = {frozenset(f"{name}@{start}" for name, start in one) for one in all_layouts(key, names)}
    maximal = {frozenset(f"{name}@{start}" for name, start in one) for one in maximal_layouts(key, names)}
    assert shown.keys() == expected
    assert {one for one, is_maximal in shown.items() if is_maximal} == maximal
    assert (data["states"], data["maximal"]) == (len(expected), len(maximal))


def test_layouts_of_an_unknown_profile_or_geometry_are_refused(migsaw):
    wrong = migsaw("layouts", "a30-24gb", "--profiles", "1g.10gb")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "a30-24gb has no profile 1g.10gb" in wrong.stderr
    assert "1g.6gb" in wrong.stderr
    unknown = migsaw("layouts", "thor-igpu")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "placements of thor-igpu are not known" in unknown.stderr


def complete(*words: str) -> list[str]:
    """What the shell would offer for the last word."""
    line = " ".join(words)
    env = {**os.environ, "_MIGSAW_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    program = [sys.executable, "-c", "import sys; sys.argv = ['migsaw']; from migsaw.cli.main import main; main()"]
    done = subprocess.run(program, env=env, capture_output=True, text=True, check=True)
    return [row.partition(",")[2] for row in done.stdout.splitlines()]


def test_completion_offers_verbs_options_and_choices():
    assert complete("migsaw", "la") == ["layouts"]
    assert set(complete("migsaw", "")) == set(VERBS)
    assert "--maximal" in complete("migsaw", "layouts", "--")
    assert complete("migsaw", "render", "plan.json", "--for", "mig") == ["mig-manager"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_name_the_command(migsaw, shell):
    done = migsaw("completion", shell)
    assert done.returncode == 0, done.stderr
    assert "_MIGSAW_COMPLETE" in done.stdout
    assert migsaw("completion", "tcsh").returncode == 2


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not here")
def test_the_bash_script_completes_in_a_real_bash(migsaw, tmp_path: Path):
    """Sourced by bash, asked for ``migsaw lay<TAB>``."""
    program = "import sys; sys.argv[0] = 'migsaw'; from migsaw.cli.main import main; main()"
    (tmp_path / "migsaw").write_text(f'#!/bin/sh\nexec {sys.executable} -c "{program}" "$@"\n')
    (tmp_path / "migsaw").chmod(0o755)
    (tmp_path / "script").write_text(migsaw("completion", "bash").stdout)
    program = (
        f"source {tmp_path}/script; COMP_WORDS=(migsaw lay); COMP_CWORD=1; _migsaw_completion migsaw lay migsaw; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", program], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["layouts"]
