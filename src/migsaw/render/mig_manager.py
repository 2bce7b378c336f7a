"""For the GPU Operator's mig-manager: a mig-parted file in a ConfigMap, and the labels that choose from it.

A ConfigMap of one's own replaces the operator's whole file, and a mig-manager that restarts applies its node's label
again. So the file also keeps, under its present name, what every labelled node has today: nothing moves until a label
changes. What mig-manager cannot do is refused: it clears a whole GPU and does not choose starts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from migsaw.errors import TargetError
from migsaw.model.boards import Catalogue
from migsaw.model.layouts import Layout
from migsaw.model.plan import Plan
from migsaw.render.cuts import Cut, NodeCut, changed_nodes, node_cuts
from migsaw.render.document import Options, RenderedFile, comment, listed, quoted, script, yaml_file
from migsaw.render.mig_parted import ALL_DISABLED, Entry, config_name, entries, file_text

OWNERS = ("gpu-operator", "unknown")  # whose GPUs mig-manager may cut
NAMESPACE = "gpu-operator"
CONFIG_MAP = "migsaw-mig-parted-config"
APPLY = (
    f"kubectl apply -f configmap.yaml      # namespace {NAMESPACE}: change it where the operator lives elsewhere",
    "kubectl patch clusterpolicies.nvidia.com/cluster-policy --type merge --patch-file cluster-policy-patch.yaml",
    "sh labels.sh",
)


def render(plan: Plan, catalogue: Catalogue, options: Options) -> tuple[RenderedFile, ...]:
    changed = changed_nodes(plan)
    for node in changed:
        refuse_node(node)
    if not changed:
        return _unchanged(plan)
    wanted = {node.node.name: entries({cut.plan.index: cut.after for cut in node.gpus}) for node in changed}
    today, left = today_configs(node_cuts(plan))
    new = {config_name(config): config for config in wanted.values()}
    today = {name: found for name, found in today.items() if name not in new}  # a change that was not made as labelled
    text = file_text({"all-disabled": ALL_DISABLED, **dict(sorted(new.items())), **today})
    about = ["", *_users(wanted), *_today_words(today, left)]
    return (
        _plain_file(plan, about, text),
        yaml_file("configmap.yaml", plan, [*about, "", "To apply, in this order:", *APPLY], [_config_map(text)]),
        yaml_file(
            "cluster-policy-patch.yaml",
            plan,
            ["", "Makes the GPU Operator read that ConfigMap. A custom ConfigMap replaces its own file as a whole."],
            [{"spec": {"migManager": {"config": {"name": CONFIG_MAP, "default": "all-disabled"}}}}],
        ),
        script("labels.sh", plan, _labels_about(), "".join(_label(plan, node, wanted, catalogue) for node in changed)),
    )


def _unchanged(plan: Plan) -> tuple[RenderedFile, ...]:
    """What the nodes have today, to compare them with; nothing to apply."""
    about = ["", "Nothing to change: every node keeps its layout and its label. There is nothing to apply."]
    today = {
        node.node.name: entries({cut.plan.index: cut.before for cut in node.gpus})
        for node in node_cuts(plan)
        if node.node.owner in OWNERS and is_seen(node)
    }
    text = file_text({config_name(config): config for _, config in sorted(today.items())})
    files = (_plain_file(plan, [*about, *_users(today)], text),) if today else ()
    return (*files, script("labels.sh", plan, about, "echo 'nothing to change'\n"))


def _plain_file(plan: Plan, about: Sequence[str], text: str) -> RenderedFile:
    hint = "To see on a node whether it is so: nvidia-mig-parted assert -f mig-parted.yaml -c CONFIG"
    marked = yaml_file("mig-parted.yaml", plan, [*about, "", hint], [])
    return RenderedFile(marked.path, marked.text + text)


def _config_map(text: str) -> dict[str, object]:
    meta = {"name": CONFIG_MAP, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"config.yaml": text}}


def today_configs(nodes: Iterable[NodeCut]) -> tuple[dict[str, tuple[Entry, ...]], list[str]]:
    """What labelled nodes have today under their labels' names; and the names of which that cannot be told.

    These are names that several nodes use with different layouts, or some node of which not every layout was seen.
    """
    seen: dict[str, list[tuple[Entry, ...] | None]] = {}
    for node in nodes:
        name = node.node.mig_config
        if name and name != "all-disabled" and node.node.owner in OWNERS:
            layouts = entries({cut.plan.index: cut.before for cut in node.gpus}) if is_seen(node) else None
            seen.setdefault(name, []).append(layouts)
    alike = {
        name: first
        for name, (first, *more) in sorted(seen.items())
        if first is not None and all(one == first for one in more)
    }
    return alike, sorted(seen.keys() - alike.keys())


def is_seen(node: NodeCut) -> bool:
    """Whether it is known what each GPU holds: of one that nobody looked into, an empty layout would be a guess."""
    return all(cut.plan.is_layout_known and cut.plan.board for cut in node.gpus)


def _users(wanted: dict[str, tuple[Entry, ...]]) -> list[str]:
    users: dict[str, list[str]] = {}
    for node, config in sorted(wanted.items()):
        users.setdefault(config_name(config), []).append(node)
    return [f"{name}: for {listed(nodes)}" for name, nodes in sorted(users.items())]


def _today_words(today: dict[str, tuple[Entry, ...]], left: list[str]) -> list[str]:
    words = (
        [f"{listed(today)}: what nodes have today, kept so that nothing moves before its label does"] if today else []
    )
    unknown = "nodes use it with layouts that differ or were not seen. Copy it from your present file."
    return words + [f"{name}: {unknown}" for name in left]


def _labels_about() -> list[str]:
    return [
        "",
        "A label re-cuts its node at once, and whatever still runs on a GPU that it re-cuts fails; GPUs whose layout",
        "stays are left alone. For each node: cordon it, wait until nothing uses the GPUs named with it, run its line,",
        "wait for nvidia.com/mig.config.state=success, see that the node advertises the new slices, uncordon it.",
    ]


def _label(plan: Plan, node: NodeCut, wanted: dict[str, tuple[Entry, ...]], catalogue: Catalogue) -> str:
    name, config = node.node.name, config_name(wanted[node.node.name])
    gpus = ", ".join(str(cut.plan.index) for cut in node.changed)
    was = node.node.mig_config or "not labelled"
    disrupted = sorted({pod for step in plan.steps if step.node == name for pod in step.disrupts})
    words = [f"{name}: re-cuts GPU {gpus}; the label was: {was}"]
    words += [f"disrupts {', '.join(disrupted)}"] if disrupted else []
    words += mode_remarks(node, catalogue)
    line = f"kubectl label node {quoted(name)} nvidia.com/mig.config={config} --overwrite\n"
    if node.node.mig_config == config:
        words += ["the label has this value, and the node was not cut so: mig-manager tries again when it restarts"]
        chosen = f"-l app=nvidia-mig-manager --field-selector spec.nodeName={quoted(name)}"
        line += f"kubectl -n {NAMESPACE} delete pod {chosen}\n"
    return "\n" + comment(words) + line


def mode_remarks(node: NodeCut, catalogue: Catalogue) -> list[str]:
    """What turning MIG on or off means on this node's boards."""
    turned = [cut for cut in node.gpus if cut.changes_mode]
    if not turned:
        return []
    boards = {cut.plan.board: catalogue.find(cut.plan.board or "") for cut in turned}
    reset = sorted(
        key or "board not known" for key, found in boards.items() if not found or found.mode_change_needs_reset
    )
    which = ", ".join(str(cut.plan.index) for cut in turned)
    words = [
        f"turns the MIG mode of GPU {which}: every GPU of the node is reset, and the node may be NotReady meanwhile"
    ]
    if reset:
        words.append(f"{', '.join(reset)}: needs a GPU reset, on a cloud VM a reboot (mig-manager: WITH_REBOOT=true)")
    return words


def refuse_node(node: NodeCut) -> None:
    """Raises :class:`TargetError` for what mig-manager cannot do to this node."""
    if node.node.owner not in OWNERS:
        raise TargetError(
            f"node {node.node.name} changes, but {node.node.owner} owns its GPUs: mig-manager must not re-cut them",
            hint="`migsaw plan SNAPSHOT --for mig-manager` plans what mig-manager can do",
        )
    for cut in node.changed:
        _refuse_gpu(cut)
    held = next((cut for cut in node.gpus if cut.plan.pinned), None)
    if held and any(cut.changes_mode for cut in node.gpus):
        raise TargetError(
            f"node {node.node.name} turns MIG on or off, which resets all its GPUs, but {held.name} is in use",
            hint="`migsaw plan SNAPSHOT --for mig-manager` leaves such nodes alone",
        )
    slices = {item.profile for cut in node.gpus for item in cut.after or ()}
    if node.node.strategy == "single" and (len(slices) > 1 or (slices and any(not cut.after for cut in node.gpus))):
        raise TargetError(
            f"node {node.node.name} has the single strategy: all its GPUs must be cut into one profile",
            hint="plan again with `--for mig-manager`, or give the node the mixed strategy",
        )


def _refuse_gpu(cut: Cut) -> None:
    if _counts(cut.before) == _counts(cut.after):
        raise TargetError(f"{cut.name} only moves instances to other starts: mig-manager cannot choose starts")
    if cut.plan.pinned:
        raise TargetError(
            f"{cut.name} changes, but {' '.join(cut.plan.pinned)} stays in use: mig-manager clears the whole GPU",
            hint="`migsaw plan SNAPSHOT --for mig-manager` leaves such GPUs alone",
        )


def _counts(layout: Layout | None) -> Counter[str] | None:
    return None if layout is None else Counter(item.profile for item in layout)
