"""Boards and their GPU-instance profiles: the MIG geometry as data.

Units: memory in MiB, placements in memory slices (nvml.h ``nvmlGpuInstancePlacement_t``). ``None`` means not known,
never zero. Sources of every field are in the catalogue file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from migsaw.errors import InputError
from migsaw.model.names import parse_profile_name

ENGINES = ("copy_engines", "decoders", "encoders", "jpeg", "ofa")

# What the levels mean, strongest first. Placements of "family-assumed" boards are those of the family.
EVIDENCE = {
    "captured": "output of a real board seen",
    "captured-partial": "some rows of a real board's output seen",
    "shared-table": "documented together with a captured board",
    "inherited": "same silicon as a captured board",
    "doc-only": "names and counts from documents, placements not known",
    "family-assumed": "names and counts from documents, placements assumed from the family",
    "unknown": "only the name or PCI id is known",
    "reported": "placements reported by the driver of this GPU",
}


@dataclass(frozen=True, slots=True)
class Profile:
    """One GPU-instance size on one board. Identity is (board, ``profile_id``)."""

    name: str
    role: str  # 1g, 1g2m (double memory), 2g, 3g, 4g, 7g, and +me, -me, +gfx, +me.all variants
    profile_id: int | None
    compute_slices: int
    memory_slices: int | None
    memory_mib: int | None
    sm_count: int | None
    max_instances: int
    engines: tuple[int | None, ...]  # in the order of ENGINES
    starts: tuple[int, ...] | None  # legal starts; None: placements not known
    aliases: tuple[str, ...] = ()
    sources: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict, compare=False
    )  # field → keys; "2+": two groups

    @property
    def is_plain(self) -> bool:
        """No media or graphics attribute."""
        return "+" not in self.name and "-" not in self.name

    def mask(self, start: int) -> int:
        """The memory slices of a placement as bits."""
        return ((1 << (self.memory_slices or 0)) - 1) << start


@dataclass(frozen=True, slots=True)
class Board:
    key: str
    product_names: tuple[str, ...]
    pci_ids: tuple[str, ...]  # "0x20b0", lower case, device part only
    architecture: str
    memory_mib: int | None
    memory_slices: int | None
    compute_slices: int | None
    sm_count: int | None
    max_instances: int | None
    engine_totals: tuple[int | None, ...]
    evidence: str  # a key of EVIDENCE
    profiles: tuple[Profile, ...]
    mode_change_needs_reset: bool | None = None
    notes: tuple[str, ...] = ()
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)

    @property
    def placements_known(self) -> bool:
        return bool(self.profiles) and all(p.starts for p in self.profiles)

    def __hash__(self) -> int:  # the fields that tell boards apart; hashing all of them would cost more than it saves
        return hash((self.key, self.evidence, len(self.profiles)))

    @lru_cache(maxsize=4096)  # noqa: B019 - boards are few and live as long as the program
    def find(self, name: str) -> Profile | None:
        """The profile of that name, alias or resource name; None if the board has none such."""
        parsed = parse_profile_name(name)
        if parsed is None or parsed.compute is not None:
            return None
        text = str(parsed)
        return next((p for p in self.profiles if p.name == text or text in p.aliases), None)

    def profile(self, name: str) -> Profile:
        found = self.find(name)
        if found is None:
            names = ", ".join(p.name for p in self.profiles) or "none known"
            raise InputError(f"{self.key} has no profile {name}", hint=f"its profiles: {names}")
        return found

    def by_id(self, profile_id: int) -> Profile | None:
        return next((p for p in self.profiles if p.profile_id == profile_id), None)

    def with_reported(self, starts: Mapping[int, tuple[int, ...]]) -> Board:
        """This board with placements that a driver reported, by GI profile id. Profiles it does not name are gone.

        Itself where the driver reported what the catalogue has.
        """
        kept = [
            replace(p, starts=starts[p.profile_id])
            for p in self.profiles
            if p.profile_id is not None and p.profile_id in starts
        ]
        return self if tuple(kept) == self.profiles else replace(self, profiles=tuple(kept), evidence="reported")


@dataclass(frozen=True)
class Catalogue:
    boards: tuple[Board, ...]
    azure_sizes: Mapping[str, AzureSize] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)

    def board(self, name: str) -> Board:
        """A board by key or any alias; raises with near matches."""
        found = self.find(name)
        if found is None:
            near = [b.key for b in self.boards if _letters(name)[:4] and _letters(name)[:4] in _letters(b.key)]
            hint = f"near: {', '.join(near)}" if near else "`migsaw boards` lists them"
            raise InputError(f"unknown board {name}", hint=hint)
        return found

    def find(self, name: str) -> Board | None:
        """By key, NVML or GFD product name (also with ``-MIG-1g.10gb`` behind), PCI id or Azure VM size.

        Names are compared whole: GH200 is not H200, H100 NVL is not H100 PCIe.
        """
        text = _letters(_without_mig(name))
        if not text:
            return None
        if text in self._by_size:
            return next((b for b in self.boards if b.key == self._by_size[text].board), None)
        hits = self._by_name.get(text) or [b for b in self.boards if pci_id(name) in b.pci_ids]
        return hits[0] if len(hits) == 1 else None

    @cached_property
    def _by_name(self) -> dict[str, list[Board]]:
        index: dict[str, list[Board]] = {}
        for board in self.boards:
            for text in {_letters(n) for n in (board.key, *board.product_names)}:
                index.setdefault(text, []).append(board)
        return index

    @cached_property
    def _by_size(self) -> dict[str, AzureSize]:
        return {_letters(name): size for name, size in self.azure_sizes.items()}


@dataclass(frozen=True, slots=True)
class AzureSize:
    """An Azure VM size with GPUs. NIC in Mbit/s, disks in GiB."""

    name: str
    board: str
    gpus: int
    vcpus: int
    memory_gb: int
    nic_mbps: int | None = None
    temp_disk_gib: int | None = None
    repartitionable: bool = True  # False: the host owns MIG, a guest cannot change it


def pci_id(text: str) -> str | None:
    """``0x20B010DE``, ``20b0``, ``10de:20b0`` → ``0x20b0``."""
    digits = text.lower().removeprefix("0x").replace("10de:", "").removesuffix("10de")
    is_hex = len(digits) == 4 and all(c in "0123456789abcdef" for c in digits)
    return f"0x{digits}" if is_hex else None


def known_names(boards: Iterable[Board]) -> list[str]:
    return sorted({name for board in boards for name in (board.key, *board.product_names)})


def _without_mig(name: str) -> str:
    head, _, tail = name.rpartition("-MIG-")
    return head if head and (tail == "INVALID" or parse_profile_name(tail)) else name


def _letters(text: str) -> str:
    return "".join(c for c in text.lower() if c.isalnum())
