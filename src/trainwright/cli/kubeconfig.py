"""`tw kubeconfig`: print where the kubeconfig of the running `tw serve` is."""

from pathlib import Path

import click


@click.command("kubeconfig")
@click.option("--state", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="As given to tw serve.")
def command(state: Path | None) -> None:
    """Print the path of the file by which kubectl asks your `tw serve`.

    \b
    kubectl --kubeconfig "$(tw kubeconfig)" get pods
    """  # noqa: D301 - click reads \b as "leave these lines alone"
    from trainwright.cli.homes import serve_folder
    from trainwright.core.errors import HomeError
    from trainwright.server.state import State

    place = State((state or serve_folder()).absolute())
    if not place.holder() or not place.kubeconfig.exists():
        raise HomeError(f"no tw serve runs in {place.folder}; start one with: tw serve")
    click.echo(place.kubeconfig)
