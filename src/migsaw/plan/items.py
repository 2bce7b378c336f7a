"""What a pod asks for and a node offers, in one vocabulary: a profile, a whole GPU, a slice of any profile."""

from __future__ import annotations

from migsaw.model.boards import Board
from migsaw.model.names import WHOLE_GPU_RESOURCE, parse_profile_name
from migsaw.model.snapshot import Node

WHOLE = "off"  # the item of a whole GPU, MIG off
ANY_SLICE = "any"  # single strategy: a slice of whatever profile
KEPT_SLICE = "kept"  # the same, of a GPU that stays as it is: for pods of which no profile is known


def is_single(node: Node) -> bool:
    return node.strategy == "single"


def item_of(resource: str, board: Board | None) -> str:
    """``off`` for a whole GPU, the board's own name of a profile (7g.79gb → 7g.80gb), else the resource as it is."""
    if resource == WHOLE_GPU_RESOURCE:
        return WHOLE
    name = parse_profile_name(resource)
    known = board.find(str(name)) if board and name else None
    return known.name if known else str(name or resource)
