"""To which option a file belongs, from how it begins: only for hints when it was given to another one."""

from __future__ import annotations

import re

_SIGNS = {
    "--pods": r"(?:^|[{,])\s*[\"']?kind[\"']?: *[\"']?Pod(List)?\b",
    "--nodes": r"(?:^|[{,])\s*[\"']?kind[\"']?: *[\"']?Node(List)?\b",
    "--mig-parted": r"^\s*[\"']?mig-configs[\"']?\s*:",
    "--metrics": r"^# (HELP|TYPE) \w+ |^DCGM_\w+\{",
    "--smi": r"<nvidia_smi_log|^\s*index,.*mig\.mode|^GPU +\d+: .*\(UUID:|\| GPU instance|^GPU +\d+ Profile ID",
}
_PATTERNS = {option: re.compile(sign, re.MULTILINE) for option, sign in _SIGNS.items()}


def belongs_to(content: str) -> str | None:
    head = content[:20_000]
    return next((option for option, sign in _PATTERNS.items() if sign.search(head)), None)
