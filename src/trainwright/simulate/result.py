"""What a run was worth: the figures that are compared, job by job and for all together."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from trainwright.simulate.jobs import Job
from trainwright.simulate.meters import Signal, Steps, Window, jain, mean
from trainwright.simulate.run import Resize, Run
from trainwright.simulate.scenario import Scenario

LATE = 600.0
"""When other load should have recovered in the published experiment; `background_max_after_600s` looks from here on."""


@dataclass(frozen=True)
class Figures:
    """One number for each thing that is measured; None where a scenario has nothing to measure."""

    pending_s: float | None
    """Mean over jobs, from the first elastic pod created to the first one running; until the end if none ever ran."""
    strict_ready_s: float | None
    """Mean over jobs, from arrival to all fixed pods and the minimum running."""
    jobs_up: float
    """Jobs that had all that at the snapshot."""
    jain: float
    """Jain's index of running elastic pods over maximum, over the jobs that were there at the snapshot."""
    jain_integral: float
    """The same of each job's mean over the time it was there."""
    utilisation: float
    """Requests of running pods over what the nodes offer; a pod that is leaving still runs."""
    utilisation_steady: float
    utilisation_off_peak: float | None
    background_shortfall_pod_s: float | None
    """Pods of other load that were wanted and did not run, times the seconds they did not."""
    background_max_after_600s: float | None
    """The most pods of other load that ran together after 600 s."""
    resizes: float
    completed: float
    """Jobs that ended."""
    completion_s: float | None
    """Mean over jobs that ended, from arrival to the end."""
    rounds: float
    """How often the planner was asked."""


@dataclass(frozen=True)
class JobResult:
    """What one job saw; times are seconds since its arrival, None for what never happened."""

    name: str
    group: str
    arrived: float
    pending_s: float | None
    strict_ready_s: float | None
    completion_s: float | None
    resizes: int
    mean_replicas: float
    maximum: int
    running: Steps
    """How many elastic pods ran, from when on."""


@dataclass(frozen=True)
class LoadResult:
    """How many pods of other load were wanted and ran, from when on."""

    name: str
    wanted: Steps
    running: Steps


@dataclass(frozen=True)
class Result:
    """Everything about one run that is printed or drawn."""

    policy: str
    seed: int
    until: float
    figures: Figures
    jobs: Sequence[JobResult]
    resizes: Sequence[Resize]
    utilisation: Steps
    loads: Sequence[LoadResult]


def simulate(scenario: Scenario, policy: str, seed: int) -> Result:
    """Live through a scenario under a policy, and return what it was worth."""
    run = Run(scenario, policy, seed)
    run.live()
    return Result(
        policy=policy,
        seed=seed,
        until=scenario.until,
        figures=_figures(run),
        jobs=tuple(_job(job, scenario.until) for job in run.jobs if job.arrived),
        resizes=tuple(run.resizes),
        utilisation=tuple(run.utilisation.steps),
        loads=tuple(
            LoadResult(load.spec.name, tuple(load.wanted.steps), tuple(load.running.steps)) for load in run.loads
        ),
    )


def average(results: Sequence[Result]) -> Figures:
    """Return the mean of every figure over several seeds; a figure that is missing once is missing."""
    columns = {each.name: [getattr(result.figures, each.name) for result in results] for each in fields(Figures)}
    means: dict[str, Any] = {name: None if None in values else mean(values) for name, values in columns.items()}
    return Figures(**means)


def _figures(run: Run) -> Figures:
    scenario, until = run.scenario, run.scenario.until
    arrived = [job for job in run.jobs if job.arrived]
    completions = [job.finished - job.arrives for job in arrived if job.finished is not None]
    measure = scenario.measure
    snapshot = until if measure.snapshot is None else min(measure.snapshot, until)
    present = [job for job in arrived if job.arrives <= snapshot and (job.finished is None or job.finished > snapshot)]
    return Figures(
        pending_s=mean([_waited(job, job.first_running, until) for job in arrived]),
        strict_ready_s=mean([_waited(job, job.ready, until) for job in arrived]),
        jobs_up=float(sum(job.up.at(snapshot) > 0 for job in present)),
        jain=jain([job.running.at(snapshot) / job.group.elastic.max for job in present]),
        jain_integral=jain([_mean_replicas(job, until) / job.group.elastic.max for job in arrived]),
        utilisation=run.utilisation.mean(_window(measure.overall, (0.0, until), until)),
        utilisation_steady=run.utilisation.mean(_window(measure.steady, (until / 2, until), until)),
        utilisation_off_peak=run.utilisation.mean(_window(measure.off_peak, None, until)) if measure.off_peak else None,
        background_shortfall_pod_s=_shortfall(run) if run.loads else None,
        background_max_after_600s=_late(run) if run.loads and until > LATE else None,
        resizes=float(len(run.resizes)),
        completed=float(len(completions)),
        completion_s=mean(completions),
        rounds=float(run.rounds),
    )


def _window(given: Sequence[float], otherwise: Window | None, until: float) -> Window:
    low, high = given or otherwise or (0.0, until)
    return min(low, until), min(high, until)


def _waited(job: Job, since: float | None, until: float) -> float:
    return (until if since is None else since) - job.arrives


def _mean_replicas(job: Job, until: float) -> float:
    return job.running.mean((job.arrives, until if job.finished is None else job.finished))


def _shortfall(run: Run) -> float:
    window = _window(run.scenario.measure.shortfall, None, run.scenario.until)
    return sum(_below(load.wanted, load.running).integral(window) for load in run.loads)


def _below(wanted: Signal, running: Signal) -> Signal:
    """Return how many are missing over time."""
    missing = Signal()
    for time in sorted({time for time, _ in (*wanted.steps, *running.steps)}):
        missing.set(time, max(0.0, wanted.at(time) - running.at(time)))
    return missing


def _late(run: Run) -> float:
    return sum(load.running.highest((LATE, run.scenario.until)) for load in run.loads)


def _job(job: Job, until: float) -> JobResult:
    def since(time: float | None) -> float | None:
        return None if time is None else time - job.arrives

    return JobResult(
        name=job.name,
        group=job.group.name,
        arrived=job.arrives,
        pending_s=since(job.first_running),
        strict_ready_s=since(job.ready),
        completion_s=since(job.finished),
        resizes=job.resizes,
        mean_replicas=_mean_replicas(job, until),
        maximum=job.group.elastic.max,
        running=tuple(job.running.steps),
    )
