"""``migsaw doctor``: what is wrong with what was observed, why, and what to do next."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from migsaw.cli.inputs import FILE, SeveralValues, input_options, seen
from migsaw.cli.output import Output, output_option, show
from migsaw.cli.shared import load_catalogue

FOUND = 3  # exit code


@click.command(cls=SeveralValues)
@input_options
@click.option("--snapshot", type=FILE, help="A snapshot of `migsaw observe -o`, instead of the files it was made of.")
@click.option("--list", "is_list", is_flag=True, help="All rules.")
@click.option("--explain", metavar="CODE", help="Cause, next step and sources of one rule.")
@output_option()
def command(snapshot: Path | None, is_list: bool, explain: str | None, output: Output, **inputs: Any) -> None:
    """What is wrong with what was observed, why, and what to do next.

    Exit code 3 where an error or a warning was found; infos alone are 0.
    """
    from migsaw.doctor.engine import Facts
    from migsaw.doctor.registry import RULES, doctor, find_rule
    from migsaw.report.doctor import evidence_table, findings_table, rule_table, rules_table

    if explain:
        found_rule = find_rule(explain)
        show(output, _rule(found_rule), [rule_table(found_rule)])
        return
    if is_list:
        show(output, {"rules": [_rule(each) for each in RULES]}, [rules_table(RULES)])
        return
    catalogue = load_catalogue()
    findings = doctor(Facts(seen(snapshot, inputs, catalogue), catalogue))
    document = {"findings": [asdict(finding) for finding in findings]}
    show(output, document, [evidence_table(findings) if output.format == "csv" else findings_table(findings)])
    if any(finding.severity != "info" for finding in findings):
        sys.exit(FOUND)


def _rule(rule: Any) -> dict[str, Any]:
    names = ("code", "severity", "title", "cause", "next", "sources")
    return {name: getattr(rule, name) for name in names}
