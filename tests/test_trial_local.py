"""Real commands on this machine's CPU through the command line: start to end, kill -9 and resume, Ctrl-C, failures."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from migsaw.model.measurement import Measurement
from migsaw.store import open_store

EXAMPLES = Path(__file__).resolve().parents[1] / "examples/profile"

HEAD = """\
import json, os, signal, sys, time
here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, 'pids'), 'a') as file:
    file.write(f'{os.getpid()}\\n')
with open(os.path.join(here, 'starts'), 'a') as file:
    file.write(os.environ.get('MIGSAW_PROCESS', '?') + '\\n')
"""
STEADY = "n = 0\nwhile True:\n    print('rate', 100 + n % 2, flush=True); n += 1; time.sleep(0.01)\n"


def workload(folder: Path, body: str, **lines: str) -> Path:
    """A script with its spec; ``lines`` replace or add to the spec's."""
    (folder / "job.py").write_text(HEAD + body)
    words = {
        "schema": "migsaw/trial/v1",
        "name": "job",
        "board": "a100-sxm4-80gb",
        "command": json.dumps([sys.executable, "job.py"]),
        "read": "{regex: {pattern: 'rate ([0-9.]+)'}}",
        "steady": (
            "{relative_half_width: 0.05, at_least_values: 20, at_least_seconds: 0.2, at_most_seconds: 20,"
            " start_within_seconds: 10}"
        ),
    }
    path = folder / "workload.yaml"
    path.write_text("".join(f"{key}: {value}\n" for key, value in {**words, **lines}.items()))
    return path


def measured(folder: Path) -> list[Measurement]:
    with open_store(folder / "store.db") as store:
        return [record.value(Measurement) for record in store.records("measurement")]


def words_of(path: Path) -> list[str]:
    return ["profile", str(path), "--on", "local", "--device", "cpu", "--store", str(path.parent / "store.db")]


def start(path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "migsaw.cli.main", *words_of(path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def wait_for(what: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def started(folder: Path) -> list[int]:
    path = folder / "pids"
    return [int(text) for text in path.read_text().split()] if path.exists() else []


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_example_runs_start_to_end_and_is_no_fit_of_a_slice(migsaw, tmp_path):
    text = (EXAMPLES / "workload.yaml").read_text()
    line = next(line for line in text.splitlines() if line.startswith("steady:"))
    quick = "steady: {relative_half_width: 0.5, at_least_values: 20, at_least_seconds: 1, at_most_seconds: 30}"
    (tmp_path / "workload.yaml").write_text(text.replace(line, quick))  # others may be busy on this machine
    shutil.copy(EXAMPLES / "train.py", tmp_path)
    words = words_of(tmp_path / "workload.yaml")
    done = migsaw(*words, "-o", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["device"], found["verdict"], found["chosen"]) == ("cpu", "Rehearsed", None)
    (m,) = measured(tmp_path)
    assert (m.device, m.profile, m.outcome, m.batch, m.derated) == ("cpu", "off", "steady", 64, 1.0)
    assert m.throughput_per_second.low < m.throughput_per_second.value < m.throughput_per_second.high
    assert 0 < m.input_wait < 1
    assert m.startup_seconds > 0
    shown = migsaw(*words)
    assert "device: cpu" in shown.stdout
    assert "earlier" in shown.stdout
    assert "trial begins" not in shown.stderr, "what is finished is not measured again"


def test_kill_9_in_the_middle_keeps_what_is_finished_and_only_the_rest_is_measured(migsaw, tmp_path):
    """Three slots by name; killed during the second. Nothing that was started outlives it."""
    path = workload(tmp_path, STEADY, profiles="[1g.10gb, 2g.20gb, 3g.40gb]", warm_up="{seconds: 0.5}")
    running = start(path)
    wait_for(lambda: len(started(tmp_path)) == 2)
    before = measured(tmp_path)
    assert [m.profile for m in before] == ["1g.10gb"]
    running.kill()
    running.communicate()
    wait_for(lambda: not any(map(is_running, started(tmp_path))))
    assert measured(tmp_path) == before

    done = migsaw(*words_of(path))
    assert done.returncode == 0, done.stderr
    after = measured(tmp_path)
    assert after[:1] == before
    assert [m.profile for m in after] == ["1g.10gb", "2g.20gb", "3g.40gb"]
    assert len(started(tmp_path)) == 4, "one, the killed one, and the two that were missing"
    assert {m.device for m in after} == {"cpu"}


def test_kills_at_any_moment_lose_no_finished_measurement(migsaw, tmp_path):
    """Killed six times at moments that fall everywhere; each kill costs at most the trial that ran."""
    names = ["1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"]
    path = workload(tmp_path, STEADY, profiles=f"[{', '.join(names)}]", warm_up="{seconds: 0.2}")
    kept: list[Measurement] = []
    for moment in (0.1, 0.4, 0.9, 1.3, 0.7, 1.1):
        running = start(path)
        time.sleep(moment)
        running.kill()
        running.communicate()
        assert measured(tmp_path)[: len(kept)] == kept
        kept = measured(tmp_path)
    assert migsaw(*words_of(path)).returncode == 0
    assert [m.profile for m in measured(tmp_path)] == names
    assert len(started(tmp_path)) <= len(names) + 6
    wait_for(lambda: not any(map(is_running, started(tmp_path))))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_the_whole_family_waits_for_it_and_says_how_to_go_on(tmp_path, number):
    """The script has a child of its own, and takes its time to end."""
    body = (
        "import subprocess\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "open(os.path.join(here, 'pids'), 'a').write(f'{child.pid}\\n')\n"
        "def end(*_):\n"
        "    time.sleep(0.5); open(os.path.join(here, 'ended'), 'w').close(); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "open(os.path.join(here, 'ready'), 'w').close()\n"
    )
    path = workload(tmp_path, body + STEADY, steady="{relative_half_width: 0.00001, at_most_seconds: 600}")
    running = start(path)
    wait_for((tmp_path / "ready").exists)
    running.send_signal(number)
    _, said = running.communicate(timeout=60)
    assert not any(map(is_running, started(tmp_path)))
    assert (tmp_path / "ended").exists(), "it was asked before it was made to"
    assert running.returncode == 1
    assert "run the same command again to go on" in said
    assert "Traceback" not in said
    assert measured(tmp_path) == []


def test_a_command_that_does_not_end_when_asked_is_made_to(tmp_path, monkeypatch):
    body = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    path = workload(tmp_path, body + STEADY)
    begun = time.monotonic()
    running = start(path)
    running.communicate(timeout=60)
    assert running.returncode == 0
    assert time.monotonic() - begun < 30
    assert not any(map(is_running, started(tmp_path)))


OOM = "print('rate 5', flush=True); print('{0}', file=sys.stderr); sys.exit(1)\n"


@pytest.mark.parametrize(
    "message",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB",
        "RuntimeError: CUDA error: out of memory",
        "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1 bytes",
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[1]",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    ],
)
def test_full_gpu_memory_is_told_apart_from_other_failures(migsaw, tmp_path, message):
    done = migsaw(*words_of(workload(tmp_path, OOM.format(message.replace("'", "")))))
    (m,) = measured(tmp_path)
    assert (m.outcome, m.throughput_per_second) == ("out_of_memory", None)
    assert "out of memory" in done.stdout


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("print('no such data', file=sys.stderr); sys.exit(3)\n", "exit code 3"),
        ("os.kill(os.getpid(), signal.SIGSEGV)\n", "signal 11"),
        ("print('rate 0', flush=True)\n", "no value"),
    ],
)
def test_a_command_that_fails_ends_the_series_and_is_tried_again_next_time(migsaw, tmp_path, body, says):
    path = workload(tmp_path, body, profiles="[1g.10gb, 2g.20gb]")
    for times in (1, 2):
        done = migsaw(*words_of(path))
        assert done.returncode == 1
        assert says in done.stderr
        assert len(started(tmp_path)) == times
    assert {m.outcome for m in measured(tmp_path)} == {"failed"}


def test_a_command_that_is_not_there_is_said(migsaw, tmp_path):
    done = migsaw(*words_of(workload(tmp_path, "", command="[no-such-program]")))
    assert done.returncode == 1
    assert "no-such-program: No such file" in done.stderr


def test_a_rate_that_never_settles_ends_in_time_and_says_how_sure_it_is(migsaw, tmp_path):
    body = "while True:\n    print('rate', 1 + 99 * (int(time.time() * 2) % 2), flush=True); time.sleep(0.02)\n"
    path = workload(
        tmp_path,
        body,
        steady="{relative_half_width: 0.02, at_least_values: 10, at_least_seconds: 3, at_most_seconds: 4}",
    )
    done = migsaw(*words_of(path))
    assert done.returncode == 0, done.stderr
    (m,) = measured(tmp_path)
    assert (m.outcome, round(m.steady_seconds)) == ("unsteady", 4)
    assert m.throughput_per_second.low < 50.5 < m.throughput_per_second.high
    assert "not steady" in done.stdout


def test_processes_of_one_slot_are_added_up(migsaw, tmp_path):
    body = (
        "rate = 10 * (1 + int(os.environ['MIGSAW_PROCESS']))\n"
        "while True:\n    print('rate', rate, flush=True); time.sleep(0.01)\n"
    )
    done = migsaw(*words_of(workload(tmp_path, body, processes="3")))
    assert done.returncode == 0, done.stderr
    (m,) = measured(tmp_path)
    assert (m.processes, m.throughput_per_second.value) == (3, pytest.approx(60.0))
    assert sorted((tmp_path / "starts").read_text().split()) == ["0", "1", "2"]


def test_counts_in_a_file_of_json_lines_become_a_rate(migsaw, tmp_path):
    """5 units every 20 ms or a little more; what an earlier run left in the file does not count."""
    (tmp_path / "log.jsonl").write_text('{"done": 99999}\n')
    body = (
        "with open(os.path.join(here, 'log.jsonl'), 'a') as log:\n"
        "    for n in range(10**6):\n"
        "        log.write(json.dumps({'done': 5 * n, 'wait': 0.5}) + '\\n'); log.flush(); time.sleep(0.02)\n"
    )
    read = "{json_lines: {file: log.jsonl, field: done, kind: count, input_wait: wait}}"
    steady = "{relative_half_width: 0.2, at_least_values: 10, at_least_seconds: 1, at_most_seconds: 20}"
    done = migsaw(*words_of(workload(tmp_path, body, read=read, steady=steady)))
    assert done.returncode == 0, done.stderr
    (m,) = measured(tmp_path)
    assert 10 < m.throughput_per_second.value <= 260
    assert m.input_wait == pytest.approx(0.5)
    assert "waits for data" in done.stdout


class Prometheus(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        rows = [{"metric": {}, "value": [time.time(), "42.5"]}]
        body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": rows}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


def test_a_prometheus_metric_is_asked_while_the_command_runs(migsaw, tmp_path):
    server = HTTPServer(("127.0.0.1", 0), Prometheus)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        read = f"{{prometheus: {{url: '{url}', query: 'rate(x[1m])', every_seconds: 0.05}}}}"
        steady = "{at_least_values: 5, at_least_seconds: 0.2, at_most_seconds: 20}"
        done = migsaw(*words_of(workload(tmp_path, "time.sleep(600)\n", read=read, steady=steady)))
    finally:
        server.shutdown()
        server.server_close()
    assert done.returncode == 0, done.stderr
    (m,) = measured(tmp_path)
    assert (m.outcome, m.throughput_per_second.value) == ("steady", 42.5)


def test_mlflow_that_is_not_installed_is_said_with_the_way_to_get_it(migsaw, tmp_path):
    (tmp_path / "mlflow.py").write_text("raise ModuleNotFoundError('No module named mlflow', name='mlflow')\n")
    path = workload(tmp_path, STEADY, read="{mlflow: {metric: speed}}")
    done = migsaw(*words_of(path), PYTHONPATH=str(tmp_path))
    assert done.returncode == 2
    assert "pip install 'migsaw[mlflow]'" in done.stderr


def test_without_a_gpu_both_ways_on_are_named(migsaw, tmp_path):
    done = migsaw(*[word for word in words_of(workload(tmp_path, STEADY)) if word not in ("--device", "cpu")])
    assert done.returncode == 2
    assert "--device cpu" in done.stderr
    assert "migsaw[local]" in done.stderr
    assert started(tmp_path) == []


def test_words_of_a_command_reach_no_shell(migsaw, tmp_path):
    body = "print(sys.argv[1], file=open(os.path.join(here, 'word'), 'w'))\n" + STEADY
    word = "$(touch stolen); `touch stolen` | x > stolen"
    path = workload(tmp_path, body, command=json.dumps([sys.executable, "job.py", word]))
    assert migsaw(*words_of(path)).returncode == 0
    assert (tmp_path / "word").read_text().strip() == word
    assert not (tmp_path / "stolen").exists()
    assert "MIGSAW_PROCESS" not in os.environ
