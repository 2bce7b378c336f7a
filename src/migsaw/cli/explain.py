"""``migsaw explain``: why a plan does what it does."""

from __future__ import annotations

from pathlib import Path

import click

from migsaw.cli.output import Output, output_option, show
from migsaw.cli.shared import load_catalogue


@click.command()
@click.argument("plan", type=click.Path(path_type=Path))
@click.option("--gpu", metavar="NODE/INDEX", help="One GPU.")
@click.option("--pod", metavar="NS/NAME", help="One pod.")
@click.option("--profile", metavar="P", help="One profile, in any notation: 1g.10gb, nvidia.com/mig-1g.10gb.")
@output_option()
def command(plan: Path, gpu: str | None, pod: str | None, profile: str | None, output: Output) -> None:
    """Why PLAN does what it does; without an option, a reason for every GPU and pod."""
    from migsaw.observe import documents
    from migsaw.observe.own_files import read_plan
    from migsaw.observe.prices import load_prices
    from migsaw.report.explain import explain_all, explain_gpu, explain_pod, explain_profile

    if sum(name is not None for name in (gpu, pod, profile)) > 1:
        raise click.UsageError("give one of --gpu, --pod and --profile")
    catalogue = load_catalogue()
    value = read_plan(plan, catalogue)
    if gpu is not None:
        found = explain_gpu(value, gpu, catalogue, load_prices())
    elif pod is not None:
        found = explain_pod(value, pod)
    elif profile is not None:
        found = explain_profile(value, profile, catalogue)
    else:
        found = explain_all(value)
    data = {key: documents.plain(part) for key, part in found.data.items()}
    show(output, data, [found.table])
