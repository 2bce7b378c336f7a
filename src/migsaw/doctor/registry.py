"""All rules, by code. A code is never given to another rule."""

from __future__ import annotations

from migsaw.doctor import history, labels, presence, values
from migsaw.doctor.engine import Facts, Finding, Rule, examine
from migsaw.errors import InputError

RULES: tuple[Rule, ...] = tuple(
    sorted((*presence.RULES, *values.RULES, *labels.RULES, *history.RULES), key=lambda rule: rule.code)
)


def doctor(facts: Facts) -> tuple[Finding, ...]:
    return examine(facts, RULES)


def find_rule(code: str) -> Rule:
    """Raises :class:`InputError` for a code that no rule has."""
    found = next((rule for rule in RULES if rule.code == code.upper()), None)
    if found is None:
        raise InputError(f"no rule has the code {code}", hint="`migsaw doctor --list` shows all")
    return found
