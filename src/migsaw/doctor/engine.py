"""What a rule is, what it may look at, and what it says. Which rules there are, nothing here knows.

A rule is a condition on model values. It never looks at the text of a metric, and it never guesses: what is not known
fires a rule about the unknown, not one about a number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from migsaw.model.boards import Catalogue
from migsaw.model.snapshot import Snapshot
from migsaw.model.telemetry import Telemetry

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")  # loudest first


@dataclass(frozen=True, slots=True)
class Evidence:
    """One place where a condition holds. ``file`` None: the value was put together from several inputs."""

    file: str | None
    where: str
    value: str


@dataclass(frozen=True, slots=True)
class Facts:
    """All that rules may look at."""

    snapshot: Snapshot
    catalogue: Catalogue

    @property
    def telemetry(self) -> Telemetry | None:
        return self.snapshot.telemetry


Condition = Callable[[Facts], Iterable[Evidence]]


@dataclass(frozen=True, slots=True)
class Rule:
    """``code`` never changes its meaning and is never used again. ``sources``: where the trouble was reported."""

    code: str
    severity: Severity
    title: str
    cause: str
    next: str
    sources: tuple[str, ...]
    condition: Condition


@dataclass(frozen=True, slots=True)
class Finding:
    code: str
    severity: Severity
    title: str
    evidence: tuple[Evidence, ...]
    cause: str
    next: str


def rule(
    code: str, severity: Severity, title: str, *, cause: str, next: str, sources: tuple[str, ...]
) -> Callable[[Condition], Rule]:
    """Makes a condition a rule; an empty condition has found nothing."""

    def made(condition: Condition) -> Rule:
        return Rule(code, severity, title, cause, next, sources, condition)

    return made


def of_telemetry(condition: Callable[[Facts, Telemetry], Iterator[Evidence]]) -> Condition:
    """A condition that only telemetry can meet; its evidence names what that was read from."""

    def met(facts: Facts) -> Iterable[Evidence]:
        if telemetry := facts.telemetry:
            source = _one_name(telemetry.read_from)
            for evidence in condition(facts, telemetry):
                yield replace(evidence, file=evidence.file or source)

    return met


def _one_name(sources: Sequence[str]) -> str | None:
    more = f" and {len(sources) - 1} more" if len(sources) > 1 else ""
    return sources[0] + more if sources else None


def examine(facts: Facts, rules: Iterable[Rule]) -> tuple[Finding, ...]:
    """The loudest first, then by code; evidence in the order of its words, without repetition."""
    found = []
    for each in rules:
        evidence = sorted(set(each.condition(facts)), key=lambda e: (e.file or "", e.where, e.value))
        if evidence:
            found.append(Finding(each.code, each.severity, each.title, tuple(evidence), each.cause, each.next))
    return tuple(sorted(found, key=lambda finding: (SEVERITIES.index(finding.severity), finding.code)))
