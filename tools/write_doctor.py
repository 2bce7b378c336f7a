"""Writes docs/reference/doctor.md from the registry of rules; with ``--check`` compares only."""

from __future__ import annotations

import sys
from pathlib import Path

from migsaw.doctor.engine import Rule
from migsaw.doctor.registry import RULES

PAGE = Path(__file__).resolve().parents[1] / "docs/reference/doctor.md"
HEAD = """# What `migsaw doctor` finds

```
migsaw doctor --nodes nodes.json --pods pods.json --metrics *.prom [-o json]
migsaw doctor --snapshot snapshot.json
migsaw doctor --list        migsaw doctor --explain MS101
```

It takes the inputs of `observe` or a snapshot, changes nothing and asks nobody. A rule is a condition on what was
read, never on the text of a metric; what is not known fires a rule about the unknown, not one about a number. Codes
keep their meaning for good.

Exit code 0: nothing, or infos alone; 3: an error or a warning was found; 2: an input is wrong. With `-o json`:
`{"findings": [{"code", "severity", "title", "evidence": [{"file", "where", "value"}], "cause", "next"}]}`; `file` is
the metrics file or the server's address that telemetry was read from, of several files the first, and null where the
value was put together from several inputs. One scrape without history is no finding: it is what was asked for.

error: nothing can be concluded. warning: something would be concluded wrongly. info: worth knowing, and taken care of.

This page is written by `tools/write_doctor.py` from the registry.
"""


def page_text() -> str:
    index = ["| code | severity | finding |", "|---|---|---|"]
    index += [f"| [{rule.code}](#{rule.code.lower()}) | {rule.severity} | {rule.title} |" for rule in RULES]
    return "\n".join([HEAD, *index, *map(_section, RULES)]) + "\n"


def _section(rule: Rule) -> str:
    return (
        f"\n## {rule.code}\n\n**{rule.title}** ({rule.severity})\n\n{rule.cause}\n\n"
        f"*Next:* {rule.next}\n\n*Reported in:* {', '.join(rule.sources)}"
    )


def main(words: list[str]) -> int:
    text = page_text()
    is_stale = not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text
    name = PAGE.relative_to(PAGE.parents[2])
    if words == ["--check"]:
        if is_stale:
            print(f"{name} is stale: run `make schemas`", file=sys.stderr)
        return int(is_stale)
    if is_stale:
        PAGE.write_text(text, encoding="utf-8")
        print(f"written: {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
