"""Azure Monitor managed Prometheus: the Entra token, and what to do where Azure refuses or keeps too little.

It knows Azure's names, not what is asked of the server. ``azure-identity`` is imported when a token is first needed.

Sources: learn.microsoft.com, "Query Prometheus metrics using the API and PromQL" (scope, role); "Customize scraping of
Prometheus metrics using ConfigMap" and "Minimal ingestion profile" (settings); "Monitor GPU metrics" (AKS, port 19400).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol
from urllib.parse import urlsplit

from migsaw.errors import MigsawError

SCOPE = "https://prometheus.monitor.azure.com/.default"
NAME = "Azure Monitor managed Prometheus"
_HOST = ".prometheus.monitor.azure.com"
_EARLY_SECONDS = 300  # a token is renewed so long before it ends

DENIED = (
    "give this identity the role Monitoring Data Reader on the Azure Monitor workspace; "
    "sign in with `az login`, or set AZURE_CLIENT_ID of a managed identity"
)
MINIMAL_INGESTION = (
    "the minimal ingestion profile keeps only what is on its list: in ConfigMap ama-metrics-settings-configmap "
    "(kube-system) set dcgmexporter = true under default-scrape-settings-enabled and add DCGM_FI_PROF_.* to "
    "dcgmexporter under default-targets-metrics-keep-list (the exporter that AKS manages listens on port 19400)"
)


class Token(Protocol):
    @property
    def token(self) -> str: ...
    @property
    def expires_on(self) -> int: ...


class Credential(Protocol):
    def get_token(self, *scopes: str) -> Token: ...


def is_managed(url: str) -> bool:
    return (urlsplit(url).hostname or "").endswith(_HOST)


def headers(
    credential: Credential | None = None, clock: Callable[[], float] = time.time
) -> Callable[[], Mapping[str, str]]:
    """What to pass as ``headers`` of a server: one token, renewed before it ends.

    Calling the result raises :class:`MigsawError` where no identity gives a token.
    """
    held: list[Token] = []
    source = [credential] if credential else []

    def provide() -> Mapping[str, str]:
        if not source:
            source.append(_default_credential())
        if not held or held[0].expires_on - clock() < _EARLY_SECONDS:
            held[:] = [_token(source[0])]
        return {"Authorization": f"Bearer {held[0].token}"}

    return provide


def _default_credential() -> Credential:
    try:
        from azure.identity import DefaultAzureCredential
    except ImportError:
        hint = "pip install 'migsaw[azure]'"
        raise MigsawError(f"{NAME} wants a token of Entra, and azure-identity is not installed", hint=hint) from None
    credential: Credential = DefaultAzureCredential()
    return credential


def _token(credential: Credential) -> Token:
    try:
        return credential.get_token(SCOPE)
    except Exception as problem:  # azure-identity's own tree, which only it can import
        first = (str(problem).splitlines() or [type(problem).__name__])[0]
        raise MigsawError(f"no token of Entra for {NAME}: {first}", hint=DENIED) from None


def lost_by_ingestion(families: Iterable[str], is_managed_server: bool) -> str | None:
    """What to do where the exporter's memory series are kept and its profiling series are not; None where they are."""
    names = set(families)
    has_profiling = any(name.startswith("DCGM_FI_PROF_") for name in names)
    if not names or has_profiling:
        return None
    if is_managed_server:
        return MINIMAL_INGESTION
    return "turn on the DCGM_FI_PROF_ fields in the counters file of dcgm-exporter (`migsaw render --for telemetry`)"
