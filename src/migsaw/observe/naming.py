"""Names of a cluster inside sentences, marked so that ``--redact`` can find every one of them.

A note or a reason is written once, with its names in marks. At the end the marks are taken off, or each name is
replaced by a hash of its kind. So no name is hidden by searching texts for it, which would miss some and hit others.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

# private-use signs: no name of Kubernetes has them, and they are removed from what other tools printed
_OPEN, _MIDDLE, _CLOSE = "\ue000", "\ue001", "\ue002"
_MARK = re.compile(f"{_OPEN}([a-z]+){_MIDDLE}([^{_CLOSE}]*){_CLOSE}")
_SIGNS = re.compile(f"[{_OPEN}{_MIDDLE}{_CLOSE}]")


def mark(kind: str, name: str) -> str:
    """``kind``: node, namespace, pod, pool, workload, config, file, label."""
    return f"{_OPEN}{kind}{_MIDDLE}{_SIGNS.sub('', name)}{_CLOSE}"


def node(name: str) -> str:
    return mark("node", name)


def pod(namespace: str, name: str) -> str:
    return f"{mark('namespace', namespace)}/{mark('pod', name)}"


def plain(text: str) -> str:
    """The text with its names as they are."""
    return _MARK.sub(lambda found: found[2], text)


def hidden(text: str, hide: Callable[[str, str], str]) -> str:
    """The text with ``hide(kind, name)`` in place of every name."""
    return _MARK.sub(lambda found: hide(found[1], found[2]), text)


def short_hash(kind: str, name: str) -> str:
    """Same kind and name, same hash. 10 hexadecimal digits: a collision among 10,000 names has a chance of 5e-5."""
    digest = hashlib.sha256(f"{kind}\0{name}".encode()).hexdigest()
    return f"{kind}-{digest[:10]}"
