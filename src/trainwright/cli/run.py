"""`tw run FILE`: run the jobs of a manifest on this machine, wait for them, and leave with the culprit's exit code."""

from pathlib import Path
from typing import Any, Literal

import click

from trainwright.cli.flags import home_options, set_option
from trainwright.cli.settings import Setting
from trainwright.cli.words import Duration


@click.command("run")
@click.argument("file")
@click.option("-n", "--namespace", help="The namespace of objects that name none.")
@click.option("--timeout", type=Duration(), metavar="D", help="Give up after so long: 30s, 5m, 1h30m. Exit code 124.")
@set_option
@home_options
@click.option("-q", "--quiet", is_flag=True, help="Say nothing of our own but errors.")
@click.option("-o", "--output", type=click.Choice(["json"]), help="Print the final job object; logs go to stderr.")
def command(
    file: str,
    namespace: str | None,
    timeout: float | None,
    sets: tuple[Setting, ...],
    isolation: Literal["auto", "net", "ports"],
    cpu: str | None,
    memory: str | None,
    gpu: str | None,
    no_autoscale: bool,
    lenient: bool,
    quiet: bool,
    output: str | None,
) -> int:
    """Run the jobs of FILE ("-" reads standard input) on this machine and wait for them.

    Every pod is a process tree of its own; its image is not pulled, its command runs with your environment. What the
    ranks print comes out on stdout with the rank in front, our own words on stderr. Every run is kept: see `tw logs`,
    `tw status` and `tw events`. The exit code is that of the rank that failed first, 0 when the jobs succeeded.

    \b
    tw run examples/pytorch/static.yaml
    tw run job.yaml --set spec.pytorchReplicaSpecs.Worker.replicas=3
    tw run job.yaml --timeout 5m -o json > job.json
    """  # noqa: D301 - click reads \b as "leave these lines alone"
    import contextlib

    from trainwright.node.isolation import NetTrial

    # The trial goes on in a process of its own while everything else is imported.
    with contextlib.nullcontext() if isolation == "ports" else NetTrial() as trial:
        return _run(
            file,
            sets,
            namespace,
            output,
            quiet=quiet,
            isolation=isolation,
            attempt=trial.result if trial else None,
            cpu=cpu,
            memory=memory,
            gpu=gpu,
            timeout=timeout,
            autoscale=not no_autoscale,
            lenient=lenient,
        )


def _run(
    file: str,
    sets: tuple[Setting, ...],
    namespace: str | None,
    output: str | None,
    *,
    quiet: bool,
    lenient: bool,
    **wishes: Any,
) -> int:
    import asyncio
    import os
    import sys

    from trainwright.cli.launch import Wishes, launch
    from trainwright.cli.loading import load
    from trainwright.cli.output import as_list, dump
    from trainwright.cli.screen import Screen

    loaded = load(file, sets, namespace, lenient=lenient)
    screen = Screen(logs=2 if output else 1, quiet=quiet)
    wanted = Wishes(**wishes, environment=dict(os.environ), cwd=Path.cwd(), lenient=lenient)
    result = asyncio.run(launch(loaded, wanted, screen))
    if output:
        objects = result.jobs
        sys.stdout.write(dump(objects[0] if len(objects) == 1 else as_list(objects), output))
        sys.stdout.flush()
    return result.code
