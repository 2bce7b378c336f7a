"""Classes of work of which nothing else is known → a default profile on each board, by the static estimate.

Each class is an example with stated assumptions. It is about memory only: speed needs a measured trial.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from migsaw.fit.estimate import doubled, estimate, profiles, smallest
from migsaw.model.boards import Board
from migsaw.model.policy import Policy
from migsaw.model.workload_shape import Architecture, Model, Need, ProfileNeed, Setup, WorkloadClass, class_label

BERT = Architecture(
    "BERT-base", "encoder", 768, 12, 12, 12, 64, 3072, 30522, mlp_matrices=2, qkv_bias=True, out_bias=True,
    mlp_bias=True, norm_bias=True, final_norm=False, embedding_norm=True, head="labels", labels=2, tied=True,
    pooler=True, positions=512, token_types=2, dropout=True,
)  # fmt: skip
XLMR_LARGE = replace(
    BERT, name="XLM-R large", hidden=1024, layers=24, heads=16, kv_heads=16, head_dim=64, intermediate=4096,
    vocab=250002, positions=514, token_types=1, head="none",
)  # fmt: skip
LLAMA_1B = Architecture("Llama-3.2-1B", "decoder", 2048, 16, 32, 8, 64, 8192, 128256, tied=True)
LLAMA_3B = Architecture("Llama-3.2-3B", "decoder", 3072, 28, 24, 8, 128, 8192, 128256, tied=True)
LLAMA_8B = Architecture("Llama-3.1-8B", "decoder", 4096, 32, 32, 8, 128, 14336, 128256)
LLAMA_70B = Architecture("Llama-3.1-70B", "decoder", 8192, 80, 64, 8, 128, 28672, 128256)
QWEN_14B = Architecture("Qwen2.5-14B", "decoder", 5120, 48, 40, 8, 128, 13824, 152064, qkv_bias=True)
QWEN_32B = Architecture("Qwen2.5-32B", "decoder", 5120, 64, 40, 8, 128, 27648, 152064, qkv_bias=True)


def _class(name: str, shape: Architecture, setup: Setup) -> WorkloadClass:
    words = f"{shape.name}, {setup.precision or 'nf4'}, {setup.batch} × {setup.seq} tokens"
    if setup.task in ("lora", "qlora"):
        words += f", rank {setup.rank}"
    if setup.task != "inference":
        words += f", {setup.optimizer}" + (", gradient checkpointing" if setup.checkpointing else "")
    return WorkloadClass(name, words, Model(shape.name, shape), setup)


def _serve(size: str, shape: Architecture) -> tuple[WorkloadClass, ...]:
    """16 sequences of 4096 tokens at once, in 16 and in 4 bits."""
    setup = Setup(precision="bf16", seq=4096, batch=16)
    return (
        _class(f"LLM inference {size}, 16 bits", shape, setup),
        _class(f"LLM inference {size}, 4 bits", shape, replace(setup, precision="int4")),
    )


LORA = Setup(task="lora", precision="bf16", checkpointing=True)
QLORA = Setup(task="qlora", checkpointing=True)
FULL = Setup(task="train", precision="mixed", checkpointing=True)

CLASSES: tuple[WorkloadClass, ...] = (
    _class("tiny inference", BERT, Setup(precision="fp32", seq=128, batch=8)),
    _class("embedding", XLMR_LARGE, Setup(precision="fp16", seq=512, batch=32)),
    _class("batch scoring", XLMR_LARGE, Setup(precision="fp32", seq=512, batch=128)),
    _class("notebook", LLAMA_3B, Setup(precision="bf16", seq=4096, batch=1)),
    *_serve("1B", LLAMA_1B),
    *_serve("8B", LLAMA_8B),
    *_serve("14B", QWEN_14B),
    *_serve("32B", QWEN_32B),
    *_serve("70B", LLAMA_70B),
    _class("LoRA 1B", LLAMA_1B, replace(LORA, seq=1024, batch=4)),
    _class("LoRA 8B", LLAMA_8B, replace(LORA, seq=2048, batch=1)),
    _class("QLoRA 8B", LLAMA_8B, replace(QLORA, seq=2048, batch=1)),
    _class("QLoRA 70B", LLAMA_70B, replace(QLORA, seq=2048, batch=1)),
    _class("light full fine-tuning, encoder", BERT, replace(FULL, seq=256, batch=16, checkpointing=False)),
    _class("light full fine-tuning, 1B", LLAMA_1B, replace(FULL, seq=1024, batch=2)),
    _class("full fine-tuning, 8B", LLAMA_8B, replace(FULL, seq=2048, batch=1)),
)

_BY_LABEL = {work.label: work for work in CLASSES}

Advice = Literal["slice", "whole GPU", "measure first", "more than one GPU", "unknown"]


@dataclass(frozen=True, slots=True)
class Default:
    """``profile`` None: none is proposed. ``perhaps``: a smaller one that may hold it, worth a trial.

    ``need``: on the profile, else on the largest. ``is_sure``: no smaller profile can hold it.
    """

    work: WorkloadClass
    advice: Advice
    profile: ProfileNeed | None
    perhaps: ProfileNeed | None
    need: Need | None  # None: no profiles are known

    @property
    def is_sure(self) -> bool:
        return self.profile is not None and self.perhaps is None


def defaults(board: Board) -> tuple[Default, ...]:
    """One for each class, in their order."""
    return tuple(default(board, work) for work in CLASSES)


def find_class(name: str) -> WorkloadClass | None:
    """By its name, or as a label writes it."""
    return _BY_LABEL.get(class_label(name))


def default(board: Board, work: WorkloadClass, policy: Policy | None = None) -> Default:
    """The smallest profile that surely holds the class. Of the largest one: the whole GPU is best, with MIG off.

    With a policy the smallest that it allows; where it allows none that holds the class, the smallest of all.
    """
    found = _offered(board, work)
    allowed = tuple(row for row in found if policy is None or policy.allows(board.profile(row.profile)))
    held = smallest(allowed, "holds") or smallest(found, "holds")
    perhaps = smallest(allowed, "may hold") or smallest(found, "may hold")
    if not found or any(row.verdict == "unknown" for row in found):
        return Default(work, "unknown", None, None, found[-1].need if found else None)
    if held is None:
        advice: Advice = "measure first" if perhaps else "more than one GPU"
        return Default(work, advice, None, perhaps, found[-1].need)
    smaller = perhaps if perhaps is not None and perhaps.profile != held.profile else None
    return Default(work, "whole GPU" if held is found[-1] else "slice", held, smaller, held.need)


def _offered(board: Board, work: WorkloadClass) -> tuple[ProfileNeed, ...]:
    """Training is bound by SMs: a 1g with the memory of a 2g is not proposed where there is that 2g."""
    found = profiles(estimate(work.model, work.setup), board)
    return tuple(row for row in found if row.profile not in doubled(board, work.setup))
