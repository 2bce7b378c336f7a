"""What all tests share: where public data lies, the command line, and honesty about what is missing here.

Data and real parts (a Prometheus, a PostgreSQL, a control plane) may be absent on a machine. A test that needs one asks
for its fixture and is skipped with a plain sentence; the last lines of a run gather these sentences. Where
``MIGSAW_REQUIRE=all`` is set, as in CI, a skip is a failure.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]
REQUIRE_ALL = os.environ.get("MIGSAW_REQUIRE") == "all"
SOAK = bool(os.environ.get("MIGSAW_SOAK"))

# Tests are not timed. Every run tries the same cases, so that a red run is red again; a soak tries new ones.
settings.register_profile("house", deadline=None, derandomize=not SOAK, max_examples=2000 if SOAK else 100)
settings.load_profile("house")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of public data: ``MIGSAW_DATA``, else ``../shared/data`` beside the clone."""
    folder = Path(os.environ.get("MIGSAW_DATA") or ROOT / "../shared/data").resolve()
    if not folder.is_dir():
        pytest.skip("the folder of public data is not here (set MIGSAW_DATA)")
    return folder


@pytest.fixture(scope="session")
def soak() -> bool:
    """Whether to try many more random cases: ``make soak``."""
    return SOAK


@pytest.fixture(scope="session")
def migsaw() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command line in a process of its own, as a user would; ``cwd`` is the folder it runs in."""

    def run(*words: str | Path, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "migsaw.cli.main", *map(str, words)]
        environment = {**os.environ, "NO_COLOR": "1", **env}
        return subprocess.run(
            command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )

    return run


def _forbid_skip(report: Any) -> None:
    if REQUIRE_ALL and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"MIGSAW_REQUIRE=all, and this was skipped: {_reason(report.longrepr)}"


def _reason(longrepr: Any) -> str:
    text = str(longrepr[2]) if isinstance(longrepr, tuple) else str(longrepr)
    return text.removeprefix("Skipped: ")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    report = yield
    _forbid_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, Any]:
    report = yield
    _forbid_skip(report)
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if REQUIRE_ALL:
        return  # a skip has failed already
    reasons = Counter(_reason(report.longrepr) for report in terminalreporter.stats.get("skipped", ()))
    terminalreporter.section("what is missing here")
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"{reason}: {count} test{'s' * (count > 1)} skipped")
    if not reasons:
        terminalreporter.write_line("nothing: every test ran")
