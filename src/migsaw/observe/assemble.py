"""Facts of all files → one snapshot, in canonical order: the same facts in another order give the same bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from migsaw.model.boards import Catalogue
from migsaw.model.refs import PodRef
from migsaw.model.snapshot import Gpu, Node, Note, ReportedProfile, Snapshot
from migsaw.model.telemetry import OwnerSource, Telemetry
from migsaw.observe import naming
from migsaw.observe.cards import Sighting, put_together
from migsaw.observe.checks import check_node, check_pods, check_wish
from migsaw.observe.dcgm import Subject
from migsaw.observe.exporter import Row
from migsaw.observe.geometry import check_geometry, geometry_key, reported_profiles
from migsaw.observe.gpus import NodeSources, draft_gpus
from migsaw.observe.hosts import Hosts, node_of_file, place_rows
from migsaw.observe.instances import FindHolders
from migsaw.observe.inventory import devices, is_gpu_node, take_inventory
from migsaw.observe.mig_parted import EXPORTED, Entry, MigParted
from migsaw.observe.nodes import POOL_LABELS, SIZE_LABELS, NodeFacts, bare_node
from migsaw.observe.owners import settle
from migsaw.observe.partitioner import MIG_CONFIG, SLICERS, azure_size, find_partitioner, layout_scope, strategy_of
from migsaw.observe.pods import PodsSeen
from migsaw.observe.smi_facts import Smi
from migsaw.observe.telemetry import Scraped, complete, of_scrape

# labels that pools and machines are known by, kept whether a pod selects by them or not
KEPT_LABELS = {*POOL_LABELS, *SIZE_LABELS[:1], "kubernetes.io/hostname"}


@dataclass(frozen=True, slots=True)
class Facts:
    """What the readers found. ``pods`` None: no pods file was given, so nobody can be called idle."""

    nodes: Mapping[str, NodeFacts] = field(default_factory=dict)
    pods: PodsSeen | None = None
    rows: Sequence[Row] = ()
    smi: Sequence[Smi] = ()
    parted: Sequence[MigParted] = ()
    telemetry: Telemetry | None = None  # of a server; of exporters: what their texts say besides rows


@dataclass(frozen=True, slots=True)
class _Shared:
    """What all nodes have in common. ``geometries`` and ``seen`` are filled as nodes are made."""

    catalogue: Catalogue
    find_holders: FindHolders
    label_keys: set[str]
    names_holders: bool  # some exporter here names holders
    geometries: dict[str, tuple[ReportedProfile, ...]] = field(default_factory=dict)
    seen: dict[str, Mapping[int, Sighting]] = field(default_factory=dict)  # node → GPU index → what was seen


@dataclass(frozen=True, slots=True)
class _OfNode:
    rows: list[Row] = field(default_factory=list)
    smi: list[Smi] = field(default_factory=list)
    exported: list[MigParted] = field(default_factory=list)


def assemble(facts: Facts, catalogue: Catalogue, notes: Iterable[Note] = ()) -> Snapshot:
    """Texts still carry their names in marks (:mod:`migsaw.observe.naming`).

    Raises :class:`migsaw.errors.InputError` for a file of nvidia-smi text that belongs to no node.
    """
    found = list(notes)
    sources = _by_node(facts, catalogue, found)
    shared = _Shared(
        catalogue,
        find_holders=_HolderFinder(facts.pods),
        label_keys=_selected_keys(facts.pods),
        names_holders=any(row.names_a_pod for row in facts.rows),
    )
    nodes = [
        _node(facts.nodes.get(name) or bare_node(name), mine, facts, shared, found)
        for name, mine in sorted(sources.items())
    ]
    found += _twice(nodes)
    if facts.nodes:
        found += check_pods(facts.nodes, {node.name for node in nodes}, facts.pods or PodsSeen())
    pods = tuple(facts.pods.pods[key] for key in sorted(facts.pods.pods)) if facts.pods else ()
    snapshot = Snapshot(
        nodes=tuple(nodes),
        pods=tuple(sorted(pods, key=lambda pod: (pod.namespace, pod.name))),
        notes=tuple(sorted(set(found), key=_note_order)),
        geometries=dict(sorted(shared.geometries.items())),
        resource_versions=_versions(facts, nodes),
        taken_at=_taken_at(facts.rows),
    )
    return replace(snapshot, telemetry=_telemetry(facts, snapshot, shared))


def _telemetry(facts: Facts, snapshot: Snapshot, shared: _Shared) -> Telemetry | None:
    if facts.telemetry is None or facts.telemetry.source == "prometheus":
        return facts.telemetry and complete(facts.telemetry, snapshot, shared.catalogue)
    alive = facts.pods.pods if facts.pods else None
    scraped = (Scraped(node, shared.seen[node.name], shared.find_holders, alive) for node in snapshot.nodes)
    return of_scrape(facts.telemetry, scraped)


def _by_node(facts: Facts, catalogue: Catalogue, notes: list[Note]) -> dict[str, _OfNode]:
    """Every node with GPUs, and what belongs to it."""
    gpu_nodes = [name for name, node in facts.nodes.items() if is_gpu_node(node, catalogue)]
    hosts = Hosts(facts.nodes, gpu_nodes, facts.pods)
    found = {name: _OfNode() for name in gpu_nodes}
    for name, rows in place_rows(facts.rows, hosts, notes).items():
        found.setdefault(name, _OfNode()).rows.extend(rows)
    node_of_uuid = {r.identity.uuid: name for name, mine in found.items() for r in mine.rows if r.identity.uuid}
    known = set(found)
    for smi in sorted(facts.smi, key=lambda s: (-len(s.uuids), s.file)):
        name = node_of_file(smi.file, smi.uuids, hosts, known, node_of_uuid)
        found.setdefault(name, _OfNode()).smi.append(smi)
        notes += smi.notes
    known = set(found)
    for parted in facts.parted:
        if parted.is_export:
            name = node_of_file(parted.file, (), hosts, known, {})
            found.setdefault(name, _OfNode()).exported.append(parted)
    return found


def _node(
    node: NodeFacts,
    mine: _OfNode,
    facts: Facts,
    shared: _Shared,
    notes: list[Note],
) -> Node:
    catalogue = shared.catalogue
    inventory, strategy = take_inventory(node, catalogue), strategy_of(node)
    notes += inventory.notes
    shared.seen[node.name] = seen = put_together(node, mine.rows, mine.smi, notes)
    exported = _exported(mine.exported, inventory.gpus or len(seen))
    drafts = draft_gpus(NodeSources(node, inventory, seen, exported), catalogue, shared.find_holders, notes)
    drafts = tuple(replace(d, gpu=_with_geometry(d.gpu, node, mine.smi, shared, notes)) for d in drafts)
    board = inventory.board or next((catalogue.find(d.gpu.board) for d in drafts if d.gpu.board), None)
    slicers = facts.pods.slicers.get(node.name, set()) if facts.pods else set()
    partitioner = find_partitioner(node, slicers, any(row.has_claims for row in mine.rows))
    slicer = partitioner.owner if partitioner.owner in SLICERS else None
    names = shared.names_holders
    gpus, more = settle(node, strategy, drafts, board, facts.pods, names_holders=names, slicer=slicer)
    notes += [*more, *check_node(node, inventory, partitioner, gpus), *check_wish(node, gpus, facts.parted, catalogue)]
    return Node(
        name=node.name,
        azure_size=azure_size(node, catalogue),
        pool=node.label(*POOL_LABELS),
        owner=partitioner.owner,
        owner_reason=partitioner.reason,
        strategy=strategy,
        layout_scope=layout_scope(partitioner.owner, strategy),
        schedulable=node.schedulable,
        mig_config=node.label(MIG_CONFIG),
        mig_config_state=node.label("nvidia.com/mig.config.state"),
        labels={key: node.labels[key] for key in sorted(shared.label_keys & node.labels.keys())},
        taints=node.taints,
        allocatable={
            name: devices(node, name, amount)
            for name, amount in node.allocatable.items()
            if amount or not name.startswith("nvidia.com/mig-")
        },
        gpus=gpus,
    )


def _twice(nodes: Iterable[Node]) -> list[Note]:
    """One GPU on two nodes: the same node at two times, under two names."""
    where: dict[str, list[str]] = {}
    for node in nodes:
        for gpu in node.gpus:
            if gpu.uuid:
                where.setdefault(gpu.uuid, []).append(node.name)
    return [
        Note("error", f"{uuid} is shown on {' and '.join(map(naming.node, names))}: files of different times")
        for uuid, names in where.items()
        if len(names) > 1
    ]


def _exported(parted: Sequence[MigParted], gpus: int) -> dict[int, Entry]:
    """What `nvidia-mig-parted export` found, by GPU index."""
    wishes = ((index, p.wish(EXPORTED, index, ())) for p in parted for index in range(gpus))
    return {index: entry for index, entry in wishes if entry is not None}


def _with_geometry(
    gpu: Gpu,
    node: NodeFacts,
    texts: Sequence[Smi],
    shared: _Shared,
    notes: list[Note],
) -> Gpu:
    board = shared.catalogue.find(gpu.board) if gpu.board else None
    profiles = reported_profiles(texts, gpu.index, board)
    notes += check_geometry(node, gpu.index, board, profiles, texts)
    if not profiles:
        return gpu
    key = geometry_key(board, profiles)
    shared.geometries[key] = profiles
    return replace(gpu, geometry=key)


class _HolderFinder:
    """Holders by the exporter's labels: a pod's name, mostly with its namespace, sometimes only its uid or claim."""

    def __init__(self, pods: PodsSeen | None) -> None:
        self._pods = pods or PodsSeen()
        self._of_name: dict[str, set[PodRef]] = {}
        for pod in self._pods.pods.values():
            self._of_name.setdefault(pod.name, set()).add(PodRef(pod.namespace, pod.name))

    def __call__(self, rows: Iterable[Row]) -> dict[PodRef, OwnerSource]:
        """In the order of their names."""
        found: dict[PodRef, OwnerSource] = {}
        for subject in sorted({s for row in rows for s in row.subjects}, key=repr):
            if ref := self._holder(subject):
                found.setdefault(ref, subject.owner_source)
        return dict(sorted(found.items(), key=lambda item: str(item[0])))

    def _holder(self, subject: Subject) -> PodRef | None:
        if subject.owner:
            namespace, name = subject.owner
            same_name = self._of_name.get(name, set())
            return PodRef(namespace, name) if namespace else next(iter(same_name)) if len(same_name) == 1 else None
        if subject.owner_uid:
            return self._pods.of_uid.get(subject.owner_uid)
        namespace, claim = subject.claim or (None, None)
        return self._pods.of_claim.get((namespace, claim)) if namespace and claim else None


def _selected_keys(pods: PodsSeen | None) -> set[str]:
    """Label keys by which the snapshot's pods choose nodes."""
    keys = set(KEPT_LABELS)
    for pod in pods.pods.values() if pods else ():
        keys |= pod.node_selector.keys()
        keys |= {requirement.key for term in pod.node_affinity for requirement in term}
    return keys


def _versions(facts: Facts, nodes: Sequence[Node]) -> dict[str, str]:
    shown = {f"Node/{n.name}": facts.nodes[n.name].version for n in nodes if n.name in facts.nodes}
    shown |= {f"Pod/{key}": version for key, version in (facts.pods.versions if facts.pods else {}).items()}
    return {key: version for key, version in sorted(shown.items()) if version}


def _taken_at(rows: Iterable[Row]) -> str | None:
    """The latest time that a sample carries. The clock of this machine says nothing about the cluster."""
    latest = max((row.seconds for row in rows if row.seconds is not None), default=None)
    if latest is None or not 0 <= latest < 2**35:
        return None
    return datetime.fromtimestamp(latest, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _note_order(note: Note) -> tuple[str, str, str, str]:
    """By file, then by the numbers in the place, so that line 9 stands before line 10."""
    place = re.sub(r"\d+", lambda number: number[0].zfill(9), note.where or "")
    return note.file or "", place, note.text, note.severity
