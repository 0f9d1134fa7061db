"""`tw simulate SCENARIO`: what the autoscaler would do on a cluster and a job mix from a file, policy by policy."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trainwright.cli.settings import Setting, SettingType

if TYPE_CHECKING:
    from trainwright.simulate import Figures, JobResult, Result, Scenario

Results = Mapping[str, "Sequence[Result]"]
"""The runs of each policy, one per seed."""


@click.command("simulate")
@click.argument("scenario")
@click.option("--policy", "policies", multiple=True, metavar="NAME", help="Only this policy; may be repeated.")
@click.option(
    "--seed",
    "seeds",
    multiple=True,
    type=click.IntRange(min=0),
    help="Where chance begins [default: 1]; with several the figures are means.",
)
@click.option(
    "--set",
    "sets",
    multiple=True,
    type=SettingType(),
    metavar="PATH=VALUE",
    help="Change a value of the scenario first.",
)
@click.option("--jobs", "job_by_job", is_flag=True, help="Print a row for each job too.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "html"]),
    default="table",
    show_default=True,
    help="A table and a timeline, everything for a program, or a page with the picture.",
)
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw the timeline into an .svg or .html."
)
def command(
    scenario: str,
    policies: tuple[str, ...],
    seeds: tuple[int, ...],
    sets: tuple[Setting, ...],
    job_by_job: bool,
    output: str,
    plot: Path | None,
) -> None:
    """Show what the autoscaler would do in SCENARIO: a YAML file, or the name of one that is shipped.

    The planner is the one that scales real jobs; the scheduler, the nodes and the pods are models. Nothing is run. The
    same seed gives the same run. A name that is not known prints the names there are.

    \b
    tw simulate edl-case-1
    tw simulate edl-case-2 --policy fulfilment --policy static --plot case-2.svg
    tw simulate my-cluster.yaml --seed 1 --seed 2 -o json
    """  # noqa: D301 - click reads \b as "leave these lines alone"
    from trainwright.cli.output import dump
    from trainwright.simulate import picture, simulate

    if plot and plot.suffix not in (".svg", ".html"):
        raise click.BadParameter(f"{plot} is neither .svg nor .html; give it one of these ends", param_hint="--plot")
    chosen = _policies(policies)
    name, read = _read(scenario, sets)
    results = {policy: [simulate(read, policy, seed) for seed in seeds or (1,)] for policy in chosen}
    first = [runs[0] for runs in results.values()]
    title = f"{name}: {read.description}" if read.description else name
    if plot:
        drawn = picture.svg(title, first) if plot.suffix == ".svg" else picture.html(title, _table(results), first)
        plot.write_text(drawn, encoding="utf-8")
    if output == "json":
        sys.stdout.write(dump(_as_json(name, read, results), "json"))
    elif output == "html":
        sys.stdout.write(picture.html(title, _table(results), first))
    else:
        for line in _lines(title, results, job_by_job=job_by_job):
            click.echo(line)


def _policies(names: Sequence[str]) -> list[str]:
    """Return the policies that were asked for, all of them if none was."""
    from trainwright.autoscaler import POLICIES
    from trainwright.core.errors import did_you_mean

    for name in names:
        if name not in POLICIES:
            there = f"(there are: {', '.join(POLICIES)})"
            raise click.BadParameter(
                f"no such policy: {name!r}{did_you_mean(name, POLICIES)} {there}", param_hint="--policy"
            )
    return list(dict.fromkeys(names)) or list(POLICIES)


def _read(scenario: str, sets: Sequence[Setting]) -> "tuple[str, Scenario]":
    """Return a scenario and its name, or raise with everything that is wrong with it, line by line."""
    from trainwright.api import manifest
    from trainwright.cli import settings
    from trainwright.cli.lint import Row
    from trainwright.core.errors import BadRequest, ManifestError, Problem
    from trainwright.simulate import problems, read

    name, text = _text(scenario)
    documents = manifest.parse(text)
    if len(documents) != 1:
        raise ManifestError([Problem("", f"{name}: a scenario is one YAML document, found {len(documents)}")])
    document = documents[0]
    found = [*document.problems]
    obj = document.object
    if obj is not None:
        try:
            obj = settings.apply(obj, sets)
        except ValueError as error:
            raise BadRequest(f"--set {error}") from error
        found += problems(obj)
    rows = [Row(name, document.line_of(each), each.path, each.message) for each in found if each.severity == "error"]
    if rows or obj is None:
        raise ManifestError([Problem("", str(row)) for row in sorted(rows, key=lambda row: row.line)])
    return Path(name).stem, read(obj)


def _text(scenario: str) -> tuple[str, str]:
    """Return the name and the text of a scenario: a file, or one that is shipped."""
    from trainwright.cli.loading import text_of
    from trainwright.core.errors import NotFound, did_you_mean

    shipped = _shipped()
    if scenario in shipped:
        return scenario, shipped[scenario].read_text(encoding="utf-8")
    if scenario != "-" and not Path(scenario).exists():
        there = f"shipped are: {', '.join(shipped)}"
        raise NotFound(f"there is no file and no scenario {scenario!r}{did_you_mean(scenario, shipped)} ({there})")
    name = "<stdin>" if scenario == "-" else scenario
    return name, text_of(scenario, name)


def _shipped() -> dict[str, Any]:
    from importlib.resources import files

    folder = files("trainwright.simulate") / "scenarios"
    found = {each.name.removesuffix(".yaml"): each for each in folder.iterdir() if each.name.endswith(".yaml")}
    return dict(sorted(found.items()))


# What is printed

_SHARE, _INDEX, _SECONDS, _COUNT = "{:.1%}", "{:.2f}", "{:.1f} s", "{:.0f}"
_ROWS = (
    ("pending_s", "first elastic pod runs after, mean", _SECONDS),
    ("strict_ready_s", "job fully up after, mean", _SECONDS),
    ("jobs_up", "jobs fully up at the snapshot", "{:.1f}"),
    ("jain", "fairness (Jain) at the snapshot", _INDEX),
    ("jain_integral", "fairness (Jain) over the time", _INDEX),
    ("utilisation", "utilisation", _SHARE),
    ("utilisation_steady", "utilisation, steady", _SHARE),
    ("utilisation_off_peak", "utilisation, off-peak", _SHARE),
    ("background_shortfall_pod_s", "other load short of pods, pod seconds", _COUNT),
    ("background_max_after_600s", "other load's most pods after 600 s", _COUNT),
    ("resizes", "resizes", _COUNT),
    ("completed", "jobs completed", _COUNT),
    ("completion_s", "completed after, mean", _SECONDS),
)


def _table(results: Results) -> list[list[str]]:
    """Return the figures with a column for each policy; rows that say nothing are left out."""
    from trainwright.simulate import average

    means = [average(runs) for runs in results.values()]
    rows = [["", *results]]
    for field, title, form in _ROWS:
        values = [getattr(figures, field) for figures in means]
        if any(value is not None for value in values):
            rows.append([title, *("-" if value is None else form.format(value) for value in values)])
    return rows


def _lines(title: str, results: Results, *, job_by_job: bool) -> Iterable[str]:
    from trainwright.cli.words import columns
    from trainwright.simulate import timeline

    seeds = [str(run.seed) for run in next(iter(results.values()))]
    yield title
    yield (
        f"seed {seeds[0]}" if len(seeds) == 1 else f"means over seeds {', '.join(seeds)}; timelines of seed {seeds[0]}"
    )
    yield ""
    head, *rows = _table(results)
    yield from columns(head, rows)
    for runs in results.values():
        yield ""
        yield from timeline.lines(runs[0])
        if job_by_job:
            yield ""
            heads = ("JOB", "ARRIVED", "FIRST POD", "FULLY UP", "COMPLETED", "RESIZES", "MEAN PODS")
            yield from columns(heads, map(_job_row, runs[0].jobs))


def _job_row(job: "JobResult") -> list[str]:
    waits = ["never" if wait is None else f"{wait:.1f} s" for wait in (job.pending_s, job.strict_ready_s)]
    completed = "-" if job.completion_s is None else f"{job.completion_s:.1f} s"
    return [job.name, f"{job.arrived:.1f} s", *waits, completed, str(job.resizes), f"{job.mean_replicas:.1f}"]


def _as_json(name: str, scenario: "Scenario", results: Results) -> dict[str, Any]:
    from trainwright.simulate import average

    return {
        "scenario": name,
        "description": scenario.description,
        "seeds": [run.seed for run in next(iter(results.values()))],
        "policies": {policy: _policy_as_json(average(runs), runs[0]) for policy, runs in results.items()},
    }


def _policy_as_json(figures: "Figures", run: "Result") -> dict[str, Any]:
    """Return the figures, and of the first seed what happened to each job and why."""
    changes = [{"at": resize.at, **asdict(resize.change)} for resize in run.resizes]
    return {**asdict(figures), "jobs": [asdict(job) for job in run.jobs], "changes": changes}
