"""Bytes of weights in each precision, quantisation with its scales included."""

from __future__ import annotations

from migsaw.model.workload_shape import MIB, Model, Parameters, Precision, Quantization, Row, Setup

BYTES: dict[Precision, int] = {"fp32": 4, "bf16": 2, "fp16": 2, "mixed": 2}
QUANTISED: dict[Precision, Quantization] = {
    "nf4": Quantization("nf4", 4, 64),
    "int4": Quantization("gptq", 4, 128),
    "int8": Quantization("int8", 8),
    "fp8": Quantization("fp8", 8, 128),
}
SOURCES = {
    "nf4": "QLoRA, arXiv 2305.14314 §3: 4 bits in blocks of 64, 32-bit constants, or 8-bit ones in blocks of 256",
    "gptq": "GPTQ's format: per group a 16-bit scale and a packed zero point (arXiv 2210.17323)",
    "awq": "AWQ's format: per group a 16-bit scale and a packed zero point (arXiv 2306.00978)",
    "int8": "LLM.int8(), arXiv 2208.07339: a 32-bit constant per row (left out: below 0.1 %)",
    "fp8": "DeepSeek-V3, arXiv 2412.19437 §3.3: a 32-bit scale per tile of 128 × 128",
}


def activation_bytes(model: Model, setup: Setup) -> int:
    """Bytes of an element that is computed with; quantised weights are computed with in 16 bits."""
    is_wide = quantization_of(model, setup) is None and plain_precision(model, setup) == "fp32"
    return 4 if is_wide else 2


def bits_per_weight(how: Quantization) -> tuple[float, float]:
    """Low and high: they differ where the file does not say."""
    if how.method == "nf4":
        twice, once = 4 + 8 / how.group + 32 / (how.group * 256), 4 + 32 / how.group
        return {True: (twice, twice), False: (once, once), None: (twice, once)}[how.double]
    if how.method in ("gptq", "awq"):
        bits = how.bits + (16 + how.bits) / how.group
        return bits, bits
    bits = how.bits + (32 / how.group**2 if how.method == "fp8" else 0)
    return bits, bits


def quantization_of(model: Model, setup: Setup) -> Quantization | None:
    if setup.task == "qlora":
        is_nf4 = model.quantization is not None and model.quantization.method == "nf4"
        return model.quantization if is_nf4 else QUANTISED["nf4"]
    if setup.precision is not None:
        return QUANTISED.get(setup.precision)
    return model.quantization if setup.task == "inference" else None


def weights_row(model: Model, counts: Parameters | None, setup: Setup) -> Row | None:
    """Of inference, and of the frozen base under adapters. None: neither sizes nor a checkpoint tell."""
    stored = model.weights
    if stored is not None and (counts is None or (setup.precision is None and setup.task == "inference")):
        size = stored.size_bytes / MIB
        return Row("weights", size, size, f"{stored.size_bytes} bytes as stored", stored.where)
    if counts is None:
        return None
    how = quantization_of(model, setup)
    if how is not None:
        low, high = bits_per_weight(how)
        rest = counts.total - counts.linear
        widest = (
            4 if setup.task != "inference" and how.method in ("nf4", "int8") else 2
        )  # PEFT casts the rest to 32 bits
        least, most = counts.linear * low / 8 + rest * 2, counts.linear * high / 8 + rest * widest
        formula = f"{counts.linear} × {_number(low, high)} bits + {rest} × {_number(2, widest)} B"
        return Row(f"weights ({how.method})", least / MIB, most / MIB, formula, SOURCES[how.method])
    width = BYTES[plain_precision(model, setup)]
    size = counts.total * width / MIB
    return Row("weights", size, size, f"{counts.total} × {width} B", "counted from the configuration's sizes")


def plain_precision(model: Model, setup: Setup) -> Precision:
    """Of weights that are not quantised; transformers loads in 32 bits where a configuration does not say."""
    if setup.precision is not None:
        return setup.precision
    if setup.task == "inference":
        return model.stored_precision or "fp32"
    return "mixed" if setup.task == "train" else "bf16"


def _number(low: float, high: float) -> str:
    return f"{low:.4g}" if low == high else f"{low:.4g}–{high:.4g}"
