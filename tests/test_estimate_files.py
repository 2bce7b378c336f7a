"""What a person gives to ``migsaw estimate``: configurations, weights, explicit sizes, jobs; and what is refused."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import struct
from pathlib import Path
from typing import Any

import pytest

import model_configs as known
from migsaw.errors import InputError
from migsaw.fit.estimate import estimate, total
from migsaw.model.workload_shape import Need, Quantization, Setup
from migsaw.observe.estimate_file import read_asked
from migsaw.observe.job_hints import read_hints
from migsaw.observe.model_config import read_model, read_weights


def _json(folder: Path, data: Any, name: str = "config.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def _safetensors(folder: Path, tensors: dict[str, tuple[str, list[int]]], *, cut: int = 0) -> Path:
    """A file as huggingface/safetensors' format page has it, its data left out: only the header is read."""
    width, at, header = {"F32": 4, "BF16": 2, "I32": 4}, 0, {}
    for name, (dtype, shape) in tensors.items():
        size = width[dtype]
        for side in shape:
            size *= side
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    path = folder / "model.safetensors"
    path.write_bytes((struct.pack("<Q", len(text)) + text)[: len(text) + 8 - cut])
    return path


def test_a_header_gives_exact_bytes_and_parameters(tmp_path):
    path = _safetensors(tmp_path, {"a": ("BF16", [10, 20]), "b": ("F32", [7])})
    stored = read_weights(path)
    assert (stored.size_bytes, stored.parameters) == (10 * 20 * 2 + 7 * 4, 207)


def test_packed_tensors_do_not_count_as_parameters(tmp_path):
    stored = read_weights(_safetensors(tmp_path, {"qweight": ("I32", [4, 4]), "scales": ("BF16", [4])}))
    assert (stored.size_bytes, stored.parameters) == (72, None)


def test_an_index_gives_exact_bytes(tmp_path):
    path = _json(tmp_path, {"metadata": {"total_size": 1234}, "weight_map": {}}, "model.safetensors.index.json")
    assert read_weights(path).size_bytes == 1234


def test_a_cut_header_is_refused(tmp_path):
    with pytest.raises(InputError, match="cut off"):
        read_weights(_safetensors(tmp_path, {"a": ("F32", [1])}, cut=5))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 a zip of torch", b"\xff" * 40])
def test_what_is_no_safetensors_file_is_refused(tmp_path, content):
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_weights(path)
    assert "pytorch_model.bin" in str(caught.value)
    assert caught.value.hint


def _without(config: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key != name}


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ([1], "no configuration of a model"),
        (_without(known.LLAMA_3_8B, "model_type"), "model_type is missing"),
        (_without(known.LLAMA_3_8B, "hidden_size"), "hidden_size is missing"),
        ({**known.LLAMA_3_8B, "num_hidden_layers": -1}, "-1 is no whole number"),
        ({**known.LLAMA_3_8B, "num_hidden_layers": True}, "True is no whole number"),
        ({**known.LLAMA_3_8B, "num_hidden_layers": 10**12}, "is no whole number"),
        ({**known.LLAMA_3_8B, "hidden_size": 4097}, "no multiple of 32"),
        ({**known.LLAMA_3_8B, "tie_word_embeddings": "no"}, "neither true nor false"),
        ({**known.LLAMA_3_8B, "torch_dtype": "float8"}, "float8 is not known"),
        ({**known.LLAMA_3_8B, "quantization_config": {"quant_method": "hqq"}}, "hqq is not known"),
        ({**known.LLAMA_3_8B, "quantization_config": 4}, "no mapping"),
        ({**known.GEMMA_2_9B, "layer_types": ["full_attention"]}, "no list of 42"),
    ],
)
def test_a_bad_configuration_is_refused_with_its_place(tmp_path, config, said):
    with pytest.raises(InputError) as caught:
        read_model(_json(tmp_path, config))
    assert said in str(caught.value)
    assert "config.json" in str(caught.value)


JUNK = (None, -1, 0, 3, 10**15, 1.5, True, "", "x", [], [1], [None], {}, {"x": 1}, float("inf"))
FAMILIES = [value for name, value in vars(known).items() if name.isupper()]
MORE = ("architectures", "id2label", "num_labels", "layer_types", "sliding_window", "use_sliding_window", "torch_dtype",
        "quantization_config", "tie_word_embeddings", "mlp_only_layers", "decoder_sparse_step", "max_window_layers",
        "hidden_dropout_prob", "attention_bias", "_name_or_path", "q_lora_rank", "first_k_dense_replace")  # fmt: skip


@pytest.mark.parametrize("config", FAMILIES, ids=lambda config: config["model_type"])
def test_junk_in_any_field_is_refused_or_understood(config):
    """Whatever stands in a field: an estimate, or an error that a person can act on, never a traceback."""
    for name in (*config, *MORE):
        for junk in JUNK:
            need = Need(0, 0)
            with contextlib.suppress(InputError):
                need = total(estimate(known.model({**config, name: junk}), Setup(seq=8)))
            assert 0 <= need.low_mib <= need.high_mib


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, Quantization("gptq", 4, 128)),
        ({"quant_method": "awq", "w_bit": 4, "group_size": 64}, Quantization("awq", 4, 64)),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True},
         Quantization("nf4", 4, 64, True)),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, Quantization("int8", 8)),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, Quantization("fp8", 8)),
    ],
)  # fmt: skip
def test_quantisation_is_read_from_the_configuration(tmp_path, config, expected):
    path = _json(tmp_path, {**known.LLAMA_3_8B, "quantization_config": config})
    assert read_model(path).quantization == expected


SIZES = """\
schema: migsaw/estimate/v1
sizes:
  name: mine
  kind: decoder
  hidden: 4096
  layers: 32
  heads: 32
  kv_heads: 8
  head_dim: 128
  intermediate: 14336
  vocab: 128256
setup: {task: inference, precision: bf16, seq: 8192, batch: 4}
"""


def test_explicit_sizes_say_what_a_configuration_says(tmp_path):
    path = tmp_path / "sizes.yaml"
    path.write_text(SIZES, encoding="utf-8")
    model, setup = read_asked(path)
    assert model.architecture is not None
    shape = known.shape(known.LLAMA_3_8B)
    assert (model.architecture.hidden, model.architecture.layers) == (shape.hidden, shape.layers)
    assert setup == Setup(precision="bf16", seq=8192, batch=4)


def test_a_file_may_name_a_configuration_beside_it(tmp_path):
    _json(tmp_path, known.PHI_2)
    _json(tmp_path, {"metadata": {"total_size": 5559367680}}, "w.index.json")
    path = tmp_path / "ask.yaml"
    path.write_text("schema: migsaw/estimate/v1\nconfig: config.json\nweights: w.index.json\n", encoding="utf-8")
    model, _ = read_asked(path)
    assert model.weights is not None
    assert (model.name, model.weights.size_bytes) == ("phi", 5559367680)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("layers: 32", "layers: 0", "line 6: layers: 0 is less than 1"),
        ("layers: 32", "layers: 32\n  windows: [null, 512]", "2 windows for 32 layers"),
        ("vocab: 128256", "vocab: 128256\n  colour: red", "colour"),
        ("task: inference", "task: sleeping", "task"),
        ("setup:", "config: config.json\nsetup:", "either config or sizes"),
    ],
)
def test_a_bad_file_of_sizes_is_refused_with_its_line(tmp_path, old, new, said):
    path = tmp_path / "sizes.yaml"
    path.write_text(SIZES.replace(old, new), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_asked(path)
    assert said in str(caught.value)


AZURE_JOB = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
type: command
inputs: {rank: 32}
command: >-
  accelerate launch train.py --per_device_train_batch_size 2 --max_seq_length=1024 --gradient_checkpointing
  --lora_r ${{inputs.rank}} --load_in_4bit True --bf16 --optim paged_adamw_8bit
"""
VLLM = """\
apiVersion: apps/v1
kind: Deployment
spec:
  template:
    spec:
      containers:
        - name: server
          command: [vllm, serve, meta-llama/Llama-3.1-8B]
          args: ["--max-model-len", "8192", "--max-num-seqs=16", "--dtype", "bfloat16"]
"""
FULL = "type: command\ncommand: python t.py --per-device-train-batch-size 4 --fp16 --optim adafactor --max_length 512\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (AZURE_JOB, Setup("qlora", None, 1024, 2, "adamw8bit", True, None, 32)),
        (VLLM, Setup("inference", "bf16", 8192, 16)),
        (FULL, Setup("train", "mixed", 512, 4, "adafactor")),
        ("command: python notebook.py\n", Setup()),
    ],
)
def test_a_job_tells_its_set_up(tmp_path, text, expected):
    path = tmp_path / "job.yaml"
    path.write_text(text, encoding="utf-8")
    assert read_hints(path, Setup()).setup == expected


@pytest.mark.parametrize(("text", "said"), [("a: 1\n", "no command"), ("command: x --batch_size many\n", "many")])
def test_what_is_no_job_is_refused(tmp_path, text, said):
    path = tmp_path / "job.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=said):
        read_hints(path, Setup())


def test_the_verb_shows_parts_and_profiles(migsaw, tmp_path):
    config = _json(tmp_path, known.LLAMA_3_8B)
    words = ("estimate", config, "--seq", "8192", "--batch", "8", "--board", "a100-sxm4-80gb", "-o", "json")
    done = migsaw(*words)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown["parameters"] == 8_030_261_248
    parts = {row["part"]: row["low_mib"] for row in shown["parts"]}
    assert parts["KV cache"] == 8 * 8192 * 128 / 1024  # 128 KiB a token
    verdicts = {row["profile"]: row["verdict"] for row in shown["boards"][0]["profiles"]}
    # 15.0 GiB of weights and 8 of cache: more than 20, less than 40
    assert verdicts == {
        "1g.10gb": "too small", "1g.20gb": "too small", "2g.20gb": "too small", "3g.40gb": "holds",
        "4g.40gb": "holds", "7g.80gb": "holds",
    }  # fmt: skip
    assert migsaw(*words).stdout == done.stdout


def test_an_unknown_family_is_na_with_a_lower_bound(migsaw, tmp_path):
    config = _json(tmp_path, {"model_type": "mamba"})
    index = _json(tmp_path, {"metadata": {"total_size": 6 * 2**30}}, "m.index.json")
    shown = json.loads(migsaw("estimate", config, "--weights", index, "--board", "a100-sxm4-40gb", "-o", "json").stdout)
    assert shown["need_mib"]["high"] is None
    assert shown["need_mib"]["low"] >= 6 * 1024
    verdicts = {row["profile"]: row["verdict"] for row in shown["boards"][0]["profiles"]}
    assert verdicts["1g.5gb"] == "too small"
    assert verdicts["7g.40gb"] == "unknown"
    text = migsaw("estimate", config, "--weights", index).stdout
    assert "n/a" in text
    assert "mamba" in text


def test_a_checkpoint_of_another_model_is_told(migsaw, tmp_path):
    config = _json(tmp_path, known.LLAMA_3_8B)
    index = _json(tmp_path, {"metadata": {"total_size": 14483464192}}, "m.index.json")
    notes = json.loads(migsaw("estimate", config, "--weights", index, "-o", "json").stdout)["notes"]
    assert any("14483464192" in note and "16060522496" in note for note in notes)
    index = _json(tmp_path, {"metadata": {"total_size": 16060522496}}, "m.index.json")
    shown = json.loads(migsaw("estimate", config, "--weights", index, "-o", "json").stdout)
    assert not any("16060522496" in note for note in shown["notes"])


@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml", "csv", "md"])
def test_every_format_works(migsaw, tmp_path, form):
    done = migsaw("estimate", _json(tmp_path, known.BERT_LARGE), "--task", "train", "--seq", "512", "-o", form)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_a_bad_file_is_exit_2(migsaw, tmp_path):
    done = migsaw("estimate", _json(tmp_path, _without(known.LLAMA_3_8B, "vocab_size")))
    assert (done.returncode, done.stdout) == (2, "")
    assert "vocab_size is missing" in done.stderr
    assert migsaw("estimate", tmp_path / "none.json").returncode == 2


def test_csv_names_the_source_of_every_part(migsaw, tmp_path):
    text = migsaw("estimate", _json(tmp_path, known.LLAMA_3_8B), "--task", "qlora", "-o", "csv").stdout
    rows = list(csv.DictReader(io.StringIO(text.split("\n\n")[0])))
    assert all(row["source"] and row["formula"] for row in rows if row["part"] != "total")
