"""RIGHTS: every call the operator makes on an API server, and why. The ClusterRole is made from this table.

The tests run the operator with these rights alone: a call that is refused fails them, and so does a right that no
call has needed.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from trainwright.core.objects import Object
from trainwright.core.resources import (
    BATCH_JOB,
    EVENT,
    LEASE,
    NATIVE_POD_GROUP,
    NODE,
    PLUGIN_POD_GROUP,
    POD,
    POD_GROUP,
    ROLE,
    SECRET,
    SERVICE_ACCOUNT,
    VOLUME_CLAIM,
    Resource,
)
from trainwright.kinds import KINDS, Kind
from trainwright.operator.configurations import MUTATING, VALIDATING, Webhooks
from trainwright.operator.configurations import NAME as CONFIGURATIONS
from trainwright.operator.gangs import DEFAULT_QUEUE, QUEUE, Choice

Scope = Literal["jobs", "own", "cluster"]
"""Where a right is needed: where jobs are, in the operator's own namespace, or for kinds that have no namespace."""

CUSTOM_RESOURCE = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False)


@dataclass(frozen=True)
class Right:
    """One verb on one resource."""

    group: str
    resource: str
    verb: str
    reason: str
    names: tuple[str, ...] = ()
    """The only objects it is for; none: all."""
    called: bool = True
    """Whether we call it; else the API server only asks whether we may."""
    scope: Scope = "jobs"


_JOB = {
    "list": "find the jobs there are",
    "watch": "hear of jobs that come, change and go",
}
_EXPIRED = "remove a job whose `ttlSecondsAfterFinished` have passed"
_COMMAND = {
    "list": "find what jobs are told to do",
    "watch": "hear what they are told next",
    "delete": "remove what was carried out",
}
_CHILD = {
    "list": "find what jobs have already",
    "watch": "hear what becomes of it",
    "create": "give jobs what they should have",
    "delete": "scale down, suspend, clean up, replace what failed",
    "get": "see whose an object is that holds a name we want",
}
_SUPPORT = {**_CHILD, "patch": "follow a job that was changed; undo changes made by hand"}
_CLAIM = {verb: reason for verb, reason in _CHILD.items() if verb != "delete"}
"""What has data in it is left as it is, and goes with its job."""
_UNCHANGED = {POD: _CHILD, SERVICE_ACCOUNT: _CHILD, BATCH_JOB: _CHILD, VOLUME_CLAIM: _CLAIM}
"""What is never changed once it is there: it has nothing to follow a job with, or must not."""
_EVENT = {
    "create": "tell users what happened",
    "get": "see how often the same was told already",
    "patch": "count it once more instead of telling it again",
}
_OWN = "own objects that hold up the deletion of their job, where `OwnerReferencesPermissionEnforcement` is on"

_HANDED_ON = "give the launcher of an MPIJob the right to exec into its workers: nobody may give what he does not have"


def _of(resource: Resource, reasons: Mapping[str, str], scope: Scope = "jobs") -> Iterator[Right]:
    return (Right(resource.group, resource.plural, verb, reason, scope=scope) for verb, reason in reasons.items())


def _needed(kinds: Iterable[Kind]) -> Iterator[Right]:
    children: dict[Resource, None] = {}
    for kind in kinds:
        group, plural = kind.resource.group, kind.resource.plural
        yield from _of(kind.resource, {**_JOB, "delete": _EXPIRED} if kind.expires else _JOB)
        yield Right(group, f"{plural}/status", "patch", "write down how a job is")
        yield Right(group, f"{plural}/finalizers", "update", _OWN, called=False)
        if kind.commands:
            yield from _of(kind.commands, _COMMAND)
        children |= dict.fromkeys(kind.owned("none"))
    for child in children:
        yield from _of(child, _UNCHANGED.get(child, _SUPPORT))
    if ROLE in children:
        for verb in ("get", "create"):
            yield Right("", "pods/exec", verb, _HANDED_ON, called=False)
    yield from _of(EVENT, _EVENT)


RIGHTS = tuple(_needed(KINDS))
"""What the operator needs, always."""

_ADOPTED = "go on with what another operator has made for a job: it gets our label"
HANDOVER_RIGHTS = (
    *(
        Right(kind.resource.group, kind.resource.plural, "patch", "note on a job what its definition drops elsewhere")
        for kind in KINDS
    ),
    *(Right(child.group, child.plural, "patch", _ADOPTED) for child in (POD, BATCH_JOB, VOLUME_CLAIM)),
)
"""What it needs besides beside definitions, and for jobs, of the original operators."""

REGISTER_RIGHTS = (
    Right(
        CUSTOM_RESOURCE.group,
        CUSTOM_RESOURCE.plural,
        "get",
        "see which kinds are missing, and wait until they are served",
        names=tuple(str(each) for kind in KINDS for each in (kind.resource, kind.commands) if each),
        scope="cluster",
    ),
    Right(CUSTOM_RESOURCE.group, CUSTOM_RESOURCE.plural, "create", "register a kind that is missing", scope="cluster"),
)
"""What it needs besides with --install-crds."""


_GROUP = {**_SUPPORT, "create": "make gangs known to their scheduler"}
_REPLACED_GROUP = {verb: reason for verb, reason in _GROUP.items() if verb != "patch"}
_GATES = (
    *_of(NODE, {"list": "know what the nodes have free", "watch": "hear of nodes that come, change and go"}, "cluster"),
    Right(POD.group, POD.plural, "patch", "take the gate from a pod whose gang fits, or write on it why it does not"),
)
_NATIVE = tuple(_of(NATIVE_POD_GROUP, _REPLACED_GROUP))
_VOLCANO = tuple(_of(POD_GROUP, _GROUP))
_FOUND_OUT = Right(
    QUEUE.group, QUEUE.plural, "get", "see whether Volcano schedules here", (DEFAULT_QUEUE,), scope="cluster"
)

GANG_RIGHTS: Mapping[Choice, tuple[Right, ...]] = {
    "none": (),
    "gates": _GATES,
    "native": _NATIVE,
    "volcano": _VOLCANO,
    "scheduler-plugins": tuple(_of(PLUGIN_POD_GROUP, _GROUP)),
    "auto": (*_GATES, *_NATIVE, *_VOLCANO, _FOUND_OUT),
}
"""What it needs besides to keep gangs together, by how that is chosen."""


SCALING_RIGHTS = (
    *_of(NODE, {"list": "know what the nodes offer", "watch": "hear of nodes that come, change and go"}, "cluster"),
    *(
        Right(kind.resource.group, kind.resource.plural, "patch", "write the size of a job that is elastic")
        for kind in KINDS
        if kind.resizable
    ),
)
"""What it needs besides for its autoscaler, which also hears of all pods, as RIGHTS allow."""


_HOOKS = {
    "list": "see whom an API server trusts when it asks us about a job",
    "watch": "hear when somebody has changed that",
    "patch": "have it trust the certificate of our webhooks, and the next one in time",
}
_CERTIFICATE = {
    "list": "find the certificate of our webhooks",
    "watch": "hear that another replica has made one",
    "patch": "keep a certificate that was made, for all replicas",
}

WEBHOOK_RIGHTS = (
    *(
        replace(right, names=(CONFIGURATIONS,))
        for row in (MUTATING, VALIDATING)
        for right in _of(row, _HOOKS, "cluster")
    ),
    *(replace(right, names=(Webhooks.secret,)) for right in _of(SECRET, _CERTIFICATE, "own")),
)
"""What it needs besides for its webhooks: nothing is created, for `tw install` brings the objects without content."""


def leader_rights(lease: str = "trainwright") -> tuple[Right, ...]:
    """Return what it needs in its own namespace to share a Lease of that name."""
    group, plural = LEASE.group, LEASE.plural
    return (
        Right(group, plural, "get", "see who leads, and whether he still does", names=(lease,), scope="own"),
        Right(group, plural, "patch", "take, renew and give up the lease", names=(lease,), scope="own"),
        Right(group, plural, "create", "make the lease; no name can be asked for here", scope="own"),
    )


LEADER_RIGHTS = leader_rights()
"""What it needs besides with --leader-elect, if it looks after all namespaces."""


def rules(rights: Iterable[Right]) -> list[Object]:
    """Return rights as the rules of a role, one for each resource; what two parts need is given once."""
    verbs: dict[tuple[str, str, tuple[str, ...]], dict[str, None]] = {}
    for right in rights:
        verbs.setdefault((right.group, right.resource, right.names), {})[right.verb] = None
    return [
        {
            "apiGroups": [group],
            "resources": [resource],
            **({"resourceNames": list(names)} if names else {}),
            "verbs": list(given),
        }
        for (group, resource, names), given in verbs.items()
    ]
