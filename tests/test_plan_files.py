"""Policy and fits files with a fault: exit 2, the file, the place, the field and a hint; never a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SNAPSHOT = '{"schema": "migsaw/snapshot/v1", "nodes": [], "pods": []}'
POLICY = "schema: migsaw/policy/v1\n"
FITS = "schema: migsaw/fits/v1\nfits:\n  - source: measured\n"
CASES = {
    "unknown profile": ("--policy", POLICY + "profiles: [1g.10gb, 9g.90gb]\n", ["line 2", "9g.90gb", "boards"]),
    "unknown head-room": ("--policy", POLICY + "headroom:\n  2g.21gb: 1\n", ["line 3", "2g.21gb"]),
    "negative head-room": ("--policy", POLICY + "headroom: {2g.20gb: -1}\n", ["line 2", "2g.20gb"]),
    "unknown key": ("--policy", POLICY + "stict: true\n", ["line 2", "stict"]),
    "wrong type": ("--policy", POLICY + "strict: [1]\n", ["line 2", "strict"]),
    "wrong schema": ("--policy", "schema: migsaw/fits/v1\n", ["line 1", "migsaw/policy/v1"]),
    "no workload": ("--fits", FITS, ["line 3", "workload"]),
    "two ways to name it": (
        "--fits",
        FITS + "    workload: {name: a, selector: {labels: {app: a}}}\n",
        ["exactly one way"],
    ),
    "unknown board": (
        "--fits",
        FITS + "    workload: {name: a}\n    chosen: {board: a100-sxm9, profile: 2g.20gb}\n",
        ["line 5", "a100-sxm9"],
    ),
    "profile of another board": (
        "--fits",
        FITS + "    workload: {name: a}\n    chosen: {board: a100-sxm4-40gb, profile: 2g.20gb}\n",
        ["line 5", "2g.20gb", "its profiles"],
    ),
    "not UTF-8": ("--policy", b"schema: \xff\xfe", ["UTF-8"]),
    "empty": ("--policy", "", ["empty"]),
    "a YAML bomb": (
        "--policy",
        "a: &a [1,1,1,1,1,1,1,1,1,1]\n"
        + "".join(f"{c}: &{c} [{','.join(['*' + p] * 10)}]\n" for p, c in zip("abcdefgh", "bcdefghi", strict=True)),
        ["aliases"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_faulty_file_is_refused_with_its_place(case: str, tmp_path: Path) -> None:
    option, content, words = CASES[case]
    (tmp_path / "snapshot.json").write_text(SNAPSHOT)
    given = tmp_path / "given.yaml"
    given.write_bytes(content if isinstance(content, bytes) else content.encode())
    command = [sys.executable, "-m", "migsaw.cli.main", "plan", "snapshot.json", option, "given.yaml", "-o", "json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert "given.yaml" in done.stderr
    for word in words:
        assert word in done.stderr, (word, done.stderr)
