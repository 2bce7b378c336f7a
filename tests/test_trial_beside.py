"""DCGM beside a trial: whose activity is recorded, what neighbours do to the number, what starves the slot.

An exporter on loopback serves real label generations; the commands are real; a stand-in gives the MIG devices.
"""

from __future__ import annotations

import itertools
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from exporter_texts import BLANKS, FIELDS, LABELS, Thing, text, uuid
from migsaw.errors import InputError, MigsawError
from migsaw.fit.beside import neighbours_of, series_of
from migsaw.model.measurement import Beside
from migsaw.model.telemetry import Device
from migsaw.model.trial import Read, RegexReading, Steady, TrialSpec
from migsaw.report.table import to_markdown
from migsaw.report.trials import trials_table
from migsaw.trial.beside import Exporter, Polls, Slot
from migsaw.trial.nvml import LocalBackend, local_backend
from test_trial_nvml import BOARD, CATALOGUE, PRINTS, library, profiled

GPU = uuid(0)
DEVICES = {GPU: [("MIG-a", "1g.5gb"), ("MIG-b", "1g.5gb"), ("MIG-c", "2g.10gb")]}
GI = {"MIG-a": 7, "MIG-b": 9, "MIG-c": 3}
WAITS = PRINTS.replace("'rate 50'", "'rate 50 wait 0.5'")


@contextmanager
def serving(answer: Callable[[int], str]) -> Iterator[str]:
    """``answer(n)``: the text of the n-th scrape; an empty one is a fault of the server."""
    scrapes = itertools.count()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = answer(next(scrapes)).encode()
            self.send_response(200 if content else 503)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()


def jitter(n: int, mean: float, by: float = 0.01) -> float:
    return round(mean + by * random.Random(n * 1000 + round(mean * 100)).uniform(-1, 1), 6)


def things(n: int, own: float = 0.6, others: tuple[float | None, ...] = (0.0, 0.0)) -> list[Thing]:
    """The slot (7) and its neighbours; on GPU 1 an instance with the slot's id that is always busy."""
    mine = {"graphics": jitter(n, own + 0.1), "sm": jitter(n, own), "dram": jitter(n, own / 2), "used": 3000}
    rows = [Thing(0, 7, "1g.5gb", None, mine)]
    rows += [
        Thing(0, gi, profile, None, {"graphics": busy and jitter(n, busy), "sm": busy, "used": 20})
        for (gi, profile), busy in zip(((9, "1g.5gb"), (3, "2g.10gb")), others, strict=True)
    ]
    return [*rows, Thing(1, 7, "1g.5gb", None, {"graphics": 0.99, "sm": 0.99, "used": 9000})]


def said(n: int, labels: str = "2021", fields: str = "ACTIVE", **more: object) -> str:
    return text(things(n, **more), LABELS[labels], FIELDS[fields])  # type: ignore[arg-type]


@pytest.fixture
def backend(monkeypatch, tmp_path):
    def make(url: str, command: str = PRINTS, *, load_neighbours: bool = False, **more: object) -> LocalBackend:
        nvml = library(DEVICES)
        nvml.nvmlDeviceGetGpuInstanceId = lambda handle: GI[handle]
        monkeypatch.setitem(sys.modules, "pynvml", nvml)
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        read = Read(regex=RegexReading(r"rate (\d+)", input_wait=r"wait ([\d.]+)"))
        steady = Steady(0.05, 10, 1.2, 20.0, 10.0)
        asked = TrialSpec("t", BOARD.key, (sys.executable, "-c", command), read, steady=steady, profiles=("1g.5gb",))
        gauge = Exporter(url, every_seconds=0.03)
        return local_backend(asked, BOARD, tmp_path, CATALOGUE, load_neighbours=load_neighbours, gauge=gauge)

    return make


@pytest.mark.parametrize(("labels", "fields"), [("2021", "ACTIVE"), ("lower case", "ACTIVE"), ("2026", "DCGM 4.6")])
def test_activity_of_the_slot_is_recorded_in_every_generation_of_exporters(backend, tmp_path, labels, fields):
    with serving(lambda n: said(n, labels, fields)) as url:
        _, (m,) = profiled(backend(url), tmp_path)
    assert m.beside is not None
    device = m.beside.device
    assert device is not None
    assert (device.uuid, device.gi_id, device.profile) == (GPU, 7, "1g.5gb")
    for signal, mean in (("sm", 0.6), ("graphics", 0.7), ("dram", 0.3)):
        series = device.series[signal]
        assert series.name == FIELDS[fields][signal]
        assert series.values is not None
        assert series.values.mean == pytest.approx(mean, abs=0.01)
        assert series.samples > 5
    assert [(d.gi_id, d.profile) for d in m.beside.neighbours] == [(3, "2g.10gb"), (9, "1g.5gb")], "of this GPU only"
    assert (m.neighbours, m.derated) == ("idle", 0.952)


def test_a_strangers_work_beside_it_marks_the_number_and_is_not_derated(backend, tmp_path):
    """50 units a second stand; 9.4 % (MLPerf v1.1) of them may still go, so the interval begins at 45.3."""
    with serving(lambda n: said(n, others=(0.8, 0.0))) as url:
        found, (m,) = profiled(backend(url), tmp_path)
    assert (m.neighbours, m.derated) == ("busy", 1.0)
    figure = m.throughput_per_second
    assert (figure.value, figure.low, figure.high) == pytest.approx((50.0, 45.3, 50.0))
    page = to_markdown(trials_table(found))
    assert "neighbours were busy with other work (2g.10gb #3 0%, 1g.5gb #9 80%)" in page
    assert "1–9 %" in page
    with serving(said) as url:
        again, both = profiled(backend(url), tmp_path)
    assert again.trials == 1, "a noisy number is kept and measured again"
    assert [m.neighbours for m in both] == ["busy", "idle"]
    with serving(said) as url:
        assert profiled(backend(url), tmp_path)[0].trials == 0
    table = trials_table(found)
    shown = dict(zip((column.title for column in table.columns), table.rows[0], strict=True))
    assert (shown["SM active"], shown["memory active"]) == ("60%", "30%")


def test_copies_that_load_the_neighbours_are_seen_at_work(backend, tmp_path):
    with serving(lambda n: said(n, others=(0.9, 0.9))) as url:
        _, (m,) = profiled(backend(url, load_neighbours=True), tmp_path)
    assert (m.neighbours, m.derated) == ("loaded", 1.0)


def test_copies_that_do_nothing_leave_the_neighbours_idle(backend, tmp_path):
    with serving(said) as url:
        _, (m,) = profiled(backend(url, load_neighbours=True), tmp_path)
    assert (m.neighbours, m.derated) == ("idle", 0.952)


def test_a_slot_that_waits_for_data_is_told_so_with_evidence(backend, tmp_path):
    """By its own word half of the time, with low activity and memory held: sure, and said with what to mend."""
    with serving(lambda n: said(n, own=0.2)) as url:
        found, (m,) = profiled(backend(url, WAITS), tmp_path)
    assert m.input_wait == pytest.approx(0.5)
    assert m.starved is not None
    assert (m.starved.cause, m.starved.is_sure) == ("input", True)
    assert "time waiting for data 0.5" in m.starved.because
    assert "First: more loader workers" in to_markdown(trials_table(found))


def test_a_saw_tooth_alone_is_a_suspicion_and_even_full_load_is_none(backend, tmp_path):
    with serving(lambda n: said(n, own=0.85 if n % 2 else 0.05)) as url:
        _, (m,) = profiled(backend(url), tmp_path)
    assert m.starved is not None
    assert (m.starved.cause, m.starved.is_sure) == ("suspected", False)
    with serving(lambda n: said(n, own=0.85)) as url:
        (tmp_path / "s.db").unlink()
        _, (m,) = profiled(backend(url, WAITS), tmp_path)
    assert m.starved is None


def test_an_exporter_that_goes_away_costs_no_measurement(backend, tmp_path):
    with serving(lambda n: said(n) if n < 3 else "") as url:
        _, (m,) = profiled(backend(url), tmp_path)
    assert m.outcome == "steady"
    assert m.throughput_per_second.value == pytest.approx(47.6)
    assert m.beside is not None


def test_an_exporter_that_repeats_an_old_reading_tells_nothing_of_the_steady_time(backend, tmp_path):
    with serving(lambda n: said(0, others=(0.8, 0.8))) as url:
        found, (m,) = profiled(backend(url), tmp_path)
    assert m.beside is not None
    assert m.beside.device is None
    assert "gave no new reading" in m.beside.unknown
    assert (m.neighbours, m.starved) == ("idle", None), "as NVIDIA's library says"
    assert "activity n/a" in to_markdown(trials_table(found))


def only(gpu: int, gi: int) -> str:
    return text([Thing(gpu, gi, "1g.5gb", None, {"sm": 0.5})], LABELS["2021"], FIELDS["ACTIVE"])


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        (lambda n: "", MigsawError, "503"),
        (lambda n: "up 1\n", InputError, "no series of dcgm-exporter"),
        (lambda n: only(1, 7), InputError, "shows no GPU"),
        (lambda n: only(0, 9), InputError, "instance 7"),
    ],
)
def test_an_exporter_that_does_not_show_the_slot_is_refused_before_anything_runs(backend, tmp_path, answer, kind, says):
    with serving(answer) as url, pytest.raises(kind, match=says):
        profiled(backend(url), tmp_path)
    assert not (tmp_path / "seen").exists()


def test_nobody_listens_and_no_address(backend, tmp_path):
    with serving(said) as url:
        pass
    with pytest.raises(MigsawError, match="no exporter answers"):
        profiled(backend(url), tmp_path)
    with pytest.raises(InputError, match="no address of an exporter"):
        profiled(backend("localhost:9400"), tmp_path)


def test_a_slow_exporter_delays_no_line_of_the_workload(backend, tmp_path):
    """Each scrape takes longer than the trial's values are apart; the rates stay what the command prints."""

    def slow(n: int) -> str:
        time.sleep(0.4 if n else 0)
        return said(n)

    with serving(slow) as url:
        _, (m,) = profiled(backend(url), tmp_path)
    assert m.throughput_per_second.value == pytest.approx(47.6)
    assert m.startup_seconds < 2


# ---- without a trial -----------------------------------------------------------------------------------------------


def test_readings_that_may_be_of_before_the_steady_time_are_left_out():
    """DCGM gives a new reading every three polls; the one that was there at the beginning is of before it."""
    polls = Polls("exporter", Slot(GPU, 7))
    for n in range(30):
        polls.take(
            float(n), text([Thing(0, 7, "1g.5gb", None, {"sm": n // 3 / 100})], LABELS["2021"], FIELDS["ACTIVE"])
        )
    found = polls.look(7.0, 20.0)
    assert found.device is not None
    series = found.device.series["sm"]
    expected = [n // 3 / 100 for n in range(9, 21)]  # new at 9, 12, 15, 18
    assert series.samples == len(expected)
    assert series.values is not None
    assert series.values.mean == pytest.approx(np.mean(expected))
    assert series.changes == 3
    assert polls.look(7.0, 8.5).device is None


@pytest.mark.parametrize("blank", BLANKS)
def test_blanks_are_dropped_before_any_arithmetic(blank):
    polls = Polls("exporter", Slot(GPU, 7))
    for n in range(6):
        own = Thing(0, 7, "1g.5gb", None, {"sm": 0.5 + n / 100, "dram": None if n % 2 else 0.25})
        polls.take(float(n), text([own], LABELS["2021"], FIELDS["ACTIVE"], blank=BLANKS[blank]))
    device = polls.look(0.5, 5.5).device
    assert device is not None
    dram = device.series["dram"]
    assert (dram.samples, dram.blanks) == (2, 3)
    assert dram.values is not None
    assert (dram.values.mean, dram.values.peak) == (0.25, 0.25)


def test_statistics_are_those_of_numpy():
    values = [random.Random(n).random() for n in range(37)]
    found = series_of("x", values).values
    assert found is not None
    expected = [np.mean(values), *np.quantile(values, (0.05, 0.5, 0.95)), max(values), np.std(values)]
    assert [found.mean, found.low, found.median, found.high, found.peak, found.deviation] == pytest.approx(expected)


def seen(*means: float | None) -> Beside:
    devices = (
        Device(gi_id=n, series={} if m is None else {"graphics": series_of("g", [m])}) for n, m in enumerate(means)
    )
    return Beside("x", Device(gi_id=99), tuple(devices))


@pytest.mark.parametrize(
    ("told", "beside", "is_"),
    [
        ("idle", None, "idle"),
        ("idle", seen(), "idle"),
        ("none", seen(0.9), "none"),
        ("idle", seen(0.0, 0.01), "idle"),
        ("unknown", seen(0.0, 0.04), "idle"),
        ("unknown", seen(0.0, None), "unknown"),
        ("unknown", seen(0.5, None), "busy"),
        ("idle", seen(0.06, 0.0), "busy"),
        ("loaded", seen(0.9, 0.8), "loaded"),
        ("loaded", seen(0.9, 0.0), "busy"),
        ("loaded", seen(0.0, 0.0), "idle"),
    ],
)
def test_what_was_seen_of_neighbours_beats_what_was_meant(told, beside, is_):
    assert neighbours_of(told, beside) == is_


@pytest.mark.parametrize(
    "words",
    [
        ["--on", "local", "--exporter", "http://127.0.0.1:1/", "--prometheus", "http://127.0.0.1:1/"],
        ["--on", "local", "--device", "cpu", "--exporter", "http://127.0.0.1:1/"],
        ["--on", "kubernetes", "--out", "x", "--prometheus", "http://127.0.0.1:1/"],
    ],
)
def test_a_gauge_belongs_to_a_gpu_of_this_machine(migsaw, tmp_path: Path, words):
    (tmp_path / "w.yaml").write_text("")
    done = migsaw("profile", "w.yaml", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert "--exporter or --prometheus" in done.stderr
