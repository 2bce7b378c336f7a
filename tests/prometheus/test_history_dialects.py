"""Documented answers of servers that cannot run here, replayed over HTTP.

Sources: Thanos docs, components/query.md (partial responses, warnings); Grafana Mimir docs, "About Grafana Mimir HTTP
API" and runbooks (limits, tenants); VictoriaMetrics docs, Cluster version ("isPartial") and url-examples; Microsoft
Learn, "Query Prometheus metrics using the API and PromQL", "Minimal ingestion profile".
"""

from __future__ import annotations

import sys
import types
from collections import namedtuple
from dataclasses import replace
from typing import Any

import pytest
from made_series import START
from stand_in import GRAPHICS, HELD, USED, Asked, Reply, listed, one_instance, stand_in, vector

from migsaw.errors import MigsawError
from migsaw.model.telemetry import Window
from migsaw.observe import azure_monitor
from migsaw.observe.history import History, HistoryOptions, Server, read_all

WINDOW = Window(START, START + 3600, 60)
Token = namedtuple("Token", "token expires_on")


def read(url: str, **server: Any) -> History:
    return read_all(Server(url, **server), WINDOW, HistoryOptions(retries=0))


def test_thanos_says_in_warnings_that_a_store_is_missing() -> None:
    words = 'receive series from Addr: 10.0.0.7:10901 LabelSets: {replica="a"}: rpc error: code = Unavailable'

    def answer(asked: Asked) -> Reply:
        reply = one_instance(asked)
        is_mean = asked.path.endswith("/query") and "avg_over_time" in asked.form["query"][0]
        return replace(reply, body={**reply.body, "warnings": [words]}) if is_mean else reply

    with stand_in(answer) as (url, _):
        telemetry = read(url).telemetry
    assert telemetry.partial == tuple(f"{name}: the server warns: {words}" for name in (GRAPHICS, USED))
    assert telemetry.devices[0].series["graphics"].values is not None  # what came is kept


def test_victoriametrics_says_is_partial_also_of_lists() -> None:
    def answer(asked: Asked) -> Reply:
        reply = one_instance(asked)
        is_list = asked.path.endswith("/series") and GRAPHICS in asked.form["match[]"][0]
        return replace(reply, body={"status": "success", "isPartial": is_list, "data": reply.body["data"]})

    with stand_in(answer) as (url, _):
        telemetry = read(url).telemetry
    assert telemetry.partial == ("the server warns: some storage nodes did not answer (isPartial)",)


def test_remarks_of_prometheus_3_on_a_question_are_not_missing_data() -> None:
    remark = "PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket"

    def answer(asked: Asked) -> Reply:
        reply = one_instance(asked)
        return replace(reply, body={**reply.body, "warnings": [remark]})

    with stand_in(answer) as (url, _):
        assert read(url).telemetry.partial == ()


@pytest.mark.parametrize("status", [404, 405])
def test_where_series_are_not_listed_they_are_counted(status: int) -> None:
    """Mimir and proxies in front of it may not offer the lists; the answers are the same."""

    def answer(asked: Asked) -> Reply:
        if asked.path.endswith(("/series", "/values", "/buildinfo")):
            return Reply("404 page not found", status, kind="text/plain")
        query = asked.form["query"][0]
        if query.startswith("count by (__name__)"):
            return Reply(vector(({"__name__": GRAPHICS}, 1), ({"__name__": USED}, 1)))
        if query.startswith("count by"):
            rows = [({"__name__": name, **HELD}, 1) for name in (GRAPHICS, USED) if name in query]
            return Reply(vector(*rows))
        return one_instance(asked)

    with stand_in(one_instance) as (url, _):
        listed_by_series = read(url).telemetry
    with stand_in(answer) as (url, _):
        counted = read(url).telemetry
    assert counted == replace(listed_by_series, server=None, read_from=counted.read_from)


def test_mimir_wants_a_tenant_and_a_prefix() -> None:
    def answer(asked: Asked) -> Reply:
        if asked.headers.get("X-Scope-Orgid") != "ml":
            return Reply("no org id", 401, kind="text/plain")
        body = {"status": "success", "data": {"application": "Grafana Mimir", "version": "2.15.0"}}
        return Reply(body) if asked.path.endswith("/buildinfo") else one_instance(asked)

    with stand_in(answer) as (url, asked):
        telemetry = read(f"{url}/prometheus/", headers=lambda: {"X-Scope-OrgID": "ml"}).telemetry
        with pytest.raises(MigsawError, match="refuses: 401") as caught:
            read(f"{url}/prometheus")
    assert telemetry.server == "Grafana Mimir 2.15.0"
    assert {a.path.rpartition("/api/v1/")[0] for a in asked} == {"/prometheus"}
    assert "token" in (caught.value.hint or "")


def test_user_and_password_of_the_address_become_a_header() -> None:
    with stand_in(one_instance) as (url, asked):
        read(url.replace("http://", "http://reader:p%40ss@"))
    assert {a.headers["Authorization"] for a in asked} == {"Basic cmVhZGVyOnBAc3M="}  # base64 of reader:p@ss


# ---- Azure Monitor ---------------------------------------------------------------------------------------------------


class Credential:
    """As azure-identity's: gives tokens that live an hour."""

    def __init__(self) -> None:
        self.scopes: list[tuple[str, ...]] = []

    def get_token(self, *scopes: str) -> Token:
        self.scopes.append(scopes)
        return Token(f"token-{len(self.scopes)}", 3600 * len(self.scopes))


@pytest.fixture
def managed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in passes for a workspace of Azure Monitor."""
    monkeypatch.setattr(azure_monitor, "is_managed", lambda url: True)


def test_a_workspace_is_known_by_its_address() -> None:
    assert azure_monitor.is_managed("https://ws-a1b2.westeurope.prometheus.monitor.azure.com")
    assert not azure_monitor.is_managed("https://prometheus.monitor.azure.com.example.org")
    assert not azure_monitor.is_managed("http://prometheus:9090")


def test_a_token_is_asked_for_once_and_renewed_before_it_ends() -> None:
    credential, now = Credential(), [0.0]
    headers = azure_monitor.headers(credential, clock=lambda: now[0])
    assert headers() == headers() == {"Authorization": "Bearer token-1"}
    now[0] = 3600 - 200
    assert headers() == {"Authorization": "Bearer token-2"}
    assert credential.scopes == [("https://prometheus.monitor.azure.com/.default",)] * 2


def test_azure_identity_is_asked_where_no_credential_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    identity = types.ModuleType("azure.identity")
    identity.DefaultAzureCredential = Credential  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "azure", types.ModuleType("azure"))
    monkeypatch.setitem(sys.modules, "azure.identity", identity)
    assert azure_monitor.headers(clock=lambda: 0.0)() == {"Authorization": "Bearer token-1"}


def test_without_azure_identity_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "azure.identity", None)
    with pytest.raises(MigsawError) as caught:
        azure_monitor.headers()()
    assert caught.value.hint == "pip install 'migsaw[azure]'"


def test_a_failing_sign_in_is_one_sentence() -> None:
    class Failing:
        def get_token(self, *_: str) -> Token:
            raise RuntimeError("DefaultAzureCredential failed to retrieve a token\nAttempted credentials:\n\t…")

    with pytest.raises(MigsawError) as caught:
        azure_monitor.headers(Failing())()
    assert str(caught.value).endswith("DefaultAzureCredential failed to retrieve a token")
    assert "az login" in (caught.value.hint or "")


@pytest.mark.parametrize("status", [401, 403])
def test_azure_refusing_names_the_role(managed: None, status: int) -> None:
    body = {"status": "error", "errorType": "forbidden", "error": "Access denied due to insufficient permissions"}
    with stand_in(lambda _: Reply(body, status)) as (url, _), pytest.raises(MigsawError) as caught:
        read(url)
    assert "Monitoring Data Reader" in (caught.value.hint or "")
    assert "insufficient permissions" in str(caught.value)


def test_the_managed_server_is_named(managed: None) -> None:
    with stand_in(one_instance) as (url, asked):
        telemetry = read(url, headers=azure_monitor.headers(Credential(), clock=lambda: 0.0)).telemetry
    assert telemetry.server == "Azure Monitor managed Prometheus"
    assert {a.headers["Authorization"] for a in asked} == {"Bearer token-1"}


def without_profiling(asked: Asked) -> Reply:
    return one_instance(asked, families=(USED,))


def test_the_minimal_ingestion_profile_is_found_and_its_setting_named(managed: None) -> None:
    with stand_in(without_profiling) as (url, _):
        (note,) = read(url).notes
    assert note.severity == "warning"
    for word in ("ama-metrics-settings-configmap", "default-targets-metrics-keep-list", "dcgmexporter", "19400"):
        assert word in note.text


def test_elsewhere_missing_profiling_series_point_to_the_exporter() -> None:
    with stand_in(without_profiling) as (url, _):
        (note,) = read(url).notes
    assert "ama-metrics" not in note.text
    assert "counters file" in note.text


def test_a_workspace_without_dcgm_names_the_setting(managed: None) -> None:
    def empty(asked: Asked) -> Reply:
        return Reply(listed()) if asked.path.endswith("/values") else one_instance(asked)

    with stand_in(empty) as (url, _), pytest.raises(MigsawError) as caught:
        read(url)
    assert "dcgmexporter = true" in (caught.value.hint or "")
