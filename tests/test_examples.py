"""The files in ``examples/`` work as they are, and give what they say they ask for."""

from __future__ import annotations

import json
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def test_the_demand_is_served(migsaw):
    done = migsaw("pack", EXAMPLES / "demand.yaml", "-o", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["status"] == "optimal"
    rows = found["assignment"]
    assert sum(row["instances"] for row in rows if row["workload"] == "notebooks") == 12
    rate = {"1g.10gb": 95.5, "2g.20gb": 214, "1g.12gb": 171}  # the points of the file
    assert sum(row["instances"] * rate[row["profile"]] for row in rows if row["workload"] == "reranker") >= 900
    assert sum(row["count"] for row in found["layouts"] if row["mig"] == "off") == 4  # strict: only the training group
    assert found["gpus"]["a100-pcie-80gb"] <= 64
    price = {"a100-pcie-80gb": 4.78, "h100-nvl-94gb": 8.82}
    assert abs(found["cost_per_hour"] - sum(found["gpus"][key] * usd for key, usd in price.items())) < 1e-9


def test_the_policy_is_kept(migsaw, tmp_path):
    """One free 1g.10gb is asked for, and 3g.40gb may be cut where 4g.40gb may not."""
    assert migsaw("demo", "--out", tmp_path).returncode == 0
    done = migsaw("plan", "snapshot.json", "--policy", EXAMPLES / "policy.yaml", "-o", "strict.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    plan = json.loads((tmp_path / "strict.json").read_text())
    cut = {text.partition("@")[0] for gpu in plan["gpus"] if gpu["after"] != gpu["before"] for text in gpu["after"]}
    assert cut
    assert cut <= {"1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "1g.12gb", "2g.24gb", "3g.47gb"}
