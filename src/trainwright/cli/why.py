"""`tw why JOB`: one verdict about a job, what it rests on, and what to type next. Judged in `why`, gathered here."""

import asyncio
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import click

from trainwright.cli.completion import jobs as complete_jobs
from trainwright.cli.homes import Where, where_options

if TYPE_CHECKING:
    from trainwright.why import Facts, Verdict


@click.command("why")
@click.argument("job", metavar="JOB", shell_complete=complete_jobs)
@click.option("-o", "--output", type=click.Choice(["json"]), help="Print the verdict for a program.")
@where_options
def command(job: str, output: str | None, where: Where) -> None:
    """Say why a job waits, is stuck, has failed, was resized or is well: one verdict, its evidence, what to type next.

    \b
    tw why mnist
    tw why mnist -n team --context prod
    tw why mnist -o json
    """  # noqa: D301 - click reads \b as "leave these lines alone"
    from trainwright.cli.output import dump
    from trainwright.why import judge

    facts = asyncio.run(_facts(job, where))
    verdict = judge(facts)
    if output:
        sys.stdout.write(dump(_as_json(facts, verdict), output))
        return
    for line in lines(verdict):
        click.echo(line)


def lines(verdict: "Verdict") -> Iterator[str]:
    """Yield a verdict as people read it."""
    yield verdict.sentence
    yield from (f"  {line}" for line in verdict.evidence)
    yield from (f"try: {line}" for line in verdict.next)


async def _facts(job: str, where: Where) -> "Facts":
    from trainwright.cli import homes
    from trainwright.cli.gathered import gather

    async with homes.opened(where, job) as home:
        kind, found = await homes.find(home, job)
        return await gather(
            home, kind, found, datetime.now().astimezone(), _flags(where, found["metadata"]["namespace"])
        )


def _flags(where: Where, namespace: str) -> str:
    """Return what to add to a command so that it finds the same job."""
    given = {
        "--kubeconfig": where.kubeconfig,
        "--context": where.context,
        "-n": where.namespace or (namespace if where.all_namespaces else None),
    }
    return "".join(f" {flag} {value}" for flag, value in given.items() if value)


def _as_json(facts: "Facts", verdict: "Verdict") -> dict[str, object]:
    from trainwright.api import scaling

    return {
        "kind": facts.kind.name,
        "namespace": facts.object["metadata"]["namespace"],
        "name": facts.name,
        "situation": verdict.situation,
        "sentence": verdict.sentence,
        "evidence": list(verdict.evidence),
        "next": list(verdict.next),
        "scalings": [scaling.written(each) for each in scaling.history(facts.status)],
    }
