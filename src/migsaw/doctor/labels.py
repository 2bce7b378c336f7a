"""Who holds what, and which profile it is: where the exporter's labels are missing, shifted or wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from migsaw.doctor.engine import Evidence, Facts, of_telemetry, rule
from migsaw.doctor.places import counted, distinct, holds_memory, nodes_with_pods, of_node, place
from migsaw.model.telemetry import Device, Telemetry

_LABELS = ("label", "exported label", "pod uid", "dra claim")


def _is_labelled(device: Device) -> bool:
    return device.owner_source in _LABELS


def _is_held(facts: Facts, node: str | None, devices: Sequence[Device]) -> bool:
    """Whether a pod runs there, by the pods or by memory."""
    return node in nodes_with_pods(facts.snapshot) or any(map(holds_memory, devices))


def _nameless(facts: Facts, telemetry: Telemetry) -> list[tuple[str, list[Device]]]:
    """Nodes with work on which no device says whose it is. Where the exporter stands in `pod`, another rule says "
    "so."""
    return [
        (node or "unknown node", devices)
        for node, devices in of_node(telemetry).items()
        if not any(d.exporter_pod or _is_labelled(d) for d in devices) and _is_held(facts, node, devices)
    ]


def _are_all_nameless(telemetry: Telemetry) -> bool:
    return not any(_is_labelled(d) or d.exporter_pod for d in telemetry.devices)


@rule(
    "MS131",
    "warning",
    "No series names a pod",
    cause="The exporter does not map devices to pods: DCGM_EXPORTER_KUBERNETES is off, the kubelet's pod-resources "
    "socket is not mounted, or the release loses the labels on MIG.",
    next="Set DCGM_EXPORTER_KUBERNETES=true, mount /var/lib/kubelet/pod-resources, and use release 4.8.4 or later.",
    sources=("NVIDIA/dcgm-exporter#577", "NVIDIA/dcgm-exporter#342", "NVIDIA/dcgm-exporter#411"),
)
@of_telemetry
def no_owner_labels(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    if _are_all_nameless(telemetry):
        for node, devices in _nameless(facts, telemetry):
            yield Evidence(None, node, f"{counted(distinct(devices), 'device')} without a pod's name")


@rule(
    "MS132",
    "warning",
    "Series of some nodes name no pod",
    cause="Exporters of several releases or settings run at once; those of these nodes do not map devices to pods.",
    next="Compare the image and the environment of the exporters' pods; bring these nodes to the settings of the "
    "others.",
    sources=("NVIDIA/dcgm-exporter#660", "NVIDIA/dcgm-exporter#150", "NVIDIA/gpu-monitoring-tools#138"),
)
@of_telemetry
def some_without_owner_labels(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    if not _are_all_nameless(telemetry):
        for node, devices in _nameless(facts, telemetry):
            yield Evidence(None, node, f"{counted(distinct(devices), 'device')} without a pod's name")


@rule(
    "MS133",
    "info",
    "A holder is known by counting only",
    cause="The exporter names no pod for the device, and the pods of the node ask for exactly what is left over.",
    next="Nothing where the pods file is right; pods that use a GPU without asking for it would make it wrong.",
    sources=("NVIDIA/dcgm-exporter#660",),
)
@of_telemetry
def owner_by_counting(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    for devices in of_node(telemetry).values():
        if any(map(_is_labelled, devices)):
            for device in devices:
                if device.owner_source == "pods":
                    yield Evidence(None, place(device), f"{device.owner}, by what is left over")


@rule(
    "MS134",
    "info",
    "Holders are named by uid only",
    cause="Some releases export pod_uid and lose the pod's name.",
    next="Give --pods of the same time, so that the uid finds its pod; update dcgm-exporter.",
    sources=("NVIDIA/dcgm-exporter#660",),
)
@of_telemetry
def owner_by_uid(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    for device in telemetry.devices:
        if device.owner_source == "pod uid":
            yield Evidence(None, place(device), str(device.owner or "a uid that no pod has"))


@rule(
    "MS135",
    "warning",
    "The exporter's own pod stands where the workload should",
    cause="Prometheus scrapes with honorLabels: false and the workload's labels (exported_pod) are lost on the way, "
    "by a relabelling rule or a keep-list.",
    next="Set honorLabels: true in the ServiceMonitor or scrape job, or keep exported_pod and exported_namespace.",
    sources=("NVIDIA/dcgm-exporter#85", "NVIDIA/gpu-operator#811", "NVIDIA/gpu-operator#2938"),
)
@of_telemetry
def exporter_for_workload(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    for node, devices in of_node(telemetry).items():
        if not any(map(_is_labelled, devices)) and _is_held(facts, node, devices):
            for device in devices:
                if device.exporter_pod:
                    yield Evidence(None, place(device), f"pod is {device.exporter_pod}, the exporter itself")


@rule(
    "MS136",
    "info",
    "The workload stands under exported_pod",
    cause="Prometheus scrapes with honorLabels: false: `pod` is the exporter. migsaw reads exported_pod; dashboards "
    "that group by pod show one busy exporter.",
    next="Set honorLabels: true in the ServiceMonitor or scrape job.",
    sources=("NVIDIA/dcgm-exporter#85", "NVIDIA/gpu-operator#811"),
)
@of_telemetry
def exported_labels(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    for device in telemetry.devices:
        if device.owner_source == "exported label":
            yield Evidence(None, place(device), f"{device.owner} under exported_pod")


@rule(
    "MS137",
    "warning",
    "Claims of DRA do not show in the series",
    cause="The DRA driver hands out GPUs here, and the exporter maps devices the old way: kubernetesDRA is off.",
    next="Set kubernetesDRA.enabled=true in dcgm-exporter's chart (KUBERNETES_ENABLE_DRA), release 4.2 or later.",
    sources=("kubernetes-sigs/dra-driver-nvidia-gpu#166", "NVIDIA/dcgm-exporter#569"),
)
@of_telemetry
def claims_unseen(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    seen = of_node(telemetry)
    for node in facts.snapshot.nodes:
        devices = seen.get(node.name, [])
        if node.owner == "dra" and devices and not any(device.has_claim for device in devices):
            yield Evidence(None, node.name, f"no claim on {counted(distinct(devices), 'device')}")


@rule(
    "MS138",
    "warning",
    "A label names a pod that is not there",
    cause="The files are of different times, or the exporter serves labels of a pod that has gone.",
    next="Take pods and metrics again, at one time.",
    sources=("NVIDIA/gpu-monitoring-tools#188",),
)
@of_telemetry
def holder_not_there(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    there = {pod.key for pod in facts.snapshot.pods}
    if telemetry.window is not None or not there:
        return  # pods of a history come and go
    for device in telemetry.devices:
        if device.owner and _is_labelled(device) and str(device.owner) not in there:
            yield Evidence(None, place(device), f"{device.owner} is not among the pods")


@rule(
    "MS139",
    "warning",
    "Nobody says whose pods there are",
    cause="No pods were given, so an instance that no label claims may be held or free.",
    next="Give --pods (`kubectl get pods -A -o json`) of the same time.",
    sources=("NVIDIA/dcgm-exporter#342",),
)
@of_telemetry
def no_pods(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    if facts.snapshot.pods:
        return
    for node in facts.snapshot.nodes:
        states = [i.state for gpu in node.gpus for i in gpu.instances] + [g.state for g in node.gpus if not g.instances]
        if unknown := states.count("unknown"):
            yield Evidence(None, node.name, f"{unknown} of {counted(len(states), 'device')}: nobody says whether held")


def _label_profile(facts: Facts, device: Device) -> str | None:
    """The catalogue's name of the label."""
    board = facts.catalogue.find(device.board or "")
    found = board.find(device.profile_label or "") if board else None
    return found.name if found else None


@rule(
    "MS140",
    "info",
    "A profile's older name in the label",
    cause="Libraries round an eighth of the memory in two ways: 7g.79gb is 7g.80gb, 3g.21gb is 3g.20gb.",
    next="Nothing: they are the same profile. Queries by name should ask for both.",
    sources=("NVIDIA/gpu-operator#351", "NVIDIA/dcgm-exporter#544", "NVIDIA/gpu-feature-discovery#7"),
)
@of_telemetry
def profile_renamed(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    for device in telemetry.devices:
        if device.profile and device.profile_label and _label_profile(facts, device) == device.profile:
            yield Evidence(None, place(device), f"GPU_I_PROFILE is {device.profile_label}")


@rule(
    "MS141",
    "warning",
    "The profile in the label is wrong",
    cause="The exporter reads profile names once at its start, or names them by another board's table (seen on H100 "
    "NVL and H200). What the node advertises is believed.",
    next="Restart dcgm-exporter after a change of the layout; use release 4.8.4 or later.",
    sources=("NVIDIA/dcgm-exporter#544", "NVIDIA/dcgm-exporter#713", "NVIDIA/gpu-operator#687"),
)
@of_telemetry
def profile_wrong(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    for device in telemetry.devices:
        if device.profile and device.profile_label and _label_profile(facts, device) != device.profile:
            yield Evidence(None, place(device), f"GPU_I_PROFILE is {device.profile_label}")


@rule(
    "MS142",
    "warning",
    "Instances of unknown profile",
    cause="GPU_I_PROFILE is missing, `<<<NULL>>>`, or a name that the board does not have, and nothing else tells "
    "the profile. Activity of an instance of unknown size cannot be normalised.",
    next="Give --nodes and --smi (`nvidia-smi mig -lgi`) of the node; restart dcgm-exporter.",
    sources=("NVIDIA/gpu-monitoring-tools#193",),
)
@of_telemetry
def profile_unknown(facts: Facts, telemetry: Telemetry) -> Iterator[Evidence]:
    for device in telemetry.devices:
        if device.gi_id is not None and device.profile is None:
            yield Evidence(None, place(device), f"GPU_I_PROFILE is {device.profile_label or 'missing or blank'}")


RULES = (
    no_owner_labels,
    some_without_owner_labels,
    owner_by_counting,
    owner_by_uid,
    exporter_for_workload,
    exported_labels,
    claims_unseen,
    holder_not_there,
    no_pods,
    profile_renamed,
    profile_wrong,
    profile_unknown,
)
