"""`tw render FILE`: every Kubernetes object a job would create, without creating any."""

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from trainwright.cli.flags import lenient_option, set_option, stream_option
from trainwright.cli.settings import Setting

if TYPE_CHECKING:
    from trainwright.core.objects import Object


@click.command("render")
@click.argument("file")
@click.option("--job", "only_jobs", is_flag=True, help="Print the jobs as they would be stored, defaults filled in.")
@click.option("-n", "--namespace", help="The namespace of objects that name none.")
@set_option
@lenient_option
@stream_option
def command(
    file: str, only_jobs: bool, namespace: str | None, sets: tuple[Setting, ...], lenient: bool, output: str
) -> None:
    """Print every Kubernetes object the jobs of FILE would create, in creation order.

    \b
    tw render job.yaml
    tw render job.yaml --job           # the job as admission would store it
    tw render job.yaml | kubectl diff -f -
    """  # noqa: D301 - click reads \b as "leave these lines alone"
    from trainwright.cli.loading import load
    from trainwright.cli.output import documents, stream

    loaded = load(file, sets, namespace, lenient=lenient)
    for warning in loaded.warnings:
        click.echo(warning, err=True)
    objects = loaded.jobs if only_jobs else _made(loaded.jobs)
    sys.stdout.writelines(documents(objects) if output == "yaml" else [stream(objects, output)])
    sys.stdout.flush()


def _made(jobs: "Sequence[Object]") -> "Iterator[Object]":
    """Yield what the jobs would create."""
    from trainwright import desired
    from trainwright.kinds import kind_of

    for job in jobs:
        kind = kind_of(job)
        assert kind is not None, "only jobs are loaded as jobs"
        yield from desired.render(kind.build(kind.read(job), desired.KUBERNETES, 0))
