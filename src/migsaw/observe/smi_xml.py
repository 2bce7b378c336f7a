"""`nvidia-smi -q -x`: GPUs, their MIG mode and their MIG devices. It prints no profile names and no starts."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from migsaw.errors import InputError, Where
from migsaw.model.snapshot import Note
from migsaw.observe.smi_facts import Card, Device, Smi, mig_mode

_ENGINES = ("copy_engine_count", "decoder_count", "encoder_count", "jpg_count", "ofa_count")


def parse_xml(content: str, file: str) -> Smi:
    """Entities are refused unread: nvidia-smi declares none, and they can be made to grow without bound."""
    if "<!ENTITY" in content:
        line = content[: content.index("<!ENTITY")].count("\n") + 1
        raise InputError("declares an entity, which nvidia-smi never does", where=Where(file, str(line)))
    try:
        root = ElementTree.fromstring(content.lstrip())
    except ElementTree.ParseError as problem:
        line, column = problem.position
        hint = "the file seems to be cut off" if "no element found" in str(problem) else None
        raise InputError(f"not XML: {problem} (column {column})", where=Where(file, str(line)), hint=hint) from None
    except (ValueError, LookupError) as problem:
        raise InputError(f"not XML: {problem}", where=Where(file, "1")) from None
    if root.tag != "nvidia_smi_log":
        raise InputError(f"<{root.tag}> is no answer of `nvidia-smi -q -x`", where=Where(file, "1"))
    found = Smi(file, is_by_order=True)
    for index, gpu in enumerate(root.findall("gpu")):
        _add(found, index, gpu)
    if not found.cards:
        found.notes.append(Note("warning", "no GPU in this file", file))
    return found


def _add(found: Smi, index: int, gpu: ElementTree.Element) -> None:
    """nvidia-smi prints GPUs in the order of their index, which it does not print."""
    mode = mig_mode(_text(gpu, "mig_mode/current_mig"), _text(gpu, "mig_mode/pending_mig"))
    used, total = _mib(gpu, "fb_memory_usage/used"), _mib(gpu, "fb_memory_usage/total")
    is_listed = gpu.find("processes") is not None
    busy = {_text(p, "gpu_instance_id") for p in gpu.findall("processes/process_info")}
    has_process = bool(busy) if is_listed else None
    found.cards.append(Card(index, _text(gpu, "uuid"), _text(gpu, "product_name"), mode, used, total, has_process))
    for device in gpu.findall("mig_devices/mig_device"):
        gi_id = _text(device, "gpu_instance_id")
        if gi_id is None or not re.fullmatch(r"[0-9]{1,3}", gi_id):
            found.notes.append(Note("warning", f"a MIG device of GPU {index} without GPU instance id", found.file))
            continue
        shared = "/".join(("device_attributes", "shared"))
        found.devices.append(
            Device(
                index,
                int(gi_id),
                memory_mib=_mib(device, "fb_memory_usage/total"),
                used_mib=_mib(device, "fb_memory_usage/used"),
                sm_count=_number(device, f"{shared}/multiprocessor_count"),
                engines=tuple(_number(device, f"{shared}/{engine}") for engine in _ENGINES),
                has_process=gi_id in busy if is_listed else None,
            )
        )


def _text(element: ElementTree.Element, path: str) -> str | None:
    found = element.findtext(path)
    return found.strip() or None if found else None


def _number(element: ElementTree.Element, path: str) -> int | None:
    found = re.fullmatch(r"\d{1,9}", _text(element, path) or "")
    return int(found[0]) if found else None


def _mib(element: ElementTree.Element, path: str) -> int | None:
    found = re.fullmatch(r"(\d{1,9}) MiB", _text(element, path) or "")
    return int(found[1]) if found else None
