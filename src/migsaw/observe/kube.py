"""Kubernetes objects from `kubectl get … -o json|yaml`, in every form in which people save them.

A List, a NodeList, one object, several YAML documents; JSON is read item by item whatever the size. It must not know
what an object says, only of which kind it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from migsaw.errors import InputError, Where
from migsaw.observe.jsonstream import Item, JsonStream, is_json_start
from migsaw.observe.reading import check_encoding, decode, json_path, parse_yaml_all
from migsaw.observe.sniff import belongs_to

MAX_YAML_BYTES = 8 << 20  # about 15 s: YAML is read a thousand times slower than JSON
OPTIONS = {"Node": "--nodes", "Pod": "--pods"}


@dataclass(frozen=True, slots=True)
class KubeObject:
    """``data`` has a name in its metadata; everything else may be missing or of the wrong type."""

    kind: str
    name: str
    data: Mapping[str, Any]
    file: str
    where: str


def read_objects(path: Path, kind: str, odd: list[tuple[str, str]]) -> Iterator[KubeObject]:
    """The objects of ``kind`` in the file; ``odd`` collects (place, what is wrong) of items that are none.

    Raises :class:`InputError` where the file is no such file at all.
    """
    found: Counter[str] = Counter()
    for item in _items(path, kind):
        if not isinstance(item.data, dict):
            odd.append((item.path, "is no object"))
            continue
        is_kind = _kind(item)
        found[is_kind] += 1
        name = text(item.data, "metadata", "name")
        if is_kind == kind and name is None:
            odd.append((item.path, f"a {kind} without metadata.name"))
        elif is_kind == kind and name is not None:
            yield KubeObject(kind, name, item.data, str(path), item.path)
    if kind not in found and found:
        raise _wrong_kind(path, kind, found)


def _items(path: Path, kind: str) -> Iterator[Item]:
    try:
        with path.open("rb") as source:
            head = source.peek(4096)
            check_encoding(head, str(path))
            if is_json_start(head):
                yield from JsonStream(source, str(path)).items()
                return
            content = source.read(MAX_YAML_BYTES + 1)
    except OSError as problem:
        raise InputError(f"cannot be read: {problem.strerror}", where=Where(str(path))) from None
    if len(content) > MAX_YAML_BYTES:
        limit = f"larger than {MAX_YAML_BYTES >> 20} MiB, the limit for YAML"
        raise InputError(limit, where=Where(str(path)), hint="use `kubectl get … -o json`: JSON has no such limit")
    yield from _yaml_items(decode(content, str(path)), str(path))


def _yaml_items(content: str, file: str) -> Iterator[Item]:
    other = belongs_to(content)
    if other and other not in OPTIONS.values():
        raise InputError("this is no output of kubectl", where=Where(file, "1"), hint=f"give it to {other}")
    documents = parse_yaml_all(content, file)
    if not documents:
        raise InputError("the file is empty", where=Where(file, "1"))
    for number, data in enumerate(documents):
        items = data.get("items") if isinstance(data, dict) else data
        top = "$" if len(documents) == 1 else f"$({number + 1})"
        if not isinstance(items, list):
            yield Item(data, top)
            continue
        path = f"{top}.items" if isinstance(data, dict) else top
        around = data.get("kind") if isinstance(data, dict) else None
        for index, item in enumerate(items):
            yield Item(item, path + json_path([index])[1:], around if isinstance(around, str) else None)


def _kind(item: Item) -> str:
    """Items of a NodeList carry no kind: the list's name tells it, else the shape."""
    own = item.data.get("kind") or (item.around or "").removesuffix("List")
    if isinstance(own, str) and own:
        return own
    return "Pod" if "containers" in mapping(item.data, "spec") else "Node"


def _wrong_kind(path: Path, kind: str, found: Counter[str]) -> InputError:
    names = ", ".join(f"{count} {name}" for name, count in sorted(found.items())[:3])
    option = next((OPTIONS[name] for name in sorted(found) if name in OPTIONS), None)
    hint = f"give it to {option}" if option else f"expected what `kubectl get {kind.lower()}s -o json` prints"
    return InputError(f"holds no {kind} but {names}", where=Where(str(path), "1"), hint=hint)


# ---- careful access: fields of a file may be missing, null or of another type ------------------------------------


_QUANTITY = re.compile(
    r"\+?(?P<number>\d{1,20}(?:\.\d{0,20})?|\.\d{1,20})(?:[eE](?P<exponent>[+-]?\d{1,2})|(?P<suffix>m|k|M|G|Ki|Mi|Gi))?",
    re.ASCII,
)
_SUFFIXES = {"": Fraction(1), "m": Fraction(1, 1000), "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9)}
_SUFFIXES |= {"Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30)}


def value(data: Any, *path: str) -> Any:
    for step in path:
        data = data.get(step) if isinstance(data, dict) else None
    return data


def mapping(data: Any, *path: str) -> dict[str, Any]:
    found = value(data, *path)
    return found if isinstance(found, dict) else {}


def sequence(data: Any, *path: str) -> list[Any]:
    found = value(data, *path)
    return found if isinstance(found, list) else []


def text(data: Any, *path: str) -> str | None:
    """A string that says something; numbers and booleans of YAML as Kubernetes would print them."""
    found = value(data, *path)
    if isinstance(found, bool):
        return str(found).lower()
    return str(found) if isinstance(found, (str, int, float)) and str(found) else None


def texts(data: Any, *path: str) -> dict[str, str]:
    """A mapping of strings, such as labels."""
    found = mapping(data, *path)
    return {str(key): text(found, key) or "" for key in found if not isinstance(found[key], (dict, list))}


def count(quantity: Any) -> int | None:
    """A whole Kubernetes quantity: ``2``, ``"2"``, ``1k``, ``1e3``, ``2000m``; None where it is none, or is below 0.

    Source: k8s.io/apimachinery, resource.Quantity: decimal suffixes, binary suffixes, decimal exponents.
    """
    found = _QUANTITY.fullmatch(str(quantity).strip()) if isinstance(quantity, (str, int, float)) else None
    if found is None or isinstance(quantity, bool):
        return None
    exponent = int(found["exponent"] or 0)
    amount = Fraction(found["number"]) * Fraction(10) ** exponent * _SUFFIXES[found["suffix"] or ""]
    return int(amount) if amount.denominator == 1 and amount < 10**9 else None


def is_gpu_resource(name: str) -> bool:
    """Resources of NVIDIA's device plugin, its look-alikes, and of slicers that rewrite requests."""
    return name.startswith(("nvidia.com/gpu", "nvidia.com/mig", "mig.das.com/", "volcano.sh/vgpu-"))


def unreadable_amounts(data: Any, *path: str) -> list[str]:
    """GPU resources whose amount is no whole number, as ``RESOURCE: AMOUNT``."""
    found = mapping(data, *path)
    odd = [name for name in sorted(found) if is_gpu_resource(name) and count(found[name]) is None]
    return [f"{name}: {found[name]!r}"[:80] for name in odd]


def gpu_amounts(data: Any, *path: str) -> dict[str, int]:
    """Resource → number, GPU resources only, those that read as whole numbers."""
    amounts = {name: count(number) for name, number in mapping(data, *path).items() if is_gpu_resource(name)}
    return {name: number for name, number in sorted(amounts.items()) if number is not None}
