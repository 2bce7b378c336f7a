"""Files of what `nvidia-smi` prints. It must not know of nodes: which node a file belongs to is decided elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from migsaw.errors import InputError, Where
from migsaw.observe.reading import decode, read_bytes
from migsaw.observe.smi_facts import Smi
from migsaw.observe.smi_text import TextReader
from migsaw.observe.smi_xml import parse_xml
from migsaw.observe.sniff import belongs_to


def read_smi(paths: Iterable[Path]) -> list[Smi]:
    return [parse_smi(decode(read_bytes(path), str(path)), str(path)) for path in paths]


def parse_smi(content: str, file: str) -> Smi:
    """Raises :class:`InputError` where the text is no answer of nvidia-smi that migsaw reads."""
    if not content.strip():
        raise InputError("the file is empty", where=Where(file, "1"))
    if re.match(r"\s*<(\?xml|!DOCTYPE|nvidia_smi_log)", content):
        return parse_xml(content, file)
    option = belongs_to(content)
    if option not in (None, "--smi"):
        raise InputError("this is no output of nvidia-smi", where=Where(file, "1"), hint=f"give it to {option}")
    found = TextReader(file).read(content)
    if not (found.cards or found.devices or found.places or found.names or found.lists_instances):
        hint = "expected `nvidia-smi -L`, `mig -lgi`, `-lgip`, `-lgipp`, `-q -x` or `--query-gpu … --format=csv`"
        raise InputError("nothing in this file is an answer of nvidia-smi", where=Where(file, "1"), hint=hint)
    return found
