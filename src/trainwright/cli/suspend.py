"""`tw suspend JOB...`: jobs let go of their pods and wait to be resumed."""

import click

from trainwright.cli.completion import live_jobs
from trainwright.cli.homes import Where, where_options
from trainwright.cli.output import Output, output_option


@click.command("suspend")
@click.argument("jobs", metavar="JOB...", nargs=-1, required=True, shell_complete=live_jobs)
@where_options
@output_option()
def command(jobs: tuple[str, ...], where: Where, output: Output | None) -> None:
    """Let jobs wait: their pods are ended, their place is free, and `tw resume` starts them again.

    A job starts again from its own last checkpoint, if it writes any.

    \b
    tw suspend mnist
    tw suspend pytorchjob/mnist -n research
    """  # noqa: D301 - click reads \b as "leave these lines alone"
    from trainwright.cli.orders import carry_out
    from trainwright.cli.output import tell

    tell(carry_out(where, jobs, "suspend", "suspended"), output)
