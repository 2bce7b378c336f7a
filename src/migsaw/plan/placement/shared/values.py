"""What a node offers and what a request asks for, where GPUs are shared by thousandths. It must not know any trace."""

from __future__ import annotations

from dataclasses import dataclass

WHOLE_MILLI = 1000  # of a GPU


@dataclass(frozen=True, slots=True, order=True)
class Node:
    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str  # of its GPUs


@dataclass(frozen=True, slots=True, order=True)
class Request:
    """Without GPUs, of a part of one GPU (``milli`` < 1000), or of whole GPUs of one node."""

    cpu_milli: int
    memory_mib: int
    gpus: int
    milli: int  # of each GPU; 0 where there are none
    models: tuple[str, ...] = ()  # that will do; none: any

    @property
    def total_milli(self) -> int:
        return self.gpus * self.milli

    @property
    def kind(self) -> str:
        """The class that results are told by."""
        if not self.gpus:
            return "cpu"
        if self.milli < WHOLE_MILLI:
            return "fractional"
        return "whole" if self.gpus == 1 else "multi"

    def admits(self, model: str) -> bool:
        return not self.gpus or not self.models or model in self.models
