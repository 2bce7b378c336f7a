"""Right sizes against what was measured on real MIG instances: MIGPerf's runs on an A100-40GB, with their 1 Hz series.

The benchmark prints every miss; here stand the bounds that must hold, and what the reader of the data must not do.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest

from migsaw.cli.shared import load_catalogue

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import rightsize as benchmark
from _migperf import Configuration, read_configurations


@pytest.fixture(scope="module")
def configurations(data_dir: Path) -> list[Configuration]:
    folder = data_dir / "migperf" / "A100-40g"
    if not folder.is_dir():
        pytest.skip("MIGPerf's measurements are not here (migperf/A100-40g)")
    return [c for c in read_configurations(folder.parent, load_catalogue()) if c.board.key == "a100-sxm4-40gb"]


@pytest.mark.parametrize("tolerance", [0.05, 0.10, 0.20])
def test_the_choice_is_the_cheapest_that_was_measured_to_do(
    configurations: list[Configuration], tolerance: float
) -> None:
    catalogue = benchmark.measured_only(configurations)
    judged = benchmark.judge(configurations, catalogue, tolerance)
    found = benchmark.summary(judged, tolerance)
    assert found["rows"] == 306  # of 320 published ones; 14 ran out of memory
    assert found["equal"] >= 0.85
    assert found["lost"] <= 0.05
    assert found["out_of_memory"] == 0
    assert found["outside"] == 0


def test_nine_of_ten_measured_ratios_lie_in_the_predicted_interval(configurations: list[Configuration]) -> None:
    assert benchmark.coverage(configurations, benchmark.measured_only(configurations)) >= 0.9


def test_throughput_is_recomputed_from_latency(configurations: list[Configuration], data_dir: Path) -> None:
    """Latency is in milliseconds in this part of the data: batch ÷ latency × 1000 is the published column, which is
    right here."""
    table = data_dir / "migperf/A100-40g/finetune_vit/vit_20g_finetune_bsz.csv"
    with table.open(encoding="utf-8") as lines:
        published = {int(row["batch_size"]): float(row["throughput"]) for row in csv.DictReader(lines)}
    vit = {c.batch: c.runs["3g.20gb"] for c in configurations if c.model == "vision_transformer"}
    for batch, run in vit.items():
        assert run.throughput * 1000 == pytest.approx(published[batch], rel=1e-3)


def test_windows_show_what_was_published_beside_them(configurations: list[Configuration]) -> None:
    (bert,) = [
        c for c in configurations if "bert" in c.model and c.batch == 1 and c.sequence == 64 and "bsz" in c.sweep
    ]
    means = {name: run.activity.mean() for name, run in bert.runs.items()}
    assert means == pytest.approx({"1g.5gb": 0.332, "2g.10gb": 0.216, "3g.20gb": 0.096, "7g.40gb": 0.146}, abs=0.001)
