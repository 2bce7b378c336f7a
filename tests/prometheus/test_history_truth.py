"""Every statistic of a real Prometheus against numpy on the samples that it was given."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import pytest
from made_series import BLANKS, START, Made, at_steps, changes, every, joined, statistics, steps_with, write_blocks

from migsaw.errors import MigsawError
from migsaw.model.refs import PodRef
from migsaw.model.telemetry import BoardReading, Device, Telemetry, Window
from migsaw.observe.exporter import Row
from migsaw.observe.history import HistoryOptions, Server, read_all
from migsaw.observe.prometheus import Client

HOUR, STEP = 3600, 30
END = START + HOUR
MIDDLE = START + HOUR // 2
OLD, NEW = "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO"
rng = random.Random(7)


def wave(n: int) -> float:
    return round(min(1.0, max(0.0, 0.5 + 0.4 * math.sin(n / 9) + rng.uniform(-0.05, 0.05))), 4)


def labels(uuid: str, gi: str | None = "1", **more: str) -> dict[str, str]:
    """As dcgm-exporter 3 writes them, scraped with honorLabels: true."""
    own = {"gpu": "0", "UUID": uuid, "modelName": "NVIDIA A100-SXM4-80GB", "Hostname": "node-a", "job": "dcgm"}
    own |= {"GPU_I_ID": gi, "GPU_I_PROFILE": "1g.10gb"} if gi else {}
    return {**own, "instance": "10.0.0.1:9400", **more}


def new_labels(uuid: str, gi: str = "1", **more: str) -> dict[str, str]:
    own = {"gpu": "0", "uuid": uuid, "modelName": "NVIDIA A100-SXM4-80GB", "hostname": "node-a", "job": "dcgm"}
    return {**own, "gpu_i_id": gi, "gpu_i_profile": "1g.10gb", "instance": "10.0.0.1:9400", **more}


def held(pod: str) -> dict[str, str]:
    return {"namespace": "ml", "pod": pod}


def exported(pod: str, exporter: str = "nvidia-dcgm-exporter-abc") -> dict[str, str]:
    own = {"namespace": "gpu-operator", "pod": exporter}
    return {**own, "exported_namespace": "ml", "exported_pod": pod}


def plain(start: float = START, end: float = END, value: Callable[[int], float] = wave, offset: float = 1.0):
    return every(15, start, end, value, offset)


def with_odd_values(n: int) -> float:
    if n % 5 == 0:
        return BLANKS[n // 5 % len(BLANKS)]
    return {1: 3.7, 2: 1e6, 3: 1.05}.get(n % 11, wave(n))


# name of the case → the series of one device
CASES: dict[str, list[Made]] = {
    "old names": [Made(OLD, labels("GPU-old") | held("train-0"), plain())],
    "new names": [Made(NEW, new_labels("GPU-new") | held("train-0"), plain())],
    "blanks and spikes": [Made(OLD, labels("GPU-odd") | held("train-0"), plain(value=with_odd_values))],
    "only blanks": [Made(OLD, labels("GPU-blank") | held("train-0"), plain(value=lambda n: BLANKS[n % 6]))],
    "two jobs": [
        Made(OLD, labels("GPU-twice") | held("train-1"), plain()),
        Made(OLD, labels("GPU-twice", job="other") | exported("train-1"), plain(offset=4)),
    ],
    "gap": [Made(OLD, labels("GPU-gap") | held("train-2"), plain(end=START + 900) + plain(start=START + 2700))],
    "stuck": [Made(OLD, labels("GPU-stuck") | held("train-3"), plain(value=lambda n: 0.25))],
    "ended": [Made(OLD, labels("GPU-ended") | held("train-4"), plain(end=START + 1200))],
    "exporter restarts": [
        Made(OLD, labels("GPU-restart") | exported("train-5"), plain(end=MIDDLE)),
        Made(
            OLD,
            labels("GPU-restart", instance="10.0.0.9:9400") | exported("train-5", "nvidia-dcgm-exporter-xyz"),
            plain(start=MIDDLE),
        ),
    ],
    "generation changes": [
        Made(OLD, labels("GPU-upgrade") | held("train-6"), plain(end=MIDDLE)),
        Made(NEW, new_labels("GPU-upgrade") | held("train-6"), plain(start=MIDDLE)),
    ],
    "idle, exporter restarts": [
        Made(
            OLD,
            labels("GPU-idle") | {"namespace": "gpu-operator", "pod": "nvidia-dcgm-exporter-abc"},
            plain(end=MIDDLE),
        ),
        Made(
            OLD,
            labels("GPU-idle") | {"namespace": "other", "pod": "gpu-metrics-1", "container": "exporter"},
            plain(MIDDLE),
        ),
    ],
    "a null profile": [
        Made(OLD, labels("GPU-null") | held("train-7") | {"GPU_I_PROFILE": "<<<NULL>>>"}, plain()),
    ],
    "a whole GPU": [Made(OLD, labels("GPU-whole", None) | held("train-8"), plain())],
    "by uid": [Made(OLD, labels("GPU-uid") | {"pod_uid": "12-34"}, plain())],
}
TWO_EXPORTERS = [
    Made(OLD, labels("GPU-shown-twice", instance=f"10.0.0.{n}:9400") | held("train-9"), plain(offset=n)) for n in (1, 2)
]
TWO_HOLDERS = [
    Made(OLD, labels("GPU-moved") | held("first"), plain(end=MIDDLE)),
    Made(OLD, labels("GPU-moved") | held("second"), plain(start=MIDDLE)),
]
NO_UUID = [
    Made(OLD, {"gpu": str(n), "Hostname": "old-node", "instance": "old-node:9400"} | held(f"old-{n}"), plain())
    for n in (0, 1)
]
MEMORY = [
    Made("DCGM_FI_DEV_FB_USED", labels("GPU-old") | held("train-0"), plain(value=lambda n: 1000.0 + n)),
    Made("DCGM_FI_DEV_FB_FREE", labels("GPU-old") | held("train-0"), plain(value=lambda n: 8000.0 - n)),
]


def joules(n: int) -> float:
    """A counter in millijoules, already beyond 32 bits, that begins again in the middle."""
    return 5e9 + 1000.0 * n if n < 120 else 700.0 * (n - 120)


BOARD = [
    made
    for gi in ("1", "2", "3")
    for made in (
        Made("DCGM_FI_DEV_POWER_USAGE", labels("GPU-old", gi), plain(value=lambda n: 200.0 + n % 7)),
        Made("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", labels("GPU-old", gi), plain(value=joules)),
    )
]


@pytest.fixture(scope="module")
def server(start_prometheus: Callable, tmp_path_factory: pytest.TempPathFactory):
    data = tmp_path_factory.mktemp("history") / "data"
    made = [m for case in CASES.values() for m in case] + TWO_EXPORTERS + TWO_HOLDERS + NO_UUID + MEMORY + BOARD
    write_blocks(made, data)
    return start_prometheus(data)


@pytest.fixture(scope="module")
def history(server):
    return read_all(Server(server.url), Window(START, END, STEP), HistoryOptions())


@pytest.fixture(scope="module")
def telemetry(history) -> Telemetry:
    return history.telemetry


def devices(telemetry: Telemetry, uuid: str) -> list[Device]:
    return [device for device in telemetry.devices if device.uuid == uuid]


def uuid_of(case: list[Made]) -> str:
    return case[0].labels.get("UUID") or case[0].labels["uuid"]


@pytest.mark.parametrize("name", CASES)
def test_statistics_equal_numpy_on_the_raw_samples(telemetry: Telemetry, name: str) -> None:
    case = CASES[name]
    found = devices(telemetry, uuid_of(case))
    assert len(found) == 1, f"one device, not {len(found)}"
    graphics = found[0].series["graphics"]
    kept = joined(case, START, END, STEP, 1.2)
    assert graphics.samples == len(kept)
    if len(kept):
        shown = {field: getattr(graphics.values, field) for field in statistics(kept)}
        assert shown == pytest.approx(statistics(kept), rel=1e-9, abs=1e-12)
        assert graphics.changes == changes(kept)
    else:
        assert graphics.values is None


@pytest.mark.parametrize("name", CASES)
def test_what_was_dropped_is_counted(telemetry: Telemetry, name: str) -> None:
    case = CASES[name]
    graphics = devices(telemetry, uuid_of(case))[0].series["graphics"]
    shown, kept = steps_with(case, START, END, STEP), len(joined(case, START, END, STEP, 1.2))
    not_blank = len(joined(case, START, END, STEP, 2147483631))
    assert (graphics.blanks, graphics.spikes) == (shown - not_blank, not_blank - kept)
    values = [
        v for row in zip(*(at_steps(m, START, END, STEP) for m in case), strict=True) for v in row if v is not None
    ]
    assert graphics.above_one == sum(1 < v <= 1.2 for v in values)


@pytest.mark.parametrize("name", CASES)
def test_the_newest_sample_is_told_to_the_second(telemetry: Telemetry, name: str) -> None:
    newest = max(when for made in CASES[name] for when, _ in made.samples if when <= END)
    assert devices(telemetry, uuid_of(CASES[name]))[0].series["graphics"].last == pytest.approx(newest)


def test_an_ended_series_is_shorter_not_idle(telemetry: Telemetry) -> None:
    graphics = devices(telemetry, "GPU-ended")[0].series["graphics"]
    # the last sample, 14 s before minute 20, still counts for five minutes
    assert graphics.samples == (1200 - 14 + 300) // STEP
    assert graphics.values is not None
    assert graphics.values.low > 0.05


def test_two_holders_are_two_rows(telemetry: Telemetry) -> None:
    found = {str(d.owner): d.series["graphics"].samples for d in devices(telemetry, "GPU-moved")}
    expected = {f"ml/{m.labels['pod']}": len(joined([m], START, END, STEP, 1.2)) for m in TWO_HOLDERS}
    assert found == expected


def test_owners_are_told_with_where_they_come_from(telemetry: Telemetry) -> None:
    said = {d.uuid: (d.owner, d.owner_source, d.exporter_pod) for d in telemetry.devices}
    assert said["GPU-old"] == (PodRef("ml", "train-0"), "label", None)
    assert said["GPU-restart"] == (PodRef("ml", "train-5"), "exported label", "nvidia-dcgm-exporter-abc")
    assert said["GPU-idle"] == (None, "none", "gpu-metrics-1")
    assert said["GPU-uid"][:2] == (None, "none")
    reasons = {d.uuid: d.owner_reason for d in telemetry.devices if d.owner is None}
    assert reasons["GPU-idle"] == "the pod label is the exporter's own, and no other label names a holder"
    assert "by its uid only" in (reasons["GPU-uid"] or "")


def test_gpus_without_a_uuid_are_told_apart_by_host_and_index(telemetry: Telemetry) -> None:
    found = {d.index: (d.node, str(d.owner), d.series["graphics"].samples) for d in telemetry.devices if not d.uuid}
    assert found == {n: ("old-node", f"ml/old-{n}", HOUR // STEP) for n in (0, 1)}


def test_identity_comes_from_the_labels(telemetry: Telemetry) -> None:
    device = devices(telemetry, "GPU-new")[0]
    assert (device.node, device.index, device.gi_id) == ("node-a", 0, 1)
    assert (device.product, device.profile_label, device.profile) == ("NVIDIA A100-SXM4-80GB", "1g.10gb", None)
    assert device.series["graphics"].name == NEW
    assert devices(telemetry, "GPU-null")[0].profile_label is None
    assert devices(telemetry, "GPU-whole")[0].gi_id is None


def test_memory_is_in_mib(telemetry: Telemetry) -> None:
    series = next(d for d in devices(telemetry, "GPU-old") if d.gi_id == 1 and d.owner).series
    for made, name in zip(MEMORY, ("used", "free"), strict=True):
        kept = joined([made], START, END, STEP, math.inf)
        assert series[name].values is not None
        assert series[name].values.peak == kept.max()
        assert series[name].values.mean == pytest.approx(kept.mean())


def test_board_values_are_one_reading_per_gpu(telemetry: Telemetry) -> None:
    (board,) = (b for b in telemetry.boards if b.uuid == "GPU-old")
    power = joined(BOARD[:1], START, END, STEP, math.inf)
    assert isinstance(board, BoardReading)
    assert board.repeated_on == 3
    assert board.power_watts is not None
    assert board.power_watts.mean == pytest.approx(power.mean())
    assert board.power_watts.peak == 206


def test_energy_goes_over_a_reset(telemetry: Telemetry) -> None:
    """`increase`: what the counter gained between the first and last step, and the same again to the window's edges."""
    (board,) = (b for b in telemetry.boards if b.uuid == "GPU-old")
    seen = [v for v in at_steps(BOARD[1], START, END, STEP) if v is not None]
    gained = sum(b - a if b >= a else b for a, b in pairwise(seen))
    covered = STEP * (len(seen) - 1)
    assert board.energy_joules == pytest.approx(gained / 1000 * (covered + STEP - 0.001) / covered, rel=1e-6)


def owners(row: Row) -> set[tuple[str | None, str] | None]:
    return {subject.owner for subject in row.subjects}


def test_exporters_are_counted_at_one_time(telemetry: Telemetry) -> None:
    """Two scrape jobs of one, and one that began again under another address, are one."""
    assert {d.uuid for d in telemetry.devices if d.exporters != 1} == {"GPU-shown-twice"}
    assert next(d.exporters for d in telemetry.devices if d.uuid == "GPU-shown-twice") == 2


def test_the_newest_samples_are_rows_of_an_exporter(history) -> None:
    rows: dict[str | None, list[Row]] = {}
    for row in history.rows:
        rows.setdefault(row.identity.uuid, []).append(row)
    assert rows["GPU-old"][0].identity.gi_id == 1
    assert rows["GPU-old"][0].values["used"] == 1000.0 + 239
    assert {owner for row in rows["GPU-twice"] for owner in owners(row)} == {("ml", "train-1")}
    assert {owner for row in rows["GPU-moved"] for owner in owners(row)} == {("ml", "second")}
    assert "GPU-ended" not in rows
    assert not rows["GPU-blank"][0].values


def test_the_server_and_its_families_are_named(telemetry: Telemetry) -> None:
    assert telemetry.server is not None
    assert telemetry.server.startswith("Prometheus 2.")
    assert OLD in telemetry.families
    assert telemetry.families == tuple(
        sorted({m.family for c in CASES.values() for m in c} | {m.family for m in MEMORY + BOARD})
    )
    assert telemetry.partial == ()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The text of every question."""
    queries: list[str] = []
    fold = Client.fold

    def noting(self: Client, path: str, form: Mapping[str, Any], *rest: Any, **more: Any) -> Any:
        queries.extend([form["query"]] if path == "query" else [])
        return fold(self, path, form, *rest, **more)

    monkeypatch.setattr(Client, "fold", noting)
    return queries


VALUES = ("avg_over_time", "quantile_over_time(0.05", "quantile_over_time(0.5,", "quantile_over_time(0.95")


@pytest.mark.parametrize("budget", [20_000_000, 120 * 30, 120 * 7])
def test_queries_are_as_many_as_the_budget_needs(server, telemetry, asked: list[str], budget: int) -> None:
    """Per statistic ceil(series × points ÷ budget); smaller questions give the same answers."""
    before = server.requests("/api/v1/query")
    options = HistoryOptions(samples_per_query=budget)
    again = read_all(Server(server.url), Window(START, END, STEP), options).telemetry
    assert again == telemetry
    assert server.requests("/api/v1/query") - before == len(asked)

    def number(*words: str) -> int:
        return sum(all(word in query for word in words) for query in asked)

    with_uuid = [m for case in CASES.values() for m in case] + TWO_EXPORTERS + TWO_HOLDERS
    graphics = -(-len(with_uuid) * 120 // budget) + 1  # and those without a UUID, named by their host
    for function in (*VALUES, "stddev_over_time", "changes"):
        assert number(function, OLD) == graphics, function
        assert number(function, "FB_USED") == 1
    assert number("increase", "TOTAL_ENERGY") == 1  # one GPU is never split
    assert number("<= 1.2", "> 1") <= graphics  # asked only where the maximum is above 1


def test_low_resource_asks_less_and_leaves_the_rest_unknown(server, telemetry, asked: list[str], monkeypatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    options = HistoryOptions(low_resource=True)
    little = read_all(Server(server.url), Window(START, END, STEP), options).telemetry
    for few, full in zip(little.devices, telemetry.devices, strict=True):
        for name, series in few.series.items():
            whole = full.series[name]
            assert (series.name, series.samples, series.last, series.changes) == (whole.name, whole.samples, None, None)
            if series.values and whole.values:
                v, w = series.values, whole.values
                assert (v.mean, v.high, v.peak) == (w.mean, w.high, w.peak)
                assert (v.low, v.median, v.deviation) == (None, None, None)
    assert not any(word in query for query in asked for word in ("stddev", "changes", "(0.05", "timestamp"))
    assert len(pauses) >= len(asked)


def test_matchers_choose_the_series(server) -> None:
    options = HistoryOptions(match='{job="other"}')
    chosen = read_all(Server(server.url), Window(START, END, STEP), options).telemetry
    assert [d.uuid for d in chosen.devices] == ["GPU-twice"]
    with pytest.raises(MigsawError, match="no series of dcgm-exporter"):
        read_all(Server(server.url), Window(START, END, STEP), HistoryOptions(match='job="none"'))


def test_an_empty_window_is_an_error(server) -> None:
    with pytest.raises(MigsawError) as caught:
        read_all(Server(server.url), Window(START - 90_000, START - 86_400, STEP), HistoryOptions())
    assert caught.value.exit_code == 1
    assert caught.value.hint
