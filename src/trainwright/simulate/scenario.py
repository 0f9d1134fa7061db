"""What a scenario file may say: nodes, jobs, other load, what breaks, and what is measured.

The dataclasses are the format, one entry per key; `read` finds everything that is wrong before anything runs. All times
are seconds since the start. What is random (arrivals `within`, the place of system load) is drawn by whoever runs it.
"""

# ruff: noqa: RUF009 - `entry` makes a dataclass field, as `field` does

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from trainwright.api.reader import Shape, amount, build, child, entry, shape_of, show, walk
from trainwright.core.errors import ManifestError, Problem
from trainwright.placement import Amounts, amounts
from trainwright.placement import show as show_amount

MOST_PODS = 1_000_000
"""More pods than this are a slip of the pen; nobody waits for their simulation."""
SHORTEST, LONGEST = 0.001, 366 * 86_400.0
_QUANTITIES = Shape("object", values=Shape("quantity"))


@dataclass(frozen=True)
class Nodes:
    """A number of equal nodes."""

    name: str = entry("What the nodes are called; -0, -1, … is put behind it.", default="node", required=True)
    count: int = entry("How many there are.", default=1, minimum=1, maximum=100_000)
    offers: Mapping[str, Any] = entry("What each offers to pods: cpu, memory, GPUs.", shape=_QUANTITIES, required=True)


@dataclass(frozen=True)
class System:
    """What the cluster's own pods take on every node, and in lumps on random ones."""

    per_node: Mapping[str, Any] = entry("Taken on every node.", shape=_QUANTITIES)
    lump: Mapping[str, Any] = entry("One more pod of the system, put on a random node.", shape=_QUANTITIES)
    lumps: int = entry("How many lumps there are.", default=0, minimum=0, maximum=100_000)


@dataclass(frozen=True)
class Scheduler:
    """How the cluster's scheduler behaves."""

    every: float = entry("Seconds between two passes over the waiting pods.", default=1.0)
    order: Literal["arrival", "random"] = entry("Which waiting pod is tried first.", default="arrival")
    levels: int = entry("How finely it grades nodes by what is free.", default=100, minimum=1, maximum=1000)


@dataclass(frozen=True)
class Role:
    """Pods of a job that are always there."""

    name: str = entry("The role, such as master or pserver.", default="", required=True)
    replicas: int = entry("How many pods.", default=1, minimum=0, maximum=100_000)
    requests: Mapping[str, Any] = entry("What each pod asks for.", shape=_QUANTITIES, required=True)
    start: float = entry("Seconds from a place to running.", default=3.0)


@dataclass(frozen=True)
class Elastic:
    """The pods of a job whose number may change."""

    name: str = entry("The role, such as trainer or worker.", default="trainer")
    min: int = entry("The fewest the job can work with.", default=1, minimum=1, maximum=100_000, required=True)
    max: int = entry("The most it can use.", default=1, minimum=1, maximum=100_000, required=True)
    initial: int | None = entry("How many it starts with; min if not given.", minimum=1, maximum=100_000)
    fixed: int | None = entry(
        "How many it has when nothing scales it; initial if not given.", minimum=1, maximum=100_000
    )
    requests: Mapping[str, Any] = entry("What each pod asks for.", shape=_QUANTITIES, required=True)
    start: float = entry("Seconds from a place to running.", default=3.0)
    grace: float = entry("Seconds it keeps its place after it was told to end.", default=30.0)

    def size(self, *, scaled: bool) -> int:
        """Return how many pods the job starts with, by whether anybody will scale it."""
        initial = self.min if self.initial is None else self.initial
        return initial if scaled or self.fixed is None else self.fixed


@dataclass(frozen=True)
class Arrivals:
    """When the jobs of a group are submitted."""

    at: float = entry("When the first is submitted.", default=0.0)
    every: float = entry("Seconds between two.", default=0.0)
    within: float | None = entry("Instead of every: all at random times within so many seconds.")


@dataclass(frozen=True)
class Speed:
    """How fast a job is with so many elastic pods, compared with one."""

    replicas: int = entry("With so many pods,", default=1, minimum=1, maximum=100_000, required=True)
    speed: float = entry("it is so many times as fast as one.", default=1.0, required=True)


@dataclass(frozen=True)
class Work:
    """What a job has to do; without it a job never ends."""

    steps: float = entry("How many steps of training.", default=1.0, required=True)
    step_seconds: float = entry("Seconds one step takes with one pod.", default=1.0, required=True)
    speed: tuple[Speed, ...] = entry("Speed against replicas, with straight lines between; n pods are n times as fast.")
    pause: float = entry("Seconds the job stands still after each change of its size.", default=0.0)
    spread: float = entry("Jobs of the group differ at random by up to this factor.", default=1.0)


@dataclass(frozen=True)
class Jobs:
    """A number of equal jobs."""

    name: str = entry("What the jobs are called; -0, -1, … is put behind it.", default="job", required=True)
    count: int = entry("How many there are.", default=1, minimum=1, maximum=100_000)
    arrives: Arrivals = entry("When they are submitted; all at once if not given.", default=Arrivals())
    roles: tuple[Role, ...] = entry("Pods that are always there.", default=())
    elastic: Elastic = entry("The pods whose number may change.", default=Elastic(), required=True)
    work: Work | None = entry("What each has to do; without it a job never ends.")


@dataclass(frozen=True)
class Level:
    """How many pods of other load are wanted from some time on."""

    at: float = entry("From this time on", default=0.0, required=True)
    replicas: int = entry("so many pods are wanted.", default=0, minimum=0, maximum=100_000, required=True)


@dataclass(frozen=True)
class Background:
    """Load that is not ours and is always yielded to, such as a web service."""

    name: str = entry("What it is called.", default="", required=True)
    requests: Mapping[str, Any] = entry("What each pod asks for.", shape=_QUANTITIES, required=True)
    levels: tuple[Level, ...] = entry("How many pods are wanted, and from when on.", default=(), required=True)
    start: float = entry("Seconds from a place to running.", default=3.0)
    grace: float = entry("Seconds a pod keeps its place after it was told to end.", default=10.0)


@dataclass(frozen=True)
class Outage:
    """Nodes that are lost with everything on them, and come back."""

    at: float = entry("When they are lost.", default=0.0, required=True)
    nodes: str = entry("The name of the group of nodes.", default="", required=True)
    count: int = entry("How many of them; the first ones.", default=1, minimum=1, maximum=100_000)
    back: float | None = entry("When they come back; never if not given.")


@dataclass(frozen=True)
class Measure:
    """Which parts of the run the figures are about; each pair is from and to."""

    resource: str = entry("Whose utilisation is measured.", default="cpu")
    snapshot: float | None = entry("When jobs that are up are counted and Jain's index is taken; at the end.")
    overall: tuple[float, ...] = entry("For `utilisation`; the whole run.", default=())
    steady: tuple[float, ...] = entry("For `utilisation_steady`; the last half of the run.", default=())
    off_peak: tuple[float, ...] = entry("For `utilisation_off_peak`; not measured if not given.", default=())
    shortfall: tuple[float, ...] = entry("For `background_shortfall_pod_s`; the whole run.", default=())


@dataclass(frozen=True)
class Scenario:
    """A cluster, the jobs that arrive, and what happens to both."""

    description: str = entry("What this scenario is about.", default="")
    until: float = entry("When the simulation ends.", default=3600.0, required=True)
    nodes: tuple[Nodes, ...] = entry("The cluster.", default=(), required=True)
    system: System = entry("What the cluster's own pods take.", default=System())
    scheduler: Scheduler = entry("How the cluster's scheduler behaves.", default=Scheduler())
    jobs: tuple[Jobs, ...] = entry("What is submitted.", default=(), required=True)
    background: tuple[Background, ...] = entry("Load that is not ours.", default=())
    outages: tuple[Outage, ...] = entry("Nodes that are lost.", default=())
    measure: Measure = entry("Which parts of the run the figures are about.", default=Measure())
    max_load: float = entry("The share of the cluster that elastic jobs may fill.", default=0.97)
    rest: float = entry("Seconds after a change of its size in which a job does not grow.", default=0.0)


def read(document: Mapping[str, Any]) -> Scenario:
    """Return the scenario a file describes, or raise with everything that is wrong with it."""
    wrong = [problem for problem in problems(document) if problem.severity == "error"]
    if wrong:
        raise ManifestError(wrong)
    return build(Scenario, document)


def problems(document: Mapping[str, Any]) -> list[Problem]:
    """Return everything that is wrong with a scenario; what it means is looked at only if its shape is right."""
    found = list(walk(shape_of(Scenario), document))
    return found or list(_meaning(build(Scenario, document), document))


def _meaning(scenario: Scenario, document: Mapping[str, Any]) -> Iterator[Problem]:
    yield from _numbers(document, "")
    wrong_nodes = list(_nodes(scenario))
    yield from wrong_nodes
    yield from _unique("nodes", [group.name for group in scenario.nodes])
    yield from _unique("jobs", [group.name for group in scenario.jobs])
    for index, group in enumerate(scenario.jobs):
        yield from _jobs(group, f"jobs[{index}]")
    if not wrong_nodes:  # otherwise nothing fits, and to say so of every pod helps nobody
        yield from _requests(scenario)
        yield from _measured(scenario)
    for index, outage in enumerate(scenario.outages):
        yield from _outage(outage, f"outages[{index}]", scenario.nodes)
    yield from _windows(scenario.measure, scenario.until)
    yield from _bounds(scenario)


# Numbers that mean the same everywhere: what a key is called says what it may be.

_AMOUNTS = ("offers", "requests", "perNode", "lump")
_MORE_THAN_NOTHING = ("until", "stepSeconds", "steps", "speed", "every", "maxLoad")


def _numbers(value: Any, path: str) -> Iterator[Problem]:
    """Yield the numbers that are negative, or nothing where there must be something."""
    if isinstance(value, dict):
        for key, below in value.items():
            if key not in _AMOUNTS:
                yield from _numbers(below, child(path, key))
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from _numbers(below, child(path, index))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number(value, path)


def _number(value: float, path: str) -> Iterator[Problem]:
    key = path.rpartition(".")[2]
    if not math.isfinite(value) or value < 0:
        yield Problem(path, f"must not be less than 0, found {show(value)}")
    elif value == 0 and key in _MORE_THAN_NOTHING and not path.endswith("arrives.every"):
        yield Problem(path, "must be more than 0")
    elif value > LONGEST and key in ("until", "at", "every", "within", "back", "grace", "start", "pause", "rest"):
        yield Problem(path, f"must be at most {LONGEST:.0f} seconds (a year), found {show(value)}")


def _nodes(scenario: Scenario) -> Iterator[Problem]:
    if not scenario.nodes:
        yield Problem("nodes", "there must be at least one group of nodes")
    for index, group in enumerate(scenario.nodes):
        path = f"nodes[{index}].offers"
        if not group.offers:
            yield Problem(path, "a node must offer something, such as cpu: 8")
        for name, value in group.offers.items():
            if (amount(value) or 0) <= 0:
                yield Problem(child(path, name), f"must be more than 0, found {show(value)}; or leave it out")


def _unique(path: str, names: Sequence[str]) -> Iterator[Problem]:
    for index, name in enumerate(names):
        if not name:
            yield Problem(f"{path}[{index}].name", "must not be empty")
        elif name in names[:index]:
            first = f"{path}[{names.index(name)}]"
            yield Problem(f"{path}[{index}].name", f"{name!r} is the name of {first} already; choose another")


def _jobs(group: Jobs, path: str) -> Iterator[Problem]:
    elastic, work = group.elastic, group.work
    if elastic.min > elastic.max:
        words = f"{elastic.min} is more than max ({elastic.max}); lower it, or raise max"
        yield Problem(f"{path}.elastic.min", words)
    elif elastic.initial is not None and not elastic.min <= elastic.initial <= elastic.max:
        words = f"{elastic.initial} is not between min ({elastic.min}) and max ({elastic.max})"
        yield Problem(f"{path}.elastic.initial", words)
    if group.arrives.every and group.arrives.within is not None:
        yield Problem(f"{path}.arrives", "has both every and within; leave one of them out")
    if work:
        yield from _work(work, f"{path}.work")


def _work(work: Work, path: str) -> Iterator[Problem]:
    if work.spread < 1:
        yield Problem(f"{path}.spread", f"must be at least 1 (all jobs alike), found {show(work.spread)}")
    replicas = [point.replicas for point in work.speed or ()]
    for index, (before, after) in enumerate(pairwise(replicas), 1):
        if after <= before:
            words = f"must be more than the {before} of the row before, found {after}; sort the rows"
            yield Problem(f"{path}.speed[{index}].replicas", words)


def _requests(scenario: Scenario) -> Iterator[Problem]:
    """Yield the pods that no single node could ever hold."""
    offered = [amounts(group.offers) for group in scenario.nodes]
    for path, requests in _all_requests(scenario):
        yield from _request(path, requests, offered)


def _all_requests(scenario: Scenario) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for index, group in enumerate(scenario.jobs):
        for place, role in enumerate(group.roles):
            yield f"jobs[{index}].roles[{place}].requests", role.requests
        yield f"jobs[{index}].elastic.requests", group.elastic.requests
    for index, load in enumerate(scenario.background):
        yield f"background[{index}].requests", load.requests
    for name, system in (("perNode", scenario.system.per_node), ("lump", scenario.system.lump)):
        if system:
            yield f"system.{name}", system


def _request(path: str, requests: Mapping[str, Any], offered: Sequence[Amounts]) -> Iterator[Problem]:
    if not requests:
        yield Problem(path, "a pod must ask for something, such as cpu: 1")
    for name, value in requests.items():
        if (amount(value) or 0) < 0:
            yield Problem(child(path, name), f"must not be less than 0, found {show(value)}")
            return
    needs = amounts(requests)
    for name, value in needs.items():
        largest = max((node.get(name, 0) for node in offered), default=0)
        if value > 0 and not largest:
            there = ", ".join(sorted({each for node in offered for each in node}))
            yield Problem(
                child(path, name), f"no node offers {name}; take it out, or add it to a node (there is: {there})"
            )
            return
        if value > largest:
            words = f"{show_amount(name, value)} is more than the largest node offers ({show_amount(name, largest)})"
            yield Problem(child(path, name), f"{words}; lower it, or add a larger node")
            return
    if not any(all(value <= node.get(name, 0) for name, value in needs.items()) for node in offered):
        yield Problem(path, "each of these is offered somewhere, but not by one node together; a pod needs one node")


def _outage(outage: Outage, path: str, nodes: Sequence[Nodes]) -> Iterator[Problem]:
    there = {group.name: group.count for group in nodes}
    if outage.nodes not in there:
        yield Problem(f"{path}.nodes", f"there are no nodes called {outage.nodes!r} (there are: {', '.join(there)})")
    elif outage.count > there[outage.nodes]:
        yield Problem(f"{path}.count", f"there are only {there[outage.nodes]} of {outage.nodes}, found {outage.count}")
    if outage.back is not None and outage.back <= outage.at:
        yield Problem(f"{path}.back", f"must be later than at ({show(outage.at)}), found {show(outage.back)}")


def _measured(scenario: Scenario) -> Iterator[Problem]:
    resource = scenario.measure.resource
    offered = {name for group in scenario.nodes for name in group.offers}
    if resource not in offered:
        yield Problem("measure.resource", f"no node offers {resource} (there is: {', '.join(sorted(offered))})")


def _windows(measure: Measure, until: float) -> Iterator[Problem]:
    for name in ("overall", "steady", "offPeak", "shortfall"):
        window = getattr(measure, "off_peak" if name == "offPeak" else name)
        if window and (len(window) != 2 or window[0] >= window[1]):
            yield Problem(f"measure.{name}", "must be two times, from and to, such as [300, 500]")
        elif window and window[0] >= until:
            yield Problem(f"measure.{name}", f"begins when the run is over (until is {show(until)})")
    if measure.snapshot is not None and measure.snapshot > until:
        yield Problem("measure.snapshot", f"{show(measure.snapshot)} is after the end (until is {show(until)})")


def _bounds(scenario: Scenario) -> Iterator[Problem]:
    if 0 < scenario.scheduler.every < SHORTEST:
        words = f"must be at least {SHORTEST} seconds, found {show(scenario.scheduler.every)}"
        yield Problem("scheduler.every", words)
    if scenario.max_load > 1:
        yield Problem("maxLoad", f"must be at most 1, the whole cluster; found {show(scenario.max_load)}")
    pods = sum(
        group.count * (sum(role.replicas for role in group.roles) + group.elastic.max) for group in scenario.jobs
    ) + sum(max((level.replicas for level in load.levels), default=0) for load in scenario.background)
    if pods > MOST_PODS:
        yield Problem("jobs", f"all jobs at their largest are {pods} pods; at most {MOST_PODS} can be simulated")
