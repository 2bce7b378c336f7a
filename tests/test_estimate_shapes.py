"""Sizes → parameters and bytes, against published files; and what must hold of any estimate, for random sizes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import model_configs as known
from migsaw.errors import InputError
from migsaw.fit.estimate import context_row, estimate, total
from migsaw.fit.shapes import cache_elements, parameters, saved_elements
from migsaw.model.workload_shape import MIB, Architecture, Model, Quantization, Setup

# `metadata.total_size` of model.safetensors.index.json as published at huggingface.co
PUBLISHED_BYTES = {
    "meta-llama/Llama-2-7b-hf": (known.LLAMA_2_7B, 13_476_835_328),
    "meta-llama/Llama-3.1-8B": (known.LLAMA_3_8B, 16_060_522_496),
    "meta-llama/Llama-3.1-70B": (known.LLAMA_3_70B, 141_107_412_992),
    "mistralai/Mistral-7B-Instruct-v0.2": (known.MISTRAL_7B, 14_483_464_192),
    "mistralai/Mixtral-8x7B-v0.1": (known.MIXTRAL_8X7B, 93_405_585_408),
    "Qwen/Qwen2.5-7B-Instruct": (known.QWEN_25_7B, 15_231_233_024),
    "Qwen/Qwen3-8B": (known.QWEN_3_8B, 16_381_470_720),
    "Qwen/Qwen3-30B-A3B": (known.QWEN_3_30B_A3B, 61_064_245_248),
    "google/gemma-2-9b-it": (known.GEMMA_2_9B, 18_483_411_968),
    "microsoft/phi-2": (known.PHI_2, 5_559_367_680),
    "microsoft/Phi-3-mini-128k-instruct": (known.PHI_3_MINI, 7_642_159_104),
    "deepseek-ai/DeepSeek-V2-Lite": (known.DEEPSEEK_V2_LITE, 31_412_968_448),
}
# Parameters: huggingface.co/docs/safetensors/metadata_parsing (of masks and pooling heads, what is no parameter is
# taken off); MIGPerf's model_compare.csv counts with torch; papers and model cards for the others.
PUBLISHED_PARAMETERS = {
    "EleutherAI/gpt-neox-20b": (known.GPT_NEOX_20B, 20_554_568_208),
    "gpt2": (known.GPT_2, 137_022_720 - 12 * 1024 * 1024),
    "roberta-large": (known.ROBERTA_LARGE, 355_412_057),
    "bert-base-multilingual-cased": (known.BERT_MULTILINGUAL, 177_853_440),
    "paraphrase-multilingual-MiniLM-L12-v2": (known.MINILM_MULTILINGUAL, 117_653_760),
    "paraphrase-multilingual-mpnet-base-v2": (known.XLMR_BASE, 278_043_648),
    "distiluse-base-multilingual-cased": (known.DISTILBERT_MULTILINGUAL, 134_734_080),
    "t5-small": (known.T5_SMALL, 60_506_880),
    "tiiuae/falcon-7b": (known.FALCON_7B, 6_921_720_704),
    "torchvision vit_b_16 (1000 classes)": ({**known.VIT_B_16, "num_labels": 1000}, 86_567_656),
    "google/gemma-3-1b-it": (known.GEMMA_3_1B, 999_885_952),
    "Qwen/Qwen1.5-MoE-A2.7B": (known.QWEN_15_MOE, 14_315_784_192),
    "deepseek-ai/DeepSeek-V3 (main model)": (known.DEEPSEEK_V3, 671_026_419_200),
}


@pytest.mark.parametrize("name", PUBLISHED_BYTES)
def test_weights_are_right_to_the_mib(name):
    config, published = PUBLISHED_BYTES[name]
    weights = next(row for row in estimate(known.model(config), Setup()).rows if row.what == "weights")
    assert weights.low_mib == weights.high_mib
    assert abs(weights.low_mib - published / MIB) < 1


@pytest.mark.parametrize("name", PUBLISHED_PARAMETERS)
def test_parameters_are_as_published(name):
    config, published = PUBLISHED_PARAMETERS[name]
    assert abs(parameters(known.shape(config)).total - published) * 4 < MIB


def test_cache_of_a_token_is_as_published():
    """Llama-2-7B: 512 KiB and Llama-3-8B: 128 KiB a token (GQA by four); DeepSeek-V2: (512 + 64) × layers elements."""
    assert cache_elements(known.shape(known.LLAMA_2_7B), 1) * 2 == 512 * 1024
    assert cache_elements(known.shape(known.LLAMA_3_8B), 1) * 2 == 128 * 1024
    assert cache_elements(known.shape(known.DEEPSEEK_V2_LITE), 10) == 10 * 576 * 27
    assert cache_elements(known.shape(known.BERT_LARGE), 512) == 0


def test_a_window_bounds_the_cache_of_its_layers():
    mistral, gemma = known.shape(known.MISTRAL_7B), known.shape(known.GEMMA_2_9B)
    assert cache_elements(mistral, 4096) == cache_elements(mistral, 32768)
    per_layer = 2 * 8 * 256
    assert cache_elements(gemma, 8192) == 21 * per_layer * (4096 + 8192)


def test_gemma_3_sees_everything_in_every_sixth_layer():
    config = known.GEMMA_3_1B
    assert sum(window is None for window in known.shape(config).windows) == 26 // 6
    listed = {**config, "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 4 + ["sliding_attention"] * 2}
    assert known.shape(listed).windows == known.shape(config).windows


def test_saved_elements_are_those_of_korthikanti():
    """34 bytes a token and layer of GPT, less 2 of dropout masks, at 2 bytes an element (arXiv 2205.05198 §4.1)."""
    assert saved_elements(known.shape(known.GPT_2)) * 2 == (34 - 2) * 768


def test_nf4_takes_the_bits_that_qlora_says():
    """0.5 bits per parameter for constants, 0.127 when they are quantised again (arXiv 2305.14314 §3)."""
    found = estimate(known.model(known.LLAMA_2_7B), Setup(precision="nf4")).rows[0]
    counts = parameters(known.shape(known.LLAMA_2_7B))
    rest = (counts.total - counts.linear) * 2
    assert found.low_mib * MIB - rest == pytest.approx(counts.linear * 4.127 / 8, rel=1e-4)
    assert found.high_mib * MIB - rest == pytest.approx(counts.linear * 4.5 / 8, rel=1e-9)


def test_gptq_weights_are_those_of_a_published_checkpoint():
    """TheBloke/Llama-2-7b-Chat-GPTQ, main: 4 bits in groups of 128, 3.90 GB."""
    model = replace(known.model(known.LLAMA_2_7B), quantization=Quantization("gptq", 4, 128))
    found = estimate(model, Setup()).rows[0]
    assert found.high_mib * MIB == pytest.approx(3.90e9, rel=0.01)


def test_without_sizes_only_stored_bytes_are_told():
    model = known.model({"model_type": "mamba"})
    assert model.architecture is None
    assert "mamba" in model.unknown
    assert estimate(model, Setup()).rows == ()


@st.composite
def sizes(draw: Any) -> Architecture:
    heads = draw(st.sampled_from([4, 8, 16]))
    head_dim = draw(st.sampled_from([32, 64, 128]))
    hidden = heads * head_dim
    return Architecture(
        "drawn", draw(st.sampled_from(["decoder", "encoder"])), hidden, draw(st.integers(1, 80)), heads,
        draw(st.sampled_from([1, 2, heads])), head_dim, hidden * draw(st.integers(2, 5)),
        draw(st.integers(1000, 200_000)), mlp_matrices=draw(st.sampled_from([2, 3])), tied=draw(st.booleans()),
        dropout=draw(st.booleans()),
    )  # fmt: skip


setups = st.builds(
    Setup,
    seq=st.integers(1, 20_000),
    batch=st.integers(1, 64),
    optimizer=st.sampled_from(["adamw", "adamw8bit", "sgd", "adafactor"]),
    checkpointing=st.booleans(),
    attention=st.sampled_from(["flash", "eager"]),
)


def _least_and_most(shape: Architecture, setup: Setup) -> tuple[int, int]:
    need = total(estimate(Model("drawn", shape), setup))
    return need.low_mib, need.high_mib


def _at_most(small: tuple[int, int], large: tuple[int, int]) -> bool:
    return small[0] <= large[0] and small[1] <= large[1]


@given(sizes(), setups, st.integers(1, 5000), st.sampled_from(["inference", "train", "lora", "qlora"]))
def test_more_tokens_never_need_less(shape, setup, more, task):
    setup = replace(setup, task=task)
    here = _least_and_most(shape, setup)
    assert here[0] <= here[1]
    assert _at_most(here, _least_and_most(shape, replace(setup, seq=setup.seq + more)))
    assert _at_most(here, _least_and_most(shape, replace(setup, batch=setup.batch + more)))


@given(sizes(), setups)
def test_lora_needs_no_more_than_full_training_and_qlora_no_more_than_lora(shape, setup):
    """A base in 4 bits is compared at its low end: PEFT casts what is not quantised to 32 bits."""
    assume(shape.hidden >= 256)
    setup = replace(setup, rank=8, optimizer="adamw")
    lora = _least_and_most(shape, replace(setup, task="lora"))
    assert _at_most(lora, _least_and_most(shape, replace(setup, task="train")))
    qlora, base = (estimate(Model("drawn", shape), replace(setup, task=task)).rows[0] for task in ("qlora", "lora"))
    assert qlora.low_mib <= base.low_mib


@given(sizes(), setups, st.sampled_from(["fp8", "int8", "int4", "nf4"]))
def test_quantised_never_needs_more_than_16_bits(shape, setup, precision):
    wide = _least_and_most(shape, replace(setup, precision="bf16"))
    assert _at_most(_least_and_most(shape, replace(setup, precision=precision)), wide)
    assert _at_most(wide, _least_and_most(shape, replace(setup, precision="fp32")))


@given(sizes(), setups)
def test_checkpointing_and_flash_attention_never_need_more(shape, setup):
    setup = replace(setup, task="train")
    assume(shape.layers > 1)
    plain, kept = replace(setup, checkpointing=False), replace(setup, checkpointing=True)
    assert _least_and_most(shape, kept)[0] <= _least_and_most(shape, plain)[0]
    flash, eager = replace(setup, attention="flash"), replace(setup, attention="eager")
    assert _at_most(_least_and_most(shape, flash), _least_and_most(shape, eager))


@given(st.integers(1, 200), st.integers(0, 50))
def test_a_larger_slice_has_a_larger_context(sms, more):
    assert context_row(sms).high_mib <= context_row(sms + more).high_mib


@pytest.mark.parametrize(
    ("setup", "said"),
    [
        (Setup(precision="mixed"), "mixed means nothing for inference"),
        (Setup(task="train", precision="int4"), "int4 means nothing for train"),
        (Setup(task="qlora", precision="bf16"), "bf16 means nothing for qlora"),
        (Setup(seq=0), "seq is 0"),
    ],
)
def test_a_set_up_without_sense_is_refused(setup, said):
    with pytest.raises(InputError) as caught:
        estimate(known.model(known.LLAMA_3_8B), setup)
    assert said in str(caught.value)
    assert caught.value.hint
