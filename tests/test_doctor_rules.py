"""Every rule fires on its matter, alone, and keeps still beside it; a rule without its condition fails a case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

import pytest

from cluster_files import Files, mixed, series
from doctor_worlds import (
    ACTIVE,
    FREE,
    GONE,
    POWER,
    RATIO,
    USED,
    UTIL,
    WEEK,
    Line,
    World,
    change,
    change_series,
    healthy,
    of_telemetry,
    position,
    spread,
    with_history,
)
from migsaw.cli.shared import load_catalogue
from migsaw.doctor.engine import Evidence, Facts, Rule, examine
from migsaw.doctor.registry import RULES
from migsaw.model.snapshot import Snapshot
from migsaw.model.telemetry import RATIOS, Distribution, Window

CATALOGUE = load_catalogue()
SEEDS = range(8)
EXPORTER = "nvidia-dcgm-exporter-abcde"
AZURE = "Azure Monitor managed Prometheus"


@dataclass(frozen=True)
class Case:
    """``fires``: ``code`` and nothing else is found; otherwise all but ``code`` may be."""

    code: str
    fires: bool
    name: str
    make: Callable[[World, Callable[[World], Snapshot]], Snapshot]


CASES: list[Case] = []
Text = Callable[[World], object]
Value = Callable[[Snapshot], Snapshot]


def text(code: str, *, fires: bool = True) -> Callable[[Text], Text]:
    """A case that edits the files, read by the real readers."""

    def added(edit: Text) -> Text:
        def make(world: World, observe: Callable[[World], Snapshot]) -> Snapshot:
            edit(world)
            return observe(world)

        CASES.append(Case(code, fires, edit.__name__, make))
        return edit

    return added


def scrape(code: str, *, fires: bool = True) -> Callable[[Value], Value]:
    """A case that edits the snapshot of one scrape."""

    def added(edit: Value) -> Value:
        CASES.append(Case(code, fires, edit.__name__, lambda world, observe: edit(observe(world))))
        return edit

    return added


def week(code: str, *, fires: bool = True) -> Callable[[Value], Value]:
    """A case that edits the snapshot with a week of history."""

    def added(edit: Value) -> Value:
        CASES.append(Case(code, fires, edit.__name__, lambda world, observe: edit(with_history(observe(world)))))
        return edit

    return added


def _drop(world: World, which: Callable[[Line], bool]) -> None:
    world.lines = [line for line in world.lines if not which(line)]


def _without_ratios(snapshot: Snapshot) -> Snapshot:
    assert snapshot.telemetry is not None
    devices = tuple(
        replace(d, series={k: s for k, s in d.series.items() if k not in RATIOS}) for d in snapshot.telemetry.devices
    )
    families = tuple(f for f in snapshot.telemetry.families if not f.startswith("DCGM_FI_PROF_"))
    return of_telemetry(snapshot, devices=devices, families=families)


# ---- what is missing -----------------------------------------------------------------------------------------------


@text("MS101")
def no_profiling_at_all(world):
    _drop(world, lambda line: line.is_profiling)


@week("MS101")
def a_plain_server_without_profiling(snapshot):
    return _without_ratios(snapshot)


@text("MS101", fires=False)
def one_profiling_series_is_left(world):
    keep = next(line for line in world.lines if line.is_profiling)
    _drop(world, lambda line: line.is_profiling and line is not keep)


@week("MS101", fires=False)
def the_managed_server_has_a_rule_of_its_own(snapshot):
    return of_telemetry(_without_ratios(snapshot), server=AZURE)


@week("MS102")
def the_managed_server_drops_profiling(snapshot):
    return of_telemetry(_without_ratios(snapshot), server=AZURE)


@week("MS102", fires=False)
def the_managed_server_keeps_profiling(snapshot):
    return of_telemetry(snapshot, server=AZURE)


@week("MS102", fires=False)
def another_server_without_profiling(snapshot):
    return of_telemetry(_without_ratios(snapshot), server="VictoriaMetrics 1.100.0")


@text("MS103")
def one_instance_without_profiling(world):
    place = world.places(mig=True)[0]
    _drop(world, lambda line: line.is_profiling and line.where == place)


@text("MS103")
def one_held_whole_gpu_without_profiling(world):
    place = world.places(mig=False)[0]
    _drop(world, lambda line: line.is_profiling and line.where == place)


@week("MS103", fires=False)
def profiling_of_one_device_was_not_answered(snapshot):
    at = position(snapshot)
    series = {k: s for k, s in snapshot.telemetry.devices[at].series.items() if k not in RATIOS}
    return of_telemetry(change(snapshot, at, series=series), partial=("1 GPU not read: timed out",))


@text("MS104")
def no_sm_activity(world):
    _drop(world, lambda line: line.family == world.fields["sm"])


@text("MS104")
def no_sm_activity_of_one_instance(world):
    place = world.places(mig=True, held=True)[0]
    _drop(world, lambda line: line.family == world.fields["sm"] and line.where == place)


@text("MS104", fires=False)
def sm_activity_of_the_other_generation(world):
    other = {ACTIVE["sm"]: RATIO["sm"], RATIO["sm"]: ACTIVE["sm"]}
    for line in world.lines:
        line.family = other.get(line.family, line.family)


@text("MS105")
def no_bandwidth(world):
    _drop(world, lambda line: line.family == world.fields["dram"])


@text("MS105", fires=False)
def bandwidth_of_zero_is_there(world):
    for line in world.lines:
        if line.family == world.fields["dram"]:
            line.value = 0


@text("MS106")
def no_memory_of_one_instance(world):
    place = world.places(mig=True, held=True)[0]
    _drop(world, lambda line: line.family == USED and line.where == place)


@text("MS106", fires=False)
def no_memory_of_a_whole_gpu(world):
    place = world.places(mig=False)[0]
    _drop(world, lambda line: line.family == USED and line.where == place)


@text("MS107")
def a_node_without_exporter(world):
    _drop(world, lambda line: line.host == world.names()[0])


@text("MS107", fires=False)
def a_node_with_one_series(world):
    keep = next(line for line in world.lines if line.host == world.names()[0])
    _drop(world, lambda line: line.host == world.names()[0] and line is not keep)


@text("MS108")
def one_gpu_is_left_out(world):
    host, index, _ = world.places(mig=False)[0]
    _drop(world, lambda line: line.where[:2] == (host, index))


@scrape("MS108", fires=False)
def a_gpu_with_mig_on_and_no_instance_has_no_series(snapshot):
    at = position(snapshot, profile="7g.80gb")
    gone = snapshot.telemetry.devices[at]
    nodes = tuple(
        replace(
            n,
            gpus=tuple(replace(g, instances=()) if (n.name, g.index) == (gone.node, gone.index) else g for g in n.gpus),
        )
        for n in snapshot.nodes
    )
    devices = tuple(d for d in snapshot.telemetry.devices if d is not gone)
    return of_telemetry(replace(snapshot, nodes=nodes), devices=devices)


@text("MS109")
def one_instance_is_not_exported(world):
    place = next(
        p for p in world.places(mig=True, held=False) if len({q for q in world.places() if q[:2] == p[:2]}) > 1
    )
    _drop(world, lambda line: line.where == place)


@text("MS109", fires=False)
def replicas_of_time_slicing_are_no_instances(world):
    for node in world.nodes:
        node["status"]["allocatable"] = {
            name: str(int(n) * 100) if "mig-" in name else n for name, n in node["status"]["allocatable"].items()
        }


@text("MS110")
def a_host_that_is_no_node(world):
    idle = world.of(world.places(mig=True, held=False)[0])
    strange = {"Hostname": "dcgm-exporter-xyz", "UUID": "GPU-of-another-cluster"}
    for line in idle:
        labels = {k: v for k, v in line.labels.items() if k != "hostname"}
        world.lines.append(Line(line.family, labels | strange, line.value))


@text("MS110", fires=False)
def hosts_by_address(world):
    for number, node in enumerate(world.nodes):
        node["status"]["addresses"] = [{"type": "InternalIP", "address": f"10.0.0.{number}"}]
    address = {name: f"10.0.0.{number}:9400" for number, name in enumerate(world.names())}
    for line in world.lines:
        line.labels = {k: v for k, v in line.labels.items() if k.lower() != "hostname"} | {
            "instance": address[line.host or ""]
        }


@week("MS111")
def a_gpu_that_the_node_does_not_have(snapshot):
    return change(snapshot, position(snapshot, held=False), index=99)


@scrape("MS111")
def more_gpus_than_the_vm_size_has(snapshot):
    node = next(n for n in snapshot.nodes if len(n.gpus) > 2)
    nodes = tuple(replace(n, azure_size="Standard_NC48ads_A100_v4") if n is node else n for n in snapshot.nodes)
    return replace(snapshot, nodes=nodes)


@scrape("MS111", fires=False)
def as_many_gpus_as_the_vm_size_has(snapshot):
    return replace(snapshot, nodes=tuple(replace(n, azure_size="Standard_ND96asr_v4") for n in snapshot.nodes))


# ---- values --------------------------------------------------------------------------------------------------------


@text("MS112")
def free_memory_is_an_int64_blank(world):
    next(line for line in world.lines if line.family == FREE).value = "9223372036854775794"


@text("MS112")
def graphics_is_a_float_blank(world):
    line = next(line for line in world.of(world.places(held=True)[0]) if line.family == world.fields["graphics"])
    line.value = "140737488355328"


@text("MS112", fires=False)
def a_large_memory_is_no_blank(world):
    next(line for line in world.lines if line.family == FREE).value = 288_000


@week("MS113")
def some_samples_are_blank(snapshot):
    return change_series(snapshot, position(snapshot), "graphics", blanks=3)


@week("MS113", fires=False)
def all_samples_are_blank(snapshot):
    return change_series(snapshot, position(snapshot), "graphics", blanks=10_080, samples=0, values=None)


@text("MS114")
def a_spike_in_the_scrape(world):
    next(line for line in world.of(world.places(held=True)[0]) if line.family == world.fields["sm"]).value = 187432.0


@week("MS114")
def spikes_in_the_week(snapshot):
    return change_series(snapshot, position(snapshot), "dram", spikes=2)


@text("MS114", fires=False)
def the_largest_ratio_that_is_kept(world):
    next(line for line in world.of(world.places(held=True)[0]) if line.family == world.fields["sm"]).value = 1.2


@text("MS115")
def a_ratio_of_a_little_above_one(world):
    next(line for line in world.of(world.places(held=True)[0]) if line.family == world.fields["sm"]).value = 1.07


@text("MS115", fires=False)
def a_ratio_of_exactly_one(world):
    next(line for line in world.of(world.places(held=True)[0]) if line.family == world.fields["sm"]).value = 1.0


@week("MS116")
def activity_does_not_move(snapshot):
    return change_series(snapshot, position(snapshot), "graphics", changes=0, values=_flat(0.31))


@week("MS116", fires=False)
def a_saturated_device_does_not_move(snapshot):
    return change_series(snapshot, position(snapshot), "graphics", changes=0, values=_flat(1.0))


@week("MS116", fires=False)
def memory_does_not_move(snapshot):
    return change_series(snapshot, position(snapshot), "used", changes=0, values=_flat(9000.0))


@week("MS116", fires=False)
def five_equal_samples_are_chance(snapshot):
    return change_series(snapshot, position(snapshot), "graphics", changes=0, values=_flat(0.31), samples=5)


def _flat(value: float) -> Distribution:
    return Distribution(value, value, value, value, value, 0.0)


def _silence(world: World, keep: tuple[object, ...] = ()) -> None:
    """No activity on the first node."""
    for line in world.lines:
        if line.host == world.names()[0] and line.where not in keep and (line.is_profiling or line.family == UTIL):
            line.value = 0


@text("MS117")
def a_node_where_nothing_moves_though_memory_is_held(world):
    _silence(world)


@text("MS117")
def profiling_is_zero_while_utilisation_is_not(world):
    _silence(world)
    host = world.names()[0]
    next(line for line in world.lines if line.family == UTIL and line.host == host).value = 99


@text("MS117", fires=False)
def one_device_of_the_node_moves(world):
    host = world.names()[0]
    _silence(world, keep=(next(p for p in world.places(held=True) if p[0] == host),))
    for line in world.lines:
        if line.family == UTIL and line.host == host:
            line.value = 0


@text("MS117", fires=False)
def one_idle_holder_in_one_scrape(world):
    _silence(world)
    host, held = world.names()[0], [p for p in world.places(held=True) if p[0] == world.names()[0]]
    for line in world.lines:
        if line.host == host and line.family == USED and line.where != held[0]:
            line.value = 14


@text("MS118")
def utilisation_of_an_instance(world):
    place = world.places(mig=True, held=True)[0]
    world.lines.append(Line(UTIL, dict(world.of(place)[0].labels), 0))


@text("MS118", fires=False)
def utilisation_of_whole_gpus_only(world):
    for line in world.lines:
        if line.family == UTIL:
            line.value = 100


@text("MS119")
def power_on_every_instance_of_a_gpu(world):
    host, index, _ = next(p for p in world.places(mig=True, held=False))
    for place in [p for p in world.places() if p[:2] == (host, index)]:
        world.lines.append(Line(POWER, dict(world.of(place)[0].labels), 250))


@text("MS119", fires=False)
def power_of_a_whole_gpu(world):
    world.lines.append(Line(POWER, dict(world.of(world.places(mig=False)[0])[0].labels), 250))


@text("MS120")
def exporters_of_two_generations(world):
    other = dict(zip(ACTIVE.values(), RATIO.values(), strict=True)) | dict(
        zip(RATIO.values(), ACTIVE.values(), strict=True)
    )
    for line in world.lines:
        if line.host == world.names()[0]:
            line.family = other.get(line.family, line.family)


@text("MS120", fires=False)
def all_exporters_of_the_newer_generation(world):
    newer = dict(zip(ACTIVE.values(), RATIO.values(), strict=True))
    for line in world.lines:
        line.family = newer.get(line.family, line.family)


@week("MS120", fires=False)
def two_signals_under_two_generations(snapshot):
    devices = tuple(
        replace(
            d, series={k: replace(s, name=(ACTIVE if k == "sm" else RATIO).get(k, s.name)) for k, s in d.series.items()}
        )
        for d in snapshot.telemetry.devices
    )
    return of_telemetry(snapshot, devices=devices)


@text("MS121")
def two_exporters_on_a_node(world):
    again = [line for line in world.lines if line.host == world.names()[0]]
    managed = {"instance": "10.0.0.9:19400"}  # AKS's own beside the GPU Operator's
    world.more_files["again.prom"] = [Line(line.family, line.labels | managed, line.value) for line in again]


@text("MS121", fires=False)
def one_exporter_scraped_twice(world):
    world.more_files["again.prom"] = world.lines


@text("MS121", fires=False)
def one_exporter_in_two_files(world):
    world.more_files["memory.prom"] = [line for line in world.lines if line.family in (USED, FREE)]
    _drop(world, lambda line: line.family in (USED, FREE))


def _of_an_older_dcgm(snapshot, most: float, version: str = "3.3.9"):
    """A slice with an old ceiling reads at most so much; all others too little to tell."""
    telemetry = snapshot.telemetry
    calm = spread(0.2)
    moving = {"values": calm, "changes": 9000}
    series = [{**d.series, "graphics": replace(d.series["graphics"], **moving)} for d in telemetry.devices]
    devices = tuple(replace(d, series=s) for d, s in zip(telemetry.devices, series, strict=True))
    snapshot = of_telemetry(snapshot, devices=devices, dcgm_version=version)
    at = next(n for n, d in enumerate(devices) if (d.profile or "")[:2] in ("2g", "3g", "4g"))
    return change_series(snapshot, at, "graphics", values=replace(calm, peak=most))


@week("MS122")
def a_slice_reads_more_than_its_version_could(snapshot):
    return _of_an_older_dcgm(snapshot, 0.93)


@week("MS122", fires=False)
def a_slice_reads_what_its_version_could(snapshot):
    return _of_an_older_dcgm(snapshot, 0.33)


@week("MS122", fires=False)
def a_newer_version_reads_up_to_one(snapshot):
    return _of_an_older_dcgm(snapshot, 0.93, "4.2.3")


def _bare(snapshot, **kept):
    """What the managed scrape job leaves of a GPU with instances: one series, without UUID, instance and product."""
    telemetry = snapshot.telemetry
    node, index = next((n.name, g.index) for n in snapshot.nodes for g in n.gpus if len(g.instances) > 1)
    others = tuple(d for d in telemetry.devices if (d.node, d.index) != (node, index))
    first = next(d for d in telemetry.devices if (d.node, d.index) == (node, index))
    bare = replace(first, uuid=None, gi_id=None, product=None, profile=None, board=None)
    return of_telemetry(snapshot, devices=(*others, replace(bare, **kept)))


@week("MS123")
def instances_became_one_series(snapshot):
    return _bare(snapshot)


@week("MS123", fires=False)
def a_series_with_its_uuid_is_not_collapsed(snapshot):
    return _bare(snapshot, uuid="GPU-0")


# ---- labels --------------------------------------------------------------------------------------------------------


def _unname(lines: list[Line]) -> None:
    for line in lines:
        line.labels |= {"namespace": "", "pod": "", "container": ""}


@text("MS131")
def no_pod_labels_at_all(world):
    _unname(world.lines)


@text("MS131", fires=False)
def an_idle_cluster_names_nobody(world):
    _unname(world.lines)
    world.pods = []
    for line in world.lines:
        line.value = 0 if line.is_profiling or line.family == UTIL else 14


@text("MS132")
def no_pod_labels_on_one_node(world):
    _unname([line for line in world.lines if line.host == world.names()[0]])


@text("MS132", fires=False)
def no_pod_labels_on_any_node(world):
    _unname(world.lines)


@text("MS133")
def a_whole_gpu_without_label_is_counted(world):
    host = world.names()[0]
    _unname(world.of(next(p for p in world.places(mig=False) if p[0] == host)))


@text("MS133", fires=False)
def no_exporter_names_any_holder(world):
    _unname(world.lines)


@text("MS134")
def holders_by_uid(world):
    for line in world.lines:
        if line.labels["pod"]:
            line.labels |= {"pod_uid": f"uid-{line.labels['pod']}", "pod": "", "namespace": "", "container": ""}


@text("MS134", fires=False)
def uids_beside_names(world):
    for line in world.lines:
        if line.labels["pod"]:
            line.labels["pod_uid"] = f"uid-{line.labels['pod']}"


def _export(world: World, *, lost: bool) -> None:
    """What Prometheus makes of the labels with honorLabels false; labels without a value vanish."""
    for line in world.lines:
        own = {"namespace": "gpu-operator", "pod": EXPORTER, "container": "nvidia-dcgm-exporter"}
        kept = {f"exported_{name}": line.labels[name] for name in own if line.labels[name] and not lost}
        line.labels |= own | kept


@text("MS135")
def the_exporter_stands_for_all(world):
    _export(world, lost=True)


@text("MS135", fires=False)
def the_exporter_stands_beside_the_workload(world):
    _export(world, lost=False)


@text("MS136")
def the_workload_is_exported(world):
    _export(world, lost=False)


@text("MS136", fires=False)
def the_workload_is_lost(world):
    _export(world, lost=True)


@scrape("MS137")
def dra_without_claims(snapshot):
    return replace(snapshot, nodes=tuple(replace(node, owner="dra") for node in snapshot.nodes))


@scrape("MS137", fires=False)
def dra_with_claims(snapshot):
    devices = tuple(replace(device, has_claim=True) for device in snapshot.telemetry.devices)
    nodes = tuple(replace(node, owner="dra") for node in snapshot.nodes)
    return of_telemetry(replace(snapshot, nodes=nodes), devices=devices)


@text("MS138")
def a_holder_is_not_among_the_pods(world):
    world.pods = world.pods[1:]


@week("MS138", fires=False)
def a_holder_of_last_week(snapshot):
    return change(snapshot, position(snapshot), owner=GONE)


@text("MS139")
def no_pods_were_given(world):
    world.pods = None


@text("MS139", fires=False)
def no_pods_and_nothing_idle(world):
    world.pods = None
    for place in world.places(held=False):
        for line in world.of(place):
            line.labels |= {"namespace": "ml", "pod": "somebody", "container": "main"}


@text("MS140")
def the_older_name_of_7g(world):
    for line in world.lines:
        if line.labels.get("GPU_I_PROFILE") == "7g.80gb":
            line.labels["GPU_I_PROFILE"] = "7g.79gb"


@scrape("MS140", fires=False)
def another_profile_is_no_older_name(snapshot):
    return change(snapshot, position(snapshot, profile="7g.80gb"), profile_label="3g.40gb")


@scrape("MS141")
def another_profile(snapshot):
    return change(snapshot, position(snapshot, profile="7g.80gb"), profile_label="3g.40gb")


@scrape("MS141")
def a_profile_of_another_board(snapshot):
    return change(snapshot, position(snapshot, mig=True), profile_label="1g.12gb")


@scrape("MS141", fires=False)
def an_older_name_is_not_wrong(snapshot):
    return change(snapshot, position(snapshot, profile="7g.80gb"), profile_label="7g.79gb")


@scrape("MS142")
def nobody_knows_the_profile(snapshot):
    return change(snapshot, position(snapshot, mig=True), profile=None, profile_label=None)


@text("MS142", fires=False)
def the_node_knows_what_the_label_does_not(world):
    for line in world.lines:
        if line.labels.get("GPU_I_PROFILE") == "7g.80gb":
            line.labels["GPU_I_PROFILE"] = "<<<NULL>>>"


# ---- history -------------------------------------------------------------------------------------------------------


@week("MS151")
def an_answer_is_missing(snapshot):
    return of_telemetry(snapshot, partial=("DCGM_FI_PROF_SM_ACTIVE: maximum of 12 GPUs not read: timed out",))


@week("MS151", fires=False)
def an_answer_without_samples(snapshot):
    return change_series(snapshot, position(snapshot), "sm", samples=0, values=None, changes=None)


@week("MS152")
def ninety_nine_points(snapshot):
    return of_telemetry(snapshot, window=Window(WEEK.end - 99 * 60, WEEK.end, 60.0))


@week("MS152", fires=False)
def a_hundred_points(snapshot):
    return of_telemetry(snapshot, window=Window(WEEK.end - 100 * 60, WEEK.end, 60.0))


def _samples(snapshot: Snapshot, number: int) -> Snapshot:
    devices = tuple(
        replace(d, series={k: replace(s, samples=number, changes=None) for k, s in d.series.items()})
        for d in snapshot.telemetry.devices
    )
    return of_telemetry(snapshot, devices=devices)


@week("MS153")
def one_sample_in_a_week(snapshot):
    return _samples(snapshot, 1)


@week("MS153", fires=False)
def two_samples_in_a_week(snapshot):
    return _samples(snapshot, 2)


@week("MS154")
def a_holder_of_an_hour(snapshot):
    return change_series(snapshot, position(snapshot), "graphics", samples=60)


@week("MS154", fires=False)
def nobody_held_it_for_an_hour(snapshot):
    return change_series(snapshot, position(snapshot, held=False), "graphics", samples=60)


def _ended(snapshot: Snapshot, at: int, seconds: float) -> Snapshot:
    device = snapshot.telemetry.devices[at]
    return change(snapshot, at, series={k: replace(s, last=WEEK.end - seconds) for k, s in device.series.items()})


@week("MS155")
def a_device_is_silent_for_an_hour(snapshot):
    return _ended(snapshot, position(snapshot), 3600)


@week("MS155", fires=False)
def a_device_is_silent_for_one_scrape(snapshot):
    return _ended(snapshot, position(snapshot), 65)


@week("MS155", fires=False)
def a_holder_ended_and_another_holds_now(snapshot):
    at = position(snapshot)
    now = snapshot.telemetry.devices[at]
    before = _ended(change(snapshot, at, owner=GONE), at, 86_400)
    return of_telemetry(before, devices=(*before.telemetry.devices, now))


@week("MS156")
def an_instance_of_the_week_is_no_more(snapshot):
    at = position(snapshot, mig=True, held=False)
    old = replace(snapshot.telemetry.devices[at], gi_id=42)
    return of_telemetry(snapshot, devices=(*snapshot.telemetry.devices, old))


@week("MS156")
def an_instance_was_cut_anew_under_its_id(snapshot):
    at = position(snapshot, profile="7g.80gb")
    old = replace(snapshot.telemetry.devices[at], profile="4g.40gb", owner=GONE)
    return of_telemetry(snapshot, devices=(*snapshot.telemetry.devices, old))


@week("MS156", fires=False)
def two_holders_of_one_profile(snapshot):
    at = position(snapshot, profile="7g.80gb")
    old = replace(snapshot.telemetry.devices[at], owner=GONE)
    return of_telemetry(snapshot, devices=(*snapshot.telemetry.devices, old))


def _stamp(world: World, late: dict[str, int]) -> None:
    for line in world.lines:
        line.milliseconds = 1_764_547_200_000 - 1000 * late.get(line.host or "", 0)


@text("MS157")
def one_node_was_scraped_ten_minutes_before(world):
    _stamp(world, {world.names()[0]: 600})


@text("MS157", fires=False)
def one_node_was_scraped_a_minute_before(world):
    _stamp(world, {world.names()[0]: 60})


@week("MS158")
def no_cadvisor(snapshot):
    pods = tuple(
        replace(use, cpu_cores=None, cpu_throttled=None, network_receive_bytes_per_second=None)
        for use in snapshot.telemetry.pods
    )
    return of_telemetry(snapshot, pods=pods)


@week("MS158", fires=False)
def cadvisor_gives_network_only(snapshot):
    pods = tuple(
        replace(use, cpu_cores=None, cpu_throttled=None, network_receive_bytes_per_second=spread(1e6))
        for use in snapshot.telemetry.pods
    )
    return of_telemetry(snapshot, pods=pods)


@week("MS159")
def no_node_exporter(snapshot):
    return of_telemetry(snapshot, nodes=())


@week("MS159", fires=False)
def node_exporter_was_not_answered(snapshot):
    return of_telemetry(snapshot, nodes=(), partial=("the nodes' disk and network: not read: timed out",))


@week("MS160")
def no_kube_state_metrics(snapshot):
    pods = tuple(replace(use, cpu_limit_cores=None, restarts=None) for use in snapshot.telemetry.pods)
    return of_telemetry(snapshot, pods=pods)


@week("MS160", fires=False)
def pods_without_limits(snapshot):
    pods = tuple(replace(use, cpu_limit_cores=None) for use in snapshot.telemetry.pods)
    return of_telemetry(snapshot, pods=pods)


# ---- the tests -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def observe(tmp_path_factory):
    def run(world: World) -> Snapshot:
        return world.observe(tmp_path_factory.mktemp("world"))

    return run


@pytest.fixture(scope="module")
def seen(observe):
    """Snapshots are made once: (case, seed) → snapshot, ("healthy", seed) → snapshot."""
    known: dict[tuple[str, int], Snapshot] = {}

    def of(case: Case | None, seed: int) -> Snapshot:
        key = (f"{case.code} {case.name}" if case else "healthy", seed)
        if key not in known:
            known[key] = case.make(healthy(seed), observe) if case else observe(healthy(seed))
        return known[key]

    return of


def codes(snapshot: Snapshot, rules=RULES) -> set[str]:
    return {finding.code for finding in examine(Facts(snapshot, CATALOGUE), rules)}


@pytest.mark.parametrize("seed", SEEDS)
def test_healthy_worlds_have_no_findings(seen, seed):
    snapshot = seen(None, seed)
    assert examine(Facts(snapshot, CATALOGUE), RULES) == ()
    assert examine(Facts(with_history(snapshot), CATALOGUE), RULES) == ()


@pytest.mark.parametrize("case", [c for c in CASES if c.fires], ids=lambda c: f"{c.code}-{c.name}")
def test_a_rule_fires_alone(seen, case):
    for seed in SEEDS:
        assert codes(seen(case, seed)) == {case.code}


@pytest.mark.parametrize("case", [c for c in CASES if not c.fires], ids=lambda c: f"{c.code}-{c.name}")
def test_a_rule_keeps_still_beside_its_matter(seen, case):
    for seed in SEEDS:
        assert case.code not in codes(seen(case, seed))


def failures(seen, rule: Rule) -> list[str]:
    """Cases of this rule that do not come out as they must, with this rule in its place."""
    mine = [case for case in CASES if case.code == rule.code]
    wrong = [case.name for case in mine if (rule.code in codes(seen(case, 0), [rule])) is not case.fires]
    return [*wrong, *(["healthy"] if codes(seen(None, 0), [rule]) else [])]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_rule_without_its_condition_is_caught(seen, rule):
    never = replace(rule, condition=lambda facts: ())
    always = replace(rule, condition=lambda facts: [Evidence(None, "everywhere", "always")])
    assert failures(seen, rule) == []
    assert failures(seen, never)
    assert failures(seen, always)


def test_13_of_16_instances_with_profiling(tmp_path):
    """NVIDIA/dcgm-exporter#507: two instances on each of eight GPUs, the second of GPUs 2, 6 and 7 without PROF."""
    lines = []
    for gpu, gi_id in product(range(8), (1, 2)):
        labels = {"GPU_I_PROFILE": "3g.20gb", "GPU_I_ID": str(gi_id)}
        lines.append(series(USED, 14, gpu, **labels))
        if gi_id == 1 or gpu not in (2, 6, 7):
            lines += [series(family, 0, gpu, **labels) for family in ACTIVE.values()]
    snapshot = Files(tmp_path).observe(nodes=[mixed("n1", {"3g.20gb": 16}, gpus=8)], pods=[], metrics=lines)
    (finding,) = [found for found in examine(Facts(snapshot, CATALOGUE), RULES) if found.code == "MS103"]
    assert [e.where for e in finding.evidence] == [f"n1/GPU {gpu}/GI 2 (3g.20gb)" for gpu in (2, 6, 7)]
    assert {e.value for e in finding.evidence} == {"no profiling series; 13 of 16 devices have some"}
