"""`tw completion SHELL`: the script that makes the shell complete commands, options and the names of jobs."""

from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem, get_completion_class

_PATIENCE = 0.7
"""Seconds a shell waits for names."""
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
    """Complete the names of jobs that are there, and of those whose runs are kept."""
    from trainwright.cli import runs

    kept = [job["name"] for run in runs.kept(runs.state()) for job in run.jobs]
    return _starting(incomplete, [*_live(context), *kept])


def live_jobs(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Complete the names of jobs that are there."""
    return _starting(incomplete, _live(context))


def _starting(incomplete: str, names: Iterable[str]) -> list[CompletionItem]:
    """Return the names that begin so; a kind that stands in front of a name stays there."""
    kind, slash, begun = incomplete.rpartition("/")
    return [CompletionItem(f"{kind}{slash}{name}") for name in dict.fromkeys(names) if name.startswith(begun)]


def _live(context: click.Context) -> list[str]:
    """Return the names of the jobs of the home that is meant so far; nothing where it does not answer at once."""
    import asyncio

    from trainwright.cli import homes

    given = context.params
    where = homes.Where(given.get("kubeconfig"), given.get("context"), given.get("namespace"))

    async def names() -> list[str]:
        async with asyncio.timeout(_PATIENCE), homes.everywhere(where) as places:
            found = await asyncio.gather(*(homes.listing(home) for home in places))
            return [job["metadata"]["name"] for jobs in found for _, job in jobs]

    try:
        return asyncio.run(names())
    except Exception:  # noqa: BLE001 - a shell that completes wants names or silence, whatever is wrong
        return []
