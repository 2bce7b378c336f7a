"""What a server may do wrong: each fault is told with its place and a hint, partial is marked, nothing is made up."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from made_series import START, Made, every, write_blocks
from running import free_port
from stand_in import GRAPHICS, HELD, USED, Asked, Reply, listed, one_instance, stand_in, vector

from migsaw.errors import InputError, MigsawError
from migsaw.model.telemetry import Telemetry, Window
from migsaw.observe.history import HistoryOptions, Server, read_all
from migsaw.observe.prometheus import Client, QueryError

WINDOW = Window(START, START + 3600, 60)


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits before a next try, without waiting."""
    waited: list[float] = []
    real = time.sleep
    monkeypatch.setattr("migsaw.observe.prometheus.time.sleep", lambda s: waited.append(s) if s >= 0.5 else real(s))
    return waited


def read(url: str, retries: int = 2, **server: Any) -> Telemetry:
    return read_all(Server(url, **server), WINDOW, HistoryOptions(retries=retries)).telemetry


def is_query(asked: Asked, *words: str) -> bool:
    return asked.path.endswith("/query") and all(word in asked.form["query"][0] for word in words)


def with_fault(fault: Reply, *words: str, times: int = 10**6) -> Callable[[Asked], Reply]:
    """Healthy but for the questions that hold these words, ``times`` times."""
    left = [times]

    def answer(asked: Asked) -> Reply:
        if is_query(asked, *words) and left[0]:
            left[0] -= 1
            return fault
        return one_instance(asked)

    return answer


def test_the_healthy_stand_in_is_read() -> None:
    with stand_in(one_instance) as (url, _):
        telemetry = read(url)
    (device,) = telemetry.devices
    assert set(device.series) == {"graphics", "used"}
    assert telemetry.partial == ()


def test_nobody_listens() -> None:
    url = f"http://user:secret@127.0.0.1:{free_port()}/?token=hidden"
    with pytest.raises(MigsawError) as caught:
        read(url)
    assert caught.value.exit_code == 1
    assert "cannot be reached" in str(caught.value)
    assert "127.0.0.1" in str(caught.value)
    assert "secret" not in str(caught.value) + repr(caught.value.hint)
    assert "hidden" not in str(caught.value) + repr(caught.value.hint)
    assert caught.value.hint


@pytest.mark.parametrize("url", ["prometheus:9090", "ftp://x", "http://", "http://x:port", ""])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InputError) as caught:
        read(url)
    assert caught.value.exit_code == 2


def test_a_window_without_a_step_is_refused() -> None:
    with pytest.raises(InputError, match="shorter than its step"):
        read_all(Server("http://127.0.0.1:1"), Window(START, START + 59, 60), HistoryOptions())


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_busy_server_is_asked_again(status: int, pauses: list[float]) -> None:
    with stand_in(with_fault(Reply("busy", status), GRAPHICS, "stddev", times=2)) as (url, _):
        telemetry = read(url)
    assert telemetry.partial == ()
    assert telemetry.devices[0].series["graphics"].values is not None
    assert pauses == [1.0, 2.0]  # each wait twice as long


def test_retry_after_is_obeyed(pauses: list[float]) -> None:
    with stand_in(with_fault(Reply("", 503, {"Retry-After": "7"}), "stddev", GRAPHICS, times=1)) as (url, _):
        read(url)
    assert pauses == [7.0]


def test_a_server_that_stays_busy_leaves_the_signal_out(pauses: list[float]) -> None:
    error = {"status": "error", "errorType": "timeout", "error": "query timed out in expression evaluation"}
    with stand_in(with_fault(Reply(error, 503), "stddev", GRAPHICS)) as (url, asked):
        telemetry = read(url)
    (device,) = telemetry.devices
    assert set(device.series) == {"used"}
    (sentence,) = telemetry.partial
    assert sentence == f"{GRAPHICS}: standard deviation of 1 GPU not read: 503 query timed out in expression evaluation"
    assert sum(is_query(a, "stddev", GRAPHICS) for a in asked) == 3


def test_a_refusal_is_not_tried_again(pauses: list[float]) -> None:
    """Mimir answers 422 where a limit of the tenant is reached (err-mimir-…)."""
    words = "the query exceeded the maximum number of chunks (limit: 2000000 chunks) (err-mimir-max-chunks-per-query)"
    error = {"status": "error", "errorType": "execution", "error": words}
    with stand_in(with_fault(Reply(error, 422), "avg_over_time", USED)) as (url, asked):
        telemetry = read(url)
    assert telemetry.partial == (f"{USED}: mean of 1 GPU not read: 422 {words}",)
    assert sum(is_query(a, "avg_over_time", USED) for a in asked) == 1
    assert not pauses


def of_type(kind: str, *result: Any) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": kind, "result": list(result)}}


SHAPES = {
    "<html>Sign in</html>": "no JSON",
    "": "cut off",
    '{"status": "success", "data": [': "cut off",
    '{"status": "error", "error": "no tenant"}': "no tenant",
    '{"data": {}}': "no status",
    json.dumps(of_type("scalar", 1700000000, "1")): "a scalar, not a vector",
    json.dumps(of_type("matrix", {"metric": {}, "values": [[1, "1"]]})): "a matrix, not a vector",
    json.dumps(of_type("matrix")): "a matrix, not a vector",
    json.dumps(of_type("vector", {"metric": {}, "value": [1, "much"]})): "a vector",
}


@pytest.mark.parametrize(("body", "said"), SHAPES.items())
def test_answers_of_another_shape_are_named(body: str, said: str) -> None:
    with stand_in(with_fault(Reply(body), "avg_over_time", GRAPHICS)) as (url, _):
        telemetry = read(url)
    (sentence,) = telemetry.partial
    assert said in sentence
    assert set(telemetry.devices[0].series) == {"used"}


def test_a_page_instead_of_the_api_is_an_error() -> None:
    with (
        stand_in(lambda _: Reply("<html>Grafana</html>", kind="text/html")) as (url, _),
        pytest.raises(MigsawError) as caught,
    ):
        read(url)
    assert "no JSON" in str(caught.value)
    assert "/api/v1" in (caught.value.hint or "")


def test_a_redirect_is_not_followed() -> None:
    reply = Reply("", 302, {"Location": "https://login.example/?state=secret"})
    with stand_in(lambda _: reply) as (url, _), pytest.raises(MigsawError) as caught:
        read(url, headers=lambda: {"Authorization": "Bearer t"})
    assert "redirects to https://login.example" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
def test_no_number_is_no_value(value: str) -> None:
    labels = {name: HELD[name] for name in ("UUID", "GPU_I_ID", "GPU_I_PROFILE", "namespace", "pod")}
    with stand_in(with_fault(Reply(vector((labels, value))), "avg_over_time", GRAPHICS)) as (url, _):
        telemetry = read(url)
    assert telemetry.devices[0].series["graphics"].values is None
    assert telemetry.partial == (f"{GRAPHICS}: 1 of 1 answers (mean) are no number of a listed device",)


def test_rows_of_nobody_are_told_and_left() -> None:
    rows = [({"UUID": f"GPU-{n}", "GPU_I_ID": "1"}, 0.5) for n in range(50)]
    with stand_in(with_fault(Reply(vector(*rows)), "avg_over_time", GRAPHICS)) as (url, _):
        telemetry = read(url)
    assert telemetry.devices[0].series["graphics"].values is None
    assert "50 of 50 answers (mean)" in telemetry.partial[0]


def test_an_answer_far_too_large_is_left_unread() -> None:
    rows = [({**HELD, "filler": "x" * 1000, "n": str(n)}, 0.5) for n in range(10_000)]
    with stand_in(with_fault(Reply(vector(*rows)), "avg_over_time", GRAPHICS)) as (url, _):
        telemetry = read(url)
    (sentence,) = telemetry.partial
    assert "larger than the 1 MiB that this question can need" in sentence
    with stand_in(with_fault(Reply(vector(*rows)), "avg_over_time", GRAPHICS)) as (url, _):
        client = Client(Server(url), retries=0)
        with pytest.raises(QueryError) as caught:
            client.ask("query", {"query": f"avg_over_time {GRAPHICS}"}, lambda row: row, limit_bytes=1000)
    assert "--step" in (caught.value.hint or "")
    assert "--window" in (caught.value.hint or "")


@pytest.mark.parametrize("seconds", [0.02, 0.4])
def test_a_slow_answer_ends_at_the_time_limit(seconds: float) -> None:
    """Drop by drop, which no socket's own time-out sees, or not at all."""
    begun = time.monotonic()
    with stand_in(with_fault(Reply(vector(), drip_seconds=seconds), "avg_over_time", GRAPHICS)) as (url, asked):
        telemetry = read(url, timeout_seconds=0.3)
    assert "no whole answer within 0.3 s" in telemetry.partial[0]
    assert sum(is_query(a, "avg_over_time", GRAPHICS) for a in asked) == 1  # it would be as slow again
    assert time.monotonic() - begun < 5


def test_a_connection_cut_in_the_middle_is_tried_again(pauses: list[float]) -> None:
    full = one_instance(Asked("/api/v1/query", {"query": [f"avg_over_time {GRAPHICS}"]}, {}))
    cut = Reply(full.body, is_cut=True)
    with stand_in(with_fault(cut, "avg_over_time", GRAPHICS, times=1)) as (url, _):
        telemetry = read(url)
    assert telemetry.partial == ()
    assert pauses == [1.0]


def test_series_of_no_gpu_are_an_error() -> None:
    def switches(asked: Asked) -> Reply:
        if asked.path.endswith("/series"):
            return Reply(listed({"__name__": GRAPHICS, "nvswitch": "0"}))
        return one_instance(asked)

    with stand_in(switches) as (url, _), pytest.raises(MigsawError, match="of no GPU"):
        read(url)


def test_every_batch_failing_is_an_error() -> None:
    failing = with_fault(Reply({"status": "error", "error": "shard down"}, 500), "_over_time")
    with stand_in(failing) as (url, _), pytest.raises(MigsawError, match="shard down") as caught:
        read(url, retries=0)
    assert caught.value.exit_code == 1


def test_prometheus_killed_on_the_way_leaves_what_was_read(
    start_prometheus: Callable, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = [Made(name, HELD, every(15, START, START + 3600, lambda n: 0.5)) for name in (GRAPHICS, USED)]
    write_blocks(series, tmp_path / "data")
    server = start_prometheus(tmp_path / "data")
    whole = read(server.url)
    fold = Client.fold

    def killing(self: Client, path: str, form: Any, *rest: Any, **more: Any) -> Any:
        if USED in str(form) and "quantile" in str(form) and server.process.poll() is None:
            server.kill()
        return fold(self, path, form, *rest, **more)

    monkeypatch.setattr(Client, "fold", killing)
    telemetry = read(server.url, retries=1)
    (device,) = telemetry.devices
    assert set(device.series) == {"graphics"}
    assert device.series["graphics"] == whole.devices[0].series["graphics"]
    assert any("the server stopped answering" in sentence and "pods" in sentence for sentence in telemetry.partial)
    with pytest.raises(MigsawError, match="cannot be reached"):
        read(server.url, retries=0)
