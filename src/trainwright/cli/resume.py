"""`tw resume JOB...`: jobs that were suspended start again."""

import click

from trainwright.cli.completion import live_jobs
from trainwright.cli.homes import Where, where_options
from trainwright.cli.output import Output, output_option


@click.command("resume")
@click.argument("jobs", metavar="JOB...", nargs=-1, required=True, shell_complete=live_jobs)
@where_options
@output_option()
def command(jobs: tuple[str, ...], where: Where, output: Output | None) -> None:
    """Start jobs again that were suspended.

    \b
    tw resume mnist
    """  # noqa: D301 - click reads \b as "leave these lines alone"
    from trainwright.cli.orders import carry_out
    from trainwright.cli.output import tell

    tell(carry_out(where, jobs, "resume", "resumed"), output)
