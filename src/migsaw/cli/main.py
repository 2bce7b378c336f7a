"""The ``migsaw`` command. Verbs are modules of this package, imported only when they are called.

So ``--help`` starts as fast as click itself: nothing heavier may be imported here (a test on ``sys.modules``).
"""

from __future__ import annotations

import errno
import io
import os
import sys
from importlib import import_module
from typing import NoReturn

import click

from migsaw import __version__
from migsaw.errors import MigsawError

# verb → what it does, in one line; the command is `migsaw.cli.<verb>:command`
VERBS = {
    "boards": "Boards, their profiles and how sure the geometry is.",
    "layouts": "The layouts that one GPU of a board can have.",
    "observe": "Read what is there: files of a cluster become one snapshot.",
    "doctor": "What is wrong with what was observed, why, and what to do next.",
    "estimate": "What a model needs before it ever ran, and the profiles that hold it.",
    "recommend": "Right sizes from telemetry, chosen so that they fit together; what starves is told apart.",
    "profile": "Measured trials of a workload on few slots, and the slot that they lead to.",
    "assign": "Measured workloads get fixed slots: the least cost of finished work within their limits.",
    "cost": "What a finished run costs on a whole GPU and on each slice that serves.",
    "pack": "Plan capacity from demand alone: the fewest GPUs or the least cost, with proof.",
    "plan": "A better partition of what a snapshot shows: steps, reasons, savings.",
    "explain": "Why a plan does what it does, by GPU, pod or profile.",
    "render": "The objects to apply: mig-parted files, labels, InstanceTypes, node pools, commands.",
    "demo": "The whole job on a small built-in cluster, in seconds.",
    "store": "What migsaw remembers, as JSON lines: export and import.",
    "completion": "Shell completion for bash, zsh or fish.",
}


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command = import_module(f"migsaw.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="migsaw %(version)s")
def group() -> None:
    """Fit GPU work into NVIDIA MIG slices and prove what that saved.

    Exit codes: 0 done, 1 failed, 2 usage or invalid input, 3 done and something was found.
    """


def main() -> None:
    if sys.stdout is None:
        sys.exit("error: stdout is closed")
    for stream in (sys.stdout, sys.stderr):  # data is UTF-8 whatever the locale; what no text can hold is escaped
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        group.main(standalone_mode=True, prog_name="migsaw")
    except MigsawError as problem:
        _fail(problem, problem.exit_code, problem.hint)
    except SystemExit as done:
        sys.exit(_flushed(done.code))
    except OSError as problem:
        _fail(f"{problem.filename or 'stdout'}: {problem.strerror}", 1)


def _fail(problem: object, code: int, hint: str | None = None) -> NoReturn:
    from migsaw.report.table import visible

    click.echo(f"error: {visible(str(problem))}", err=True)
    if hint:
        click.echo(f"hint: {visible(hint)}", err=True)
    sys.exit(_flushed(code))


def _flushed(code: int | str | None) -> int | str | None:
    """The exit code, 1 where what was written did not reach its end: a full disk tells that only now."""
    try:
        sys.stdout.flush()
    except OSError as problem:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes once more at its end
        if problem.errno != errno.EPIPE:
            click.echo(f"error: stdout: {problem.strerror}", err=True)
        return 1
    return code


if __name__ == "__main__":
    main()
