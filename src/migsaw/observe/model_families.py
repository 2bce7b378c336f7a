"""``model_type`` of Hugging Face → the sizes of a transformer: which field means what in which family.

A family that is not here is not guessed. Defaults are those of the classes in Hugging Face transformers 4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from migsaw.model.workload_shape import Architecture, Experts, Head, LatentAttention
from migsaw.observe.model_fields import Fields

PATTERN = 6  # Gemma 3: every sixth layer sees everything


def architecture(fields: Fields) -> Architecture | None:
    """None: a family that is not known here. Raises InputError for a field that is missing or wrong."""
    build = FAMILIES.get(fields.text("model_type"))
    return None if build is None else build(fields)


def _decoder(fields: Fields, *, tied: bool = False) -> Architecture:
    """Llama and what follows it: RMS norms, gated MLP, grouped queries, no biases."""
    heads, hidden = fields.whole("num_attention_heads"), fields.whole("hidden_size")
    layers = fields.whole("num_hidden_layers")
    head_dim = fields.maybe("head_dim") or fields.divided(hidden, heads, "hidden_size")
    has_bias = fields.flag("attention_bias")
    return Architecture(
        name=fields.text("model_type"),
        kind="decoder",
        hidden=hidden,
        layers=layers,
        heads=heads,
        kv_heads=fields.whole("num_key_value_heads", default=heads),
        head_dim=head_dim,
        intermediate=fields.whole("intermediate_size"),
        vocab=fields.whole("vocab_size"),
        qkv_bias=has_bias,
        out_bias=has_bias,
        mlp_bias=fields.flag("mlp_bias"),
        head=_head(fields),
        labels=_labels(fields),
        tied=fields.flag("tie_word_embeddings", default=tied),
        windows=_windows(fields, layers),
        dropout=fields.rate("attention_dropout") > 0,
    )


def _head(fields: Fields) -> Head:
    if _is(fields, "ForCausalLM", "LMHeadModel", "ForConditionalGeneration"):
        return "lm"
    if _is(fields, "ForMaskedLM", "ForPreTraining"):
        return "masked_lm"
    if _is(fields, "Classification", "QuestionAnswering", "MultipleChoice"):
        return "labels"
    return "none" if _is(fields, "Model") else "lm"


def _is(fields: Fields, *ends: str) -> bool:
    """By the end of the class that the checkpoint was saved with."""
    names = fields.data.get("architectures")
    return isinstance(names, list) and bool(names) and str(names[0]).endswith(ends)


def _labels(fields: Fields) -> int:
    if fields.has("num_labels"):
        return fields.whole("num_labels")
    named = fields.inner("id2label")
    return len(named.data) if named is not None and named.data else 2


def _windows(fields: Fields, layers: int) -> tuple[int | None, ...]:
    window = fields.maybe("sliding_window")
    if window is None or not fields.flag("use_sliding_window", default=True):
        return ()
    types = fields.data.get("layer_types")
    if types is None:
        return (window,) * layers
    if not isinstance(types, list) or len(types) != layers:
        raise fields.fault("layer_types", f"is no list of {layers} names")
    return tuple(window if kind == "sliding_attention" else None for kind in types)


def _qwen2(fields: Fields) -> Architecture:
    shape = _decoder(fields)
    if not fields.flag("use_sliding_window"):
        shape = replace(shape, windows=())
    elif not fields.has("layer_types"):
        full = fields.whole("max_window_layers", default=shape.layers, least=0)
        shape = replace(shape, windows=tuple(None if i < full else w for i, w in enumerate(shape.windows)))
    return replace(shape, qkv_bias=True, out_bias=False)


def _qwen3(fields: Fields) -> Architecture:
    shape = _qwen2(fields)
    has_bias = fields.flag("attention_bias")
    head_dim = fields.whole("head_dim", default=128)
    return replace(shape, qkv_bias=has_bias, out_bias=has_bias, head_dim=head_dim, query_key_norm=True)


def _dense_layers(fields: Fields) -> int:
    """Layers without experts: only the first ones are understood."""
    only = fields.data.get("mlp_only_layers") or []
    is_first = isinstance(only, list) and only == list(range(len(only)))
    if fields.whole("decoder_sparse_step", default=1) != 1 or not is_first:
        hint = "give a file of kind migsaw/estimate/v1 with explicit sizes"
        raise fields.fault("mlp_only_layers", "or decoder_sparse_step mixes layers in a way not known here", hint)
    return len(only)


def _qwen2_moe(fields: Fields) -> Architecture:
    experts = Experts(
        count=fields.whole("num_experts"),
        active=fields.whole("num_experts_per_tok"),
        intermediate=fields.whole("moe_intermediate_size"),
        shared_intermediate=fields.whole("shared_expert_intermediate_size"),
        dense_layers=_dense_layers(fields),
        shared_gate=True,
    )
    return replace(_qwen2(fields), experts=experts)


def _qwen3_moe(fields: Fields) -> Architecture:
    experts = Experts(
        count=fields.whole("num_experts"),
        active=fields.whole("num_experts_per_tok"),
        intermediate=fields.whole("moe_intermediate_size"),
        dense_layers=_dense_layers(fields),
    )
    return replace(_qwen3(fields), experts=experts)


def _mixtral(fields: Fields) -> Architecture:
    count, active = fields.whole("num_local_experts"), fields.whole("num_experts_per_tok")
    return replace(_decoder(fields), experts=Experts(count, active, fields.whole("intermediate_size")))


def _deepseek(fields: Fields) -> Architecture:
    latent = LatentAttention(
        kv_rank=fields.whole("kv_lora_rank"),
        rope_dim=fields.whole("qk_rope_head_dim"),
        nope_dim=fields.whole("qk_nope_head_dim"),
        value_dim=fields.whole("v_head_dim"),
        query_rank=fields.maybe("q_lora_rank"),
    )
    routed = fields.maybe("n_routed_experts")
    experts = None
    if routed is not None:
        width = fields.whole("moe_intermediate_size")
        experts = Experts(
            count=routed,
            active=fields.whole("num_experts_per_tok"),
            intermediate=width,
            shared_intermediate=width * fields.whole("n_shared_experts", default=0, least=0),
            dense_layers=fields.whole("first_k_dense_replace", default=0, least=0),
            router_bias=fields.text("model_type") == "deepseek_v3",
        )
    head_dim = latent.nope_dim + latent.rope_dim
    plain = Fields(fields.document, {**fields.data, "head_dim": head_dim}, fields.place)
    return replace(_decoder(plain), latent=latent, experts=experts)


def _gemma(fields: Fields) -> Architecture:
    return replace(_decoder(fields, tied=True), windows=())


def _gemma2(fields: Fields) -> Architecture:
    shape = _decoder(fields, tied=True)
    if shape.windows and not fields.has("layer_types"):
        shape = replace(shape, windows=tuple(None if i % 2 else w for i, w in enumerate(shape.windows)))
    return replace(shape, norms_per_layer=4)


def _gemma3(fields: Fields) -> Architecture:
    shape = _decoder(fields, tied=True)
    if shape.windows and not fields.has("layer_types"):
        every = fields.whole("sliding_window_pattern", default=PATTERN)
        shape = replace(shape, windows=tuple(w if (i + 1) % every else None for i, w in enumerate(shape.windows)))
    return replace(shape, norms_per_layer=4, query_key_norm=True)


def _phi(fields: Fields) -> Architecture:
    """Phi-1, 1.5 and 2: one norm before attention and MLP, biases everywhere."""
    return replace(
        _decoder(fields), mlp_matrices=2, norms_per_layer=1, norm_bias=True, qkv_bias=True, out_bias=True,
        mlp_bias=True, head_bias=True,
    )  # fmt: skip


def _gpt2(fields: Fields) -> Architecture:
    hidden, heads = fields.whole("n_embd"), fields.whole("n_head")
    return Architecture(
        name="gpt2", kind="decoder", hidden=hidden, layers=fields.whole("n_layer"), heads=heads, kv_heads=heads,
        head_dim=fields.divided(hidden, heads, "n_embd"),
        intermediate=fields.whole("n_inner", default=4 * hidden), vocab=fields.whole("vocab_size"),
        mlp_matrices=2, qkv_bias=True, out_bias=True, mlp_bias=True, norm_bias=True, head=_head(fields),
        labels=_labels(fields), tied=True, positions=fields.whole("n_positions", "n_ctx"),
        dropout=fields.rate("resid_pdrop", "attn_pdrop") > 0,
    )  # fmt: skip


def _gpt_neox(fields: Fields) -> Architecture:
    has_bias = fields.flag("attention_bias", default=True)
    shape = _decoder(fields)
    return replace(shape, mlp_matrices=2, qkv_bias=has_bias, out_bias=has_bias, mlp_bias=True, norm_bias=True)


def _falcon(fields: Fields) -> Architecture:
    hidden, heads = fields.whole("hidden_size"), fields.whole("num_attention_heads", "n_head")
    is_new = fields.flag("new_decoder_architecture")
    has_many = is_new or not fields.flag("multi_query", default=True)
    norms = 1 if fields.flag("parallel_attn", default=True) and not is_new else 2
    has_bias = fields.flag("bias")
    return Architecture(
        name="falcon", kind="decoder", hidden=hidden, layers=fields.whole("num_hidden_layers", "n_layer"), heads=heads,
        kv_heads=fields.whole("num_kv_heads", "n_head_kv", default=heads) if has_many else 1,
        head_dim=fields.divided(hidden, heads, "hidden_size"),
        intermediate=fields.whole("ffn_hidden_size", default=4 * hidden), vocab=fields.whole("vocab_size"),
        mlp_matrices=2, qkv_bias=has_bias, out_bias=has_bias, mlp_bias=has_bias, norms_per_layer=norms,
        norm_bias=True, head=_head(fields), tied=fields.flag("tie_word_embeddings", default=True),
    )  # fmt: skip


def _encoder(fields: Fields) -> Architecture:
    """BERT, RoBERTa, XLM-R, ELECTRA's like: biases everywhere, learned positions, norms after."""
    hidden, heads = fields.whole("hidden_size", "dim"), fields.whole("num_attention_heads", "n_heads")
    name, head = fields.text("model_type"), _head(fields)
    return Architecture(
        name=name, kind="encoder", hidden=hidden, layers=fields.whole("num_hidden_layers", "n_layers"), heads=heads,
        kv_heads=heads, head_dim=fields.divided(hidden, heads, "hidden_size"),
        intermediate=fields.whole("intermediate_size", "hidden_dim"), vocab=fields.whole("vocab_size"),
        mlp_matrices=2, qkv_bias=True, out_bias=True, mlp_bias=True, norm_bias=True, final_norm=False,
        embedding_norm=True, head="none" if head == "lm" else head, tied=True, head_bias=head == "masked_lm",
        labels=_labels(fields), pooler=name != "distilbert" and not _is(fields, "ForMaskedLM"),
        positions=fields.whole("max_position_embeddings", default=512),
        token_types=0 if name in ("distilbert", "mpnet") else fields.whole("type_vocab_size", default=2),
        relative_buckets=0, dropout=fields.rate("hidden_dropout_prob", "dropout", "attention_probs_dropout_prob") > 0,
    )  # fmt: skip


def _t5(fields: Fields) -> Architecture:
    layers, heads = fields.whole("num_layers"), fields.whole("num_heads")
    is_gated = fields.text("feed_forward_proj", "relu").startswith("gated")
    return Architecture(
        name="t5", kind="encoder_decoder", hidden=fields.whole("d_model"), layers=layers, heads=heads, kv_heads=heads,
        head_dim=fields.whole("d_kv"), intermediate=fields.whole("d_ff"), vocab=fields.whole("vocab_size"),
        mlp_matrices=3 if is_gated else 2, tied=fields.flag("tie_word_embeddings", default=True),
        decoder_layers=fields.whole("num_decoder_layers", default=layers),
        relative_buckets=fields.whole("relative_attention_num_buckets", default=32),
        dropout=fields.rate("dropout_rate") > 0,
    )  # fmt: skip


def _vit(fields: Fields) -> Architecture:
    shape = _encoder(Fields(fields.document, {**fields.data, "vocab_size": 1}, fields.place))
    image, patch = fields.whole("image_size"), fields.whole("patch_size")
    side, head = fields.divided(image, patch, "image_size"), _head(fields)
    return replace(
        shape, kind="vision", vocab=0, final_norm=True, embedding_norm=False, positions=0, token_types=0,
        head="labels" if head == "labels" else "none", pooler=head == "none", patches=side * side,
        patch_inputs=fields.whole("num_channels", default=3) * patch * patch,
    )  # fmt: skip


FAMILIES: dict[str, Callable[[Fields], Architecture]] = {
    "llama": _decoder,
    "mistral": _decoder,
    "mixtral": _mixtral,
    "qwen2": _qwen2,
    "qwen2_moe": _qwen2_moe,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "phi": _phi,
    "phi3": _decoder,
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
    "falcon": _falcon,
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
    "bert": _encoder,
    "roberta": _encoder,
    "xlm-roberta": _encoder,
    "camembert": _encoder,
    "distilbert": _encoder,
    "mpnet": _encoder,
    "t5": _t5,
    "vit": _vit,
}
