"""One thing, many names: profiles in every notation, boards under every name that a node can show."""

from __future__ import annotations

from collections import Counter

import pytest

from migsaw.cli.shared import load_catalogue
from migsaw.errors import InputError
from migsaw.model.boards import pci_id
from migsaw.model.names import parse_profile_name, resource_name

CATALOGUE = load_catalogue()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("1g.10gb", "1g.10gb"),
        ("MIG 1g.10gb", "1g.10gb"),
        ("MIG-1g.10gb", "1g.10gb"),
        ("nvidia.com/mig-1g.10gb", "1g.10gb"),
        ("nvidia.com/mig-1g.10gb.me", "1g.10gb+me"),
        ("1g.10gb+me", "1g.10gb+me"),
        ("1G.10GB+ME", "1g.10gb+me"),
        ("nvidia.com/mig-1g.24gb-me", "1g.24gb-me"),
        ("nvidia.com/mig-1g.24gb.me.all", "1g.24gb+me.all"),
        ("1g.24gb+gfx", "1g.24gb+gfx"),
        ("1c.2g.10gb", "1c.2g.10gb"),
        ("2c.2g.10gb", "2g.10gb"),
        ("nvidia.com/mig-1g.10gb.shared", "1g.10gb"),
    ],
)
def test_profiles_are_read_in_every_notation(text, name):
    assert str(parse_profile_name(text)) == name


@pytest.mark.parametrize(
    "text", ["", "1g", "10gb", "1g.10", "1g.10gb+", "mig1g.10gb", "1g.10gb+me-me", "g.gb", "-1g.10gb"]
)
def test_what_is_no_profile_is_none(text):
    assert parse_profile_name(text) is None


def test_resource_names_write_plus_as_a_dot():
    names = {name: resource_name(name) for name in ("1g.10gb", "1g.10gb+me", "1g.24gb-me", "1g.24gb+me.all")}
    assert list(names.values()) == [
        "nvidia.com/mig-1g.10gb",
        "nvidia.com/mig-1g.10gb.me",
        "nvidia.com/mig-1g.24gb-me",
        "nvidia.com/mig-1g.24gb.me.all",
    ]
    for name, resource in names.items():
        assert str(parse_profile_name(resource)) == name


@pytest.mark.parametrize("board", CATALOGUE.boards, ids=lambda board: board.key)
def test_every_profile_is_found_by_its_names_and_ids(board):
    for profile in board.profiles:
        for name in (profile.name, *profile.aliases, resource_name(profile.name)):
            assert board.find(name) == profile
        if profile.profile_id is not None:
            assert board.by_id(profile.profile_id) == profile


def test_identity_is_board_and_id_and_no_name_serves_two_profiles_of_a_board():
    for board in CATALOGUE.boards:
        ids = [p.profile_id for p in board.profiles if p.profile_id is not None]
        assert len(ids) == len(set(ids)), board.key
        names = Counter(name for p in board.profiles for name in {p.name, *p.aliases})
        assert max(names.values(), default=1) == 1, board.key


def test_7g_79gb_is_7g_80gb():
    assert CATALOGUE.board("a100-sxm4-80gb").profile("7g.79gb").name == "7g.80gb"


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("a100-sxm4-80gb", "a100-sxm4-80gb"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"),
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "a100-sxm4-80gb"),
        ("NVIDIA-A100-SXM4-80GB-MIG-INVALID", "a100-sxm4-80gb"),
        ("0x20B210DE", "a100-sxm4-80gb"),
        ("20b2", "a100-sxm4-80gb"),
        ("Standard_ND96amsr_A100_v4", "a100-sxm4-80gb"),
        ("Standard_NC24ads_A100_v4", "a100-pcie-80gb"),
        ("NVIDIA H100 NVL", "h100-nvl-94gb"),
        ("NVIDIA H100 PCIe", "h100-pcie-80gb"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm5-80gb"),
        ("NVIDIA H200", "h200-sxm5-141gb"),
        ("NVIDIA H200 NVL", "h200-nvl-141gb"),
        ("NVIDIA GH200 480GB", "gh200-96gb"),
        ("NVIDIA-A30", "a30-24gb"),
    ],
)
def test_boards_are_found_under_every_name(name, key):
    assert CATALOGUE.board(name).key == key


@pytest.mark.parametrize("name", ["H100", "A100", "NVIDIA Z900", "GH200 NVL", "", "NVIDIA-H100", "MIG-1g.10gb"])
def test_part_of_a_name_is_no_name(name):
    assert CATALOGUE.find(name) is None
    with pytest.raises(InputError):
        CATALOGUE.board(name)


def test_no_name_means_two_boards():
    letters = Counter()
    for board in CATALOGUE.boards:
        letters.update({"".join(c for c in name.lower() if c.isalnum()) for name in (board.key, *board.product_names)})
    assert [name for name, count in letters.items() if count > 1] == []
    for board in CATALOGUE.boards:
        for name in (board.key, *board.product_names):
            assert CATALOGUE.find(name) == board


def test_a_pci_id_of_two_boards_names_neither():
    ids = Counter(pci for board in CATALOGUE.boards for pci in board.pci_ids)
    for pci, count in ids.items():
        assert (CATALOGUE.find(pci) is None) == (count > 1), pci


@pytest.mark.parametrize(
    ("text", "pci"), [("0x20B010DE", "0x20b0"), ("10de:20b0", "0x20b0"), ("20b0", "0x20b0"), ("h100", None)]
)
def test_pci_ids_are_read_in_every_form(text, pci):
    assert pci_id(text) == pci
