"""The DCGM fields that migsaw reads, under every name they were exported with: one table for reading and for rendering.

An exporter names a metric as its counters file names the field, so a server may hold several names of one field. What
labels say, and which values are blank, is not known here.

Sources: ids and names: `dcgm_fields.h` of DCGM 4.6.0, which renamed the fields and keeps the old names as aliases of
the same ids and units; `etc/default-counters.csv` of dcgm-exporter; the `dcgm_*` names: its predecessor of 2018.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Field:
    """``names[0]`` is the one that every dcgm-exporter since 2020 takes in its counters file."""

    id: int
    signal: str
    names: tuple[str, ...]
    kind: Literal["gauge", "counter"] = "gauge"

    @property
    def is_profiling(self) -> bool:
        """Whether DCGM's profiling module measures it (fields from 1001): needs CAP_SYS_ADMIN."""
        return self.id >= 1001


DEVICE = (  # of a GPU instance, or of a GPU with MIG off
    Field(1001, "graphics", ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO")),
    Field(1002, "sm", ("DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_SM_UTIL_RATIO")),
    Field(1003, "occupancy", ("DCGM_FI_PROF_SM_OCCUPANCY", "DCGM_FI_PROF_SM_OCCUPANCY_RATIO")),
    Field(1004, "tensor", ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_TENSOR_UTIL_RATIO")),
    Field(1005, "dram", ("DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_PROF_DRAM_UTIL_RATIO")),
    Field(252, "used", ("DCGM_FI_DEV_FB_USED", "dcgm_fb_used")),  # MiB
    Field(251, "free", ("DCGM_FI_DEV_FB_FREE", "dcgm_fb_free")),  # MiB
    # percent, under its new name too
    Field(203, "util", ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO", "dcgm_gpu_utilization")),
)
BOARD = (  # of the whole board, repeated on every instance of it
    Field(155, "power_watts", ("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_BOARD_POWER_WATTS", "dcgm_power_usage")),
    Field(150, "temperature_celsius", ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS", "dcgm_gpu_temp")),
    Field(100, "sm_clock_mhz", ("DCGM_FI_DEV_SM_CLOCK", "dcgm_sm_clock")),
    # since the driver was loaded
    Field(
        156, "energy_millijoules", ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "dcgm_total_energy_consumption"), "counter"
    ),
)


def _by_family(fields: tuple[Field, ...]) -> dict[str, str]:
    return {name: field.signal for field in fields for name in field.names}


FIELDS: Mapping[str, str] = _by_family(DEVICE)  # family → signal
BOARD_FIELDS: Mapping[str, str] = _by_family(BOARD)
BUILD_INFO = "dcgm_exporter_build_info"  # not of every build; its label `version` is read
