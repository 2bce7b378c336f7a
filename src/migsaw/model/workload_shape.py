"""What a model *is* and how it is to run, and the memory that follows: the values of a static estimate.

Counts are of parameters, elements or tokens; bytes and MiB are in names. Where a figure comes from is told row by row.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["decoder", "encoder", "encoder_decoder", "vision"]
Head = Literal["lm", "masked_lm", "labels", "none"]
Task = Literal["inference", "train", "lora", "qlora"]
Precision = Literal["fp32", "bf16", "fp16", "mixed", "fp8", "int8", "int4", "nf4"]
Optimizer = Literal["adamw", "adamw8bit", "sgd", "adafactor"]
Kernel = Literal["flash", "eager"]

MIB = 2**20
FORBID = {"extra": "forbid"}


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): widths of one token's compressed state."""

    __pydantic_config__ = FORBID

    kv_rank: int
    rope_dim: int  # of the shared rotary key
    nope_dim: int
    value_dim: int
    query_rank: int | None = None


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts in place of the MLP, in all layers but the first ``dense_layers``."""

    __pydantic_config__ = FORBID

    count: int
    active: int  # experts that one token goes through
    intermediate: int
    shared_intermediate: int = 0  # of the experts that every token goes through, together
    dense_layers: int = 0
    router_bias: bool = False
    shared_gate: bool = False


@dataclass(frozen=True, slots=True)
class Architecture:
    """A transformer by its sizes. ``mlp_matrices``: 3 where the MLP is gated (SwiGLU, GeGLU), else 2."""

    __pydantic_config__ = FORBID

    name: str
    kind: Kind
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    mlp_matrices: int = 3
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    query_key_norm: bool = False
    norms_per_layer: int = 2
    norm_bias: bool = False
    final_norm: bool = True
    embedding_norm: bool = False
    head: Head = "lm"
    tied: bool = False
    head_bias: bool = False
    labels: int = 0
    pooler: bool = False
    positions: int = 0  # rows of a learned table
    token_types: int = 0
    decoder_layers: int = 0  # of an encoder-decoder, beside ``layers`` of its encoder
    relative_buckets: int = 0
    patch_inputs: int = 0  # of an image model: channels × patch height × patch width
    patches: int = 0  # tokens of one image, the class token apart
    windows: tuple[int | None, ...] = ()  # tokens that a layer looks back, by layer; empty: all of them
    latent: LatentAttention | None = None
    experts: Experts | None = None
    dropout: bool = False


@dataclass(frozen=True, slots=True)
class Parameters:
    """Counts by how quantisation and adapters treat them."""

    linear: int  # matrices of the layers
    embedding: int
    head: int  # 0 where it is the embedding
    other: int  # norms, biases, positions

    @property
    def total(self) -> int:
        return self.linear + self.embedding + self.head + self.other


@dataclass(frozen=True, slots=True)
class Quantization:
    """How the matrices of the layers are stored; embedding, head and norms stay in 16 bits."""

    __pydantic_config__ = FORBID

    method: Literal["gptq", "awq", "nf4", "int8", "fp8"]
    bits: int
    group: int = 128
    double: bool | None = None  # nf4: constants quantised again; None: not said


@dataclass(frozen=True, slots=True)
class StoredWeights:
    """Exact bytes of a checkpoint, from its index or header."""

    size_bytes: int
    where: str
    parameters: int | None = None


@dataclass(frozen=True, slots=True)
class Model:
    """``architecture`` None: ``unknown`` says why. ``stored_precision``: of the checkpoint, where it is said."""

    name: str
    architecture: Architecture | None
    unknown: str = ""
    stored_precision: Precision | None = None
    quantization: Quantization | None = None
    weights: StoredWeights | None = None


@dataclass(frozen=True, slots=True)
class Setup:
    """``seq``: tokens of one sequence (context of a request, length in training); ``batch``: sequences at once.

    ``precision`` None: as stored for inference (``fp32`` where that is not said), ``mixed`` for training, ``bf16`` for
    LoRA, ``nf4`` for QLoRA. ``attention`` None: not known, which is flash for a decoder, either for anything else.
    """

    __pydantic_config__ = FORBID

    task: Task = "inference"
    precision: Precision | None = None
    seq: int = 4096
    batch: int = 1
    optimizer: Optimizer = "adamw"
    checkpointing: bool = False
    attention: Kernel | None = None
    rank: int = 16


@dataclass(frozen=True, slots=True)
class EstimateFile:
    """What is asked for, as a file: ``config`` (and ``weights``) relative to it, or ``sizes``; and the set-up."""

    __pydantic_config__ = FORBID

    config: str | None = None
    weights: str | None = None
    sizes: Architecture | None = None
    quantization: Quantization | None = None
    setup: Setup = field(default_factory=Setup)
    schema: Literal["migsaw/estimate/v1"] = "migsaw/estimate/v1"


@dataclass(frozen=True, slots=True)
class Row:
    """One part of the memory. ``source``: where the formula, or the bound, comes from."""

    what: str
    low_mib: float
    high_mib: float
    formula: str
    source: str


@dataclass(frozen=True, slots=True)
class Need:
    """A range in MiB, rounded outwards."""

    low_mib: int
    high_mib: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """``rows`` without the CUDA context, which follows the SMs of the slice. ``unknown``: why more is not known."""

    model: Model
    setup: Setup
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    unknown: str = ""

    def with_context(self, context: Row) -> Need:
        low = sum(row.low_mib for row in (*self.rows, context))
        high = sum(row.high_mib for row in (*self.rows, context))
        return Need(math.floor(low), math.ceil(high))


Verdict = Literal["holds", "may hold", "too small", "unknown"]


@dataclass(frozen=True, slots=True)
class ProfileNeed:
    """``holds``: even the high end fits. ``may hold``: the low end does. ``memory_mib`` None: not known."""

    profile: str
    memory_mib: int | None
    need: Need
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class WorkloadClass:
    """A kind of work of which nothing else is known, by an example and stated assumptions."""

    name: str
    assumes: str
    model: Model
    setup: Setup

    @property
    def label(self) -> str:
        """The name as a Kubernetes label can hold it: ``LoRA 8B`` → ``lora-8b``."""
        return class_label(self.name)


def class_label(name: str) -> str:
    """Small letters and digits of a name, all between them as one hyphen."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
