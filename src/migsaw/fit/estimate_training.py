"""Memory of training: states of the optimizer, gradients, activations, loss; full, LoRA and QLoRA."""

from __future__ import annotations

from migsaw.fit.estimate_weights import BYTES, activation_bytes, plain_precision, weights_row
from migsaw.fit.shapes import adapter_parameters, all_layers, saved_elements, scores_held, tokens_of
from migsaw.model.workload_shape import MIB, Architecture, Model, Optimizer, Parameters, Row, Setup

ZERO = "ZeRO, arXiv 1910.02054 §3.1"
KEPT = 1.35  # what the allocator holds for each byte that is needed
KORTHIKANTI = "Korthikanti et al., arXiv 2205.05198 §4.1"
MEASURED = "high × 1.35: BERT-large in Hugging Face's guide to training on one GPU took 1.28–1.34 ×"


def training_rows(model: Model, shape: Architecture, counts: Parameters, setup: Setup) -> tuple[Row, ...]:
    """All but the CUDA context."""
    is_full = setup.task == "train"
    trained = counts.total if is_full else adapter_parameters(shape, setup.rank)
    rows = list(_full(model, counts, setup) if is_full else _adapters(model, counts, setup, trained))
    if setup.task == "qlora":
        rows.append(_dequantised(shape))
    activations = _activations(model, shape, setup)
    loss = _loss(shape, setup, activation_bytes(model, setup))
    passing = activations.high_mib + sum(row.high_mib for row in loss)
    step = (_step(trained, passing),) if setup.optimizer in ("adamw", "sgd") else ()
    return (*rows, activations, *loss, *step)


def states_bytes(optimizer: Optimizer, *, is_narrow: bool) -> tuple[float, float]:
    """Bytes per trained parameter, low and high. ``is_narrow``: weights in 16 bits without a 32-bit copy."""
    if optimizer == "adamw":
        return (4.0, 8.0) if is_narrow else (8.0, 8.0)  # torch keeps states in the weights' precision
    if optimizer == "adamw8bit":
        return 2.0 + 8 / 256, 2.0 + 8 / 2048 + 1.0  # block constants; small tensors and embeddings in 32 bits
    if optimizer == "sgd":
        return 0.0, 4.0  # without and with momentum
    return 0.02, 4.0  # Adafactor: rows and columns; with a first moment one more copy


STATES_SOURCE = {
    "adamw": ZERO,
    "adamw8bit": "8-bit optimizers, arXiv 2110.02861: two states of one byte, blocks of 256–2048",
    "sgd": "one momentum of 4 bytes, or none",
    "adafactor": "Adafactor, arXiv 1804.04235: sums of rows and columns; high: with a first moment",
}


def _full(model: Model, counts: Parameters, setup: Setup) -> tuple[Row, ...]:
    precision, count = plain_precision(model, setup), counts.total
    width, is_mixed = BYTES[precision], precision == "mixed"
    low, high = states_bytes(setup.optimizer, is_narrow=precision in ("bf16", "fp16"))
    master = 4 if is_mixed else 0
    shown = f"{low + master:.4g}" if low == high else f"{low + master:.4g}–{high + master:.4g}"
    rows = [
        _each("weights", count, width, width, f"{count} × {width} B", ZERO),
        _each("gradients", count, width, width, f"{count} × {width} B", ZERO),
        _each("optimizer states", count, low + master, high + master,
              f"{count} × {shown} B" + (", 4 of them the 32-bit weights" if is_mixed else ""),
              STATES_SOURCE[setup.optimizer]),
    ]  # fmt: skip
    if is_mixed:
        source = "Hugging Face's guide to training on one GPU: 1.5 × the weights under autocast"
        rows.append(_each("16-bit copies", count, 0, 2, f"{count} × 0–2 B", source))
    return tuple(rows)


def _adapters(model: Model, counts: Parameters, setup: Setup, trained: int) -> tuple[Row, ...]:
    base = weights_row(model, counts, setup)
    assert base is not None  # counts are known
    low, _ = states_bytes(setup.optimizer, is_narrow=True)
    _, high = states_bytes(setup.optimizer, is_narrow=False)
    formula = f"{trained} × ({4 + low:.4g}–{8 + high:.4g}) B: rank {setup.rank} on every matrix of the layers"
    source = "LoRA, arXiv 2106.09685; low: all in 16 bits, high: all in 32"
    return base, _each("adapters, their gradients and states", trained, 4 + low, 8 + high, formula, source)


def _each(what: str, count: int, low: float, high: float, formula: str, source: str) -> Row:
    return Row(what, count * low / MIB, count * high / MIB, formula, source)


def _dequantised(shape: Architecture) -> Row:
    widest = max(shape.hidden * shape.intermediate, shape.hidden**2) * 2 / MIB
    formula = f"largest matrix × 2 B; high: two of them ({shape.hidden} × {shape.intermediate})"
    return Row("dequantised matrix", widest, 2 * widest, formula, "QLoRA, arXiv 2305.14314 §3, eq. 5")


def _activations(model: Model, shape: Architecture, setup: Setup) -> Row:
    """Low: without dropout, norms in the precision of the rest. High: with masks and 32-bit norms, × ``KEPT``."""
    width, seq, layers = activation_bytes(model, setup), tokens_of(shape, setup.seq), all_layers(shape)
    elements, hidden = saved_elements(shape), shape.hidden
    low, high = elements * width, elements * width + (2 if shape.dropout else 0) * hidden
    if width == 2:
        high += 8 * hidden  # inputs of both norms in 32 bits
    is_low, is_high = scores_held(shape, setup.attention)
    low += is_low * shape.heads * seq * width
    high += is_high * shape.heads * seq * (9 if width == 4 else 7)  # softmax in 32 bits, mask, and what is multiplied
    tokens = setup.batch * seq
    kept_layers = 1 if setup.checkpointing else layers
    held = layers * hidden * width if setup.checkpointing else 0  # the input of each layer
    formula = f"{tokens} tokens × {kept_layers} layers × {low}–{high} B" + (f" + {held} B" if held else "")
    at_low = tokens * (kept_layers * low + held) / MIB
    at_high = tokens * (kept_layers * high + held) * KEPT / MIB
    return Row("activations", at_low, at_high, formula, f"{KORTHIKANTI}; {MEASURED}")


def _loss(shape: Architecture, setup: Setup, width: int) -> tuple[Row, ...]:
    if shape.head not in ("lm", "masked_lm"):
        return ()
    one = setup.batch * setup.seq * shape.vocab / MIB
    formula = f"{setup.batch * setup.seq} × {shape.vocab} × {width} B; high: in 32 bits too, both with gradients"
    return (Row("logits and loss", one * width, one * (2 * width + 8), formula, "low: a loss computed in chunks"),)


def _step(trained: int, passing: float) -> Row:
    """What the optimizer's step takes beyond what the backward pass has freed by then."""
    high = max(0.0, 4 * trained / MIB - passing)
    source = "torch.optim: the foreach implementation takes about the size of the parameters more"
    return Row("optimizer step", 0, high, f"{trained} × 4 B, less what the backward pass freed", source)
