"""An ``nvidia-smi`` for tests: a MIG driver in a JSON file, as strict as a real one about places, use and order.

Run as a program: ``fake_driver.py STATE.json ARGS…``. It prints the tables that a real one prints where scripts read
them, chooses the highest free start where none is asked for (as an A100 does), and refuses what a driver refuses.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from mig_rules import is_legal, raw_profiles

GpuState = dict[str, Any]  # board, mode, instances: [[profile, start, id, in use]], compute: [id]


class Refusal(Exception):
    pass


def main(state_file: str, args: list[str]) -> int:
    path = Path(state_file)
    state = json.loads(path.read_text())
    try:
        text = answer(state, args)
    except Refusal as problem:
        print(problem)
        return 6
    path.write_text(json.dumps(state))
    print(text, end="")
    return 0


def answer(state: dict[str, GpuState], args: list[str]) -> str:
    mig, words = args[:1] == ["mig"], list(args)
    index = words[words.index("-i") + 1]
    gpu = state[index]
    if not mig and "-mig" in words:
        return set_mode(gpu, words[words.index("-mig") + 1])
    if not mig:
        assert "--query-gpu=mig.mode.current" in words
        return gpu["mode"] + "\n"
    if gpu["mode"] != "Enabled":
        raise Refusal("No MIG-enabled devices found.")
    only = int(words[words.index("-gi") + 1]) if "-gi" in words else None
    if "-lgi" in words:
        return listing(index, gpu)
    if "-dci" in words:
        return destroy_compute(gpu, only)
    if "-dgi" in words:
        return destroy(gpu, only)
    created = create(gpu, words[words.index("-cgi") + 1])
    if "-C" in words:
        gpu["compute"] += created
    return "".join(f"Successfully created GPU instance ID {i}\n" for i in created)


def set_mode(gpu: GpuState, value: str) -> str:
    if value == "0" and gpu["instances"]:
        raise Refusal("In use by another client")
    wanted = {"0": "Disabled", "1": "Enabled"}[value]
    if gpu["mode"] != wanted and gpu.get("needs_reset"):
        gpu["pending"] = wanted
        return "Warning: MIG mode is in pending enable state\n"
    gpu["mode"] = wanted
    return f"{wanted} MIG Mode\n"


def listing(index: str, gpu: GpuState) -> str:
    if not gpu["instances"]:
        raise Refusal("No GPU instances found: Not Found")
    rule = "+" + "-" * 55 + "+\n"
    text = rule + "| GPU instances:                                        |\n"
    text += "| GPU   Name             Profile  Instance   Placement  |\n" + rule
    for profile, start, identity, _ in gpu["instances"]:
        facts = raw_profiles(gpu["board"])[profile]
        place = f"{start}:{facts['memory_slices']}"
        text += f"|{index:>4}  {'MIG ' + profile:<18}{facts['id']:>4}{identity:>9}{place:>13}     |\n" + rule
    return text


def destroy_compute(gpu: GpuState, only: int | None) -> str:
    mine = [i for i in gpu["compute"] if only in (None, i)]
    if not mine:
        raise Refusal("No compute instances found: Not Found")
    for identity in mine:
        if any(i == identity and used for _, _, i, used in gpu["instances"]):
            raise Refusal("Unable to destroy compute instance: In use by another client")
        gpu["compute"].remove(identity)
    return "Successfully destroyed compute instance\n"


def destroy(gpu: GpuState, only: int | None) -> str:
    mine = [one for one in gpu["instances"] if only in (None, one[2])]
    if not mine:
        raise Refusal("No GPU instances found: Not Found")
    if any(one[2] in gpu["compute"] or one[3] for one in mine):
        raise Refusal("Unable to destroy GPU instance: In use by another client")
    gpu["instances"] = [one for one in gpu["instances"] if one not in mine]
    return "Successfully destroyed GPU instance\n"


def create(gpu: GpuState, wanted: str) -> list[int]:
    by_id = {str(p["id"]): name for name, p in raw_profiles(gpu["board"]).items()}
    created = []
    for word in wanted.split(","):
        identity, _, start = word.partition(":")
        profile = by_id.get(identity, identity)
        options = [int(start)] if start else sorted(raw_profiles(gpu["board"])[profile]["starts"], reverse=True)
        now = [(name, at) for name, at, _, _ in gpu["instances"]]
        place = next((at for at in options if is_legal(gpu["board"], [*now, (profile, at)])), None)
        if place is None:
            raise Refusal(f"Unable to create a GPU instance using profile {identity}: Insufficient Resources")
        new = 1 + max((one[2] for one in gpu["instances"]), default=0)
        gpu["instances"].append([profile, place, new, False])
        created.append(new)
    return created


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
