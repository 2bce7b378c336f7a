"""How much of a machine's CPU and memory belongs to one slice.

The share is that of the slice in the GPU: under the single strategy one of the ``max_instances`` that stand there
alike, else its compute slices of the GPU's. What the machine keeps for itself is taken off first.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from migsaw.model.boards import AzureSize, Catalogue
from migsaw.model.names import parse_profile_name
from migsaw.render.cuts import Offer

# kept for kubelet, driver, GPU Operator and Azure ML agents on every node
RESERVED_VCPUS = 2
RESERVED_MEMORY_PERCENT = 5
# for machines whose size is not known, per compute slice: less than every Azure GPU size has
UNKNOWN_VCPUS, UNKNOWN_MEMORY_GIB = 1, 4
WHOLE_GPU_SLICES = 7

RULE = (
    "CPU and memory: the slice's share of the machine, after what kubelet, drivers and agents need:",
    f"{RESERVED_VCPUS} vCPUs and {RESERVED_MEMORY_PERCENT} % of the memory. Where the machine's size is not known:",
    f"{UNKNOWN_VCPUS} vCPU and {UNKNOWN_MEMORY_GIB} GiB per compute slice.",
)


@dataclass(frozen=True, slots=True)
class Amounts:
    """CPU in thousandths of a core, in steps of 100; memory in GiB."""

    cpu_milli: int
    memory_gib: int

    @property
    def cpu(self) -> str:
        return f"{self.cpu_milli}m" if self.cpu_milli % 1000 else str(self.cpu_milli // 1000)

    @property
    def memory(self) -> str:
        return f"{self.memory_gib}Gi"


def amounts(offer: Offer, catalogue: Catalogue) -> Amounts:
    """The fair share of one slice (or whole GPU) of the offer's machine, never more than is there."""
    size = catalogue.azure_sizes.get(offer.node.azure_size or "")
    share = _share_of_gpu(offer, catalogue)
    if size is None or share is None:
        slices = _slices(offer)
        return Amounts(UNKNOWN_VCPUS * slices * 1000, UNKNOWN_MEMORY_GIB * slices)
    return _of_size(size, share / size.gpus)


def _of_size(size: AzureSize, share: Fraction) -> Amounts:
    vcpus = max(size.vcpus - RESERVED_VCPUS, 1)
    memory = Fraction(size.memory_gb * (100 - RESERVED_MEMORY_PERCENT), 100)
    return Amounts(max(int(vcpus * share * 10) * 100, 100), max(int(memory * share), 1))


def _share_of_gpu(offer: Offer, catalogue: Catalogue) -> Fraction | None:
    if offer.profile is None:
        return Fraction(1)
    board = catalogue.find(offer.board or "")
    profile = board.find(offer.profile) if board else None
    if board is None or profile is None or not board.compute_slices:
        return None
    if offer.strategy == "single":
        return Fraction(1, profile.max_instances)
    return Fraction(profile.compute_slices, board.compute_slices)


def _slices(offer: Offer) -> int:
    name = parse_profile_name(offer.profile or "")
    return name.slices if name else WHOLE_GPU_SLICES
