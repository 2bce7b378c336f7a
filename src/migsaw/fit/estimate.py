"""What a workload needs before it ever ran: the static estimate, and the profiles that hold it.

Every part is a range. It must not know files: a model's sizes come in as values (:mod:`migsaw.observe.model_config`).
"""

from __future__ import annotations

from migsaw.errors import InputError
from migsaw.fit.estimate_inference import inference_rows
from migsaw.fit.estimate_training import training_rows
from migsaw.fit.estimate_weights import BYTES, weights_row
from migsaw.fit.shapes import parameters
from migsaw.model.boards import Board, Profile
from migsaw.model.workload_shape import MIB, Estimate, Model, Need, ProfileNeed, Row, Setup, StoredWeights, Verdict

CONTEXT_MIB = (200, 1500)  # of a process, whatever the slice: kernels loaded lazily, or all at start
CONTEXT_PER_SM_MIB = (1.5, 4.3)
SMS = (14, 132)  # the least and the most that a slice of a data-centre board has
CONTEXT_SOURCE = "high: MIGPerf, 306 rows on A100 slices (1460 + 4.25 per SM); low: assumed for lazy loading (CUDA 12)"
SLACK_MIB = 32
PRECISIONS = {
    "inference": ("fp32", "bf16", "fp16", "fp8", "int8", "int4", "nf4"),
    "train": ("fp32", "mixed", "bf16", "fp16"),
    "lora": ("fp32", "bf16", "fp16", "fp8", "int8"),
    "qlora": ("nf4",),
}


def estimate(model: Model, setup: Setup) -> Estimate:
    """Raises :class:`InputError` for a set-up that makes no sense. Without known sizes only exact weights are told."""
    check(setup)
    shape = model.architecture
    if shape is None:
        row = weights_row(model, None, setup)
        return Estimate(model, setup, () if row is None else (row,), _notes(model, setup), model.unknown)
    counts = parameters(shape)
    if setup.task == "inference":
        weights = weights_row(model, counts, setup)
        rows = (*((weights,) if weights else ()), *inference_rows(model, shape, setup))
    else:
        rows = training_rows(model, shape, counts, setup)
    return Estimate(model, setup, (*rows, _slack(rows)), _notes(model, setup))


def check(setup: Setup) -> None:
    for name in ("seq", "batch", "rank"):
        if getattr(setup, name) < 1:
            raise InputError(f"{name} is {getattr(setup, name)}", hint=f"{name} is at least 1")
    allowed = PRECISIONS[setup.task]
    if setup.precision is not None and setup.precision not in allowed:
        hint = f"for {setup.task}: {', '.join(allowed)}"
        raise InputError(f"precision {setup.precision} means nothing for {setup.task}", hint=hint)


def _slack(rows: tuple[Row, ...]) -> Row:
    held = sum(row.high_mib for row in rows)
    formula = f"high: {SLACK_MIB} MiB of matrix workspaces + 1 % of the above in unfilled blocks"
    return Row(
        "allocator and workspaces", 8, SLACK_MIB + held / 100, formula, "PyTorch: 2 MiB blocks; cuBLAS: 8–32 MiB"
    )


def context_row(sms: int | None) -> Row:
    """The CUDA context of one process on a slice with so many SMs; None: the range over all slices."""
    least, most = (sms, sms) if sms is not None else SMS
    low = CONTEXT_MIB[0] + CONTEXT_PER_SM_MIB[0] * least
    high = CONTEXT_MIB[1] + CONTEXT_PER_SM_MIB[1] * most
    shown = f"{sms}" if sms is not None else f"{SMS[0]}–{SMS[1]}"
    formula = f"{CONTEXT_MIB[0]} + {CONTEXT_PER_SM_MIB[0]} × SMs to {CONTEXT_MIB[1]} + {CONTEXT_PER_SM_MIB[1]} × SMs"
    return Row("CUDA context", low, high, f"{formula}, SMs: {shown}", CONTEXT_SOURCE)


def total(found: Estimate) -> Need:
    """Over all slices."""
    return found.with_context(context_row(None))


def profiles(found: Estimate, board: Board) -> tuple[ProfileNeed, ...]:
    """Each plain profile of the board, smallest first. An instance's memory is net: nothing is taken off it."""
    plain = sorted((p for p in board.profiles if p.is_plain), key=_size)
    return tuple(_judge(found, profile) for profile in plain)


def _size(profile: Profile) -> tuple[int, int, str]:
    return profile.compute_slices, profile.memory_slices or 0, profile.name


def _judge(found: Estimate, profile: Profile) -> ProfileNeed:
    need, memory = found.with_context(context_row(profile.sm_count)), profile.memory_mib
    verdict: Verdict = "unknown"
    if memory is not None:
        if need.low_mib > memory:
            verdict = "too small"
        elif not found.unknown:
            verdict = "holds" if need.high_mib <= memory else "may hold"
    return ProfileNeed(profile.name, memory, need, verdict)


def doubled(board: Board, setup: Setup) -> frozenset[str]:
    """Profiles not proposed for training, which is bound by SMs: a 1g with the memory of a 2g, where there is a 2g."""
    if setup.task == "inference" or not any(profile.role == "2g" for profile in board.profiles):
        return frozenset()
    return frozenset(profile.name for profile in board.profiles if profile.role == "1g2m")


def smallest(found: tuple[ProfileNeed, ...], verdict: Verdict) -> ProfileNeed | None:
    """The first of that verdict; for ``may hold`` also one that holds."""
    wanted = ("holds", "may hold") if verdict == "may hold" else (verdict,)
    return next((row for row in found if row.verdict in wanted), None)


def _notes(model: Model, setup: Setup) -> tuple[str, ...]:
    shape, notes = model.architecture, []
    if shape is None:
        return ()
    if shape.kind == "decoder" and setup.task == "inference":
        notes.append("vLLM and SGLang take what is left of the slice for more cache: use of memory then says nothing.")
    if shape.latent is not None and setup.task == "inference":
        full = shape.heads * (shape.latent.nope_dim + shape.latent.rope_dim + shape.latent.value_dim)
        times = full / (shape.latent.kv_rank + shape.latent.rope_dim)
        notes.append(f"An engine without latent attention keeps {times:.0f} times this KV cache (transformers does).")
    if model.weights is not None:
        notes += _contradictions(model, parameters(shape).total, model.weights)
        if setup.task == "inference" and setup.precision is not None:
            notes.append(f"Stored: {model.weights.size_bytes / MIB:.0f} MiB; {setup.precision} was asked for.")
    return tuple(notes)


def _contradictions(model: Model, counted: int, stored: StoredWeights) -> list[str]:
    """A checkpoint that is not of this configuration, by 1 %."""
    if stored.parameters is not None and abs(counted - stored.parameters) > counted / 100:
        return [f"The checkpoint has {stored.parameters} parameters, its configuration makes {counted}."]
    width = BYTES.get(model.stored_precision) if model.stored_precision and not model.quantization else None
    if width is not None and abs(counted * width - stored.size_bytes) > counted * width / 100:
        return [f"The checkpoint has {stored.size_bytes} bytes, its configuration makes {counted * width}."]
    return []
