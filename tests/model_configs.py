"""Configurations of well-known models, written from their published config.json, cut down to what tells sizes."""

from __future__ import annotations

from typing import Any

from migsaw.model.workload_shape import Architecture, Model
from migsaw.observe.model_config import parse_model
from migsaw.observe.reading import Document


def model(config: dict[str, Any]) -> Model:
    return parse_model(Document("config.json", "", config, True))


def shape(config: dict[str, Any]) -> Architecture:
    found = model(config).architecture
    assert found is not None
    return found


def decoder(kind: str, hidden: int, layers: int, heads: int, groups: int, wide: int, vocab: int, **more: Any) -> Any:
    return {
        "model_type": kind,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
        "intermediate_size": wide,
        "vocab_size": vocab,
        **more,
    }


def encoder(kind: str, hidden: int, layers: int, heads: int, wide: int, vocab: int, **more: Any) -> Any:
    sizes = decoder(kind, hidden, layers, heads, heads, wide, vocab, max_position_embeddings=512)
    return {**sizes, "architectures": ["BertModel"], **more}


LLAMA_2_7B = decoder("llama", 4096, 32, 32, 32, 11008, 32000, torch_dtype="float16")
LLAMA_3_8B = decoder("llama", 4096, 32, 32, 8, 14336, 128256, torch_dtype="bfloat16")
LLAMA_3_70B = decoder("llama", 8192, 80, 64, 8, 28672, 128256, torch_dtype="bfloat16")
LLAMA_65B = decoder("llama", 8192, 80, 64, 64, 22016, 32000, torch_dtype="float16")
MISTRAL_7B = decoder("mistral", 4096, 32, 32, 8, 14336, 32000, torch_dtype="bfloat16", sliding_window=4096)
MIXTRAL_8X7B = decoder(
    "mixtral", 4096, 32, 32, 8, 14336, 32000, torch_dtype="bfloat16", num_local_experts=8, num_experts_per_tok=2
)
QWEN_25_7B = decoder("qwen2", 3584, 28, 28, 4, 18944, 152064, torch_dtype="bfloat16", use_sliding_window=False)
QWEN_3_8B = decoder("qwen3", 4096, 36, 32, 8, 12288, 151936, torch_dtype="bfloat16", head_dim=128)
QWEN_3_30B_A3B = decoder(
    "qwen3_moe", 2048, 48, 32, 4, 6144, 151936, torch_dtype="bfloat16", head_dim=128, num_experts=128,
    num_experts_per_tok=8, moe_intermediate_size=768, decoder_sparse_step=1, mlp_only_layers=[],
)  # fmt: skip
QWEN_15_MOE = decoder(
    "qwen2_moe", 2048, 24, 16, 16, 5632, 151936, torch_dtype="bfloat16", num_experts=60, num_experts_per_tok=4,
    moe_intermediate_size=1408, shared_expert_intermediate_size=5632,
)  # fmt: skip
GEMMA_3_1B = decoder("gemma3_text", 1152, 26, 4, 1, 6912, 262144, head_dim=256, sliding_window=512)
GEMMA_2_9B = decoder(
    "gemma2", 3584, 42, 16, 8, 14336, 256000, torch_dtype="bfloat16", head_dim=256, sliding_window=4096
)
PHI_2 = decoder("phi", 2560, 32, 32, 32, 10240, 51200, torch_dtype="float16")
PHI_3_MINI = decoder("phi3", 3072, 32, 32, 32, 8192, 32064, torch_dtype="bfloat16", sliding_window=2047)
GPT_NEOX_20B = decoder("gpt_neox", 6144, 44, 64, 64, 24576, 50432, torch_dtype="float16")
FALCON_7B = {
    "model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71,
    "vocab_size": 65024, "torch_dtype": "bfloat16", "multi_query": True, "parallel_attn": True, "bias": False,
}  # fmt: skip
DEEPSEEK_V2_LITE = decoder(
    "deepseek_v2", 2048, 27, 16, 16, 10944, 102400, torch_dtype="bfloat16", kv_lora_rank=512, qk_rope_head_dim=64,
    qk_nope_head_dim=128, v_head_dim=128, n_routed_experts=64, n_shared_experts=2, num_experts_per_tok=6,
    moe_intermediate_size=1408, first_k_dense_replace=1,
)  # fmt: skip
DEEPSEEK_V3 = decoder(
    "deepseek_v3", 7168, 61, 128, 128, 18432, 129280, torch_dtype="bfloat16", q_lora_rank=1536, kv_lora_rank=512,
    qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128, n_routed_experts=256, n_shared_experts=1,
    num_experts_per_tok=8, moe_intermediate_size=2048, first_k_dense_replace=3,
)  # fmt: skip
GPT_2 = {"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024, "vocab_size": 50257}
GPT_2_XL = {**GPT_2, "n_embd": 1600, "n_head": 25, "n_layer": 48}
T5_SMALL = {
    "model_type": "t5", "d_model": 512, "num_layers": 6, "num_heads": 8, "d_kv": 64, "d_ff": 2048, "vocab_size": 32128
}  # fmt: skip
BERT_LARGE = encoder(
    "bert", 1024, 24, 16, 4096, 30522, architectures=["BertForSequenceClassification"], hidden_dropout_prob=0.1
)
BERT_MULTILINGUAL = encoder("bert", 768, 12, 12, 3072, 119547)
MINILM_MULTILINGUAL = encoder("bert", 384, 12, 12, 1536, 250037)
XLMR_BASE = encoder("xlm-roberta", 768, 12, 12, 3072, 250002, max_position_embeddings=514, type_vocab_size=1)
ROBERTA_LARGE = encoder(
    "roberta", 1024, 24, 16, 4096, 50265, max_position_embeddings=514, type_vocab_size=1,
    architectures=["RobertaForMaskedLM"],
)  # fmt: skip
DISTILBERT_MULTILINGUAL = {
    "model_type": "distilbert", "dim": 768, "n_heads": 12, "n_layers": 6, "hidden_dim": 3072, "vocab_size": 119547,
    "max_position_embeddings": 512, "architectures": ["DistilBertModel"],
}  # fmt: skip
VIT_B_16 = encoder(
    "vit", 768, 12, 12, 3072, 1, image_size=224, patch_size=16, architectures=["ViTForImageClassification"],
    num_labels=365,
)  # fmt: skip
