"""Parameter, cache and activation arithmetic of transformers, from their sizes alone.

It must not know bytes, tasks or boards: everything here counts parameters or elements.
"""

from __future__ import annotations

from migsaw.model.workload_shape import Architecture, Kernel, LatentAttention, Parameters


def parameters(shape: Architecture) -> Parameters:
    """Counts as the reference implementations in Hugging Face transformers have them."""
    attention, attention_rest = _attention(shape)
    mlp, mlp_rest = _mlp(shape)
    norm = shape.hidden * (2 if shape.norm_bias else 1)
    linear = shape.layers * attention + mlp
    other = shape.layers * (attention_rest + shape.norms_per_layer * norm) + mlp_rest
    if shape.kind == "encoder_decoder":  # a decoder layer attends twice
        dense, dense_rest = _dense(shape)
        linear += shape.decoder_layers * (2 * attention + dense)
        other += shape.decoder_layers * (2 * attention_rest + dense_rest + (shape.norms_per_layer + 1) * norm) + norm
        other += 2 * shape.relative_buckets * shape.heads
    other += norm * (shape.final_norm + shape.embedding_norm) + _embedded(shape)
    head, head_rest = _head(shape)
    return Parameters(linear, shape.vocab * shape.hidden, head, other + head_rest)


def _attention(shape: Architecture) -> tuple[int, int]:
    """Of one layer: matrices, and the rest."""
    if shape.latent is not None:
        return _latent(shape, shape.latent)
    query, key = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    matrices = shape.hidden * (query + 2 * key) + query * shape.hidden
    rest = (
        shape.qkv_bias * (query + 2 * key) + shape.out_bias * shape.hidden + shape.query_key_norm * 2 * shape.head_dim
    )
    return matrices, rest


def _latent(shape: Architecture, latent: LatentAttention) -> tuple[int, int]:
    query = shape.heads * (latent.nope_dim + latent.rope_dim)
    rank = latent.query_rank
    matrices = shape.hidden * query if rank is None else shape.hidden * rank + rank * query
    matrices += shape.hidden * (latent.kv_rank + latent.rope_dim)
    matrices += latent.kv_rank * shape.heads * (latent.nope_dim + latent.value_dim)
    matrices += shape.heads * latent.value_dim * shape.hidden
    return matrices, latent.kv_rank + (rank or 0)


def _dense(shape: Architecture) -> tuple[int, int]:
    matrices = shape.mlp_matrices * shape.hidden * shape.intermediate
    return matrices, shape.mlp_bias * ((shape.mlp_matrices - 1) * shape.intermediate + shape.hidden)


def _mlp(shape: Architecture) -> tuple[int, int]:
    """Of all layers. Routers count with the rest: nobody quantises them."""
    dense, dense_rest = _dense(shape)
    experts = shape.experts
    if experts is None:
        return shape.layers * dense, shape.layers * dense_rest
    sparse_layers = shape.layers - experts.dense_layers
    matrices = shape.mlp_matrices * shape.hidden * (experts.count * experts.intermediate + experts.shared_intermediate)
    router = shape.hidden * experts.count + experts.router_bias * experts.count + experts.shared_gate * shape.hidden
    linear = experts.dense_layers * dense + sparse_layers * matrices
    return linear, experts.dense_layers * dense_rest + sparse_layers * router


def _embedded(shape: Architecture) -> int:
    """What stands beside the table of words: positions, token types, patches with class token."""
    found = (shape.positions + shape.token_types) * shape.hidden
    if shape.patches:
        found += shape.hidden * (shape.patch_inputs + 1) + shape.hidden + (shape.patches + 1) * shape.hidden
    return found + shape.pooler * (shape.hidden**2 + shape.hidden)


def _head(shape: Architecture) -> tuple[int, int]:
    hidden, rest = shape.hidden, shape.head_bias * shape.vocab
    if shape.head == "labels":
        return 0, shape.labels * (hidden + 1)
    if shape.head == "masked_lm":
        rest += hidden**2 + hidden + 2 * hidden
    return (0 if shape.tied or shape.head == "none" else shape.vocab * hidden), rest


def cache_elements(shape: Architecture, seq: int) -> int:
    """Keys and values of one sequence of ``seq`` tokens over all layers; a window bounds what a layer keeps."""
    if shape.kind in ("encoder", "vision"):
        return 0
    per_token = shape.latent.kv_rank + shape.latent.rope_dim if shape.latent else 2 * shape.kv_heads * shape.head_dim
    if shape.kind == "encoder_decoder":  # its own tokens, and those of the encoder
        return 2 * shape.decoder_layers * per_token * seq
    windows = shape.windows or (None,) * shape.layers
    return per_token * sum(seq if window is None else min(seq, window) for window in windows)


def all_layers(shape: Architecture) -> int:
    return shape.layers + shape.decoder_layers


def active_width(shape: Architecture) -> int:
    """MLP elements per token that are computed at once: of a mixture, the active experts' or a dense layer's."""
    experts = shape.experts
    if experts is None:
        return shape.intermediate
    sparse = experts.active * experts.intermediate + experts.shared_intermediate
    return max(sparse, shape.intermediate if experts.dense_layers else 0)


def saved_elements(shape: Architecture) -> int:
    """Elements per token and layer that the backward pass needs, attention scores apart.

    Korthikanti et al., arXiv 2205.05198 §4.1, taken apart: inputs of two norms, of the projections and of the MLP
    (4 hidden), queries, keys, values and context, and the MLP's own (2 for a plain one, 4 for a gated one).
    With full attention and a plain MLP four times as wide: their 16 elements (32 of the 34 bytes; 2 are masks).
    """
    if shape.latent is not None:
        latent = shape.latent
        attention = shape.heads * (2 * (latent.nope_dim + latent.rope_dim) + 2 * latent.value_dim)
    else:
        attention = 2 * (shape.heads + shape.kv_heads) * shape.head_dim
    if shape.decoder_layers:  # cross-attention, spread over all layers
        extra = (attention + 2 * shape.hidden) * shape.decoder_layers
        attention += -(-extra // all_layers(shape))
    mlp = (4 if shape.mlp_matrices == 3 else 2) * active_width(shape)
    routed = shape.experts.active * shape.hidden if shape.experts else 0  # a token's copy for each of its experts
    return 4 * shape.hidden + attention + mlp + routed


def adapter_parameters(shape: Architecture, rank: int) -> int:
    """LoRA on every matrix of the layers: rank × (inputs + outputs) each (arXiv 2106.09685; all layers: 2305.14314)."""
    hidden, query, key = shape.hidden, shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    if shape.latent is not None:
        latent = shape.latent
        wide = shape.heads * (latent.nope_dim + latent.rope_dim)
        inner = latent.query_rank
        sides = hidden + wide if inner is None else hidden + inner + inner + wide
        sides += hidden + latent.kv_rank + latent.rope_dim
        sides += latent.kv_rank + shape.heads * (latent.nope_dim + latent.value_dim)
        sides += shape.heads * latent.value_dim + hidden
    else:
        sides = (hidden + query) + 2 * (hidden + key) + (query + hidden)
    dense = shape.mlp_matrices * (hidden + shape.intermediate)
    if shape.experts is None:
        return rank * (all_layers(shape) * (sides + dense) + shape.decoder_layers * sides)
    experts = shape.experts
    sparse = shape.mlp_matrices * experts.count * (hidden + experts.intermediate)
    sparse += shape.mlp_matrices * (hidden + experts.shared_intermediate) if experts.shared_intermediate else 0
    mlp = experts.dense_layers * dense + (shape.layers - experts.dense_layers) * sparse
    return rank * (shape.layers * sides + mlp)


def scores_held(shape: Architecture, attention: Kernel | None) -> tuple[bool, bool]:
    """Whether attention scores are held in memory, at the low end and at the high end."""
    if attention is None:
        return False, shape.kind != "decoder"
    return attention == "eager", attention == "eager"


def tokens_of(shape: Architecture, seq: int) -> int:
    """Tokens of one sequence; an image has as many as patches, and its class token."""
    return shape.patches + 1 if shape.patches else seq
