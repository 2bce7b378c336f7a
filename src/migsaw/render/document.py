"""A file to apply, as a value, and how such files present themselves: what it is, from which plan, how to apply it.

Nothing is written here. Texts that come from a cluster (names of nodes, pods, pools) go through :func:`comment` or
:func:`quoted`, so that no name can leave its line.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from migsaw.model.plan import Plan
from migsaw.render.yaml_text import documents

MARK = "Rendered by migsaw"  # how a later rendering knows its own files


@dataclass(frozen=True, slots=True)
class RenderedFile:
    """``path`` is relative to the folder that was asked for, with ``/`` between its parts."""

    path: str
    text: str
    executable: bool = False


@dataclass(frozen=True, slots=True)
class Options:
    """What a person may decide at rendering; everything else was decided by the plan."""

    allow_mixed: bool = False  # Azure ML InstanceTypes that ask for nvidia.com/mig-…


def comment(lines: Iterable[str]) -> str:
    """Comment lines. Control characters become spaces: a name never starts a line of its own."""
    cleaned = ("".join(c if c.isprintable() else " " for c in line).rstrip() for line in lines)
    return "".join(f"# {line}\n" if line else "#\n" for line in cleaned)


def quoted(word: str) -> str:
    """One word of a POSIX shell, whatever is in it."""
    return shlex.quote(word)


def header(plan: Plan, about: Sequence[str]) -> str:
    origin = f"{MARK} from a plan of snapshot sha256:{plan.made_from.snapshot_sha256}"
    return comment([origin, *about]) + "\n"


def listed(names: Iterable[str], most: int = 8) -> str:
    """``a, b, c``; of a great many the first and how many more."""
    known = sorted(set(names))
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(known[:most]) + more


def yaml_file(path: str, plan: Plan, about: Sequence[str], items: Sequence[Mapping[str, Any]]) -> RenderedFile:
    return RenderedFile(path, header(plan, about) + documents(items))


def script(path: str, plan: Plan, about: Sequence[str], body: str) -> RenderedFile:
    """A POSIX shell script that stops at the first failure."""
    return RenderedFile(path, "#!/bin/sh\n" + header(plan, about) + "set -eu\n" + body, executable=True)


def short_hash(text: str, digits: int = 10) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def file_name(name: str) -> str:
    """A name as a file name: a node's name stays as it is, anything odd is replaced and told apart by a hash."""
    safe = re.sub(r"[^A-Za-z0-9._-]", "-", name).lstrip(".-")[:100]
    return safe if safe == name != "" else f"{safe or 'node'}-{short_hash(name, 6)}"
