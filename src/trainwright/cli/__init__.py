"""The command line: one module per command, imported only when that command is called.

`tw --help` must answer at once, so this module imports click and nothing of ours; the table below carries the one-line
helps. Every command module has a `command`. Errors become sentences on stderr and the exit codes of `exits` here, once.
"""

import gc
import importlib
import itertools
import sys
from dataclasses import dataclass
from typing import Any

import click

from trainwright import __version__
from trainwright.cli import exits

__all__ = ["COMMANDS", "main", "tw"]


@dataclass(frozen=True)
class Row:
    """One command: its heading in the help, and its line there."""

    section: str
    summary: str


FILES, JOBS, MACHINE, CLUSTERS, OTHER = "Manifests", "Jobs", "This machine", "Kubernetes", "This program"

COMMANDS = {
    "run": Row(FILES, "Run the jobs of a manifest on this machine and wait for them."),
    "lint": Row(FILES, "Say everything that is wrong with manifests."),
    "render": Row(FILES, "Print every Kubernetes object a job would create."),
    "explain": Row(FILES, "Print every field we inject into the pods, and why."),
    "simulate": Row(FILES, "Show what the autoscaler would do on a cluster from a file."),
    "demo": Row(FILES, "Train a static and an elastic job; lose a worker, add one."),
    "apply": Row(JOBS, "Make jobs and what they need as manifests say."),
    "ps": Row(JOBS, "List jobs: phase, ranks, restarts, what they wait for."),
    "status": Row(JOBS, "Show a job, its roles and its ranks."),
    "why": Row(JOBS, "Say why a job waits, is stuck, has failed, or is well."),
    "logs": Row(JOBS, "Print what the ranks of a job printed."),
    "events": Row(JOBS, "List what happened to a job."),
    "exec": Row(JOBS, "Run a command beside a rank of a job."),
    "top": Row(JOBS, "Show what ranks use: CPU, memory, steps per second."),
    "serve": Row(MACHINE, "Make this machine a small cluster that lasts."),
    "kubeconfig": Row(MACHINE, "Print where kubectl finds the running tw serve."),
    "scale": Row(JOBS, "Give an elastic job another size."),
    "suspend": Row(JOBS, "Let jobs wait; their pods are ended."),
    "resume": Row(JOBS, "Start suspended jobs again."),
    "retry": Row(JOBS, "Run jobs that have ended once more."),
    "cancel": Row(JOBS, "End jobs; they stay to be looked at."),
    "delete": Row(JOBS, "Remove jobs and all that is theirs."),
    "wait": Row(JOBS, "Return when a job has ended, or is as you want it."),
    "install": Row(CLUSTERS, "Print everything a cluster needs to run our kinds."),
    "uninstall": Row(CLUSTERS, "Print what to delete to be without it again."),
    "operator": Row(CLUSTERS, "Look after the jobs of a cluster."),
    "node": Row(CLUSTERS, "Make this machine a node whose pods are processes."),
    "doctor": Row(OTHER, "Say what works here, and what to do about the rest."),
    "completion": Row(OTHER, "Print the completion script for your shell."),
}


class _Commands(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"trainwright.cli.{cmd_name}").command
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from trainwright.core.errors import did_you_mean

            ctx.fail(f"no such command: {args[0]!r}{did_you_mean(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        for section in dict.fromkeys(row.section for row in COMMANDS.values()):
            with formatter.section(section):
                formatter.write_dl([(name, row.summary) for name, row in COMMANDS.items() if row.section == section])


@click.command(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Try: tw run examples/pytorch/static.yaml",
)
@click.version_option(__version__, "--version", message="trainwright %(version)s")
@click.option("--debug", is_flag=True, expose_value=False, help="Show where in the program an error comes from.")
def tw() -> None:
    """Run distributed training jobs from the manifests you already have."""


def main() -> None:
    """Run `tw` and leave with its exit code."""
    # Start-up makes many objects that all stay: looking through them for garbage again and again costs 10 ms.
    gc.set_threshold(50_000, 20, 50)
    sys.exit(_code())


def _code() -> int:
    try:
        result = tw(prog_name="tw", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return exits.USAGE
    except (click.Abort, KeyboardInterrupt):
        return exits.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - ours are said, faults are shown
        return _explained(error)
    return result if isinstance(result, int) else exits.OK


def _explained(error: Exception) -> int:
    """Say an error of ours in its own words and return its exit code; where it comes from shows --debug alone."""
    from trainwright.core.errors import (
        AlreadyExists,
        BadRequest,
        Conflict,
        Invalid,
        ManifestError,
        NotFound,
        OutOfTime,
        TrainwrightError,
    )

    while isinstance(error, ExceptionGroup):  # task groups wrap what ended them
        error = error.exceptions[0]
    if isinstance(error, BrokenPipeError):  # whoever read us has seen enough
        from trainwright.cli.screen import forget_stdout

        forget_stdout()
        return exits.after_signal(13)
    if _is_debugging():
        import traceback

        traceback.print_exception(error)
    if not isinstance(error, TrainwrightError | OSError):
        said = f"{type(error).__name__}: {error}; this is a fault of Trainwright itself, not of your job"
        return _said(RuntimeError(f"{said}: please report it with what tw --debug shows"), exits.OURS)
    codes: dict[type, int] = {
        ManifestError: exits.REJECTED,
        Invalid: exits.REJECTED,
        NotFound: exits.NOT_FOUND,
        BadRequest: exits.USAGE,
        Conflict: exits.REFUSED,
        AlreadyExists: exits.REFUSED,
        OutOfTime: exits.DEADLINE,
    }
    return _said(error, codes.get(type(error), exits.OURS), prefix="" if isinstance(error, ManifestError) else "tw: ")


def _is_debugging() -> bool:
    """Say whether --debug stands before the command, where it is ours."""
    return "--debug" in itertools.takewhile(lambda word: word.startswith("-"), sys.argv[1:])


def _said(error: Exception, code: int, prefix: str = "tw: ") -> int:
    words = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
    for line in words.splitlines():
        click.echo(f"{prefix}{line}", err=True)
    return code
