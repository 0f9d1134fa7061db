"""`tw completion SHELL`: the script that makes the shell complete commands, options and the names of jobs that ran."""

from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

_HOW = {
    "bash": 'eval "$(tw completion bash)"         # in ~/.bashrc',
    "zsh": 'eval "$(tw completion zsh)"          # in ~/.zshrc, after compinit',
    "fish": "tw completion fish | source          # in ~/.config/fish/config.fish",
}


@click.command("completion", epilog="\b\n" + "\n".join(_HOW.values()))
@click.argument("shell", type=click.Choice(sorted(_HOW)))
def command(shell: str) -> None:
    """Print the completion script for your shell."""
    from trainwright.cli import tw

    kind = get_completion_class(shell)
    assert kind is not None, "click completes every shell of the choice above"
    click.echo(kind(tw, {}, "tw", "_TW_COMPLETE").source())


def jobs(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Complete the names of jobs whose runs are kept."""
    from trainwright.cli import runs

    names: dict[str, Any] = {job["name"]: run for run in runs.kept(runs.state()) for job in run.jobs}
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]
