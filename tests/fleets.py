"""Random small fleets as snapshots: several owners, strategies and boards, pods that hold and pods that wait."""

from __future__ import annotations

import random
from collections import Counter

from migsaw.model.boards import Board, Catalogue
from migsaw.model.layouts import Placed, fault
from migsaw.model.refs import PodRef
from migsaw.model.snapshot import Gpu, Instance, Node, Pod, Snapshot

BOARDS = {
    "a100-pcie-80gb": "Standard_NC24ads_A100_v4",
    "h100-nvl-94gb": "Standard_NC40ads_H100_v5",
    "a100-sxm4-40gb": "Standard_ND96asr_v4",
    "a30-24gb": None,
    "rtx-pro-6000-blackwell-server": None,
}
OWNERS = ("gpu-operator", "gpu-operator", "aks", "aks-managed", "dra", "unknown")


def random_fleet(seed: int, catalogue: Catalogue) -> Snapshot:
    rng = random.Random(f"fleet {seed}")
    nodes, pods = [], []
    for n in range(rng.randint(1, 4)):
        node, mine = _node(rng, n, catalogue)
        nodes.append(node)
        pods += mine
    pods += [_waiting(rng, k, rng.choice(nodes), catalogue) for k in range(rng.randint(0, 6))]
    return Snapshot(tuple(nodes), tuple(pods))


def _node(rng: random.Random, n: int, catalogue: Catalogue) -> tuple[Node, list[Pod]]:
    owner = rng.choice(OWNERS)
    key = rng.choice([k for k, size in BOARDS.items() if size or not owner.startswith("aks")])
    board, strategy = catalogue.board(key), rng.choice(["mixed", "mixed", "single"])
    uniform = strategy == "single" or owner.startswith("aks")
    name, size = f"node-{n}", BOARDS[key]
    profile = rng.choice([p.name for p in board.profiles if p.is_plain])
    if owner.startswith("aks"):
        profile = rng.choice([p.name for p in board.profiles if p.role in ("1g", "2g", "3g", "4g", "7g")])
    gpus: list[Gpu] = []
    pods: list[Pod] = []
    for index in range(rng.randint(1, 4)):
        layout = _full_of(board, profile) if uniform else _random_layout(rng, board)
        on = uniform or rng.random() < 0.8
        instances = [_instance(rng, p, name, index, k, pods, strategy) for k, p in enumerate(layout if on else [])]
        state = "idle" if rng.random() < 0.7 else "unknown"
        gpus.append(
            Gpu(index, f"GPU-{n}-{index}", key, None, "on" if on else "off", state=state, instances=tuple(instances))  # type: ignore[arg-type]
        )
    scope = {"gpu-operator": "node" if strategy == "single" else "gpu"}.get(owner, "pool" if uniform else "gpu")
    pool = f"pool{n}" if size and owner != "unknown" else None
    labels = {"agentpool": pool} if pool else {}
    node = Node(name, size, pool, owner, None, strategy, scope, labels=labels, gpus=tuple(gpus))  # type: ignore[arg-type]
    return node, pods


def _instance(
    rng: random.Random, placed: Placed, node: str, gpu: int, number: int, pods: list[Pod], strategy: str
) -> Instance:
    state = rng.choice(["idle", "idle", "idle", "busy", "unknown"])
    owner = None
    if state == "busy":
        owner = PodRef("ns", f"run-{node}-{gpu}-{number}")
        resource = "nvidia.com/gpu" if strategy == "single" else "nvidia.com/mig-" + placed.profile.replace("+", ".")
        pods.append(Pod("ns", owner.pod, node, "Running", {resource: 1}))
    start = placed.start if rng.random() < 0.3 else None
    return Instance(placed.profile, number, start, owner, "made up", state)  # type: ignore[arg-type]


def _full_of(board: Board, profile: str) -> list[Placed]:
    layout: list[Placed] = []
    for start in board.profile(profile).starts or ():
        if fault(board, [*layout, Placed(profile, start)]) is None:
            layout.append(Placed(profile, start))
    return layout


def _random_layout(rng: random.Random, board: Board) -> list[Placed]:
    layout: list[Placed] = []
    for _ in range(rng.randint(0, 7)):
        profile = rng.choice(board.profiles)
        item = Placed(profile.name, rng.choice(profile.starts or (0,)))
        if fault(board, [*layout, item]) is None:
            layout.append(item)
    return layout


def _waiting(rng: random.Random, k: int, node: Node, catalogue: Catalogue) -> Pod:
    board = catalogue.board(node.gpus[0].board or "")
    if node.strategy == "single":
        asks = Counter({"nvidia.com/gpu": 1})
    else:
        asks = Counter(
            {"nvidia.com/mig-" + rng.choice(board.profiles).name.replace("+", "."): rng.choice([1, 1, 1, 2])}
        )
    selector = {"kubernetes.io/hostname": node.name} if rng.random() < 0.3 else {}
    return Pod("ns", f"wait-{k}", None, "Pending", dict(asks), node_selector=selector)
