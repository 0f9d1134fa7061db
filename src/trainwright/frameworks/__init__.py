"""How the processes of a job find each other; one module each.

`FRAMEWORKS` is the table, in the order in which those that a job requests are asked: what only gives names and keys
first, then the frameworks, and last what looks at the result. What a later one says of the same variable replaces what
an earlier one said.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from trainwright.api.common import Job, Request
from trainwright.core.actions import Create
from trainwright.frameworks import (
    env,
    flags,
    hcclrank,
    mpi,
    mpirun,
    mxnet,
    pytorch,
    ray,
    ssh,
    svc,
    tensorflow,
    torch_elastic,
    waiting,
)
from trainwright.frameworks.base import Entry, Framework, Mount, Net, Replica, WaitFor

__all__ = ["FRAMEWORKS", "Wire", "Wired", "objects", "options_of", "prepare", "wire"]

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
        ray.FRAMEWORK,
        hcclrank.FRAMEWORK,
    )
}


@dataclass(frozen=True)
class Wired:
    """What all frameworks together give one replica; every part with the name of the framework it comes from."""

    env: Mapping[str, tuple[Entry, str]]
    ports: Mapping[str, tuple[int, str]]
    wait_for: tuple[tuple[WaitFor, str], ...]
    mounts: tuple[tuple[Mount, str], ...] = ()
    commands: Mapping[str, tuple[tuple[str, ...], str, str]] = field(default_factory=dict)
    """Per container's name the command that replaces the user's, why, and the framework."""
    annotations: Mapping[str, tuple[Entry, str]] = field(default_factory=dict)
    named_by: str = ""
    """The framework for which the pod gets a host name and a subdomain; nothing: it gets none."""
    in_steps: frozenset[str] = frozenset()
    """The frameworks whose variables, mounts and ports init containers of the user get as well."""
    in_all: frozenset[str] = frozenset()
    """The frameworks whose ports are opened on every container that does not have the number yet."""


Wire = Callable[[Replica], Wired]


def wire(job: Job, replica: Replica, net: Net) -> Wired:
    """Return what one replica of a job gets from the frameworks the job asks for."""
    return prepare(job, net)(replica)


def prepare(job: Job, net: Net) -> Wire:
    """Return what wires the replicas of a job, after everything that is the same for all of them is worked out."""
    asked = [(row, row.prepare(job, options, net)) for row, options in _asked(job)]

    def wired(replica: Replica) -> Wired:
        return _gathered(job, replica, net, asked)

    return wired


def objects(job: Job, net: Net) -> tuple[Create, ...]:
    """Return the objects that the frameworks of a job give it as a whole, in the order in which they are made."""
    return tuple(create for row, options in _asked(job) for create in row.objects(job, options, net))


def options_of(request: Request) -> Any:
    """Return a request's options: what its flags say, then what the kind has set, then the defaults."""
    row = FRAMEWORKS[request.framework]
    known = {each.name for each in fields(row.options)}
    given = {name: value for name, value in request.options.items() if name in known}
    written, _ = flags.read(row.options, request.flags)
    return row.options(**{**given, **written})


def _asked(job: Job) -> Iterator[tuple[Framework, Any]]:
    """Yield the frameworks a job asks for, with their options, in the order of the table."""
    requests = {request.framework: request for request in job.requests}
    for name, row in FRAMEWORKS.items():
        if name in requests:
            yield row, options_of(requests[name])


def _gathered(job: Job, replica: Replica, net: Net, asked: list[tuple[Framework, Any]]) -> Wired:
    env: dict[str, tuple[Entry, str]] = {}
    ports: dict[str, tuple[int, str]] = {}
    waits: list[tuple[WaitFor, str]] = []
    mounts: list[tuple[Mount, str]] = []
    commands: dict[str, tuple[tuple[str, ...], str, str]] = {}
    annotations: dict[str, tuple[Entry, str]] = {}
    named_by, in_steps, in_all = "", set(), set()
    told: dict[str, Entry] = {}
    for row, options in asked:
        wiring = row.wire(job, Replica(replica.role, replica.index, told), options, net)
        for name, entry in wiring.env.items():
            env.pop(name, None)  # a replaced value stands where the framework that has the last word puts it
            env[name] = (entry, row.name)
        told.update(wiring.env)
        ports.update({name: (port, row.name) for name, port in wiring.ports.items()})
        waits.extend((wait, row.name) for wait in wiring.wait_for)
        mounts.extend((mount, row.name) for mount in wiring.mounts)
        commands.update({name: (command, why, row.name) for name, (command, why) in wiring.commands.items()})
        annotations.update({name: (entry, row.name) for name, entry in wiring.annotations.items()})
        named_by = named_by or (row.name if wiring.hostname else "")
        in_steps |= {row.name} if wiring.init_steps_too else set()
        in_all |= {row.name} if wiring.all_containers else set()
    waits.extend((wait, waiting.SOURCE) for wait in waiting.steps(job, replica, net))
    return Wired(
        env, ports, tuple(waits), tuple(mounts), commands, annotations, named_by, frozenset(in_steps), frozenset(in_all)
    )
