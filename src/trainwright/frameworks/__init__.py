"""How the processes of a job find each other; one module each.

`FRAMEWORKS` is the table, in the order in which those that a job requests are asked: what only gives names and keys
first, then the frameworks, and last what looks at the result. What a later one says of the same variable replaces what
an earlier one said.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache, partial
from typing import Any, NamedTuple

from trainwright.api.common import Job, Request
from trainwright.core.actions import Create
from trainwright.core.objects import Object
from trainwright.frameworks import (
    env,
    flags,
    hcclrank,
    mpi,
    mpirun,
    mxnet,
    paddle,
    pytorch,
    ray,
    ssh,
    svc,
    tensorflow,
    torch_elastic,
    waiting,
)
from trainwright.frameworks.base import Entry, Framework, Mount, Net, Replica, WaitFor, Wiring

__all__ = ["FRAMEWORKS", "Variable", "Wire", "Wired", "objects", "options_of", "prepare", "wire"]

FRAMEWORKS: Mapping[str, Framework] = {
    row.name: row
    for row in (
        env.FRAMEWORK,
        svc.FRAMEWORK,
        ssh.FRAMEWORK,
        tensorflow.FRAMEWORK,
        pytorch.FRAMEWORK,
        torch_elastic.FRAMEWORK,
        mpi.FRAMEWORK,
        mpirun.FRAMEWORK,
        mxnet.FRAMEWORK,
        paddle.FRAMEWORK,
        ray.FRAMEWORK,
        hcclrank.FRAMEWORK,
    )
}


class Variable(NamedTuple):
    """A variable that a replica gets."""

    entry: Entry
    source: str
    """The framework it comes from."""
    object: Object
    """As a container lists it. Replicas that are told the same share it."""


@dataclass
class Wired:
    """What all frameworks together give one replica; every part with the name of the framework it comes from."""

    env: dict[str, Variable] = field(default_factory=dict)
    ports: dict[str, tuple[int, str]] = field(default_factory=dict)
    wait_for: list[tuple[WaitFor, str]] = field(default_factory=list)
    mounts: list[tuple[Mount, str]] = field(default_factory=list)
    commands: dict[str, tuple[tuple[str, ...], str, str]] = field(default_factory=dict)
    """Per container's name the command that replaces the user's, why, and the framework."""
    annotations: dict[str, tuple[Entry, str]] = field(default_factory=dict)
    named_by: str = ""
    """The framework for which the pod gets a host name and a subdomain; nothing: it gets none."""
    in_steps: set[str] = field(default_factory=set)
    """The frameworks whose variables, mounts and ports init containers of the user get as well."""
    in_all: set[str] = field(default_factory=set)
    """The frameworks whose ports are opened on every container that does not have the number yet."""

    def add(self, wiring: Wiring, source: str, variables: Mapping[str, Variable]) -> None:
        """Take in what one framework gives; what it says of the same thing as an earlier one replaces that."""
        for name in self.env.keys() & variables.keys():
            del self.env[name]  # a replaced value stands where the framework that has the last word puts it
        self.env |= variables
        for name, port in wiring.ports.items():
            self.ports[name] = (port, source)
        for name, (command, why) in wiring.commands.items():
            self.commands[name] = (command, why, source)
        for name, entry in wiring.annotations.items():
            self.annotations[name] = (entry, source)
        self.wait_for += [(wait, source) for wait in wiring.wait_for]
        self.mounts += [(mount, source) for mount in wiring.mounts]
        self.named_by = self.named_by or (source if wiring.hostname else "")
        if wiring.init_steps_too:
            self.in_steps.add(source)
        if wiring.all_containers:
            self.in_all.add(source)


Wire = Callable[[Replica], Wired]


def wire(job: Job, replica: Replica, net: Net) -> Wired:
    """Return what one replica of a job gets from the frameworks the job asks for."""
    return prepare(job, net)(replica)


def prepare(job: Job, net: Net) -> Wire:
    """Return what wires the replicas of a job, after everything that is the same for all of them is worked out."""
    asked = [_Asked(row, row.prepare(job, options, net)) for row, options in _requested(job)]
    steps = cache(partial(waiting.steps, job, net=net))

    def wired(replica: Replica) -> Wired:
        told: dict[str, Entry] = {}
        replica = Replica(replica.role, replica.index, told)
        gathered = Wired()
        for each in asked:
            wiring = each.row.wire(job, replica, each.options, net)
            gathered.add(wiring, each.row.name, each.variables(wiring))
            told.update(wiring.env)
        gathered.wait_for += [(wait, waiting.SOURCE) for wait in steps(replica.role)]
        return gathered

    return wired


def objects(job: Job, net: Net) -> tuple[Create, ...]:
    """Return the objects that the frameworks of a job give it as a whole, in the order in which they are made."""
    return tuple(create for row, options in _requested(job) for create in row.objects(job, options, net))


def options_of(request: Request) -> Any:
    """Return a request's options: what its flags say, then what the kind has set, then the defaults."""
    row = FRAMEWORKS[request.framework]
    known = {each.name for each in fields(row.options)}
    given = {name: value for name, value in request.options.items() if name in known}
    written, _ = flags.read(row.options, request.flags)
    return row.options(**{**given, **written})


def _requested(job: Job) -> Iterator[tuple[Framework, Any]]:
    """Yield the frameworks a job asks for, with their options, in the order of the table."""
    requests = {request.framework: request for request in job.requests}
    for name, row in FRAMEWORKS.items():
        if name in requests:
            yield row, options_of(requests[name])


class _Asked:
    """A framework that a job asks for, and what its `wire` gets for the options."""

    def __init__(self, row: Framework, options: Any) -> None:
        self.row = row
        self.options = options
        self._last = Wiring()
        self._variables: dict[str, Variable] = {}

    def variables(self, wiring: Wiring) -> Mapping[str, Variable]:
        """Return the variables of a wiring; many replicas in a row are given the very same one."""
        if wiring is not self._last:
            self._last = wiring
            self._variables = {
                name: Variable(entry, self.row.name, _listed(name, entry)) for name, entry in wiring.env.items()
            }
        return self._variables


def _listed(name: str, entry: Entry) -> Object:
    return {"name": name, "value": entry.value} if entry.source is None else {"name": name, "valueFrom": entry.source}
