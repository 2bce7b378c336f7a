"""Why a waiting pod is not served, and what would make it fit."""

from __future__ import annotations

from collections import Counter

from migsaw.model.boards import Board
from migsaw.model.policy import Policy
from migsaw.model.reasons import Because, Reason
from migsaw.model.snapshot import Node
from migsaw.plan.assign import Assignment
from migsaw.plan.eligibility import admits, wants
from migsaw.plan.fleet import Fleet
from migsaw.plan.items import WHOLE, is_single
from migsaw.plan.wants import Want


def why_unserved(want: Want, fleet: Fleet, policy: Policy, done: Assignment) -> Because:
    """The first thing that stands in the way, in the order in which a person would look."""
    what = _what(want)
    usable = [n for n in fleet.nodes if _node_can_name(n, want, fleet)]
    if not usable:
        return _no_profile(want, fleet, what)
    if want.refused is not None:
        return want.refused
    admitted = [n for n in usable if admits(n, want.pod)]
    if not admitted:
        return _no_node(want, usable, what)
    blocked = [g for n in admitted for g in fleet.of_node(n.name) if g.blocked is not None]
    total = sum(len(fleet.of_node(n.name)) for n in admitted)
    why = Counter(g.blocked.reason.value for g in blocked if g.blocked)
    most = f"; {len(blocked)} of {total} GPUs there cannot be cut anew ({_commonest(why)})" if blocked else ""
    if want.count > 1:
        most += f"; all {want.count} must be on one node"
    has_free = any(g.offers for n in admitted for g in fleet.of_node(n.name))
    free = "what is free is taken by other waiting pods or too small" if has_free else "nothing there is free"
    return Because(Reason.NO_ROOM, f"not enough room for {what}: {free}{most}")


def _what(want: Want) -> str:
    if want.slots:
        return " or ".join(f"{want.count} x {name}" for _, name in want.slots)
    return " and ".join(f"{n} x {'nvidia.com/gpu' if item == WHOLE else item}" for item, n in want.asks)


def _commonest(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {n}" for name, n in sorted(counts.items(), key=lambda row: (-row[1], row[0]))[:2])


def _node_can_name(node: Node, want: Want, fleet: Fleet) -> bool:
    """Could some GPU of the node ever offer what is wanted under its strategy?"""
    boards = {g.board for g in fleet.of_node(node.name) if g.board}
    return any(_board_can(board, want, is_single(node)) for board in boards) or (
        not is_single(node) and _seen(node, want)
    )


def _board_can(board: Board, want: Want, single: bool) -> bool:
    options = want.options(board, single)
    single_items = ("any", "kept")
    return any(all(i == WHOLE or i in single_items or board.find(i) for i, _ in option) for option in options)


def _seen(node: Node, want: Want) -> bool:
    profiles = {i.profile for g in node.gpus for i in g.instances}
    return all(item in profiles for item, _ in want.asks)


def _no_profile(want: Want, fleet: Fleet, what: str) -> Because:
    boards = sorted({g.board.key for g in fleet.gpus if g.board})
    if (
        not want.slots
        and want.asks
        and all(item != WHOLE for item, _ in want.asks)
        and all(map(is_single, fleet.nodes))
    ):
        text = f"{what}: every node here has the single strategy and advertises nvidia.com/gpu only"
        return Because(
            Reason.NO_SUCH_PROFILE, f"no node can offer {text}; ask for nvidia.com/gpu: 1 with the pool's nodeSelector"
        )
    known = f"the boards here are {', '.join(boards)}" if boards else "no board here is known"
    return Because(Reason.NO_SUCH_PROFILE, f"no node can offer {what}: {known}; `migsaw boards` lists their profiles")


def _no_node(want: Want, usable: list[Node], what: str) -> Because:
    fitting = [n for n in usable if wants(n, want.pod)]
    if not fitting:
        selector = ", ".join(f"{k}={v}" for k, v in sorted(want.pod.node_selector.items())) or "its node affinity"
        return Because(Reason.NO_MATCHING_NODE, f"no node that could offer {what} matches {selector}")
    cordoned = [n.name for n in fitting if not n.schedulable]
    if len(cordoned) == len(fitting):
        return Because(
            Reason.NO_MATCHING_NODE, f"no open node: {', '.join(cordoned)} could offer {what}, but take no pods now"
        )
    taints = sorted({f"{t.key}={t.value}:{t.effect}" for n in fitting for t in n.taints})
    return Because(
        Reason.NO_MATCHING_NODE, f"no toleration for {', '.join(taints)} on the nodes that could offer {what}"
    )
