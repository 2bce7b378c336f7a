"""Where output goes and what it meets there: full disks, closed streams, narrow terminals, names that are no names."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from cluster_files import listing, mixed

COMMAND = [sys.executable, "-m", "migsaw.cli.main"]
NODES = listing([mixed("n1", {"1g.5gb": 7})])


def test_a_full_disk_is_a_failure_with_one_line():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*COMMAND, "boards"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "error: stdout: No space left on device\n")


def test_a_closed_stdout_is_told():
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, "boards"], stderr=subprocess.PIPE, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "error: stdout is closed\n")


def test_a_reader_that_leaves_early_is_no_traceback():
    done = subprocess.run(
        ["sh", "-c", '"$@" layouts rtx-pro-6000-blackwell-server | head -1', "sh", *COMMAND],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


def test_output_is_utf8_whatever_the_locale(migsaw):
    plain = migsaw("layouts", "a30-24gb").stdout
    assert "·" in plain
    assert migsaw("layouts", "a30-24gb", PYTHONIOENCODING="ascii", LC_ALL="C").stdout == plain


def test_names_that_no_text_can_hold_come_out_as_escapes(migsaw, tmp_path):
    """A lone surrogate, as JSON may write it, and signs that a terminal would obey."""
    text = NODES.replace('"n1"', '"n\\ud800\\u001b[2J"')
    (tmp_path / "nodes.json").write_text(text)
    table = migsaw("observe", "--nodes", "nodes.json", cwd=tmp_path)
    assert table.returncode == 0, table.stderr
    assert "n\\ud800\\x1b[2J" in table.stdout
    assert "\x1b" not in table.stdout
    assert migsaw("observe", "--nodes", "nodes.json", "-o", "s.json", cwd=tmp_path).returncode == 0
    on_stdout = migsaw("observe", "--nodes", "nodes.json", "-o", "json", cwd=tmp_path).stdout
    for made in (on_stdout, (tmp_path / "s.json").read_text()):
        assert json.loads(made)["nodes"][0]["name"] == "n\ud800\x1b[2J"


def test_what_an_error_quotes_is_escaped_too(migsaw, tmp_path):
    (tmp_path / "p.json").write_text('{"schema": "migsaw/policy/v1", "profiles": ["\\u001b[2J"]}')
    (tmp_path / "s.json").write_text('{"schema": "migsaw/snapshot/v1"}')
    done = migsaw("plan", "s.json", "--policy", "p.json", cwd=tmp_path)
    assert done.returncode == 2
    assert "\\x1b[2J" in done.stderr
    assert "\x1b" not in done.stderr


def on_terminal(columns: int, *words: str, cwd: Path) -> list[str]:
    """Lines of a command whose stdout is a terminal of this width, without bold."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "COLUMNS": str(columns), "NO_COLOR": "1"}
    with subprocess.Popen([*COMMAND, *words], stdout=theirs, stderr=subprocess.PIPE, cwd=cwd, env=env) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            shown += part
    os.close(ours)
    assert process.returncode == 0
    return shown.decode().replace("\r\n", "\n").splitlines()


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_every_width_can_be_read(tmp_path, columns):
    (tmp_path / "nodes.json").write_text(listing([mixed("node-with-a-long-name-0", {"1g.5gb": 7})]))
    lines = on_terminal(columns, "observe", "--nodes", "nodes.json", cwd=tmp_path)
    text = "\n".join(lines)
    assert "[7×1g" in text
    if columns < 80:  # no columns any more
        assert "node: node-with-a-long-name-0" in lines
        assert "idle in use: 0" in lines
    else:
        assert not any(0 < len(line.strip()) < 3 for line in lines)


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1",
        "http://a..b:9090",
        "http://h/p\u00e4th",
        "u:s3cret@h:90",
        "http:/u:s3cret@h",
        "http://u:s3/cret@h:9",
    ],
)
def test_an_address_that_is_none_is_one_line_without_its_password(migsaw, url):
    done = migsaw("observe", "--prometheus", url)
    assert done.returncode == 2
    assert "no address of a Prometheus server" in done.stderr
    assert "Traceback" not in done.stderr
    assert "s3" not in done.stderr


@pytest.mark.parametrize("token", ["s3cret\nx", "s3cret\u20ac"])
def test_a_token_that_is_none_is_not_shown(migsaw, token):
    done = migsaw("observe", "--prometheus", "http://127.0.0.1:9", MIGSAW_PROMETHEUS_TOKEN=token)
    assert done.returncode == 2
    assert "MIGSAW_PROMETHEUS_TOKEN holds signs that no token has" in done.stderr
    assert "s3cret" not in done.stderr
