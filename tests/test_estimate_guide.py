"""The guide: a default profile for each class of work on each board, and the page that shows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from migsaw.cli.shared import load_catalogue
from migsaw.fit.estimate import estimate, profiles
from migsaw.fit.estimate_classes import CLASSES, defaults
from migsaw.report.guide import guide_boards, guide_matrix
from migsaw.report.table import to_markdown

ROOT = Path(__file__).resolve().parents[1]
CATALOGUE = load_catalogue()
BOARDS = guide_boards(CATALOGUE)


def test_classes_cover_what_was_asked_for():
    names = " ".join(work.name for work in CLASSES)
    wanted = ("tiny inference", "LLM inference 8B, 4 bits", "embedding", "notebook", "LoRA", "QLoRA", "batch scoring")
    for word in (*wanted, "light full fine-tuning"):
        assert word in names
    assert len({work.name for work in CLASSES}) == len(CLASSES)


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.key)
def test_a_default_holds_its_class_and_nothing_smaller_surely_does(board):
    """Brute force over the profiles' memory as the driver prints it."""
    memory = {p.name: p.memory_mib or 0 for p in board.profiles}
    slices = {p.name: (p.compute_slices, p.memory_slices or 0) for p in board.profiles}
    doubled = {p.name for p in board.profiles if p.role == "1g2m"}
    for row in defaults(board):
        need = {n.profile: n.need for n in profiles(estimate(row.work.model, row.work.setup), board)}
        holding = [name for name, found in need.items() if found.high_mib <= memory[name]]
        if row.work.setup.task != "inference":
            holding = [name for name in holding if name not in doubled]
        if row.profile is None:
            assert not holding
            assert row.advice in ("measure first", "more than one GPU")
            continue
        assert row.profile.profile == min(holding, key=lambda name: slices[name])
        largest = max(slices, key=lambda name: slices[name])
        assert (row.advice == "whole GPU") == (row.profile.profile == largest)


def test_a_smaller_model_never_gets_a_larger_slice():
    order = [f"LLM inference {size}, {bits} bits" for bits in (16, 4) for size in ("1B", "8B", "14B", "32B", "70B")]
    for board in BOARDS:
        need = {row.work.name: row.need.high_mib for row in defaults(board) if row.need is not None}
        assert [need[name] for name in order[:5]] == sorted(need[name] for name in order[:5])
        assert all(need[wide] >= need[narrow] for wide, narrow in zip(order[:5], order[5:], strict=True))


def test_the_page_shows_what_is_computed():
    page = (ROOT / "docs/guides/estimate.md").read_text(encoding="utf-8")
    table = to_markdown(guide_matrix(BOARDS)).split("\n\n")[0]
    assert table in page
    for work in CLASSES:
        assert f"| {work.name} | {work.assumes} |" in page


def test_boards_guide_as_a_person_calls_it(migsaw):
    shown = json.loads(migsaw("boards", "a100-sxm4-80gb", "--guide", "-o", "json").stdout)
    rows = {row["class"]: row for row in shown["classes"]}
    assert rows.keys() == {work.name for work in CLASSES}
    # 70 B × 2 bytes = 131 GiB, more than 80; × ½ byte = 33 GiB and 20 of cache: more than 40, less than 80
    assert rows["LLM inference 70B, 16 bits"]["advice"] == "more than one GPU"
    assert rows["LLM inference 70B, 4 bits"]["profile"] == "7g.80gb"
    assert {row["source"] for row in rows.values()} == {"estimated"}
    text = migsaw("boards", "--guide").stdout
    assert text.splitlines()[-1] == f"{len(CLASSES)} classes on {len(BOARDS)} boards."
    assert "Geometry: captured." in migsaw("boards", "a100-sxm4-80gb", "--guide").stdout


def test_a_board_of_unknown_memory_is_na(migsaw):
    done = migsaw("boards", "h200-nvl-141gb", "--guide")
    assert done.returncode == 0, done.stderr
    assert "n/a (memory not known)" in done.stdout
    assert "n/a (profiles not known)" in migsaw("boards", "a100-sxm-64gb", "--guide").stdout
