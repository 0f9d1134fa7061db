"""Objects in memory with the API server's semantics: versions, conflicts, watches, finalizers, graceful deletion.

It is handed rows (`Resource`) and an admission function and knows no job kind; of the built-in kinds it knows what the
API server's own strategies know: how a pod is deleted, and the status an object is born with. Children of deleted
owners are not its business: `workloads.garbage` removes them, as kube-controller-manager does.

Objects handed out are shared with the store and with every watcher, so nobody changes one. What is handed in is
copied. Nothing awaits between reading and writing the store, which makes every operation atomic.
"""

import contextlib
import random as random_module
import sys
import uuid
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec

from trainwright.cluster import metadata, selectors
from trainwright.cluster.base import FOREGROUND, ORPHAN, Change, Listing, PodStreams, Propagation, Session
from trainwright.cluster.history import Key, Record, Start, Table, Watch, stamped
from trainwright.cluster.journal import Journal, Kept
from trainwright.core.errors import (
    AlreadyExists,
    BadRequest,
    ClusterError,
    Conflict,
    Invalid,
    ManifestError,
    NotFound,
)
from trainwright.core.names import LABEL_LENGTH
from trainwright.core.objects import Object, moment, timestamp
from trainwright.core.resources import Resource, resource_of

Admit = Callable[[Resource, Object, Object | None], Object]
"""Called with a new object and None, or a changed one and what it was; returns what to store, or raises."""

_NAME_TRIES = 8
_BORN: dict[tuple[str, str], Object] = {("", "Pod"): {"phase": "Pending"}, ("", "Namespace"): {"phase": "Active"}}
_BORN_WITH_STATUS = {("", "Node")}
"""A node reports itself: the API server keeps the status it comes with."""
_GRACE_DEFAULT = 30
_SERVER_SET = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")


class MemoryCluster:
    """A `Cluster` in this process."""

    def __init__(
        self,
        resources: Iterable[Resource],
        *,
        admit: Admit | None = None,
        now: Callable[[], datetime],
        history: int = 10_000,
        uid: Callable[[], str] = lambda: str(uuid.uuid4()),
        random: random_module.Random | None = None,
        journal: Journal | None = None,
        kept: Kept | None = None,
    ) -> None:
        """Begin with what `kept` holds, or else with what the journal does, which further changes go to."""
        self._rows = tuple(resources)
        self._admit = admit
        self._now = now
        self._uid = uid
        self._random = random or random_module.Random()  # noqa: S311 - names, not secrets
        self._journal = journal
        self._streams: PodStreams | None = None
        self._version = 1  # as in etcd; 0 would mean "any version" to a watch
        self._history = history
        self._records: deque[tuple[Table, Record]] = deque()
        self._tables = {row: Table(self._version) for row in self._rows}
        if kept is None and journal:
            kept = journal.load()
        if kept:
            self._load(kept)

    # Reading

    async def get(self, resource: Resource, namespace: str, name: str) -> Object:
        """Return one object; NotFound if there is none. `namespace` is "" for kinds without."""
        return self._current(resource, _key(resource, namespace, name))

    def resource(self, api_version: str, kind: str) -> Resource | None:
        """Return the row for a kind of object, if this cluster has it."""
        return next((row for row in self._rows if row.kind == kind and row.api_version == api_version), None)

    def peek(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Return one object at once, or None: for admission, which cannot wait."""
        table = self._tables.get(resource)
        return table.objects.get((namespace, name)) if table else None

    def glance(self, resource: Resource, namespace: str = "") -> Sequence[Object]:
        """Return all objects of a kind at once, in one namespace or in all: for admission, which cannot wait."""
        table = self._tables.get(resource)
        items = table.items() if table else []
        return [obj for obj in items if obj["metadata"].get("namespace") == namespace] if namespace else items

    async def list(self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "") -> Listing:
        """Return all objects that match the selectors, in one namespace or ("") in all."""
        table, matches = self._table(resource), _scope(resource, namespace, labels, fields)
        items = table.items()
        return Listing([obj for obj in items if matches(obj)] if matches else [*items], str(self._version))

    def watch(
        self, resource: Resource, namespace: str = "", *, since: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Change]:
        """Yield every change after version `since`; Expired when that is too long ago. Ends only when closed.

        As on the API server, `since` "" or "0" begins with what is there now, as ADDED.
        """

        def start() -> Start:
            matches = _scope(resource, namespace, labels, fields)
            return self._table(resource).start(since, self._version, matches)

        return Watch(start)

    @property
    def resources(self) -> tuple[Resource, ...]:
        """Return the rows it was given."""
        return self._rows

    @property
    def version(self) -> str:
        """Return the version of the last change."""
        return str(self._version)

    # Writing

    async def create(self, resource: Resource, obj: Object, *, dry_run: bool = False) -> Object:
        """Store a new object and return it as stored; metadata.generateName is honoured.

        A dry run, here and below, does everything but store.
        """
        table, new = self._table(resource), _copy(obj)
        meta = _decoded_meta(resource, new)
        _refuse_other_type(resource, new)
        if meta.get("resourceVersion"):
            raise BadRequest("resourceVersion should not be set on objects to be created")
        namespace = _namespace(resource, meta.get("namespace") or "")
        name = meta.get("name") or self._generated(table, namespace, meta.get("generateName") or "")
        if not name:
            raise _invalid(resource, "", ["metadata.name: Required value: name or generateName is required"])
        system: Object = {
            "name": name,
            **({"namespace": namespace} if namespace else {}),
            "uid": self._uid(),
            "creationTimestamp": timestamp(self._now()),
            **({"generation": 1} if resource.status else {}),
        }
        kind: Object = {"apiVersion": resource.api_version, "kind": resource.kind}
        new = {**kind, **new, **kind, "metadata": _clean_meta(meta, system)}
        if self._admit:
            new = self._admitted(resource, new, None)
            new = {**new, "metadata": _clean_meta(_decoded_meta(resource, new), system)}
        new = _newborn(resource, new)
        _check(resource, new)
        if (namespace, name) in table.objects:
            raise AlreadyExists(f'{resource} "{name}" already exists')
        return new if dry_run else self._commit(resource, (namespace, name), None, new)

    async def patch(
        self, resource: Resource, namespace: str, name: str, patch: Object, *, subresource: Literal["", "status"] = ""
    ) -> Object:
        """Apply a JSON merge patch. With metadata.resourceVersion in it: Conflict unless it is the current one."""
        old = self._current(resource, _key(resource, namespace, name))
        return self._replaced(resource, old, metadata.merge(old, _copy(patch)), subresource)

    async def replace(
        self, resource: Resource, obj: Object, *, subresource: Literal["", "status"] = "", dry_run: bool = False
    ) -> Object:
        """Put an object in the place of the one of its name; Conflict unless its resourceVersion is that one's."""
        new = _copy(obj)
        meta = _decoded_meta(resource, new)
        old = self._current(resource, _key(resource, meta.get("namespace") or "", meta.get("name") or ""))
        return self._replaced(resource, old, new, subresource, dry_run=dry_run)

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        grace: int | None = None,
        propagation: Propagation = "Background",
        dry_run: bool = False,
    ) -> None:
        """Delete, or mark for deletion while finalizers or a running pod hold it; Conflict if `uid` is another."""
        key = _key(resource, namespace, name)
        old = self._current(resource, key)
        meta = old["metadata"]
        if uid and uid != meta["uid"]:
            raise Conflict(
                f'Operation cannot be fulfilled on {resource} "{name}": Precondition failed: '
                f"UID in precondition: {uid}, UID in object meta: {meta['uid']}"
            )
        wait = _grace(resource, old, grace)
        if wait is None or dry_run:
            return
        marked = self._marked(meta, wait, _finalizers(meta, propagation))
        if not wait and not marked.get("finalizers"):
            self._commit(resource, key, old, None)
        elif marked != meta:
            self._commit(resource, key, old, {**old, "metadata": marked})

    # Pods

    def serve_pods(self, streams: PodStreams) -> None:
        """Say who answers logs and exec: the kubelet."""
        self._streams = streams

    def logs(
        self,
        namespace: str,
        pod: str,
        *,
        container: str = "",
        follow: bool = False,
        previous: bool = False,
        tail: int | None = None,
        since: datetime | None = None,
        timestamps: bool = False,
    ) -> AsyncIterator[bytes]:
        """Yield a container's output in chunks, from the start; with `follow` until the container has ended."""
        if self._streams is None:
            return _refused(_no_node(namespace, pod))
        return self._streams.logs(
            namespace,
            pod,
            container=container,
            follow=follow,
            previous=previous,
            tail=tail,
            since=since,
            timestamps=timestamps,
        )

    async def exec(
        self,
        namespace: str,
        pod: str,
        command: Sequence[str],
        *,
        container: str = "",
        stdin: bool = False,
        tty: bool = False,
    ) -> Session:
        """Start a command inside a running pod; with `tty` on a terminal of its own."""
        if self._streams is None:
            raise _no_node(namespace, pod)
        return await self._streams.exec(namespace, pod, [*command], container=container, stdin=stdin, tty=tty)

    # Inside

    def _table(self, resource: Resource) -> Table:
        table = self._tables.get(resource)
        if table is None:
            raise NotFound(f"the server could not find the requested resource ({resource}, {resource.api_version})")
        return table

    def _current(self, resource: Resource, key: Key) -> Object:
        obj = self._table(resource).objects.get(key)
        if obj is None:
            raise NotFound(f'{resource} "{key[1]}" not found')
        return obj

    def _generated(self, table: Table, namespace: str, base: str) -> str:
        """Return a free name that begins with `base`, or nothing without a base."""
        if not base:
            return ""
        base = base[: LABEL_LENGTH - metadata.SUFFIX_LENGTH]
        for _ in range(_NAME_TRIES):
            name = base + "".join(self._random.choices(metadata.SUFFIX_LETTERS, k=metadata.SUFFIX_LENGTH))
            if (namespace, name) not in table.objects:
                break
        return name

    def _admitted(self, resource: Resource, new: Object, old: Object | None) -> Object:
        """Return what admission makes of an object; Invalid with all it finds wrong."""
        if self._admit is None:
            return new
        try:
            return self._admit(resource, new, old)
        except ManifestError as error:
            problems = [str(problem) for problem in error.problems if problem.severity == "error"]
            raise _invalid(resource, new["metadata"]["name"], problems or [str(error)]) from error

    def _replaced(
        self, resource: Resource, old: Object, new: Object, subresource: str, *, dry_run: bool = False
    ) -> Object:
        """Store `new` in the place of `old`, as far as the caller may change it."""
        if subresource and not resource.status:
            raise NotFound("the server could not find the requested resource")
        before = old["metadata"]
        key = (before.get("namespace", ""), before["name"])
        meta = _decoded_meta(resource, new)
        _refuse_other_type(resource, new)
        _refuse_other_identity(resource, meta, before)
        if meta.get("resourceVersion") and meta["resourceVersion"] != before["resourceVersion"]:
            raise Conflict(
                f'Operation cannot be fulfilled on {resource} "{before["name"]}": the object has been modified; '
                "please apply your changes to the latest version and try again"
            )
        new = _with_status(old, new) if subresource else self._updated(resource, old, {**new, "metadata": meta})
        if new == old or dry_run:
            return new
        if not subresource and _let_go(before, new["metadata"]):
            self._commit(resource, key, old, None)
            return new
        return self._commit(resource, key, old, new)

    def _updated(self, resource: Resource, old: Object, new: Object) -> Object:
        """Return what an ordinary write of `new` over `old` stores: all but status and what the server sets itself."""
        before = old["metadata"]
        system = {name: before[name] for name in ("name", "namespace", *_SERVER_SET) if name in before}
        version = before["resourceVersion"]
        if resource.status:
            new = _with_status(new, old)
        new = {**new, "metadata": _clean_meta(new["metadata"], system, version)}
        if new == old:
            return old
        leaving = "deletionTimestamp" in before
        # What is on its way out must be able to go, also when today's rules would no longer let it in.
        if self._admit and not leaving:
            new = self._admitted(resource, new, old)
            new = {**new, "metadata": _clean_meta(_decoded_meta(resource, new), system, version)}
            if resource.status:
                new = _with_status(new, old)
        added = set(new["metadata"].get("finalizers", ())) - set(before.get("finalizers", ()))
        if leaving and added:
            problem = f"no new finalizers can be added if the object is being deleted, found {sorted(added)}"
            raise _invalid(resource, before["name"], [f"metadata.finalizers: Forbidden: {problem}"])
        _check(resource, new)
        if resource.status and not _same_but(new, old, "metadata", "status"):
            new["metadata"]["generation"] = before.get("generation", 0) + 1
        return new

    def _marked(self, meta: Object, wait: int, finalizers: Sequence[str]) -> Object:
        """Return metadata that says: to be deleted, in `wait` seconds."""
        marked = {name: value for name, value in meta.items() if name != "finalizers"}
        if finalizers:
            marked["finalizers"] = [*finalizers]
        marked_before = moment(meta.get("deletionTimestamp"))
        if marked_before is None:
            marked["deletionTimestamp"] = timestamp(self._now() + timedelta(seconds=wait))
            if "generation" in meta:
                marked["generation"] = meta["generation"] + 1
        elif meta.get("deletionGracePeriodSeconds"):
            asked = marked_before - timedelta(seconds=meta["deletionGracePeriodSeconds"])
            marked["deletionTimestamp"] = timestamp(asked + timedelta(seconds=wait))
        marked["deletionGracePeriodSeconds"] = wait
        return marked

    def _commit(self, resource: Resource, key: Key, old: Object | None, new: Object | None) -> Object:
        """Make a change: the next version, a record for the watchers, a line for the journal."""
        table = self._tables[resource]
        self._version += 1
        last = stamped(new or old or {}, self._version)
        record = Record(self._version, old, None if new is None else last, last)
        table.put(key, record)
        self._records.append((table, record))
        while len(self._records) > self._history:
            forgetful, oldest = self._records.popleft()
            forgetful.forget(oldest)
        if self._journal:
            self._journal.record(resource, key, self._version, record.after)
        return last

    def _load(self, kept: Kept) -> None:
        """Begin with what a journal kept. Kinds this cluster was given no row for stay in the journal."""
        objects: dict[Resource, dict[Key, Object]] = {row: {} for row in self._rows}
        for obj in kept.objects:
            _intern(obj)
            with contextlib.suppress(KeyError):
                meta = obj["metadata"]
                objects[resource_of(obj, self._rows)][meta.get("namespace", ""), meta["name"]] = obj
        self._version = max(self._version, kept.version)
        for row, table in self._tables.items():
            table.begin(objects[row], self._version)


def _copy(obj: Object) -> Object:
    try:
        copied = msgspec.json.decode(msgspec.json.encode(obj))
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise BadRequest(f"the object cannot be written as JSON: {error}") from error
    if not isinstance(copied, dict):
        raise BadRequest(f"expected an object, found {type(obj).__name__}")
    _intern(copied)
    return copied


def _intern(value: Any) -> None:
    """Have equal words of all objects be one in memory: thousands of jobs say much the same."""
    places = value.items() if type(value) is dict else enumerate(value)
    for place, each in places:
        kind = type(each)
        if kind is str:
            value[place] = sys.intern(each)
        elif kind is dict or kind is list:
            _intern(each)


def _namespace(resource: Resource, namespace: str) -> str:
    if resource.namespaced and not namespace:
        raise BadRequest(f"an empty namespace may not be set for {resource}: give metadata.namespace")
    if namespace and not resource.namespaced:
        raise BadRequest(f"{resource} have no namespace, but {namespace!r} was given")
    return namespace


def _key(resource: Resource, namespace: str, name: str) -> Key:
    if not name:
        raise BadRequest(f"the name of one of {resource} may not be empty")
    return _namespace(resource, namespace), name


def _scope(resource: Resource, namespace: str, labels: str, fields: str) -> selectors.Test | None:
    """Return the test for what a list or watch shall see; None when it sees everything."""
    if namespace:
        _namespace(resource, namespace)
    by_labels, by_fields = selectors.labels(labels), selectors.fields(fields, resource)
    tests = [test for test in (by_labels, by_fields) if test]
    if not namespace:
        return None if not tests else tests[0] if len(tests) == 1 else lambda obj: all(test(obj) for test in tests)
    return lambda obj: obj["metadata"]["namespace"] == namespace and all(test(obj) for test in tests)


def _decoded_meta(resource: Resource, obj: Object) -> Object:
    """Return the metadata of an object somebody handed in; BadRequest if it could not be decoded."""
    meta = obj.get("metadata")
    if problem := metadata.shape_problem(meta if meta is not None else {}):
        raise BadRequest(f"{resource.kind} in version {resource.version!r} cannot be handled: {problem}")
    return meta or {}


def _check(resource: Resource, obj: Object) -> None:
    if problems := [*metadata.problems(resource, obj["metadata"])]:
        raise _invalid(resource, obj["metadata"]["name"], problems)


def _refuse_other_type(resource: Resource, obj: Object) -> None:
    for field, expected in (("apiVersion", resource.api_version), ("kind", resource.kind)):
        if obj.get(field) not in (None, expected):
            raise BadRequest(f"the {field} in the data ({obj[field]}) does not match the expected one ({expected})")


def _refuse_other_identity(resource: Resource, meta: Object, before: Object) -> None:
    for field in ("name", "namespace"):
        if meta.get(field) not in (None, "", before.get(field, "")):
            raise BadRequest(
                f"the {field} of the object ({meta[field]}) does not match the {field} on the request "
                f"({before.get(field, '')})"
            )
    # The creation time, the generation and a deletion that is under way are restored without a word, as there.
    guarded = ("uid",) if "deletionTimestamp" in before else ("uid", "deletionTimestamp", "deletionGracePeriodSeconds")
    immutable = [
        f'metadata.{field}: Invalid value: "{meta[field]}": field is immutable'
        for field in guarded
        if meta.get(field) not in (None, "", before.get(field))
    ]
    if immutable:
        raise _invalid(resource, before["name"], immutable)


def _invalid(resource: Resource, name: str, problems: Sequence[str]) -> Invalid:
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    said = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
    return Invalid(f'{kind} "{name}" is invalid: {said}', problems)


def _clean_meta(meta: Object, system: Object, version: str = "") -> Object:
    """Return metadata as stored: what only the server sets taken from `system`, nothing empty."""
    kept = {
        name: value
        for name, value in meta.items()
        if name not in _SERVER_SET
        and name not in ("resourceVersion", "managedFields", "selfLink")
        and (value or name not in ("labels", "annotations", "finalizers", "ownerReferences", "generateName"))
    }
    if "finalizers" in kept:
        kept["finalizers"] = list(dict.fromkeys(kept["finalizers"]))
    return {**kept, **system, **({"resourceVersion": version} if version else {})}


def _newborn(resource: Resource, obj: Object) -> Object:
    """Return a new object with the status its kind begins with."""
    kind = (resource.group, resource.kind)
    if not resource.status or kind in _BORN_WITH_STATUS:
        return obj
    return _with_status(obj, {"status": _BORN.get(kind)})


def _with_status(obj: Object, source: Object) -> Object:
    """Return `obj` with the status of `source`."""
    kept = {name: value for name, value in obj.items() if name != "status"}
    return {**kept, "status": source["status"]} if source.get("status") is not None else kept


def _same_but(one: Object, other: Object, *names: str) -> bool:
    fields = (one.keys() | other.keys()) - set(names)
    return all(one.get(field) == other.get(field) for field in fields)


def _let_go(before: Object, after: Object) -> bool:
    """Say whether a write took away the last thing that held back a deletion."""
    return (
        "deletionTimestamp" in before and not after.get("finalizers") and not before.get("deletionGracePeriodSeconds")
    )


def _grace(resource: Resource, obj: Object, asked: int | None) -> int | None:
    """Return the seconds a deletion leaves the object; None when it is being deleted already and this changes nothing.

    Only pods are given time, and only while a node runs them. Who asks again may shorten it, never lengthen it.
    """
    if (resource.group, resource.kind) != ("", "Pod"):
        return 0
    pending = obj["metadata"].get("deletionGracePeriodSeconds")
    if "deletionTimestamp" in obj["metadata"]:
        if not pending:
            return 0
        return None if asked is None or asked >= pending else max(asked, 0)
    spec = obj.get("spec") or {}
    if not spec.get("nodeName") or (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    if asked is None:
        asked = spec.get("terminationGracePeriodSeconds", _GRACE_DEFAULT)
    return asked if asked >= 0 else 1


def _finalizers(meta: Object, propagation: Propagation) -> list[Any]:
    """Return the finalizers with those by which a deletion asks for the garbage collector."""
    kept = [item for item in meta.get("finalizers", ()) if item not in (FOREGROUND, ORPHAN)]
    return kept + {"Background": [], "Foreground": [FOREGROUND], "Orphan": [ORPHAN]}[propagation]


def _no_node(namespace: str, pod: str) -> ClusterError:
    return ClusterError(f"nobody runs pod {namespace}/{pod}: this cluster has no node that answers logs and exec")


async def _refused(error: ClusterError) -> AsyncIterator[bytes]:
    """Be a stream that only says what is wrong, when it is read."""
    if error:
        raise error
    yield b""
