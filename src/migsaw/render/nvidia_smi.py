"""For one machine without an operator: a script of ``nvidia-smi`` commands for each node.

The driver chooses where an instance goes unless told, and its choice can make the next instance impossible, so every
instance is created at its start (``-cgi ID:START``). Instances that stay are not touched: where their starts are not
known they cannot be told from those that go, and the plan is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from migsaw.errors import TargetError
from migsaw.model.boards import Board, Catalogue
from migsaw.model.layouts import Layout, Placed, arrange, by_start
from migsaw.model.plan import Plan
from migsaw.render.cuts import Cut, NodeCut, changed_nodes, missing
from migsaw.render.document import Options, RenderedFile, comment, file_name, script

# row of `nvidia-smi mig -lgi`: | GPU  MIG NAME  PROFILE-ID  INSTANCE-ID  START:SIZE |
FUNCTIONS = """
mode_is() {  # GPU, Enabled or Disabled
  test "$(nvidia-smi -i "$1" --query-gpu=mig.mode.current --format=csv,noheader)" = "$2" && return
  echo "GPU $1: the MIG mode is not yet $2. Reset the GPU or reboot the machine, then run this script again." >&2
  exit 1
}
clear_gpu() {  # GPU: every instance; the driver refuses where a process still uses one
  nvidia-smi mig -i "$1" -lgi | grep -q ' MIG ' || return 0  # there is none
  nvidia-smi mig -i "$1" -dci || true  # an instance may lack its compute instance
  nvidia-smi mig -i "$1" -dgi
}
remove_at() {  # GPU, START:SIZE
  id=$(nvidia-smi mig -i "$1" -lgi | tr -d '|' | awk -v at="$2" '$NF == at { print $(NF - 1) }')
  test -n "$id" || { echo "GPU $1: no instance at $2; observe and plan again" >&2; exit 1; }
  nvidia-smi mig -i "$1" -gi "$id" -dci
  nvidia-smi mig -i "$1" -gi "$id" -dgi
}
"""
OWNERS = ("unknown",)  # others re-cut the GPU themselves, and would undo this


def render(plan: Plan, catalogue: Catalogue, options: Options) -> tuple[RenderedFile, ...]:
    changed = changed_nodes(plan)
    if not changed:
        about = ["", "Nothing to change: every GPU keeps its layout."]
        return (script("nothing-to-change.sh", plan, about, "echo 'nothing to change'\n"),)
    return tuple(_node_script(plan, node, catalogue) for node in changed)


def _node_script(plan: Plan, node: NodeCut, catalogue: Catalogue) -> RenderedFile:
    name = node.node.name
    if node.node.owner not in OWNERS and plan.target != "nvidia-smi":
        raise TargetError(
            f"node {name} changes, but {node.node.owner} owns its GPUs: it would undo what nvidia-smi does",
            hint="render for its owner: mig-manager for gpu-operator, aks for AKS pools",
        )
    turned = [cut for cut in node.changed if cut.changes_mode]
    parts = [FUNCTIONS, *_modes(turned, catalogue)]
    parts += [_gpu(cut, _board(cut, catalogue)) for cut in node.changed]
    return script(f"{file_name(name)}.sh", plan, _about(name, node), "".join(parts))


def _about(name: str, node: NodeCut) -> list[str]:
    gpus = ", ".join(str(cut.plan.index) for cut in node.changed)
    return [
        "",
        f"For {name}: re-cuts GPU {gpus}. Run it as root on that machine, when no process uses these GPUs;",
        "stop what holds them open (dcgm-exporter, nvidia-persistenced). GPUs that are not named are not touched.",
        "Instances do not survive a reboot: run it again then.",
    ]


def _board(cut: Cut, catalogue: Catalogue) -> Board:
    board = catalogue.find(cut.plan.board or "")
    if board is None:
        raise TargetError(f"{cut.name}: the board is not known, so its profile ids are not")
    return board


# ---- the MIG mode -----------------------------------------------------------------------------------------------


def _modes(turned: Sequence[Cut], catalogue: Catalogue) -> list[str]:
    """Modes first: a machine that must reboot has not lost anything yet, and the script can simply run again."""
    lines = []
    for cut in turned:
        board, on = _board(cut, catalogue), cut.before is None
        said = [f"GPU {cut.plan.index} ({board.key}): MIG {'on' if on else 'off'}. {_reset_remark(board)}"]
        clear = "" if on else f"clear_gpu {cut.plan.index}\n"
        lines.append("\n" + comment(said) + clear + f"nvidia-smi -i {cut.plan.index} -mig {int(on)}\n")
    checks = [f"mode_is {cut.plan.index} {'Enabled' if cut.before is None else 'Disabled'}\n" for cut in turned]
    return [*lines, *checks]


def _reset_remark(board: Board) -> str:
    if board.mode_change_needs_reset is False:
        return "This board needs no reset, and forgets the mode at a reboot."
    return "This board needs a GPU reset (nvidia-smi --gpu-reset), on a cloud VM a reboot; it then keeps the mode."


# ---- instances --------------------------------------------------------------------------------------------------


def _gpu(cut: Cut, board: Board) -> str:
    if cut.after is None:
        return ""
    index, before, after = cut.plan.index, cut.before or (), _arranged(cut, board)
    kept = _kept(cut, before, after)
    gone, new = missing(before, kept), missing(after, kept)
    lines = [f"\n{comment([f'GPU {index} ({board.key}): {_words(before)} -> {_words(after)}'])}"]
    if gone and not kept:
        lines.append(f"clear_gpu {index}\n")
    else:
        lines += [f"remove_at {index} {_span(cut, item, board)}  # {item}\n" for item in gone]
    if new:
        wanted = ",".join(_identity(item, board) for item in new)
        lines.append(f"nvidia-smi mig -i {index} -cgi {wanted} -C\n")
    return "".join([*lines, f"nvidia-smi mig -i {index} -lgi\n" if after else ""])


def _arranged(cut: Cut, board: Board) -> Layout:
    """The layout after the plan with every start known."""
    after = arrange(board, cut.after or ())
    if after is None:
        raise TargetError(f"{cut.name}: no placement on {board.key} holds {_words(cut.after or ())}")
    return after


def _kept(cut: Cut, before: Layout, after: Layout) -> Layout:
    """What stands in the same place before and after; nothing where a start of before is not known."""
    known = all(item.start is not None for item in before)
    kept = by_start((Counter(before) & Counter(after)).elements()) if known else ()
    lost = Counter(cut.plan.pinned) - Counter(str(item) for item in kept)
    if lost:
        raise TargetError(
            f"{cut.name}: {' '.join(sorted(lost.elements()))} stays in use, and it cannot be told from what goes",
            hint="observe with --smi: the text of `nvidia-smi mig -lgi` gives the starts",
        )
    return kept


def _span(cut: Cut, item: Placed, board: Board) -> str:
    return f"{item.start}:{board.profile(item.profile).memory_slices}"


def _identity(item: Placed, board: Board) -> str:
    profile = board.profile(item.profile)
    return f"{profile.name if profile.profile_id is None else profile.profile_id}:{item.start}"


def _words(layout: Layout) -> str:
    return " ".join(str(item) for item in layout) or "no instances"
