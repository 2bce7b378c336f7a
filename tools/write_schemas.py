"""Writes the JSON Schemas of migsaw's own files to docs/reference/schemas/; with ``--check`` compares only.

The value types are the one source: editors and other programs get from these files what the code enforces.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from migsaw.model.fits import Fits
from migsaw.model.money import PriceTable
from migsaw.model.plan import Plan
from migsaw.model.policy import Policy
from migsaw.model.slo import Slos
from migsaw.model.snapshot import Snapshot
from migsaw.model.trial import Trials, TrialSpec
from migsaw.model.workload_shape import EstimateFile
from migsaw.observe.demand_file import DemandFile
from migsaw.plan.run_cost import Costs

FOLDER = Path(__file__).resolve().parents[1] / "docs/reference/schemas"
KINDS: dict[str, type[Any]] = {
    "cost": Costs,
    "demand": DemandFile,
    "estimate": EstimateFile,
    "fits": Fits,
    "plan": Plan,
    "policy": Policy,
    "prices": PriceTable,
    "slos": Slos,
    "snapshot": Snapshot,
    "trial": TrialSpec,
    "trials": Trials,
}


def schema_text(kind: str) -> str:
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"migsaw/{kind}/v1"}
    body = TypeAdapter(KINDS[kind]).json_schema()
    needed = ["schema", *body.get("required", ())]  # the types have a default for it, files must say it
    return json.dumps(head | body | {"required": needed}, indent=2) + "\n"


def main(words: list[str]) -> int:
    wanted = {FOLDER / f"{kind}.json": schema_text(kind) for kind in KINDS}
    stale = [path for path, text in wanted.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    if words == ["--check"]:
        for path in stale:
            print(f"{path.relative_to(FOLDER.parents[2])} is stale: run `make schemas`", file=sys.stderr)
        return 1 if stale else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in stale:
        path.write_text(wanted[path], encoding="utf-8")
        print(f"written: {path.relative_to(FOLDER.parents[2])}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
