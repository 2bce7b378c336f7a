"""A plan made for a target always renders for it, and its GPUs are always legal."""

from __future__ import annotations

from functools import cache

import pytest

from fleets import random_fleet
from mig_rules import can_stand
from migsaw.cli.shared import load_catalogue, load_facets
from migsaw.errors import TargetError
from migsaw.model.plan import Plan
from migsaw.model.policy import Policy
from migsaw.observe.prices import load_prices
from migsaw.plan.make import make_plan
from migsaw.plan.planner import Inputs
from migsaw.render.document import Options
from migsaw.render.targets import render

CATALOGUE, FACETS, PRICES = load_catalogue(), load_facets(), load_prices()
TARGETS = ("mig-manager", "aks", "azureml", "kubernetes", "dra", "device-plugin", "nvidia-smi")
SEEDS = range(60)


@cache
def plan_for(seed: int, target: str | None) -> Plan | None:
    """None where the target fits no node of the fleet."""
    inputs = Inputs(random_fleet(seed, CATALOGUE), "0" * 64, CATALOGUE, Policy(), None, target)  # type: ignore[arg-type]
    try:
        return make_plan(inputs, FACETS, PRICES)
    except TargetError:
        return None


@pytest.mark.parametrize("target", TARGETS)
def test_a_plan_for_a_target_renders_for_it(target: str) -> None:
    plans = [(seed, plan) for seed in SEEDS if (plan := plan_for(seed, target)) is not None]
    assert len(plans) >= 10, "too few fleets fit the target for this test to say anything"
    for seed, plan in plans:
        files = render(plan, target, CATALOGUE, Options())  # type: ignore[arg-type]
        assert files, f"seed {seed}"
        assert all(file.text.strip() for file in files), f"seed {seed}"


def test_every_gpu_after_every_plan_is_legal_and_has_a_reason() -> None:
    changed = 0
    for seed in SEEDS:
        plan = plan_for(seed, None)
        assert plan is not None
        for gpu in plan.gpus:
            assert gpu.text, f"seed {seed}"
            changed += gpu.before != gpu.after
            if gpu.after != ("off",):
                assert gpu.board is not None
                assert can_stand(gpu.board, gpu.after), f"seed {seed}: {gpu.node}/{gpu.index}"
    assert changed >= 10, "too few GPUs change for this test to say anything"


def test_what_is_held_is_still_there_afterwards() -> None:
    for seed in SEEDS:
        plan = plan_for(seed, None)
        assert plan is not None
        for gpu in plan.gpus:
            assert not gpu.pinned or gpu.before == gpu.after, f"seed {seed}: {gpu.node}/{gpu.index}"


def test_bounds_are_never_above_the_plan() -> None:
    for seed in SEEDS:
        plan = plan_for(seed, None)
        assert plan is not None
        assert plan.objective is not None
        assert plan.lower_bound is not None
        assert plan.lower_bound <= plan.objective, f"seed {seed}"
        assert all(level.lower_bound <= level.value for level in plan.levels), f"seed {seed}"
        assert plan.ideal is None or plan.ideal.lower_bound <= plan.ideal.objective, f"seed {seed}"
