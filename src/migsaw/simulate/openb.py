"""The openb traces (Alibaba, cluster-trace-gpu-v2023) as plain values, and the arrivals that FGD is judged by.

Protocol (artefact of Weng et al., ATC 2023): the whole trace in random order, then draws from it with replacement
until 130 % of the cluster's GPU capacity has been asked for; of a trace that asks for more, requests leave at random.
Nothing departs. Nodes get a random order too: it decides between nodes of equal score.
"""

from __future__ import annotations

import csv
import gzip
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from migsaw.errors import InputError, Where
from migsaw.plan.placement.shared.values import WHOLE_MILLI, Node, Request

ASKED = 1.3  # of the cluster's GPU capacity
NODES, PODS = "openb_node_list_gpu_node.csv", "openb_pod_list_{}.csv"


@dataclass(frozen=True, slots=True)
class Arrivals:
    """One run: nodes in the order that breaks ties, requests in the order they come."""

    nodes: tuple[Node, ...]
    requests: tuple[Request, ...]


def read_nodes(path: Path) -> tuple[Node, ...]:
    """By name. Columns: sn, cpu_milli, memory_mib, gpu, model."""
    rows = (
        Node(
            row["sn"], _whole(row, "cpu_milli", at), _whole(row, "memory_mib", at), _whole(row, "gpu", at), row["model"]
        )
        for at, row in _rows(path)
    )
    return tuple(sorted(rows))


def read_requests(path: Path) -> tuple[Request, ...]:
    """In the order of the file. Columns: cpu_milli, memory_mib, num_gpu, gpu_milli and, in some lists, gpu_spec."""
    found = []
    for at, row in _rows(path):
        gpus, milli = _whole(row, "num_gpu", at), min(_whole(row, "gpu_milli", at), WHOLE_MILLI)
        if gpus and (not milli or (gpus > 1 and milli < WHOLE_MILLI)):
            raise InputError(f"{gpus} GPUs of {milli} milli each cannot be asked for", where=at)
        models = tuple(model for model in (row.get("gpu_spec") or "").split("|") if model)
        cpu, memory = _whole(row, "cpu_milli", at), _whole(row, "memory_mib", at)
        found.append(Request(cpu, memory, gpus, milli if gpus else 0, models if gpus else ()))
    return tuple(found)


def find(folder: Path, trace: str) -> Path:
    """The list of a trace such as ``default`` in a folder, plain or packed."""
    name = PODS.format(trace)
    path = next((folder / n for n in (name, f"{name}.gz") if (folder / n).is_file()), None)
    if path is None:
        raise InputError(
            f"there is no trace {trace!r}", where=Where(str(folder / name)), hint=f"traces: {_names(folder)}"
        )
    return path


def arrive(nodes: Sequence[Node], trace: Sequence[Request], seed: int, asked: float = ASKED) -> Arrivals:
    """The run of a seed: the same for every policy. ``asked``: where to end, as a part of all GPUs."""
    rng = random.Random(seed)
    target = asked * WHOLE_MILLI * sum(node.gpus for node in nodes)
    requests = list(trace)
    rng.shuffle(requests)
    total = sum(request.total_milli for request in requests)
    while total > target:
        total -= requests.pop(rng.randrange(len(requests))).total_milli
    while total < target:
        drawn = trace[rng.randrange(len(trace))]
        if total + drawn.milli > target:  # of one GPU, as the artefact counts
            break
        requests.append(drawn)
        total += drawn.total_milli
    order = sorted(nodes)
    rng.shuffle(order)
    return Arrivals(tuple(order), tuple(requests))


def mix(trace: Sequence[Request]) -> dict[Request, int]:
    """How often each request stands in the trace: what a policy may know of what will come."""
    return dict(sorted(Counter(trace).items()))


def _rows(path: Path) -> Iterator[tuple[Where, dict[str, str]]]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
            for number, row in enumerate(csv.DictReader(lines), start=2):
                yield Where(str(path), str(number)), row
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", where=Where(str(path))) from None


def _whole(row: dict[str, str], field: str, at: Where) -> int:
    try:
        number = int(row[field])
    except (KeyError, TypeError, ValueError):
        where = Where(at.file, at.place, field)
        raise InputError(f"a whole number is expected, not {row.get(field)!r}", where=where) from None
    if number < 0:
        raise InputError(f"{number} is below zero", where=Where(at.file, at.place, field))
    return number


def _names(folder: Path) -> str:
    start, end = PODS.split("{}")
    names = {path.name.removesuffix(".gz") for path in folder.glob(f"{start}*")}
    return ", ".join(sorted(name.removeprefix(start).removesuffix(end) for name in names)) or "none"
