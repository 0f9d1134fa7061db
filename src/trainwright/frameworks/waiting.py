"""Waiting on request: the annotation `trainwright.dev/wait-for` names roles that must be there first.

On a pod template it is about that role, on the job about every role that it does not name. `ps` waits until the names
of all its replicas resolve, `ps:2222` until each answers on that port; several are divided by commas.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from trainwright.api.common import Job
from trainwright.core.errors import Problem, did_you_mean
from trainwright.core.names import WAIT_FOR_ANNOTATION
from trainwright.core.objects import Object, at
from trainwright.frameworks.base import Net, WaitFor, hosts

SOURCE = "wait-for"
SECONDS = 300
_LAST_PORT = 65535
_ANNOTATION = ("metadata", "annotations", WAIT_FOR_ANNOTATION)


@dataclass(frozen=True)
class Peer:
    """A role that is waited for, and the port on which its replicas must answer."""

    role: str
    port: int | None


def steps(job: Job, role: str, net: Net) -> tuple[WaitFor, ...]:
    """Return the steps in which the replicas of a role wait for those that its annotation or the job's names."""
    everyone = _peers(job.object)
    found = job.role(role)
    own = _peers(found.template) if found else ()
    named = role in {peer.role for peer in everyone}
    asked = dict.fromkeys(own if named else (*everyone, *own))
    return tuple(_step(job, peer, net) for peer in asked if job.count(peer.role) and (net.names or peer.port))


def check(annotations: object, roles: list[str], path: str) -> Iterator[Problem]:
    """Yield what is wrong with the roles that an annotation names."""
    text = at(annotations, (WAIT_FOR_ANNOTATION,))
    here = f"{path}[{WAIT_FOR_ANNOTATION}]"
    for word in _words(text):
        name, _, port = word.partition(":")
        if name not in roles:
            yield Problem(here, f"there is no task {name!r}{did_you_mean(name, roles)} (there are: {', '.join(roles)})")
        if port and not (port.isascii() and port.isdecimal() and 1 <= int(port) <= _LAST_PORT):
            yield Problem(here, f"a port is between 1 and {_LAST_PORT}, found {port!r}; write for example {name}:2222")


def _peers(obj: Object) -> tuple[Peer, ...]:
    found = []
    for word in _words(at(obj, _ANNOTATION)):
        name, _, port = word.partition(":")
        found.append(Peer(name, int(port) if port.isascii() and port.isdecimal() else None))
    return tuple(found)


def _words(text: object) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()] if isinstance(text, str) else []


def _step(job: Job, peer: Peer, net: Net) -> WaitFor:
    if peer.port is None:
        why = f"{WAIT_FOR_ANNOTATION}: the names of {peer.role} must resolve first"
        return WaitFor(f"wait-for-{peer.role}", hosts(job, peer.role), SECONDS, why)
    why = f"{WAIT_FOR_ANNOTATION}: {peer.role} must answer on port {peer.port} first"
    if net.names:
        return WaitFor(f"wait-for-{peer.role}", hosts(job, peer.role), SECONDS, why, peer.port)
    ends = tuple(str(net.endpoint(job, peer.role, index, peer.port)) for index in range(job.count(peer.role)))
    return WaitFor(f"wait-for-{peer.role}", ends, SECONDS, why, peer.port)
