"""MIG devices as nvidia-ml-py gives them (a stand-in for the library; the commands are real): which slot is taken,
what the command sees, what neighbours do to the number, and that a slot in use is left alone."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from migsaw import catalogue
from migsaw.cli.shared import load_catalogue
from migsaw.errors import InputError, MigsawError
from migsaw.fit.curve_prior import parse_prior
from migsaw.model.measurement import Measurement
from migsaw.model.trial import Read, RegexReading, Steady, TrialSpec, Verdict
from migsaw.store import open_store
from migsaw.trial.nvml import LocalBackend, local_backend
from migsaw.trial.runner import Profiling

CATALOGUE = load_catalogue()
BOARD = CATALOGUE.board("a100-sxm4-40gb")
PRIOR = parse_prior(catalogue.read("curves.json"))
PRINTS = """\
import os
print(os.environ['CUDA_VISIBLE_DEVICES'], file=open('seen', 'a'))
while True: print('rate 50', flush=True)
"""


class NVMLError(Exception):
    pass


def library(gpus: dict[str, list[tuple[str, str]] | None], busy: set[str] = frozenset(), name=BOARD.product_names[0]):
    """GPU → its MIG devices (UUID, profile) in places 0, 2, 4 …; None: MIG is off."""
    names = list(gpus)
    profiles = {uuid: profile for devices in gpus.values() for uuid, profile in devices or ()}

    def device(gpu, place):
        devices = gpus[gpu] or ()
        if place % 2 or place // 2 >= len(devices):
            raise NVMLError("Not Found")
        return devices[place // 2][0]

    return types.SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=lambda: None,
        nvmlSystemGetDriverVersion=lambda: b"550.1",
        nvmlDeviceGetCount=lambda: len(names),
        nvmlDeviceGetHandleByIndex=lambda index: names[index],
        nvmlDeviceGetUUID=lambda handle: handle,
        nvmlDeviceGetName=lambda handle: f"{name} MIG {profiles[handle]}" if handle in profiles else name,
        nvmlDeviceGetMigMode=lambda gpu: (int(gpus[gpu] is not None), 0),
        nvmlDeviceGetMaxMigDeviceCount=lambda gpu: 7,
        nvmlDeviceGetMigDeviceHandleByIndex=device,
        nvmlDeviceGetComputeRunningProcesses=lambda handle: [1] if handle in busy else [],
        nvmlDeviceGetMemoryInfo=lambda handle: types.SimpleNamespace(used=3000 * 2**20),
    )


def spec(**more) -> TrialSpec:
    steady = Steady(0.05, 10, 0.1, 20.0, 10.0)
    command = (sys.executable, "-c", PRINTS)
    return TrialSpec("t", BOARD.key, command, Read(regex=RegexReading("rate (.*)")), steady=steady, **more)


@pytest.fixture
def backend(monkeypatch, tmp_path):
    def make(nvml, asked=None, **more) -> LocalBackend:
        monkeypatch.setitem(sys.modules, "pynvml", nvml)
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        return local_backend(asked or spec(), BOARD, tmp_path, CATALOGUE, **more)

    return make


class Silent:
    def started(self, profile):
        pass

    def seen(self, state):
        pass

    def finished(self, measurement, message):
        pass


def profiled(backend: LocalBackend, folder: Path):
    with open_store(folder / "s.db") as store:
        words = (PRIOR, store, lambda: "2026-12-01T00:00:00Z", Silent())
        found = Profiling(backend.spec, BOARD, backend, *words).run()
        return found, [record.value(Measurement) for record in store.records("measurement")]


def test_the_command_sees_only_its_slice_and_the_number_is_derated_for_idle_neighbours(backend, tmp_path):
    """50 units a second beside idle neighbours: 50 × 0.952, with all of 0.6 to 9.4 % in the interval."""
    made = backend(library({"GPU-0": [("MIG-a", "3g.20gb"), ("MIG-b", "1g.5gb"), ("MIG-c", "1g.5gb")]}))
    assert made.slots() == ("1g.5gb", "3g.20gb")
    found, (m,) = profiled(made, tmp_path)
    assert (tmp_path / "seen").read_text() == "MIG-b\n"
    assert (found.verdict, found.chosen) == (Verdict.CHOSEN, "1g.5gb")
    assert (m.device, m.neighbours, m.derated, m.memory_peak_mib) == ("mig", "idle", 0.952, 3000)
    figure = m.throughput_per_second
    assert (figure.value, figure.low, figure.high) == pytest.approx((47.6, 45.3, 49.7))
    assert (m.conditions["driver"], m.conditions["device"]) == ("550.1", "MIG-b")


def test_loaded_neighbours_need_no_derating_and_their_copies_are_ended(backend, tmp_path):
    made = backend(library({"GPU-0": [("MIG-a", "3g.20gb"), ("MIG-b", "1g.5gb")]}), load_neighbours=True)
    _, (m,) = profiled(made, tmp_path)
    assert sorted((tmp_path / "seen").read_text().split()) == ["MIG-a", "MIG-b"]
    assert (m.neighbours, m.derated, m.throughput_per_second.value) == ("loaded", 1.0, 50.0)


def test_a_slice_in_use_is_left_alone_and_its_work_makes_the_neighbours_unknown(backend, tmp_path):
    devices = {"GPU-0": [("MIG-a", "1g.5gb"), ("MIG-b", "1g.5gb")]}
    _, (m,) = profiled(backend(library(devices, {"MIG-a"}), load_neighbours=True), tmp_path)
    assert (tmp_path / "seen").read_text() == "MIG-b\n"
    assert (m.neighbours, m.derated) == ("unknown", 0.952)
    with pytest.raises(MigsawError, match="in use"), backend(library(devices, {"MIG-a", "MIG-b"})).trial("1g.5gb"):
        pass


def test_a_slice_that_another_migsaw_has_reserved_is_left_alone(backend):
    made = backend(library({"GPU-0": [("MIG-a", "1g.5gb"), ("MIG-b", "1g.5gb")]}))
    with made.trial("1g.5gb") as one, made.trial("1g.5gb") as other:
        assert [r.conditions["device"] for r in (one, other)] == ["MIG-a", "MIG-b"]
        with pytest.raises(MigsawError, match="in use"), made.trial("1g.5gb"):
            pass
    with made.trial("1g.5gb") as again:
        assert again.conditions["device"] == "MIG-a"


def test_a_whole_gpu_has_no_neighbours(backend, tmp_path):
    made = backend(library({"GPU-0": None}), spec(profiles=("off",)))
    found, (m,) = profiled(made, tmp_path)
    assert (m.device, m.profile, m.neighbours, m.derated, found.chosen) == ("gpu", "off", "none", 1.0, "off")
    assert (tmp_path / "seen").read_text() == "GPU-0\n"
    again, _ = profiled(made, tmp_path)
    assert again.trials == 0


def test_only_slots_that_are_here_are_tried_and_the_others_are_predicted(backend, tmp_path):
    made = backend(library({"GPU-0": [("MIG-a", "3g.20gb"), ("MIG-b", "1c.3g.20gb")]}))
    found, measured = profiled(made, tmp_path)
    assert [m.profile for m in measured] == ["3g.20gb"]
    sources = {row.profile: row.throughput_per_second.source for row in found.rows if row.throughput_per_second}
    assert sources["3g.20gb"] == "measured"
    assert sources["4g.20gb"] == sources["7g.40gb"] == "predicted"


def test_another_board_is_named(backend):
    with pytest.raises(InputError, match=r"no a100-sxm4-40gb on this machine \(h100"):
        backend(library({"GPU-0": None}, name="NVIDIA H100 80GB HBM3"))


def test_a_machine_without_a_driver_names_both_ways(backend):
    def fails():
        raise NVMLError("Driver Not Loaded")

    nvml = library({})
    nvml.nvmlInit = fails
    with pytest.raises(InputError, match="Driver Not Loaded") as caught:
        backend(nvml)
    assert "--device cpu" in str(caught.value.hint)
    assert "migsaw[local]" in str(caught.value.hint)
