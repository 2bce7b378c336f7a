"""``migsaw completion``: the script that teaches a shell the verbs and options."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")
HOW = {
    "bash": "migsaw completion bash > ~/.local/share/bash-completion/completions/migsaw",
    "zsh": "migsaw completion zsh > ~/.zfunc/_migsaw   (a folder of $fpath)",
    "fish": "migsaw completion fish > ~/.config/fish/completions/migsaw.fish",
}


@click.command(epilog="\b\n" + "\n".join(HOW.values()))
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the completion script for SHELL."""
    from click.shell_completion import get_completion_class

    from migsaw.cli.main import group

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(group, {}, "migsaw", "_MIGSAW_COMPLETE").source())
