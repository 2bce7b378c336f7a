"""From the board that was measured to another of its architecture: slots of both on one scale of SMs and bandwidth.

The same SMs do the same work per clock, and memory bandwidth is what else differs; clocks, power limits and caches are
not looked at. No public table measures one workload on slices of two such boards, so nothing here was checked against
measurements: what comes of it is *predicted*, with an interval three times as wide (in logarithms).
"""

from __future__ import annotations

from migsaw.fit.curve import Slot
from migsaw.model.boards import Board

WIDER = 3.0  # times the noise of a slot of the measured board
# GB/s of the whole GPU, from NVIDIA's data sheets of A100, A30, H100, H200, GH200 and the RTX PRO 6000
BANDWIDTH = {
    "a30-24gb": 933.0,
    "a100-sxm4-40gb": 1555.0,
    "a100-pcie-40gb": 1555.0,
    "a100-sxm4-80gb": 2039.0,
    "a100-pcie-80gb": 1935.0,
    "h100-sxm5-80gb": 3350.0,
    "h100-pcie-80gb": 2000.0,
    "h100-nvl-94gb": 3938.0,
    "h200-sxm5-141gb": 4800.0,
    "gh200-96gb": 4000.0,
    "rtx-pro-6000-blackwell-server": 1597.0,
    "rtx-pro-6000-blackwell-workstation": 1792.0,
}


def why_no_sibling(board: Board, measured: Board) -> str | None:
    """Why nothing measured on one says anything of the other; None where it does."""
    if board.architecture != measured.architecture:
        return f"{board.key} is {board.architecture}, {measured.key} is {measured.architecture}"
    unknown = [b.key for b in (board, measured) if b.key not in BANDWIDTH or not b.sm_count or not b.memory_slices]
    return f"SMs or memory bandwidth of {unknown[0]} are not known" if unknown else None


def slots_of(board: Board, whole: str, like: Board | None = None) -> tuple[Slot, ...]:
    """Plain profiles, then the GPU without MIG under the name ``whole``.

    ``like``: memory slices are counted in those of this board, by bandwidth, and names carry the board's key.
    """
    scale, prefix = 1.0, ""
    if like is not None and board.memory_slices and like.memory_slices:
        own, other = BANDWIDTH[board.key] / board.memory_slices, BANDWIDTH[like.key] / like.memory_slices
        scale, prefix = own / other, f"{board.key}/"
    found = [
        Slot(prefix + p.name, p.sm_count, p.memory_slices * scale)
        for p in board.profiles
        if p.is_plain and p.sm_count and p.memory_slices
    ]
    if board.sm_count and board.memory_slices:
        found.append(Slot(prefix + whole, board.sm_count, board.memory_slices * scale))
    return tuple(found)
