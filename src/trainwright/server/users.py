"""Several users of one server: whose an object is, and as whom its processes run.

What a user submits is stamped with that user's id, and what is made for a stamped object inherits its stamp, whatever
a template says. So a pod runs as whoever submitted the job it belongs to. Only a server that runs as root stamps:
any other runs everything as its own user, and serves nobody else.
"""

import os
import pwd
from pathlib import Path

from trainwright.cluster.memory import Admit, MemoryCluster
from trainwright.core.errors import Forbidden
from trainwright.core.objects import Object, at
from trainwright.core.resources import Resource
from trainwright.node.base import User

STAMP = "trainwright.dev/user"
"""The annotation that says whose an object is: a user id."""


def name_of(uid: int) -> str:
    """Return a user's name; the number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def owner_of(obj: Object) -> int:
    """Return whose an object is; the server's own user if it is nobody's."""
    stamp = str(at(obj, ("metadata", "annotations", STAMP)) or "")
    return int(stamp) if stamp.isdecimal() else os.getuid()


def user_of(obj: Object) -> User | None:
    """Return the user an object belongs to, and a pod's processes with it; None for the server's own."""
    uid = owner_of(obj)
    if uid == os.getuid():
        return None
    known = pwd.getpwuid(uid)
    groups = os.getgrouplist(known.pw_name, known.pw_gid)
    home = known.pw_dir if Path(known.pw_dir).is_dir() else "/"
    return User(known.pw_name, uid, known.pw_gid, tuple(groups), home, known.pw_shell or "/bin/sh")


def stamped(obj: Object, uid: int) -> Object:
    """Return an object that is a user's."""
    meta = obj.get("metadata") or {}
    return {**obj, "metadata": {**meta, "annotations": {**(meta.get("annotations") or {}), STAMP: str(uid)}}}


def inheritance(cluster: MemoryCluster) -> Admit:
    """Return what has every new object inherit its owner's stamp, and every changed one keep its own."""

    def admitted(resource: Resource, new: Object, old: Object | None) -> Object:
        source = _owner(cluster, resource, new) if old is None else old
        if source is None:
            return new
        stamp = at(source, ("metadata", "annotations", STAMP))
        return stamped(new, int(stamp)) if stamp else _unstamped(new)

    return admitted


def check_owners(cluster: MemoryCluster, obj: Object, uid: int) -> None:
    """Refuse an object that a user hangs on somebody else's: it would inherit that one's stamp."""
    namespace = at(obj, ("metadata", "namespace")) or ""
    for reference in at(obj, ("metadata", "ownerReferences")) or ():
        owner = _referred(cluster, namespace, reference)
        if owner is None or owner_of(owner) != uid:
            raise Forbidden(
                f"metadata.ownerReferences: {reference.get('kind')} {reference.get('name')!r} is not an object of yours"
            )


def _owner(cluster: MemoryCluster, resource: Resource, obj: Object) -> Object | None:
    meta = obj["metadata"]
    namespace = meta.get("namespace", "") if resource.namespaced else ""
    for reference in meta.get("ownerReferences") or ():
        if reference.get("controller"):
            return _referred(cluster, namespace, reference)
    return None


def _referred(cluster: MemoryCluster, namespace: str, reference: Object) -> Object | None:
    """Return the object a reference names, if it is still the same one."""
    resource = cluster.resource(str(reference.get("apiVersion")), str(reference.get("kind")))
    if resource is None:
        return None
    found = cluster.peek(resource, namespace if resource.namespaced else "", str(reference.get("name")))
    return found if found and found["metadata"]["uid"] == reference.get("uid") else None


def _unstamped(obj: Object) -> Object:
    annotations = at(obj, ("metadata", "annotations")) or {}
    if STAMP not in annotations:
        return obj
    kept = {name: value for name, value in annotations.items() if name != STAMP}
    return {**obj, "metadata": {**obj["metadata"], "annotations": kept}}
