"""The grammar of profile names, in every notation that a tool prints.

A name is for people; identity is (board, GI profile id), see :mod:`migsaw.model.boards`.
Grammar (go-nvlib, mig-parted, device plugin): ``[Cc.]Gg.Mgb`` then ``+attr`` or ``-me``; in Kubernetes resource
names ``+`` is written ``.``; Azure and nvidia-smi put ``MIG`` in front.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

RESOURCE_PREFIX = "nvidia.com/mig-"
WHOLE_GPU_RESOURCE = "nvidia.com/gpu"
CLASS_KEY = "migsaw.io/class"  # label or annotation of a pod: its class of work

_NAME = re.compile(
    r"(?:MIG[ -])?(?:(?P<c>\d+)c\.)?(?P<g>\d+)g\.(?P<gb>\d+)gb"
    r"(?:[+.](?P<plus>me\.all|me|gfx)|-(?P<minus>me))?(?:\.shared)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ProfileName:
    """A parsed name. ``compute`` is the compute-instance slice count where it is smaller than the GPU instance."""

    slices: int
    gigabytes: int
    attribute: str = ""  # "", "+me", "+me.all", "+gfx" or "-me"
    compute: int | None = None

    def __str__(self) -> str:
        prefix = "" if self.compute is None else f"{self.compute}c."
        return f"{prefix}{self.slices}g.{self.gigabytes}gb{self.attribute}"


def parse_profile_name(text: str) -> ProfileName | None:
    """``1g.10gb+me``, ``nvidia.com/mig-1g.10gb.me``, ``MIG 1g.10gb``, ``1c.2g.10gb`` → a name; None if it is none."""
    found = _NAME.fullmatch(text.strip().removeprefix(RESOURCE_PREFIX))
    if found is None:
        return None
    slices = int(found["g"])
    compute = None if found["c"] is None or int(found["c"]) == slices else int(found["c"])
    plus, minus = found["plus"], found["minus"]
    attribute = f"+{plus.lower()}" if plus else f"-{minus.lower()}" if minus else ""
    return ProfileName(slices, int(found["gb"]), attribute, compute)


def resource_name(profile: str) -> str:
    """The device plugin's resource of a profile under the mixed strategy: ``nvidia.com/mig-1g.10gb.me``."""
    return RESOURCE_PREFIX + profile.replace("+", ".")
