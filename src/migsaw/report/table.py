"""A table as a value: what is shown, apart from how. The command line draws it; CSV and Markdown are made here."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    right: bool = False
    wide: bool = False  # shown with ``-o wide`` and in CSV only
    whole: bool = False  # its cells are never broken: others give way


@dataclass(frozen=True, slots=True)
class Table:
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    footer: tuple[str, ...] = ()  # sentences below; the last one counts

    def shown(self) -> Table:
        """With control characters as escapes."""
        rows = tuple(tuple(visible(cell) for cell in row) for row in self.rows)
        return replace(self, rows=rows, title=visible(self.title), footer=tuple(map(visible, self.footer)))

    def narrow(self) -> Table:
        """Without the columns for ``wide``."""
        keep = [i for i, column in enumerate(self.columns) if not column.wide]
        rows = tuple(tuple(row[i] for i in keep) for row in self.rows)
        return replace(self, columns=tuple(self.columns[i] for i in keep), rows=rows)


_UNSEEN = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}


def visible(text: str) -> str:
    """Control characters, which a terminal would obey, as escapes. Names from a file may hold any."""
    return text.translate(_UNSEEN)


def to_csv(table: Table) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(column.title for column in table.columns)
    writer.writerows(table.rows)
    return out.getvalue()


def to_markdown(table: Table) -> str:
    table = table.narrow()
    lines = [f"**{table.title}**", ""] if table.title else []
    lines.append("| " + " | ".join(column.title for column in table.columns) + " |")
    lines.append("|" + "|".join("---:" if column.right else "---" for column in table.columns) + "|")
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table.rows]
    lines += ["", *table.footer] if table.footer else []
    return "\n".join(lines) + "\n"


def na(why: str) -> str:
    """How an unknown is shown."""
    return f"n/a ({why})"
