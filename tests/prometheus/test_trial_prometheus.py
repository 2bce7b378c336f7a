"""What a real Prometheus remembers of a trial's steady time: the slot of a pod, its neighbours, and what starves it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from made_series import START, Made, every, write_blocks
from running import RunningPrometheus

from migsaw.fit.beside import neighbours_of, starved_by
from migsaw.model.refs import PodRef
from migsaw.observe.history import Server
from migsaw.trial.beside import Prometheus, Slot

BEGIN, END = START + 1200.0, START + 1800.0  # the steady time; before it, other values
TRAIN = PodRef("ml", "train-0")
GRAPHICS, SM, USED = "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_DEV_FB_USED"


def device(gpu: str, gi: int, profile: str, pod: str = "") -> dict[str, str]:
    shown = {"UUID": f"GPU-{gpu}", "gpu": gpu, "GPU_I_ID": str(gi), "GPU_I_PROFILE": profile, "Hostname": "node-0"}
    shown |= {"modelName": "NVIDIA A100-SXM4-80GB"}
    return shown | ({"namespace": "ml", "pod": pod, "container": "main"} if pod else {})


def gauge(family: str, labels: dict[str, str], inside: Callable[[int], float], before: float = 0.0) -> Made:
    """Every 5 s, 1 s after the grid; ``inside`` in the steady time, else ``before``."""
    return Made(family, labels, every(5, START, END, lambda n: inside(n) if START + n * 5 >= BEGIN else before))


def wave(n: int) -> float:
    return 0.85 if n % 2 else 0.02 + n % 7 / 1000


OWN, OTHER, QUIET = device("0", 3, "2g.20gb", "train-0"), device("0", 9, "1g.10gb", "bert-0"), device("0", 5, "1g.10gb")
CPU = {"namespace": "ml", "pod": "train-0", "container": "main", "instance": "node-0:10250"}
SERIES = [
    gauge(GRAPHICS, OWN, wave, before=1.0),
    gauge(SM, OWN, lambda n: wave(n) / 2, before=1.0),
    gauge(USED, OWN, lambda n: 15000.0, before=15000.0),
    gauge(GRAPHICS, OTHER, lambda n: 0.7 + n % 3 / 100),
    gauge(GRAPHICS, QUIET, lambda n: 0.0, before=1.0),
    gauge(GRAPHICS, device("1", 9, "1g.10gb", "far-0"), lambda n: 0.9),
    gauge(GRAPHICS, device("2", 1, "7g.80gb", "stale-0"), lambda n: 0.5, before=0.5),
]
THROTTLED = [  # of 10 periods a second 6 are throttled
    Made("container_cpu_cfs_periods_total", CPU, every(5, START, END, lambda n: n * 50.0)),
    Made("container_cpu_cfs_throttled_periods_total", CPU, every(5, START, END, lambda n: n * 30.0)),
]


@pytest.fixture(scope="module")
def look(start_prometheus: Callable[..., RunningPrometheus], tmp_path_factory: pytest.TempPathFactory):
    def start(series: list[Made]):
        folder: Path = tmp_path_factory.mktemp("blocks") / "data"
        write_blocks(series, folder)
        server = Server(start_prometheus(folder).url, timeout_seconds=30)

        def ask(slot: Slot, begin: float = BEGIN, end: float = END):
            with Prometheus(server).beside(slot) as found:
                return found(begin, end)

        return ask

    return start


@pytest.fixture(scope="module")
def throttled(look):
    return look([*SERIES, *THROTTLED])


@pytest.mark.parametrize("slot", [Slot(pod=TRAIN), Slot("GPU-0", 3)], ids=["pod", "instance"])
def test_the_slot_and_the_other_instances_of_its_gpu_in_the_steady_time(throttled, slot):
    found = throttled(slot)
    assert found.unknown == ""
    assert (found.device.uuid, found.device.gi_id, found.device.owner) == ("GPU-0", 3, TRAIN)
    # each step of 5 s sees the scrape 4 s before it: those of 1196 (before), 1201 … 1791
    expected = [wave(n) for n in range(240, 360)]
    values = found.device.series["graphics"].values
    assert values.mean == pytest.approx(np.mean(expected), abs=0.01)
    assert values.peak <= 1.0
    assert found.device.series["graphics"].samples == 120
    seen = {d.gi_id: d.series["graphics"].values.mean for d in found.neighbours}
    assert seen == {9: pytest.approx(0.71, abs=0.01), 5: pytest.approx(0.0, abs=0.01)}
    assert neighbours_of("unknown", found) == "busy"


def test_a_throttled_cpu_beside_a_saw_tooth_starves_the_slot(throttled):
    found = throttled(Slot(pod=TRAIN))
    assert found.pod.cpu_throttled.mean == pytest.approx(0.6, abs=0.01)
    starved = starved_by(found, "2g", None, None)
    assert (starved.cause, starved.is_sure) == ("cpu", True)
    assert "CPU periods throttled 0.6" in starved.because


def test_without_anything_beside_it_a_saw_tooth_is_a_suspicion_and_full_load_none(look):
    alone = look(SERIES)
    assert starved_by(alone(Slot(pod=TRAIN)), "2g", None, None).cause == "suspected"
    assert starved_by(alone(Slot(pod=PodRef("ml", "bert-0"))), "1g", None, 9000) is None


@pytest.mark.parametrize(
    ("slot", "begin", "end", "says"),
    [
        (Slot(pod=PodRef("ml", "nobody")), BEGIN, END, "no such GPU"),
        (Slot("GPU-2", 1), BEGIN, END, "no new reading in 600 s"),
        (Slot(pod=TRAIN), BEGIN, BEGIN + 3, "shorter than its step"),
        (Slot(pod=TRAIN), 1e9, 1e9 + 600, "no series of dcgm-exporter"),
    ],
)
def test_what_it_cannot_tell_is_said_and_costs_nothing(throttled, slot, begin, end, says):
    found = throttled(slot, begin, end)
    assert found.device is None
    assert says in found.unknown
    assert neighbours_of("idle", found) == "idle"
    assert starved_by(found, "2g", 0.9, 9000) is None


def test_a_server_that_is_gone_costs_nothing():
    with Prometheus(Server("http://127.0.0.1:9", timeout_seconds=2)).beside(Slot("GPU-0", 3)) as found:
        assert found(BEGIN, END).device is None
