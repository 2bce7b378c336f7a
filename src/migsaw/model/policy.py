"""What a team allows and prefers: policies as data. Field names are those of ``policy.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from migsaw.model.boards import Board, Catalogue, Profile

FORBID = {"extra": "forbid"}


@dataclass(frozen=True, slots=True)
class WholeGpuException:
    """Pods that may hold whole GPUs under strict MIG. ``*`` at the end of a name matches any rest."""

    __pydantic_config__ = FORBID

    namespace: str = "*"
    name: str = "*"

    def covers(self, namespace: str, name: str) -> bool:
        return _matches(self.namespace, namespace) and _matches(self.name, name)


@dataclass(frozen=True, slots=True)
class Policy:
    """``profiles``: only these may be cut (None: all). ``strict``: a GPU is left whole only for pods that ask for
    several GPUs and for ``whole_gpus``. ``headroom``: free instances to keep beyond the demand, by profile."""

    __pydantic_config__ = FORBID

    profiles: tuple[str, ...] | None = None
    strict: bool = True
    whole_gpus: tuple[WholeGpuException, ...] = ()
    headroom: Mapping[str, int] = field(default_factory=dict)
    schema: Literal["migsaw/policy/v1"] = "migsaw/policy/v1"

    def allows(self, profile: Profile) -> bool:
        return self.profiles is None or bool({profile.name, *profile.aliases} & set(self.profiles))

    def names(self, catalogue: Catalogue) -> frozenset[str] | None:
        """Every name of every allowed profile, aliases too; None: all are allowed."""
        if self.profiles is None:
            return None
        allowed = (p for board in catalogue.boards for p in board.profiles if self.allows(p))
        return frozenset(name for p in allowed for name in (p.name, *p.aliases)) | frozenset(self.profiles)


def recommended(board: Board, holding: tuple[Profile, ...]) -> Profile | None:
    """The slot that migsaw recommends among profiles that hold a workload: 2g and 3g slices first.

    Where only memory is known, compute is a guess: two compute slices are the smallest size that leaves room for a
    wrong guess, and three is the largest that two workloads can share a card with. Smaller or larger sizes follow
    when neither holds the workload. Ties go to the smaller id.
    """
    plain = [p for p in holding if p.is_plain]
    middle = [p for p in plain if 2 <= p.compute_slices <= 3]
    return min(middle or plain, key=lambda p: (p.compute_slices, p.memory_slices or 0, p.profile_id or 0), default=None)


def _matches(pattern: str, text: str) -> bool:
    return text.startswith(pattern[:-1]) if pattern.endswith("*") else text == pattern
