"""Why something was decided. One enum for plans, events, metric labels and anchors in the docs.

A decision carries a :class:`Because`: the reason and a sentence with the particulars. It never logs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """CamelCase, as Kubernetes writes reasons."""

    # a GPU
    RECUT = "Recut"  # its layout changes
    ALREADY_RIGHT = "AlreadyRight"  # the layout serves the demand as it is
    NO_DEMAND = "NoDemand"  # nothing asks for a change
    HELD = "Held"  # a running pod holds something on it
    MAY_BE_HELD = "MayBeHeld"  # nobody can name the holder of something on it
    NODE_HELD = "NodeHeld"  # free itself, but the change would touch a neighbour that is held
    OWNER_CANNOT_RECUT = "OwnerCannotRecut"  # the pool's owner only replaces pools
    HOST_OWNS_MIG = "HostOwnsMig"  # the hypervisor owns MIG; a guest cannot change it
    BOARD_UNKNOWN = "BoardUnknown"  # no geometry for this board
    MODE_UNKNOWN = "ModeUnknown"  # nothing said whether MIG is on
    REBOOT_PENDING = "RebootPending"  # the mode change waits for a reset or reboot
    NODE_UNAVAILABLE = "NodeUnavailable"  # cordoned or not ready
    OUT_OF_SCOPE = "OutOfScope"  # the target does not reach this node
    # a pod
    RUNNING = "Running"  # keeps what it holds
    FITS_FREE_SLICE = "FitsFreeSlice"  # a slice that exists already is free for it
    SERVED_AFTER_RECUT = "ServedAfterRecut"
    NO_ROOM = "NotEnoughRoom"
    NO_SUCH_PROFILE = "NoSuchProfile"  # no board in reach has the profile
    NOT_ALLOWED = "NotAllowedByPolicy"
    NO_MATCHING_NODE = "NoMatchingNode"  # selector, taints or cordon leave no node
    NEEDS_NEW_POOL = "NotServedNeedsNewPool"  # only a new pool would serve it
    ASKS_WHOLE_GPU = "NotServedAsksWholeGpu"  # under strict MIG a whole GPU needs an exception
    FINISHED = "Finished"


@dataclass(frozen=True, slots=True)
class Because:
    reason: Reason
    text: str

    def __str__(self) -> str:
        return f"{self.reason.value}: {self.text}"
