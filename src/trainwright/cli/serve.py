"""`tw serve`: a control plane for this machine, which goes on after every end."""

import sys
from pathlib import Path
from typing import Literal

import click

from trainwright.cli.flags import home_options
from trainwright.cli.words import Duration

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("serve")
@click.option("--state", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Where it keeps all.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=7447,
    show_default=True,
    help="Where it listens on 127.0.0.1; 0, or the usual one being taken, means a free one.",
)
@click.option(
    "--users",
    type=click.Choice(["own", "all"]),
    default="own",
    show_default=True,
    help="Serve only yourself, or as root everybody on this machine: jobs run as whoever submitted them.",
)
@click.option(
    "--socket",
    type=_FILE,
    default="/run/trainwright/api.sock",
    show_default=True,
    metavar="FILE",
    help="Where everybody asks, with --users all.",
)
@home_options
@click.option("--grace", type=Duration(), default="30s", show_default=True, help="How long pods may take at the end.")
@click.option(
    "--keep-finished",
    type=click.IntRange(0),
    default=10_000,
    show_default=True,
    metavar="N",
    help="Forget the oldest finished jobs when there are more.",
)
@click.option("--import", "imported", type=_FILE, metavar="FILE", help="Begin with what --export wrote.")
@click.option("--export", "exported", type=_FILE, metavar="FILE", help="Only write everything to a file, and end.")
@click.option("--print-systemd", is_flag=True, help="Only print the systemd unit for these options.")
def command(
    state: Path | None,
    port: int,
    users: Literal["own", "all"],
    socket: Path,
    isolation: Literal["auto", "net", "ports"],
    cpu: str | None,
    memory: str | None,
    gpu: str | None,
    no_autoscale: bool,
    lenient: bool,
    grace: float,
    keep_finished: int,
    imported: Path | None,
    exported: Path | None,
    print_systemd: bool,
) -> None:
    """Serve this machine as a small cluster, until SIGTERM or Ctrl-C: `tw apply`, `tw ps` and kubectl work with it.

    What was accepted is on disk. Stopped, killed or powered off, it goes on at the next start.

    \b
    tw serve
    tw serve --cpu 8 --memory 16Gi
    sudo tw serve --users all --print-systemd
    kubectl --kubeconfig "$(tw kubeconfig)" get pods
    """  # noqa: D301 - click reads \b as "leave these lines alone"
    from trainwright.cli.homes import serve_folder

    folder = (state or serve_folder()).absolute()
    if print_systemd:
        from trainwright.server.unit import unit

        click.echo(unit(_without(sys.argv, "--print-systemd")), nl=False)
        return
    if exported:
        from trainwright.server.state import State
        from trainwright.server.transfer import export

        click.echo(f"{export(State(folder).store, exported)} objects are in {exported}", err=True)
        return

    import asyncio

    from trainwright.operator import log
    from trainwright.server.retention import Keep
    from trainwright.server.serve import ServeOptions, serve

    log.setup()
    options = ServeOptions(
        folder,
        port,
        users,
        socket.absolute(),
        isolation=isolation,
        cpu=cpu,
        memory=memory,
        gpu=gpu,
        lenient=lenient,
        autoscale=not no_autoscale,
        grace=grace,
        keep=Keep(finished=keep_finished),
        bring_in=imported,
    )
    asyncio.run(serve(options, lambda sentence: click.echo(sentence, err=True)))


def _without(arguments: list[str], flag: str) -> list[str]:
    """Return the command that was called, by its whole path, without a flag."""
    program, *rest = arguments
    return [str(Path(program).absolute()), *(each for each in rest if each != flag)]
