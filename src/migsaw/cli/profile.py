"""``migsaw profile``: measured trials of a workload on few slots, and the slot that they lead to."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from migsaw import catalogue as data
from migsaw.cli.output import Output, output_option, show
from migsaw.cli.shared import load_catalogue
from migsaw.cli.store import store_option
from migsaw.errors import InfeasibleError, MigsawError

if TYPE_CHECKING:
    from migsaw.model.boards import Board, Catalogue
    from migsaw.model.measurement import Measurement
    from migsaw.model.trial import Trials, TrialSpec
    from migsaw.trial.beside import Gauge
    from migsaw.trial.events import Backend
    from migsaw.trial.runner import Progress
    from migsaw.trial.watch import Watch

PLACES = ("local", "kubernetes", "azureml", "simulated")
FILE = click.Path(path_type=Path)


@click.command()
@click.argument("workload", type=FILE)
@click.option("--on", "place", type=click.Choice(PLACES), required=True, help="Where trials run.")
@click.option("--device", type=click.Choice(["cpu"]), help="local: rehearse on the CPU; no number of it counts.")
@click.option("--load-neighbours", is_flag=True, help="local: copies of the workload on the GPU's other slices.")
@click.option("--exporter", metavar="URL", help="local: dcgm-exporter of this machine, watched beside each trial.")
@click.option("--prometheus", metavar="URL", help="local: the same from a Prometheus that scrapes it.")
@click.option("--table", type=FILE, help="simulated: measured throughputs to replay (CSV).")
@click.option("--seed", type=int, default=0, show_default=True, help="simulated: of the noise.")
@click.option("--out", type=FILE, help="kubernetes, azureml: the folder that jobs are written to.")
@click.option("--compute", help="azureml: name of the attached compute.")
@click.option(
    "--instance-type", "types", multiple=True, metavar="PROFILE=NAME", help="azureml: which type gives a profile."
)
@store_option
@output_option()
def command(
    workload: Path,
    place: str,
    device: str | None,
    load_neighbours: bool,
    exporter: str | None,
    prometheus: str | None,
    table: Path | None,
    seed: int,
    out: Path | None,
    compute: str | None,
    types: tuple[str, ...],
    store: str,
    output: Output,
) -> None:
    """Measure WORKLOAD (a YAML file) on few slots of its board, until no further trial could change the slot.

    Finished measurements are in the store at once: running again goes on where it ended.
    """
    from migsaw.trial.spec import read_spec

    if (out is not None) != (place in ("kubernetes", "azureml")):
        raise click.UsageError("--out belongs to --on kubernetes and azureml, which need it")
    if (compute is not None or bool(types)) != (place == "azureml"):
        raise click.UsageError("--compute and --instance-type belong to --on azureml, which needs them")
    if place != "local" and (device or load_neighbours):
        raise click.UsageError("--device and --load-neighbours belong to --on local")
    if (exporter or prometheus) and (place != "local" or device or (exporter and prometheus)):
        raise click.UsageError("--exporter or --prometheus belongs to --on local with a GPU: one of them")
    if (table is not None) != (place == "simulated"):
        raise click.UsageError("--table belongs to --on simulated, which needs it")
    catalogue = load_catalogue()
    spec, board = read_spec(workload, catalogue)
    if out is not None:
        from migsaw.cli.profile_jobs import write_jobs

        write_jobs(spec, board, out, compute, types)
        return
    if place == "simulated" and table is not None:
        from migsaw.trial.simulated import simulated_backend

        backend: Backend = simulated_backend(spec, board, catalogue, table, seed)
    else:
        gauge = _gauge(exporter, prometheus)
        backend = _local(spec, board, workload.resolve().parent, catalogue, device, load_neighbours, gauge)
    _finish(_profile(spec, board, backend, store), output)


def _gauge(exporter: str | None, prometheus: str | None) -> Gauge | None:
    if not (exporter or prometheus):
        return None
    from migsaw.cli.inputs import headers
    from migsaw.observe.history import Server
    from migsaw.trial.beside import Exporter, Prometheus

    return Exporter(exporter) if exporter else Prometheus(Server(str(prometheus), headers(str(prometheus))))


def _local(
    spec: TrialSpec,
    board: Board,
    folder: Path,
    catalogue: Catalogue,
    device: str | None,
    load_neighbours: bool,
    gauge: Gauge | None,
) -> Backend:
    if device == "cpu":
        from migsaw.trial.local import CpuBackend

        return CpuBackend(spec, folder)
    from migsaw.trial.nvml import local_backend

    return local_backend(spec, board, folder, catalogue, load_neighbours=load_neighbours, gauge=gauge)


def _profile(spec: TrialSpec, board: Board, backend: Backend, store: str) -> Trials:
    from migsaw.fit.curve_prior import parse_prior
    from migsaw.store import open_store
    from migsaw.trial.runner import Profiling

    prior = parse_prior(data.read("curves.json"))
    with open_store(store) as opened, _progress(spec) as progress, _ended_as_by_ctrl_c():
        try:
            return Profiling(spec, board, backend, prior, opened, _now, progress).run()
        except KeyboardInterrupt:
            raise MigsawError(
                "interrupted: its processes are ended; every finished measurement is kept",
                hint="run the same command again to go on",
            ) from None


@contextlib.contextmanager
def _ended_as_by_ctrl_c() -> Iterator[None]:
    """What a scheduler sends to end a program ends the trial in order too."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _finish(found: Trials, output: Output) -> None:
    from migsaw.model.trial import Verdict
    from migsaw.observe import documents
    from migsaw.report.trials import trials_table

    show(output, documents.plain(found), [trials_table(found)])
    if found.verdict is Verdict.FAILED:
        raise MigsawError(f"the trial failed {found.because}", hint="run the command by hand with the same environment")
    if found.verdict is Verdict.NONE_SERVES:
        raise InfeasibleError(found.because, hint="a larger board, a smaller batch, or another limit")


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _progress(spec: TrialSpec) -> Any:
    is_terminal = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    return Bar(spec) if is_terminal else Lines(spec)


class Lines:
    """A line on stderr when a trial begins and ends."""

    def __init__(self, spec: TrialSpec) -> None:
        self.spec = spec

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *problem: object) -> None:
        pass

    def started(self, profile: str) -> None:
        click.echo(f"{profile}: trial begins", err=True)

    def seen(self, state: Watch) -> None:
        pass

    def finished(self, measurement: Measurement, message: str) -> None:
        click.echo(f"{measurement.profile}: {outcome_text(measurement, message)}", err=True)


class Bar(Lines):
    """A bar on a terminal: how much of the trial's time is gone, what was measured, how sure."""

    def __enter__(self) -> Progress:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[said]}"))
        self.bar = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
        self.bar.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self.bar.stop()

    def started(self, profile: str) -> None:
        self.task = self.bar.add_task(profile, total=self.spec.steady.at_most_seconds, said="starts")

    def seen(self, state: Watch) -> None:
        if state.first is None:
            return
        gone = state.seconds - state.first
        said = f"{len(state.rates)} values"
        if state.mean is not None:
            said = f"{state.mean.value:.4g} {self.spec.unit}/s ± {state.mean.relative:.1%} of {len(state.rates)} values"
        self.bar.update(self.task, completed=gone, said=said)

    def finished(self, measurement: Measurement, message: str) -> None:
        self.bar.remove_task(self.task)
        self.bar.console.print(f"{measurement.profile}: {outcome_text(measurement, message)}", highlight=False)


def outcome_text(m: Measurement, message: str) -> str:
    """``12.3 samples/s (12.0 – 12.6), steady, device: cpu``."""
    said = [m.outcome.replace("_", " "), f"device: {m.device}"]
    if (figure := m.throughput_per_second) is not None:
        around = "" if figure.low is None or figure.high is None else f" ({figure.low:.4g} – {figure.high:.4g})"
        said.insert(0, f"{figure.value:.4g} {m.unit}/s{around}")
    return ", ".join(said) + (f": {message.splitlines()[0]}" if message else "")
