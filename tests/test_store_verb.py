"""``migsaw store``: everything out, everything back, nothing twice, and a wrong line named by its number."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

LINES = [
    {
        "kind": "measurement",
        "subject": "f" * 64,
        "at": f"2026-12-0{day}T00:00:00Z",
        "document": {
            "schema": "migsaw/measurement/v1",
            "workload": {"facts": {"name": "näme"}},
            "fingerprint": "f" * 64,
            "board": "a100-sxm4-40gb",
            "profile": "1g.5gb",
            "device": "mig",
            "outcome": "steady",
            "at": f"2026-12-0{day}T00:00:00Z",
            "throughput_per_second": {"value": 10.5 * day},
        },
    }
    for day in (1, 2, 3)
]


def text(rows) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


@pytest.fixture
def home(tmp_path):
    """Where the default store is."""
    return {"XDG_DATA_HOME": str(tmp_path / "xdg")}


def test_what_is_imported_twice_is_there_once(migsaw, tmp_path, home):
    (tmp_path / "in.jsonl").write_text(text(LINES[:2]), encoding="utf-8")
    first = migsaw("store", "import", tmp_path / "in.jsonl", **home)
    assert (first.returncode, first.stderr, first.stdout) == (0, "2 new of 2 records\n", "")
    assert (tmp_path / "xdg/migsaw/store.db").is_file()
    (tmp_path / "in.jsonl").write_text(text(LINES) + "\n", encoding="utf-8")
    assert migsaw("store", "import", tmp_path / "in.jsonl", **home).stderr == "1 new of 3 records\n"
    assert migsaw("store", "import", tmp_path / "in.jsonl", **home).stderr == "0 new of 3 records\n"
    found = [json.loads(line) for line in migsaw("store", "export", **home).stdout.splitlines()]
    assert [(row["kind"], row["subject"], row["at"]) for row in found] == [
        (row["kind"], row["subject"], row["at"]) for row in LINES
    ]
    assert [row["document"]["throughput_per_second"]["value"] for row in found] == [10.5, 21.0, 31.5]
    assert found[0]["document"]["workload"] == {"facts": {"name": "näme"}}


def test_from_one_store_into_another_and_back_are_the_same_bytes(migsaw, tmp_path):
    (tmp_path / "in.jsonl").write_text(text(LINES), encoding="utf-8")
    assert migsaw("store", "import", tmp_path / "in.jsonl", "--store", tmp_path / "a.db").returncode == 0
    done = migsaw("store", "export", tmp_path / "new/a.jsonl", "--store", tmp_path / "a.db")
    assert (done.returncode, done.stdout) == (0, "")
    assert "3 records" in done.stderr
    assert migsaw("store", "import", tmp_path / "new/a.jsonl", "--store", tmp_path / "b.db").returncode == 0
    again = migsaw("store", "export", "--store", tmp_path / "b.db").stdout
    assert again == (tmp_path / "new/a.jsonl").read_text(encoding="utf-8")
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["a.jsonl"]


def test_stdin_is_read(tmp_path):
    command = [sys.executable, "-m", "migsaw.cli.main", "store", "import", "-", "--store", str(tmp_path / "a.db")]
    done = subprocess.run(
        command, input=text(LINES), capture_output=True, text=True, check=False, env={**os.environ, "PYTHONUTF8": "1"}
    )
    assert (done.returncode, done.stderr) == (0, "3 new of 3 records\n")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{", "not a line of `migsaw store export`"),
        (b"[1]", "not a line of `migsaw store export`"),
        (b'{"kind": "song", "subject": "s", "at": "t", "document": {}}', "kind 'song'"),
        (b'{"kind": "measurement", "subject": "s", "at": "t", "document": {}}', "workload"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_a_wrong_line_is_named_and_nothing_is_added(migsaw, tmp_path, line, said):
    file, store = tmp_path / "in.jsonl", tmp_path / "a.db"
    file.write_bytes(text(LINES[:2]).encode() + line + b"\n" + text(LINES[2:]).encode())
    done = migsaw("store", "import", file, "--store", store)
    assert done.returncode == 2
    assert f"error: {file}: line 3: " in done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert migsaw("store", "export", "--store", store).stdout == ""


def test_what_is_not_there_is_said(migsaw, tmp_path):
    done = migsaw("store", "export", "--store", tmp_path / "none.db")
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no store" in done.stderr
    assert not (tmp_path / "none.db").exists()
    done = migsaw("store", "import", tmp_path / "none.jsonl", "--store", tmp_path / "a.db")
    assert done.returncode == 2
    assert "No such file" in done.stderr
    assert not (tmp_path / "a.db").exists()
