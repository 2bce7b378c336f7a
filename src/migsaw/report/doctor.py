"""Findings and rules as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from migsaw.doctor.engine import SEVERITIES, Evidence, Finding, Rule
from migsaw.report.table import Column, Table

MOST_SHOWN = 3  # pieces of evidence of one finding; all of them are in JSON and CSV


def findings_table(findings: Sequence[Finding]) -> Table:
    columns = (
        Column("code", whole=True),
        Column("severity", whole=True),
        Column("finding"),
        Column("where"),
        Column("cause", wide=True),
        Column("next"),
    )
    rows = tuple((f.code, f.severity, f.title, _shown(f.evidence), f.cause, f.next) for f in findings)
    return Table(columns, rows, footer=(_verdict(findings),))


def evidence_table(findings: Iterable[Finding]) -> Table:
    """One row per piece of evidence, for CSV."""
    columns = tuple(Column(name) for name in ("code", "severity", "title", "file", "where", "value", "cause", "next"))
    rows = tuple(
        (f.code, f.severity, f.title, e.file or "", e.where, e.value, f.cause, f.next)
        for f in findings
        for e in f.evidence
    )
    return Table(columns, rows)


def rules_table(rules: Sequence[Rule]) -> Table:
    columns = (
        Column("code", whole=True),
        Column("severity", whole=True),
        Column("title"),
        Column("sources", wide=True),
    )
    rows = tuple((r.code, r.severity, r.title, ", ".join(r.sources)) for r in rules)
    return Table(columns, rows, footer=(f"{len(rules)} rules; --explain CODE tells cause and next step of one.",))


def rule_table(rule: Rule) -> Table:
    """One rule in full, a field a row."""
    fields = ("severity", "cause", "next", "sources")
    values = (rule.severity, rule.cause, rule.next, ", ".join(rule.sources))
    rows = tuple(zip(fields, values, strict=True))
    return Table((Column("field", whole=True), Column("text")), rows, f"{rule.code} {rule.title}")


def _shown(evidence: Sequence[Evidence]) -> str:
    """A file that several come from, one after the other, is named once."""
    words, last = [], None
    for e in evidence[:MOST_SHOWN]:
        words.append(": ".join(part for part in (None if e.file == last else e.file, e.where, e.value) if part))
        last = e.file
    more = f"and {len(evidence) - MOST_SHOWN} more" if len(evidence) > MOST_SHOWN else ""
    return "; ".join([*words, *([more] if more else [])])


def _verdict(findings: Sequence[Finding]) -> str:
    if not findings:
        return "Nothing found."
    severities = Counter(finding.severity for finding in findings)
    return (
        "Found: " + ", ".join(f"{severities[s]} {_plural(s, severities[s])}" for s in SEVERITIES if severities[s]) + "."
    )


def _plural(severity: str, number: int) -> str:
    return severity if number == 1 or severity == "info" else f"{severity}s"
