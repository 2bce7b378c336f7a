"""Memory of inference: cache, activations, serving overhead. Ranges hold what a configuration cannot tell."""

from __future__ import annotations

from dataclasses import replace

from migsaw.fit.estimate_weights import activation_bytes
from migsaw.fit.shapes import active_width, cache_elements, scores_held, tokens_of
from migsaw.model.workload_shape import MIB, Architecture, Model, Row, Setup

CHUNK = (2048, 8192)  # tokens of one prefill step: vLLM's --max-num-batched-tokens, by version and GPU
GRAPHS_MIB = 1024  # CUDA graphs of a decoder, at most
MIGPERF = "bounds: MIGPerf's encoders on A100 slices"


def inference_rows(model: Model, shape: Architecture, setup: Setup) -> tuple[Row, ...]:
    """All but weights and CUDA context."""
    width = activation_bytes(model, setup)
    rows = [_activations(shape, setup, width)]
    if cache_elements(shape, setup.seq):
        rows.insert(0, _cache(shape, setup, width))
    if any(scores_held(shape, setup.attention)):
        rows.append(_scores(shape, setup, width))
    if shape.kind in ("decoder", "encoder_decoder"):
        rows += [_logits(shape, setup), _graphs()]
    return tuple(rows)


def _cache(shape: Architecture, setup: Setup, width: int) -> Row:
    """High: engines that keep all tokens whatever the window of a layer."""
    all_tokens = replace(shape, windows=())
    low, high = (setup.batch * cache_elements(one, setup.seq) * width / MIB for one in (shape, all_tokens))
    per_token = "(latent + rotary key)" if shape.latent else f"2 × {shape.kv_heads} × {shape.head_dim}"
    layers = shape.decoder_layers * 2 if shape.decoder_layers else shape.layers
    bounded = "; low: windows bound it" if any(shape.windows) else ""
    formula = f"{setup.batch} × {setup.seq} tokens × {layers} layers × {per_token} × {width} B{bounded}"
    source = (
        "DeepSeek-V2, arXiv 2405.04434 §2.1" if shape.latent else "GQA, arXiv 2305.13245; PagedAttention 2309.06180"
    )
    return Row("KV cache", low, high, formula, source)


def _at_once(shape: Architecture, setup: Setup) -> tuple[int, int]:
    tokens = setup.batch * tokens_of(shape, setup.seq)
    if shape.kind != "decoder":
        return tokens, tokens
    return min(tokens, CHUNK[0]), min(tokens, CHUNK[1])


def _activations(shape: Architecture, setup: Setup, width: int) -> Row:
    """Low: the MLP of one layer and the residual. High: twice that and the attention: freed blocks are kept."""
    low_tokens, high_tokens = _at_once(shape, setup)
    mlp = shape.mlp_matrices * active_width(shape)
    low = low_tokens * (mlp + 2 * shape.hidden) * width / MIB
    high = high_tokens * 2 * (mlp + 6 * shape.hidden) * width / MIB
    tokens = f"{low_tokens}" if low_tokens == high_tokens else f"{low_tokens}–{high_tokens}"
    formula = f"{tokens} tokens × ({mlp} + 2 × {shape.hidden}) × {width} B; high: 2 × ({mlp} + 6 × {shape.hidden})"
    return Row("activations", low, high, formula, f"{MIGPERF}; vLLM#10511 (Llama-3-8B: 1.26 GiB)")


def _scores(shape: Architecture, setup: Setup, width: int) -> Row:
    seq = tokens_of(shape, setup.seq)
    one = setup.batch * shape.heads * seq * seq * width / MIB
    is_low, _ = scores_held(shape, setup.attention)
    formula = f"{setup.batch} × {shape.heads} × {seq}² × {width} B" + ("" if is_low else ", or none")
    return Row("attention scores", one * is_low, 2 * one, f"{formula}; high: scores and softmax", MIGPERF)


def _logits(shape: Architecture, setup: Setup) -> Row:
    one = setup.batch * shape.vocab * 4 / MIB
    formula = f"{setup.batch} × {shape.vocab} × 4 B; high: 3 copies while sampling"
    return Row("logits", one, 3 * one, formula, "one token of each sequence is sampled, in 32 bits")


def _graphs() -> Row:
    return Row("CUDA graphs", 0, GRAPHS_MIB, "captured or not", "assumed bound; vLLM logs what its capture took")
