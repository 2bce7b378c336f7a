"""``migsaw plan``: a snapshot becomes a plan."""

from __future__ import annotations

from pathlib import Path

import click

from migsaw.cli.output import Output, output_option, show
from migsaw.cli.shared import load_catalogue, load_facets

TARGETS = ("mig-manager", "aks", "azureml", "kubernetes", "dra", "device-plugin", "nvidia-smi")


@click.command()
@click.argument("snapshot", type=click.Path(path_type=Path))
@click.option("--fits", type=click.Path(path_type=Path), help="fits.json: the slots of workloads.")
@click.option("--policy", type=click.Path(path_type=Path), help="policy.yaml: allowed profiles, strict MIG, head-room.")
@click.option("--for", "target", type=click.Choice(TARGETS), help="What the plan must be expressible for.")
@click.option("--prices", type=click.Path(path_type=Path), help="A price table instead of the built-in dated one.")
@click.option("--exit-code", is_flag=True, help="Exit 3 when the plan changes something.")
@output_option()
@click.pass_context
def command(
    ctx: click.Context,
    snapshot: Path,
    fits: Path | None,
    policy: Path | None,
    target: str | None,
    prices: Path | None,
    exit_code: bool,
    output: Output,
) -> None:
    """A better partition of what SNAPSHOT shows. Nothing that runs is touched; nothing is applied."""
    from migsaw.model.policy import Policy
    from migsaw.observe import documents
    from migsaw.observe.choices import read_fits, read_policy
    from migsaw.observe.own_files import read_snapshot
    from migsaw.observe.prices import load_prices
    from migsaw.plan.make import make_plan
    from migsaw.plan.planner import Inputs
    from migsaw.report.plan import plan_tables

    catalogue = load_catalogue()
    inputs = Inputs(
        snapshot=read_snapshot(snapshot),
        snapshot_sha256=documents.sha256(snapshot),
        catalogue=catalogue,
        policy=read_policy(policy, catalogue) if policy else Policy(),
        fits=read_fits(fits, catalogue) if fits else None,
        target=target,  # type: ignore[arg-type]
    )
    plan = make_plan(inputs, load_facets(), load_prices(prices))
    show(output, documents.plain(plan), plan_tables(plan, inputs.catalogue), makes_document=True)
    if exit_code and plan.steps:
        ctx.exit(3)
