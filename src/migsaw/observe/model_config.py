"""A Hugging Face ``config.json``, with the index or header of its safetensors, → a model of known sizes."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

from migsaw.errors import InputError, Where
from migsaw.model.workload_shape import Model, Precision, Quantization, StoredWeights
from migsaw.observe.model_families import FAMILIES, architecture
from migsaw.observe.model_fields import Fields
from migsaw.observe.reading import Document, decode, parse_json, read_document

MAX_HEADER = 100_000_000  # safetensors' own limit
WIDTHS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "I64": 8, "I32": 4, "I16": 2, "I8": 1,
          "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1}  # fmt: skip
FLOATS = {"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2"}
DTYPES: dict[str, Precision] = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


def read_model(config: Path, weights: Path | None = None) -> Model:
    """Raises :class:`InputError` with file, field and hint; a family that is not known is told in ``unknown``."""
    return parse_model(read_document(config), weights)


def parse_model(document: Document, weights: Path | None = None) -> Model:
    if not isinstance(document.data, dict):
        raise InputError("no configuration of a model", where=Where(document.file, "1"), hint="a JSON object is needed")
    fields = Fields(document, document.data)
    if not fields.has("model_type"):
        hint = "give the model's config.json, or a file of kind migsaw/estimate/v1 with explicit sizes"
        raise fields.fault("model_type", "is missing", hint)
    kind = fields.text("model_type")
    shape = architecture(fields)
    return Model(
        name=fields.text("_name_or_path") or kind,
        architecture=shape,
        unknown="" if shape is not None else unknown_family(kind),
        stored_precision=_precision(fields),
        quantization=_quantization(fields),
        weights=None if weights is None else read_weights(weights),
    )


def unknown_family(kind: str) -> str:
    return f"the sizes of {kind} are not known here; known: {', '.join(sorted(FAMILIES))}"


def _precision(fields: Fields) -> Precision | None:
    name = fields.text("torch_dtype") or fields.text("dtype")
    if not name:
        return None
    found = DTYPES.get(name.removeprefix("torch."))
    if found is None:
        raise fields.fault("torch_dtype", f"{name} is not known here", f"one of {', '.join(DTYPES)}")
    return found


def _quantization(fields: Fields) -> Quantization | None:
    how = fields.inner("quantization_config")
    if how is None:
        return None
    method = how.text("quant_method")
    if method in ("gptq", "awq"):
        group = how.data.get("group_size", 128)
        is_whole = group == -1 or (isinstance(group, int) and group > 0)
        if not is_whole:
            raise how.fault("group_size", f"{group!r} is neither -1 nor a positive number")
        bits = how.whole("bits", "w_bit", default=4)
        return Quantization("gptq" if method == "gptq" else "awq", bits, 4096 if group == -1 else group)
    if method == "bitsandbytes":
        if how.flag("load_in_8bit"):
            return Quantization("int8", 8)
        return Quantization("nf4", 4, 64, how.flag("bnb_4bit_use_double_quant"))
    if method == "fp8":
        return Quantization("fp8", 8, 128)
    raise how.fault("quant_method", f"{method or 'nothing'} is not known here", "gptq, awq, bitsandbytes or fp8")


def read_weights(path: Path) -> StoredWeights:
    """An index (``model.safetensors.index.json``) or a ``.safetensors`` file, of which only the header is read."""
    return _read_index(path) if path.suffix == ".json" else _read_header(path)


def _read_index(path: Path) -> StoredWeights:
    document = read_document(path)
    data = document.data
    metadata = data.get("metadata") if isinstance(data, dict) else None
    size = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(size, float) and size == int(size):
        size = int(size)
    if isinstance(size, bool) or not isinstance(size, int) or size <= 0:
        hint = "the file that huggingface_hub calls model.safetensors.index.json has it"
        raise InputError(
            "total_size is no number of bytes", where=document.where(["metadata", "total_size"]), hint=hint
        )
    return StoredWeights(size, f"{path.name}: metadata.total_size")


def _read_header(path: Path) -> StoredWeights:
    """The format's rules: 8 bytes little-endian length, then JSON: name → dtype, shape, data_offsets."""
    try:
        with path.open("rb") as file:
            head = file.read(8)
            length = struct.unpack("<Q", head)[0] if len(head) == 8 else 0
            if not 2 <= length <= MAX_HEADER:
                raise InputError(
                    "no safetensors file: its header has no sensible length",
                    where=Where(str(path)),
                    hint="give the index (….index.json) or a .safetensors file; pytorch_model.bin tells nothing",
                )
            content = file.read(length)
    except OSError as problem:
        raise InputError(f"cannot be read: {problem.strerror}", where=Where(str(path))) from None
    if len(content) < length:
        raise InputError("the header is cut off", where=Where(str(path)), hint="the file was not copied whole")
    tensors = parse_json(decode(content, str(path)), str(path))
    if not isinstance(tensors, dict):
        raise InputError("the header is no mapping of tensors", where=Where(str(path)))
    named = [(name, row) for name, row in tensors.items() if name != "__metadata__"]
    sizes = [_tensor(name, row, path) for name, row in named]
    counted = sum(count for count, dtype in sizes if dtype in FLOATS)
    size = sum(count * WIDTHS[dtype] for count, dtype in sizes)
    if size == 0:
        raise InputError("the header names no tensors", where=Where(str(path)))
    has_packed = any(dtype not in FLOATS for _, dtype in sizes)
    return StoredWeights(size, f"{path.name}: header of {len(named)} tensors", None if has_packed else counted)


def _tensor(name: str, row: Any, path: Path) -> tuple[int, str]:
    shape = row.get("shape") if isinstance(row, dict) else None
    dtype = row.get("dtype") if isinstance(row, dict) else None
    is_shape = isinstance(shape, list) and all(isinstance(n, int) and n >= 0 for n in shape)
    if not isinstance(dtype, str) or dtype not in WIDTHS or not is_shape or shape is None:
        raise InputError("a tensor without known dtype and shape", where=Where(str(path), f"$.{name}"))
    return math.prod(shape), dtype
