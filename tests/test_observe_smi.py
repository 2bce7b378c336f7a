"""nvidia-smi in all its forms: starts, modes, reported geometry, and which node a file belongs to.

The tables are written as the public captures show them (MIG user guide, driver 450 to 580).
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_files import UUID, Files, lgi_table, mixed, outcome, slice_lines, whole_lines
from migsaw.errors import InputError
from migsaw.observe.smi import parse_smi
from migsaw.observe.smi_facts import Smi

A100_LGIPP = """\
GPU  0 Profile ID 19 Placements: {0,1,2,3,4,5,6}:1
GPU  0 Profile ID 20 Placements: {0,1,2,3,4,5,6}:1
GPU  0 Profile ID 15 Placements: {0,2,4,6}:2
GPU  0 Profile ID 14 Placements: {0,2,4}:2
GPU  0 Profile ID  9 Placements: {0,4}:4
GPU  0 Profile ID  5 Placement : {0}:4
GPU  0 Profile ID  0 Placement : {0}:8
"""
A100_LGIP = """\
+-----------------------------------------------------------------------------+
| GPU instance profiles:                                                      |
| GPU   Name             ID    Instances   Memory     P2P    SM    DEC   ENC  |
|                              Free/Total   GiB              CE    JPEG  OFA  |
|=============================================================================|
|   0  MIG 1g.5gb        19     7/7        4.75       No     14     0     0   |
|                                                             1     0     0   |
+-----------------------------------------------------------------------------+
|   0  MIG 3g.20gb        9     2/2        19.62      No     42     2     0   |
|                                                             3     0     0   |
+-----------------------------------------------------------------------------+
"""
CSV = "index, name, mig.mode.current, mig.mode.pending\n0, NVIDIA A100-SXM4-40GB, {}, {}\n"


def test_the_instance_table_gives_starts_and_profiles(tmp_path):
    table = lgi_table([(0, "3g.20gb", 9, 2, 0, 4), (0, "3g.20gb", 9, 1, 4, 4)])
    lines = slice_lines("3g.20gb", 1) + slice_lines("3g.20gb", 2)
    (gpu,) = Files(tmp_path).observe(metrics=lines, smi={"n1.lgi.txt": table}).nodes[0].gpus
    assert {i.gi_id: (i.profile, i.start) for i in gpu.instances} == {1: ("3g.20gb", 4), 2: ("3g.20gb", 0)}


@pytest.mark.parametrize(
    "row",
    [
        "|   0  MIG 1g.5gb          19        9          6:1     |",
        "||   0  MIG 1g.5gb            19        9          6:1     |",
        "| 0 MIG 1g.5gb 19 9 6:1 |",
    ],
)
def test_tables_of_every_width(row):
    (placement,) = parse_smi(f"| GPU instances:   |\n{row}\n", "f").placements
    assert (placement.index, placement.profile, placement.profile_id) == (0, "1g.5gb", 19)
    assert (placement.gi_id, placement.start, placement.size) == (9, 6, 1)


def test_the_driver_overrules_the_exporters_label(tmp_path):
    table = lgi_table([(0, "1g.5gb+me", 20, 9, 6, 1)])
    snapshot = Files(tmp_path).observe(metrics=slice_lines("1g.5gb", 9), smi={"n1.lgi.txt": table})
    (instance,) = snapshot.nodes[0].gpus[0].instances
    assert (instance.profile, instance.start) == ("1g.5gb+me", 6)
    assert any("1g.5gb+me by nvidia-smi" in n.text for n in snapshot.notes)


def test_an_instance_that_only_one_source_shows_is_in_doubt(tmp_path):
    table = lgi_table([(0, "1g.5gb", 19, 9, 6, 1)])
    lines = slice_lines("1g.5gb", 9) + slice_lines("1g.5gb", 7)
    snapshot = Files(tmp_path).observe(metrics=lines, smi={"n1.lgi.txt": table})
    assert {i.gi_id for i in snapshot.nodes[0].gpus[0].instances} == {7, 9}
    assert any("GPU instance 7" in n.text and "different times" in n.text for n in snapshot.notes)


@pytest.mark.parametrize(
    ("current", "pending", "mode"),
    [
        ("Enabled", "Enabled", "on"),
        ("Disabled", "Disabled", "off"),
        ("Disabled", "Enabled", "pending"),
        ("Enabled", "Disabled", "pending"),
        ("[N/A]", "[N/A]", "off"),
    ],
)
def test_modes_of_a_csv_query(tmp_path, current, pending, mode):
    (gpu,) = Files(tmp_path).observe(smi={"n1.csv": CSV.format(current, pending)}).nodes[0].gpus
    assert (gpu.index, gpu.board, gpu.mig) == (0, "a100-sxm4-40gb", mode)


def test_csv_without_a_head_and_with_other_columns(tmp_path):
    bare = Files(tmp_path).observe(smi={"n1.csv": "1, NVIDIA A100-SXM4-40GB, Enabled, Enabled\n"})
    assert [(g.index, g.mig) for g in bare.nodes[0].gpus] == [(1, "on")]
    head = "name, index, uuid, mig.mode.current\n"
    more = Files(tmp_path).observe(smi={"n1.csv": f"{head}NVIDIA A30, 0, {UUID.format(3)}, Disabled\n"})
    assert [(g.board, g.uuid, g.mig) for g in more.nodes[0].gpus] == [("a30-24gb", UUID.format(3), "off")]


def test_mig_on_and_nothing_else_known_is_not_an_empty_gpu(tmp_path):
    (gpu,) = Files(tmp_path).observe(smi={"n1.csv": CSV.format("Enabled", "Enabled")}).nodes[0].gpus
    assert (gpu.mig, gpu.instances, gpu.state) == ("on", (), "unknown")


def test_the_listing_gives_uuids_and_old_drivers_the_instance_ids(tmp_path):
    old = f"""\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: {UUID.format(0)})
  MIG 1g.5gb Device 0: (UUID: MIG-{UUID.format(0)}/7/0)
  MIG 2g.10gb Device 1: (UUID: MIG-{UUID.format(0)}/3/0)
"""
    (gpu,) = Files(tmp_path).observe(smi={"n1.smi": old}).nodes[0].gpus
    assert {i.gi_id: i.profile for i in gpu.instances} == {7: "1g.5gb", 3: "2g.10gb"}
    new = old.replace(f"MIG-{UUID.format(0)}/7/0", "MIG-11111111-1111-5111-8111-111111111111")
    new = new.replace(f"MIG-{UUID.format(0)}/3/0", "MIG-22222222-2222-5222-8222-222222222222")
    (gpu,) = Files(tmp_path).observe(smi={"n1.smi": new}).nodes[0].gpus
    assert [(i.gi_id, i.profile) for i in gpu.instances] == [(None, "1g.5gb"), (None, "2g.10gb")]


def test_compute_instances_hide_the_number_of_gpu_instances(tmp_path):
    text = f"GPU 0: NVIDIA A100-SXM4-40GB (UUID: {UUID.format(0)})\n"
    text += "".join(
        f"  MIG 1c.3g.20gb Device {k}: (UUID: MIG-{k}1111111-1111-5111-8111-111111111111)\n" for k in range(2)
    )
    snapshot = Files(tmp_path).observe(smi={"n1.smi": text})
    assert snapshot.nodes[0].gpus[0].instances == ()
    assert any("compute instances" in n.text for n in snapshot.notes)


def test_a_whole_terminal_session_in_one_file():
    session = "$ nvidia-smi -L\n" + f"GPU 0: NVIDIA A100-SXM4-40GB (UUID: {UUID.format(0)})\n"
    session += "user@host:~$ sudo nvidia-smi mig -lgi\n" + lgi_table([(0, "1g.5gb", 19, 9, 6, 1)])
    session += "# nvidia-smi mig -lgip\n" + A100_LGIP + "$ nvidia-smi mig -lgipp\n" + A100_LGIPP
    found = parse_smi(session, "f")
    assert (len(found.cards), len(found.placements), len(found.names), len(found.places)) == (1, 1, 2, 7)
    assert found.notes == []


def test_lines_not_understood_are_counted_and_named():
    found = parse_smi(A100_LGIPP + "what is this\n\nand this\n", "f")
    assert [(n.where, n.text) for n in found.notes] == [("line 8", "2 lines not understood, first one shown")]


def test_the_reported_geometry_is_kept_under_a_key(tmp_path):
    files = {"n1.lgipp.txt": A100_LGIPP, "n1.lgip.txt": A100_LGIP}
    snapshot = Files(tmp_path).observe(metrics=slice_lines("1g.5gb", 7), smi=files)
    (gpu,) = snapshot.nodes[0].gpus
    found = {p.profile_id: (p.name, p.starts, p.size, p.max_instances) for p in snapshot.geometries[gpu.geometry]}
    assert found[15] == ("1g.10gb", (0, 2, 4, 6), 2, 4)
    assert found[5] == ("4g.20gb", (0,), 4, 1)
    assert set(found) == {19, 20, 15, 14, 9, 5, 0}
    assert not [n for n in snapshot.notes if "driver" in n.text]  # it agrees with the catalogue


def test_a_driver_that_disagrees_with_the_catalogue_is_noted(tmp_path):
    other = A100_LGIPP.replace("Profile ID  9 Placements: {0,4}:4", "Profile ID  9 Placements: {0}:4")
    other += "GPU  0 Profile ID 99 Placement : {0}:8\n"
    lgip = A100_LGIP.replace("7/7 ", "4/4 ")
    snapshot = Files(tmp_path).observe(
        metrics=slice_lines("1g.5gb", 7), smi={"n1.lgipp.txt": other, "n1.lgip.txt": lgip}
    )
    texts = " ".join(n.text for n in snapshot.notes)
    assert "3g.20gb at [0]:4 by the driver" in texts
    assert "profile id 99" in texts
    assert "at most 4 x 1g.5gb by the driver, 7 by the catalogue" in texts
    starts = {p.profile_id: p.starts for p in snapshot.geometries[snapshot.nodes[0].gpus[0].geometry]}
    assert starts[9] == (0,)


XML = f"""<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
  <attached_gpus>2</attached_gpus>
  <gpu id="00000000:00:09.0">
    <product_name>NVIDIA H100 80GB HBM3</product_name>
    <mig_mode><current_mig>Enabled</current_mig><pending_mig>Enabled</pending_mig></mig_mode>
    <mig_devices>
      <mig_device>
        <index>0</index><gpu_instance_id>1</gpu_instance_id><compute_instance_id>0</compute_instance_id>
        <device_attributes><shared>
          <multiprocessor_count>60</multiprocessor_count><copy_engine_count>3</copy_engine_count>
          <encoder_count>0</encoder_count><decoder_count>3</decoder_count>
          <ofa_count>0</ofa_count><jpg_count>3</jpg_count>
        </shared></device_attributes>
        <fb_memory_usage><total>40448 MiB</total><used>298 MiB</used><free>40151 MiB</free></fb_memory_usage>
      </mig_device>
      <mig_device>
        <index>1</index><gpu_instance_id>9</gpu_instance_id><compute_instance_id>0</compute_instance_id>
        <device_attributes><shared>
          <multiprocessor_count>16</multiprocessor_count><copy_engine_count>1</copy_engine_count>
          <encoder_count>0</encoder_count><decoder_count>1</decoder_count>
          <ofa_count>1</ofa_count><jpg_count>1</jpg_count>
        </shared></device_attributes>
        <fb_memory_usage><total>9856 MiB</total><used>12 MiB</used></fb_memory_usage>
      </mig_device>
    </mig_devices>
    <uuid>{UUID.format(1)}</uuid>
    <processes><process_info><gpu_instance_id>9</gpu_instance_id><pid>4</pid></process_info></processes>
  </gpu>
  <gpu id="00000000:00:0A.0">
    <product_name>NVIDIA H100 80GB HBM3</product_name>
    <mig_mode><current_mig>Disabled</current_mig><pending_mig>Enabled</pending_mig></mig_mode>
    <mig_devices>None</mig_devices>
    <fb_memory_usage><total>81559 MiB</total><used>7 MiB</used></fb_memory_usage>
    <uuid>{UUID.format(2)}</uuid>
  </gpu>
</nvidia_smi_log>
"""


def test_xml_gives_modes_and_devices_and_what_profile_they_can_only_be(tmp_path):
    """60 SMs and 40448 MiB are 3g.40gb on this board; 16 SMs with an OFA are 1g.10gb+me."""
    first, second = Files(tmp_path).observe(smi={"n1.xml": XML}).nodes[0].gpus
    assert (first.board, first.uuid, first.mig) == ("h100-sxm5-80gb", UUID.format(1), "on")
    found = {i.gi_id: (i.profile, i.start, i.memory_mib.used, i.memory_mib.capacity) for i in first.instances}
    assert found == {1: ("3g.40gb", None, 298, 40448), 9: ("1g.10gb+me", None, 12, 9856)}
    assert (second.mig, second.instances, second.memory_mib.used) == ("pending", (), 7)


def test_xml_counts_gpus_by_itself_and_a_uuid_puts_it_right(tmp_path):
    """DCGM and `-i` may leave out GPUs: the exporter calls the first of the XML GPU 5."""
    h100 = {"modelName": "NVIDIA H100 80GB HBM3", "UUID": UUID.format(1)}
    lines = slice_lines("3g.40gb", 1, 5, **h100) + slice_lines("1g.10gb", 9, 5, **h100)
    gpus = Files(tmp_path).observe(metrics=lines, smi={"n1.xml": XML}).nodes[0].gpus
    assert [(g.index, g.uuid, len(g.instances)) for g in gpus] == [(1, UUID.format(2), 0), (5, UUID.format(1), 2)]


def test_a_process_on_an_instance_that_no_pod_holds_is_not_idleness(tmp_path):
    from cluster_files import SYSTEM_POD

    node = mixed("n1", {"3g.40gb": 1, "1g.10gb+me": 1}, gpus=2, whole=1, product="NVIDIA H100 80GB HBM3")
    snapshot = Files(tmp_path).observe(nodes=[node], pods=[SYSTEM_POD], smi={"n1.xml": XML})
    assert {i.gi_id: i.state for i in snapshot.nodes[0].gpus[0].instances} == {1: "idle", 9: "unknown"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "bb">]><nvidia_smi_log>&b;</nvidia_smi_log>', "entity"),
        ("<nvidia_smi_log><gpu>", "not XML"),
        ('<?xml version="1.0"?><other/>', "<other>"),
        ("hello\n", "nothing in this file"),
        ("", "empty"),
        ("# HELP DCGM_FI_DEV_SM_CLOCK x\n", "no output of nvidia-smi"),
    ],
)
def test_other_texts_are_refused_with_the_file(text, message):
    with pytest.raises(InputError) as caught:
        parse_smi(text, "odd.smi")
    assert message in str(caught.value)
    assert caught.value.where.file == "odd.smi"


@given(
    st.lists(st.sampled_from([*A100_LGIPP.split("\n"), *A100_LGIP.split("\n"), "| x |", "GPU", "0, a, b"]), max_size=30)
)
def test_any_mixture_of_lines_is_read_or_refused(lines):
    try:
        found = parse_smi("\n".join(lines), "f")
    except InputError:
        return
    assert len(found.places) == sum(line.startswith("GPU  0 Profile") for line in lines)


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text):
    found = outcome(lambda: parse_smi(text, "f"))
    assert isinstance(found, Smi) or found.where.file == "f"


# ---- which node a file is of ---------------------------------------------------------------------------------------


def two_nodes():
    return [mixed("gpu-1.hpc.example.org", {"1g.5gb": 1}), mixed("gpu-10.hpc.example.org", {"1g.5gb": 1})]


@pytest.mark.parametrize(
    "name",
    [
        "gpu-1.hpc.example.org.smi",
        "gpu-1.hpc.example.org.csv",
        "gpu-1.hpc.example.org.lgi.txt",
        "gpu-1.hpc.example.org",
        "gpu-1.lgi.txt",
        "GPU-1.smi",
    ],
)
def test_a_file_is_of_the_node_that_it_is_called_by(tmp_path, name):
    table = lgi_table([(0, "1g.5gb", 19, 9, 6, 1)])
    nodes = Files(tmp_path).observe(nodes=two_nodes(), smi={name: table}).nodes
    assert [[i.start for g in n.gpus for i in g.instances] for n in nodes] == [[6], [None]]


def test_a_uuid_tells_the_node_too(tmp_path):
    listing = f"GPU 0: NVIDIA A100-SXM4-40GB (UUID: {UUID.format(0)})\n" + lgi_table([(0, "1g.5gb", 19, 9, 6, 1)])
    lines = slice_lines("1g.5gb", 9, Hostname="gpu-10.hpc.example.org")
    nodes = Files(tmp_path).observe(nodes=two_nodes(), metrics=lines, smi={"terminal.txt": listing}).nodes
    assert [[i.start for g in n.gpus for i in g.instances] for n in nodes] == [[None], [6]]


def test_the_only_gpu_node_is_meant(tmp_path):
    table = lgi_table([(0, "1g.5gb", 19, 9, 6, 1)])
    snapshot = Files(tmp_path).observe(nodes=two_nodes()[:1], smi={"smi.lgi.txt": table})
    assert snapshot.nodes[0].gpus[0].instances[0].start == 6


def test_a_file_of_no_node_is_refused_by_its_name(tmp_path):
    with pytest.raises(InputError) as caught:
        Files(tmp_path).observe(nodes=two_nodes(), smi={"terminal.txt": A100_LGIPP})
    assert caught.value.where.file.endswith("terminal.txt")
    assert "gpu-1.hpc.example.org" in caught.value.hint


def test_one_machine_without_kubernetes(tmp_path):
    """A single VM: its files name it."""
    files = {"vm-7.csv": CSV.format("Enabled", "Enabled"), "vm-7.lgi.txt": lgi_table([(0, "1g.5gb", 19, 9, 6, 1)])}
    (node,) = Files(tmp_path).observe(smi=files).nodes
    assert (node.name, node.owner, node.layout_scope) == ("vm-7", "unknown", None)
    assert [(i.profile, i.start) for i in node.gpus[0].instances] == [("1g.5gb", 6)]


def test_whole_gpus_of_the_exporter_beside_a_table_of_slices(tmp_path):
    lines = whole_lines(0) + slice_lines("1g.5gb", 9, 1)
    table = lgi_table([(1, "1g.5gb", 19, 9, 6, 1)])
    gpus = Files(tmp_path).observe(metrics=lines, smi={"n1.lgi.txt": table}).nodes[0].gpus
    assert [(g.mig, [i.start for i in g.instances]) for g in gpus] == [("off", []), ("on", [6])]


@pytest.mark.parametrize(
    "line",
    [
        "GPU  0 Profile ID 19 Placements: {0,100000000000000000000}:1",
        "GPU  0 Profile ID 19 Placements: {0,1}:99999999999",
        "|  99999999  MIG 1g.5gb          19        9          6:1     |",
        "|   0  MIG 1g.5gb          19        9          6000:1     |",
        "GPU 123456789: NVIDIA A30 (UUID: GPU-1)",
    ],
)
def test_numbers_that_no_driver_prints_are_not_understood(line):
    found = parse_smi(f"GPU 0: NVIDIA A30 (UUID: {UUID.format(1)})\n{line}\n", "f")
    assert (found.places, found.placements, len(found.cards)) == ([], [], 1)
    assert [(n.text, n.where) for n in found.notes] == [("1 line not understood, first one shown", "line 2")]


def test_a_gpu_with_mig_off_and_instances_is_a_contradiction(tmp_path):
    table = lgi_table([(0, "3g.20gb", 9, 2, 0, 4)])
    snapshot = Files(tmp_path).observe(smi={"n1.csv": CSV.format("Disabled", "Disabled"), "n1.lgi.txt": table})
    assert snapshot.nodes[0].gpus[0].mig == "on"
    assert any("MIG is off by nvidia-smi, which shows instances too" in n.text for n in snapshot.notes)


def test_on_a_machine_without_kubernetes_processes_tell_what_is_held(tmp_path):
    """Memory in use without a process is no idleness: in a container nvidia-smi sees no process of another one."""
    first, second = Files(tmp_path).observe(smi={"vm.xml": XML}).nodes[0].gpus
    assert {i.gi_id: i.state for i in first.instances} == {1: "idle", 9: "busy"}
    assert second.state == "unknown"  # its part of the XML lists no processes at all
    used = XML.replace("<used>298 MiB", "<used>9000 MiB")
    (one, *_) = Files(tmp_path).observe(smi={"vm.xml": used}).nodes[0].gpus
    assert {i.gi_id: i.state for i in one.instances} == {1: "unknown", 9: "busy"}
