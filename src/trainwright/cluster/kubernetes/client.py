"""`KubernetesCluster`: a `Cluster` whose objects live on a real API server."""

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

from trainwright.cluster.base import Change, Listing, Propagation
from trainwright.cluster.kubernetes import decode
from trainwright.cluster.kubernetes.connection import Broken
from trainwright.cluster.kubernetes.errors import Unreachable
from trainwright.cluster.kubernetes.kubeconfig import Access, load
from trainwright.cluster.kubernetes.rest import MERGE_PATCH, Rest, segment
from trainwright.cluster.kubernetes.retry import Patience
from trainwright.cluster.kubernetes.streams import PodSession, connect
from trainwright.cluster.kubernetes.watch import Watching
from trainwright.cluster.queue import Backoff
from trainwright.core.errors import BadRequest, Expired, NotFound
from trainwright.core.objects import Object, timestamp
from trainwright.core.resources import POD, SERVICE_ACCOUNT, Resource

FIELD_MANAGER = "trainwright"
FieldValidation = Literal["Ignore", "Warn", "Strict"]
_PAGE = 500


class KubernetesCluster:
    """The API server, through a connection pool of this object's own; use it as an async context manager.

    `shapes` names, for resources that are cached by the thousand, the few fields that lists and watches shall keep.
    A watch that hears nothing for `silence` seconds is asked anew, and waits as `backoff` says between failures.
    With `field_validation` "Warn", the server's default, unknown fields are dropped and said in the log.
    """

    def __init__(
        self,
        access: Access,
        *,
        rest: Rest | None = None,
        shapes: Mapping[Resource, decode.Shape] | None = None,
        field_validation: FieldValidation = "Warn",
        patience: Patience | None = None,
        timeout: float = 60.0,
        connections: int = 32,
        page: int = _PAGE,
        silence: float = 150.0,
        backoff: Backoff | None = None,
    ) -> None:
        self.access = access
        self.namespace = access.namespace
        """The namespace a user means who names none."""
        self.rest = rest or Rest(access, patience=patience, timeout=timeout, connections=connections)
        self._shapes = shapes or {}
        self._page = page
        self._silence = silence
        self._backoff = backoff
        self._write = {"fieldManager": FIELD_MANAGER}
        if field_validation != "Warn":
            self._write["fieldValidation"] = field_validation

    @classmethod
    def from_config(
        cls, kubeconfig: str | None = None, context: str | None = None, **options: Any
    ) -> "KubernetesCluster":
        """Return the cluster a kubeconfig (else KUBECONFIG, ~/.kube/config, this pod's account) leads to."""
        return cls(load(kubeconfig, context), **options)

    async def __aenter__(self) -> "KubernetesCluster":
        await self.rest.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End all connections; watches and sessions end with them."""
        await self.rest.close()

    # Reading

    async def get(self, resource: Resource, namespace: str, name: str) -> Object:
        """Return one object; NotFound if there is none. `namespace` is "" for kinds without."""
        answer = await self.rest.answer("GET", path_of(resource, namespace, name))
        return _read(answer.body)

    async def list(self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "") -> Listing:
        """Return all objects that match the selectors, in one namespace or ("") in all."""
        path, query = collection(resource, namespace), _selectors(labels, fields)
        try:
            return await self._pages(resource, path, query, self._page)
        except Expired:
            # The version of the first page was dropped while we read: all at once cannot tear.
            return await self._pages(resource, path, query, 0)

    async def serves(self, resource: Resource) -> bool:
        """Say whether the API server knows a kind, in that version; anybody who is known to it may ask."""
        try:
            found = await self.rest.request("GET", f"/{'apis' if resource.group else 'api'}/{resource.api_version}")
        except NotFound:
            return False
        return any(each.get("name") == resource.plural for each in found.get("resources") or ())

    async def versions(self, resource: Resource) -> tuple[str, ...]:
        """Return the versions in which the API server knows a kind, its favourite first; none if it does not."""
        try:
            group = await self.rest.request("GET", f"/apis/{resource.group}")
        except NotFound:
            return ()
        told = [str(each["version"]) for each in group.get("versions") or ()]
        return tuple([each for each in told if await self.serves(replace(resource, version=each))])

    def watch(
        self, resource: Resource, namespace: str = "", *, since: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Change]:
        """Yield every change after version `since`; Expired when that is too long ago. Ends only when closed.

        As on the API server, `since` "" or "0" begins with what is there now, as ADDED.
        """
        return self._watch(resource, namespace, since, labels, fields)

    # Writing

    async def create(self, resource: Resource, obj: Object) -> Object:
        """Store a new object and return it as stored; metadata.generateName is honoured."""
        meta = obj.get("metadata")
        namespace = (meta.get("namespace") or "") if isinstance(meta, dict) else ""
        path = _inside(resource, namespace)
        kind: Object = {"apiVersion": resource.api_version, "kind": resource.kind}
        body = obj if "kind" in obj and "apiVersion" in obj else {**kind, **obj}
        answer = await self.rest.answer("POST", path, query=self._write, body=body)
        return _read(answer.body)

    async def patch(
        self, resource: Resource, namespace: str, name: str, patch: Object, *, subresource: Literal["", "status"] = ""
    ) -> Object:
        """Apply a JSON merge patch. With metadata.resourceVersion in it: Conflict unless it is the current one."""
        path = path_of(resource, namespace, name) + (f"/{subresource}" if subresource else "")
        answer = await self.rest.answer("PATCH", path, query=self._write, body=patch, content=MERGE_PATCH)
        return _read(answer.body)

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        grace: int | None = None,
        propagation: Propagation = "Background",
    ) -> None:
        """Delete, or mark for deletion while finalizers or a running pod hold it; Conflict if `uid` is another."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        # Without uid a second try could delete another object that was given the name meanwhile.
        await self.rest.answer("DELETE", path_of(resource, namespace, name), body=options, repeatable=bool(uid))

    # Pods

    def logs(
        self,
        namespace: str,
        pod: str,
        *,
        container: str = "",
        follow: bool = False,
        previous: bool = False,
        since: datetime | int | None = None,
        tail: int | None = None,
        timestamps: bool = False,
    ) -> AsyncIterator[bytes]:
        """Yield a container's output in chunks, from the start; with `follow` until the container has ended.

        `since` is a moment or a number of seconds back, `previous` means the container before its last restart.
        """
        query = {
            "container": container,
            "follow": "true" if follow else "",
            "previous": "true" if previous else "",
            "sinceTime": timestamp(since) if isinstance(since, datetime) else "",
            "sinceSeconds": str(since) if isinstance(since, int) else "",
            "tailLines": "" if tail is None else str(tail),
            "timestamps": "true" if timestamps else "",
        }
        return self._logs(namespace, pod, {name: value for name, value in query.items() if value}, follow)

    async def exec(
        self,
        namespace: str,
        pod: str,
        command: Sequence[str],
        *,
        container: str = "",
        stdin: bool = False,
        tty: bool = False,
    ) -> PodSession:
        """Start a command inside a running pod."""
        query = [("command", word) for word in command]
        return await self._session("exec", namespace, pod, query, container, stdin=stdin, tty=tty)

    async def issue_token(self, namespace: str, account: str, request: Object) -> Object:
        """Return a TokenRequest answered: with a token of a service account."""
        path = f"{path_of(SERVICE_ACCOUNT, namespace, account)}/token"
        answer = await self.rest.answer("POST", path, body=request, repeatable=True)
        return _read(answer.body)

    async def attach(
        self, namespace: str, pod: str, *, container: str = "", stdin: bool = False, tty: bool = False
    ) -> PodSession:
        """Join the process a container runs."""
        return await self._session("attach", namespace, pod, [], container, stdin=stdin, tty=tty)

    # Inside

    async def _pages(self, resource: Resource, path: str, query: dict[str, str], limit: int) -> Listing:
        shape = self._shapes.get(resource)
        if limit:
            query = {**query, "limit": str(limit)}
        items: list[Object] = []
        following = ""
        while True:
            answer = await self.rest.answer("GET", path, query={**query, "continue": following} if following else query)
            try:
                more, version, following = decode.decode_page(answer.body, resource, shape)
            except decode.DecodeError as error:
                raise Unreachable(f"GET {path}: the answer is no list of objects: {error}") from error
            items += more
            if not following:
                return Listing(items, version)

    async def _watch(
        self, resource: Resource, namespace: str, since: str, labels: str, fields: str
    ) -> AsyncIterator[Change]:
        path, query = collection(resource, namespace), _selectors(labels, fields)
        if since and not since.isdigit():
            # The server would say 500, which is otherwise a reason to try again.
            raise BadRequest(f"resourceVersion: found {since!r}, expected a version that a list or an object told")
        if since in ("", "0"):
            # Not left to the server: what it sends first has no order, so a cut there could not be resumed.
            listing = await self.list(resource, namespace, labels=labels, fields=fields)
            for obj in listing.items:
                yield Change("ADDED", obj)
            since = listing.version
        watching = Watching(
            self.rest,
            path,
            query,
            since,
            shape=self._shapes.get(resource),
            backoff=self._backoff,
            silence=self._silence,
        )
        async with contextlib.aclosing(watching.changes()) as changes:
            async for change in changes:
                yield change

    async def _logs(self, namespace: str, pod: str, query: dict[str, str], follow: bool) -> AsyncIterator[bytes]:
        # A container that has said nothing yet has no answer's head either: while following, there is no hurry.
        timeout = None if follow else self.rest.timeout
        try:
            async with self.rest.stream(f"{path_of(POD, namespace, pod)}/log", query=query, timeout=timeout) as stream:
                while chunk := await stream.read(timeout):
                    yield chunk
        except Broken as error:
            raise Unreachable(f"the log of {namespace}/{pod} broke off: {error}") from error

    async def _session(
        self,
        verb: str,
        namespace: str,
        pod: str,
        query: Sequence[tuple[str, str]],
        container: str,
        *,
        stdin: bool,
        tty: bool,
    ) -> PodSession:
        # A terminal has one output.
        wanted = {"container": container, "stdin": stdin, "stdout": True, "stderr": not tty, "tty": tty}
        flags = [(name, "true" if value is True else str(value)) for name, value in wanted.items() if value]
        return await connect(self.rest, f"{path_of(POD, namespace, pod)}/{verb}", [*query, *flags])


def collection(resource: Resource, namespace: str = "") -> str:
    """Return the path of all objects of a kind, in one namespace or in all."""
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    if not namespace:
        return f"{root}/{resource.plural}"
    if not resource.namespaced:
        raise BadRequest(f"{resource} have no namespace, found {namespace!r}")
    return f"{root}/namespaces/{segment(namespace, 'namespace')}/{resource.plural}"


def path_of(resource: Resource, namespace: str, name: str) -> str:
    """Return the path of one object."""
    return f"{_inside(resource, namespace)}/{segment(name, 'name')}"


def _inside(resource: Resource, namespace: str) -> str:
    if resource.namespaced and not namespace:
        raise BadRequest(f"{resource} live in a namespace, and none is given")
    return collection(resource, namespace)


def _selectors(labels: str, fields: str) -> dict[str, str]:
    pairs = (("labelSelector", labels), ("fieldSelector", fields))
    return {name: text for name, text in pairs if text}


def _read(body: bytes) -> Object:
    try:
        return decode.decode_object(body)
    except decode.DecodeError as error:
        raise Unreachable(f"the answer is no object: {error}") from error
