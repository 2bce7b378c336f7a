"""A job's YAML → what its command line says of the set-up: well-known words of Trainer, TRL, PEFT, vLLM and the like.

Azure ML jobs (``command`` with ``inputs``) and Kubernetes objects (``command`` and ``args`` of containers).
What is not said stays as it was; nothing is guessed from names of images or scripts.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from migsaw.errors import InputError, Where
from migsaw.model.workload_shape import Optimizer, Precision, Setup
from migsaw.observe.reading import read_document

SEQ = ("max_model_len", "max_seq_length", "max_seq_len", "max_length", "model_max_length", "block_size", "cutoff_len")
TRAIN_BATCH = ("per_device_train_batch_size", "micro_batch_size", "train_micro_batch_size_per_gpu")
BATCH = ("max_num_seqs", *TRAIN_BATCH, "per_device_eval_batch_size", "batch_size")
RANK = ("lora_r", "lora_rank")
DTYPES: dict[str, Precision] = {
    "float32": "fp32", "float": "fp32", "fp32": "fp32", "bfloat16": "bf16", "bf16": "bf16", "float16": "fp16",
    "half": "fp16", "fp16": "fp16",
}  # fmt: skip
PACKED: dict[str, Precision] = {"awq": "int4", "gptq": "int4", "bitsandbytes": "nf4", "fp8": "fp8"}


@dataclass(frozen=True, slots=True)
class Hints:
    """``said``: each hint in words, in the order of the fields."""

    setup: Setup
    said: tuple[str, ...]


def read_hints(path: Path, setup: Setup) -> Hints:
    """``setup`` with what the job says instead. Raises :class:`InputError` for a file that is no job."""
    document = read_document(path)
    lines = list(_commands(document.data))
    if not lines:
        hint = "an Azure ML command job, or a Kubernetes object whose containers have command or args"
        raise InputError("no command in it", where=Where(str(path), "1"), hint=hint)
    words = _words(" ".join(lines), _inputs(document.data))
    found: dict[str, Any] = {
        "task": _task(words),
        "precision": _precision(words),
        "seq": _whole(words, SEQ, str(path)),
        "batch": _whole(words, BATCH, str(path)),
        "optimizer": _optimizer(words),
        "checkpointing": _is_on(words, "gradient_checkpointing", "enable_gradient_checkpointing") or None,
        "attention": "eager" if words.get("attn_implementation") == "eager" else None,
        "rank": _whole(words, RANK, str(path)),
    }
    if found["task"] in ("lora", "qlora"):
        found["precision"] = None  # of the frozen base: as LoRA has it
    known = {name: value for name, value in found.items() if value is not None}
    said = tuple(f"{name} {'on' if value is True else value}" for name, value in known.items())
    return Hints(replace(setup, **known), said)


def _commands(data: Any) -> Iterator[str]:
    """Every text under ``command`` or ``args``, in the order of the file."""
    if isinstance(data, dict):
        for key, value in data.items():
            if key in ("command", "args") and isinstance(value, str):
                yield value
            elif key in ("command", "args") and isinstance(value, list):
                yield " ".join(shlex.quote(str(word)) for word in value)
            else:
                yield from _commands(value)
    elif isinstance(data, list):
        for item in data:
            yield from _commands(item)


def _inputs(data: Any) -> dict[str, str]:
    inputs = data.get("inputs") if isinstance(data, dict) else None
    return {key: str(value) for key, value in inputs.items()} if isinstance(inputs, dict) else {}


def _words(line: str, inputs: dict[str, str]) -> dict[str, str]:
    """``--name value``, ``--name=value``, ``--flag``; Azure ML's ``${{inputs.x}}`` filled in. The last one counts."""
    filled = re.sub(r"\$\{\{\s*inputs\.(\w+)\s*\}\}", lambda m: inputs.get(m[1], ""), line)
    found: dict[str, str] = {}
    for name, value in re.findall(r"--([A-Za-z][\w-]*)(?:[= ]+(?!-)(['\"]?[^\s'\"]+))?", filled):
        found[name.replace("-", "_").lower()] = value.strip("'\"").lower()
    if re.search(r"\bvllm\b", filled):
        found.setdefault("vllm", "")
    return found


def _is_on(words: dict[str, str], *names: str) -> bool:
    return any(name in words and words[name] not in ("false", "0", "no", "none") for name in names)


def _task(words: dict[str, str]) -> str | None:
    is_adapted = _is_on(words, "use_peft", "use_lora", *RANK) or words.get("finetuning_type") == "lora"
    if is_adapted:
        is_packed = _is_on(words, "load_in_4bit") or words.get("quantization_bit") == "4"
        return "qlora" if is_packed else "lora"
    if any(name in words for name in TRAIN_BATCH):
        return "train"
    return "inference" if "vllm" in words or "max_model_len" in words else None


def _precision(words: dict[str, str]) -> Precision | None:
    if words.get("quantization") in PACKED:
        return PACKED[words["quantization"]]
    if _is_on(words, "bf16", "fp16"):
        return "mixed" if _task(words) == "train" else None
    return DTYPES.get(words.get("dtype") or words.get("torch_dtype") or "")


def _optimizer(words: dict[str, str]) -> Optimizer | None:
    name = words.get("optim") or words.get("optimizer") or ""
    if "8bit" in name and "adam" in name:
        return "adamw8bit"
    if "adafactor" in name:
        return "adafactor"
    if name.startswith("sgd"):
        return "sgd"
    return "adamw" if "adam" in name else None


def _whole(words: dict[str, str], names: tuple[str, ...], file: str) -> int | None:
    for name in names:
        if words.get(name):
            if not re.fullmatch(r"[1-9]\d{0,8}", words[name]):
                raise InputError(f"--{name} {words[name]} is no whole number", where=Where(file, field=name))
            return int(words[name])
    return None
