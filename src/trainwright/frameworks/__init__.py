"""How the processes of a job find each other; one module each.

`FRAMEWORKS` is the table. `wire` asks every framework a job requests, those they need first; what a later one says of
the same variable replaces what an earlier one said.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from trainwright.api.common import Job
from trainwright.frameworks import pytorch, torch_elastic
from trainwright.frameworks.base import Entry, Framework, Net, Replica, WaitFor

__all__ = ["FRAMEWORKS", "Wired", "wire"]

FRAMEWORKS: Mapping[str, Framework] = {row.name: row for row in (pytorch.FRAMEWORK, torch_elastic.FRAMEWORK)}


@dataclass(frozen=True)
class Wired:
    """What all frameworks together give one replica; every part with the name of the framework it comes from."""

    env: Mapping[str, tuple[Entry, str]]
    ports: Mapping[str, tuple[int, str]]
    wait_for: tuple[tuple[WaitFor, str], ...]


def wire(job: Job, replica: Replica, net: Net) -> Wired:
    """Return what one replica of a job gets from the frameworks the job asks for."""
    env: dict[str, tuple[Entry, str]] = {}
    ports: dict[str, tuple[int, str]] = {}
    waits: list[tuple[WaitFor, str]] = []
    for framework, options in _asked(job):
        wiring = framework.wire(job, replica, options, net)
        for name, entry in wiring.env.items():
            env.pop(name, None)  # a replaced value stands where the framework that has the last word puts it
            env[name] = (entry, framework.name)
        ports.update({name: (port, framework.name) for name, port in wiring.ports.items()})
        waits.extend((wait, framework.name) for wait in wiring.wait_for)
    return Wired(env, ports, tuple(waits))


def _asked(job: Job) -> Iterator[tuple[Framework, Any]]:
    """Yield the frameworks of a job with their options, what a framework needs before the framework itself."""
    own = {request.framework: request.options for request in job.requests}
    done: set[str] = set()
    for request in job.requests:
        for name in (*FRAMEWORKS[request.framework].needs, request.framework):
            if name not in done:
                done.add(name)
                yield FRAMEWORKS[name], _options(FRAMEWORKS[name], own.get(name, request.options))


def _options(framework: Framework, given: Mapping[str, Any]) -> Any:
    known = {each.name for each in fields(framework.options)}
    return framework.options(**{name: value for name, value in given.items() if name in known})
