"""Requests to one API server: credentials, repeats, errors. Knows HTTP and `Status`, but no resource.

`request` is what everything without its own verb uses: discovery, leases, tokens, subresources.
"""

import asyncio
import contextlib
import functools
import logging
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec

import trainwright
from trainwright.cluster.kubernetes.auth import Auth, Credential
from trainwright.cluster.kubernetes.connect import Connector, Untrusted
from trainwright.cluster.kubernetes.errors import OutcomeUnknown, Unreachable, Withheld, refusal
from trainwright.cluster.kubernetes.kubeconfig import Access
from trainwright.cluster.kubernetes.retry import Patience, after_answer, after_break, retry_after
from trainwright.cluster.kubernetes.transport import Answer, Broken, Check, Pool, Stream
from trainwright.core.errors import BadRequest, ClusterError, HomeError, Unauthorized

log = logging.getLogger(__name__)

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
Query = Mapping[str, str] | Sequence[tuple[str, str]]

_ERROR_BODY_SECONDS = 10.0
_DECODER = msgspec.json.Decoder()
_ENCODER = msgspec.json.Encoder()
_WARNINGS_KEPT = 200


class Rest:
    """The API server as a place to send requests to; use it as an async context manager."""

    def __init__(
        self,
        access: Access,
        *,
        auth: Auth | None = None,
        patience: Patience | None = None,
        timeout: float = 60.0,
        connect_timeout: float = 10.0,
        connections: int = 32,
    ) -> None:
        self.access = access
        self.timeout = timeout
        self.patience = patience or Patience()
        self.sent = 0
        """How many requests went out, repeats included."""
        self.heard: Callable[[str, int], None] = lambda method, code: None  # noqa: ARG005 - nobody counts
        """Told of every answer, repeats included: its method and code, or code 0 when none came."""
        self.permitted: Callable[[], bool] = lambda: True
        """Asked right before a request is written that changes something, however long it has waited for its turn."""
        self._auth = auth or Auth(access)
        self._connector = Connector(access.server, self._auth, timeout=connect_timeout)
        self._pool = Pool(self._connector.connect, limit=connections)
        self._base = access.server.base
        self._shown: Credential | None = None
        self._fixed = ""
        self._warned: set[str] = set()

    async def __aenter__(self) -> "Rest":
        """Get credentials; HomeError says what is wrong with them before anything is asked of the server."""
        self._headers(await self._auth.credential())
        await self._auth.context()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End all connections."""
        await self._pool.close()

    def connections(self) -> tuple[int, int]:
        """Return how many connections there are, and how many of them are idle."""
        return self._pool.counts()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: Any = None,
        content: str = JSON,
        timeout: float | None = None,
        repeatable: bool | None = None,
    ) -> Any:
        """Send a request and return what the JSON of its answer says; errors are those of `core.errors`.

        `repeatable` says that carrying it out twice has the effect of once; GET, PUT and PATCH are, unless told.
        """
        answer = await self.answer(
            method, path, query=query, body=body, content=content, timeout=timeout, repeatable=repeatable
        )
        return decoded(answer.body) if answer.body else None

    async def answer(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: Any = None,
        content: str = JSON,
        timeout: float | None = None,
        repeatable: bool | None = None,
    ) -> Answer:
        """Send a request and return its answer as it came, if it is no refusal."""
        target = self.target(path, query)
        data = body if isinstance(body, bytes) else b"" if body is None else _ENCODER.encode(body)
        again = method in ("GET", "PUT", "PATCH") if repeatable is None else repeatable
        tries = _Tries(self.patience, f"{method} {path}", repeatable=again)
        while True:
            try:
                credential = self._auth.fresh() or await self._credential()
                answer = await self._pool.request(
                    self._request(method, target, data, content if data else "", credential),
                    timeout or self.timeout,
                    self._check(method),
                )
            except Untrusted as error:
                raise Unreachable(str(error)) from error
            except Broken as error:
                self.heard(method, 0)
                await tries.after_break(error)
                continue
            finally:
                self.sent += 1
            self.heard(method, answer.status)
            if "warning" in answer.headers:
                self._warn(answer.headers["warning"])
            if answer.status < 300:
                return answer
            if answer.status == 401 and await self._renewed(tries, credential):
                continue
            if method == "DELETE" and answer.status == 404 and tries.unsure:
                return Answer(200, {}, b"")  # gone: it was our own earlier try
            await tries.after_answer(answer)

    @contextlib.asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        method: str = "GET",
        query: Query = (),
        headers: str = "",
        timeout: float | None = None,
        patience: Patience | None = None,
    ) -> AsyncIterator[Stream]:
        """Send a request and yield its answer as it comes; closed at the end. `timeout` is for its head."""
        stream = await self.open(path, method=method, query=query, headers=headers, timeout=timeout, patience=patience)
        try:
            yield stream
        finally:
            stream.close()

    async def open(
        self,
        path: str,
        *,
        method: str = "GET",
        query: Query = (),
        headers: str = "",
        timeout: float | None = None,
        patience: Patience | None = None,
        repeatable: bool = True,
    ) -> Stream:
        """Send a request and return its answer as it comes; whoever calls must close it."""
        target = self.target(path, query)
        tries = _Tries(patience or self.patience, f"{method} {path}", repeatable=repeatable)
        while True:
            try:
                credential = self._auth.fresh() or await self._credential()
                stream = await self._pool.stream(
                    self._request(method, target, b"", "", credential, headers), timeout, self._check(method)
                )
                self.heard(method, stream.status)
                if stream.status < 300:
                    return stream
                try:
                    answer = Answer(stream.status, stream.headers, await stream.rest(_ERROR_BODY_SECONDS))
                finally:
                    stream.close()
            except Untrusted as error:
                raise Unreachable(str(error)) from error
            except Broken as error:
                self.heard(method, 0)
                await tries.after_break(error)
                continue
            finally:
                self.sent += 1
            if answer.status == 401 and await self._renewed(tries, credential):
                continue
            await tries.after_answer(answer)

    def _check(self, method: str) -> Check:
        """Return what keeps a request of that method from being sent at a time when it must not be."""

        def check() -> None:
            if method != "GET" and not self.permitted():
                raise Withheld(f"{method} was not sent: this client may change nothing any more")

        return check

    def target(self, path: str, query: Query = ()) -> str:
        """Return what stands in the first line of a request."""
        if not query:
            return self._base + path
        return f"{self._base}{path}?{_encoded(tuple(query.items() if isinstance(query, Mapping) else query))}"

    def _request(
        self, method: str, target: str, body: bytes, content: str, credential: Credential, extra: str = ""
    ) -> bytes:
        fixed = self._fixed if credential is self._shown else self._headers(credential)
        if body or method in ("POST", "PUT", "PATCH"):
            extra = f"Content-Type: {content or JSON}\r\nContent-Length: {len(body)}\r\n{extra}"
        return f"{method} {target} HTTP/1.1\r\n{fixed}{extra}\r\n".encode("latin-1") + body

    def _headers(self, credential: Credential) -> str:
        """Return the headers every request has; they are made once per credential."""
        if self._shown is not None and self._shown.certificate != credential.certificate:
            self._pool.drop_idle()
        lines = [
            f"Host: {self.access.server.host}",
            f"User-Agent: trainwright/{trainwright.__version__} ({sys.platform})",
            f"Accept: {JSON}, */*",
        ]
        if credential.authorization:
            lines.append(f"Authorization: {credential.authorization}")
        lines += [f"{name}: {value}" for name, value in self._auth.impersonate]
        self._shown, self._fixed = credential, "".join(f"{line}\r\n" for line in lines)
        return self._fixed

    async def _credential(self) -> Credential:
        try:
            return await self._auth.credential()
        except HomeError as error:
            raise Unreachable(f"cannot renew the credentials: {error}") from error

    async def _renewed(self, tries: "_Tries", refused: Credential) -> bool:
        """After a 401, once: say whether there are other credentials to try."""
        if tries.renewed:
            return False
        tries.renewed = True
        try:
            new = await self._auth.after_refusal(refused)
        except HomeError as error:
            raise Unauthorized(f"the server wants other credentials, but: {error}") from error
        if new:
            self._pool.drop_idle()
        return new

    def _warn(self, header: str) -> None:
        """Log what the server warns of: once, for it says so with every request."""
        if header not in self._warned:
            if len(self._warned) < _WARNINGS_KEPT:
                self._warned.add(header)
            log.warning("the API server warns: %s", header)


@functools.lru_cache(maxsize=32)
def _encoded(query: tuple[tuple[str, str], ...]) -> str:
    """Return a query as a URL has it; that of every write is the same."""
    return urlencode(query, quote_via=quote)


class _Tries:
    """The tries of one request."""

    def __init__(self, patience: Patience, what: str, *, repeatable: bool) -> None:
        self.renewed = False
        self.unsure = False
        """Whether a try may have been carried out although no answer said so."""
        self._patience = patience
        self._what = what
        self._repeatable = repeatable
        self._failures = 0
        self._stale = 0
        self._began = asyncio.get_running_loop().time()

    async def after_break(self, error: Broken) -> None:
        """Wait until the request may be tried again, or raise."""
        self.unsure = self.unsure or error.sent
        if not after_break(error, repeatable=self._repeatable):
            raise OutcomeUnknown(f"{self._what}: {error}; it may have been carried out") from error
        if error.reused and not error.overdue and not self._stale:
            self._stale += 1  # an idle connection that the server had closed: nobody is in trouble
            return
        await self._wait(None, OutcomeUnknown if self.unsure else Unreachable, error)

    async def after_answer(self, answer: Answer) -> None:
        """Wait until the request may be tried again, or raise what the server said."""
        wish = retry_after(answer.headers.get("retry-after"))
        refused = refusal(answer.status, answer.body)
        if not after_answer(answer.status, wish, repeatable=self._repeatable):
            raise refused
        self.unsure = self.unsure or answer.status in (500, 502, 504)
        await self._wait(wish, type(refused), refused)

    async def _wait(self, wish: float | None, kind: type[ClusterError], error: Exception) -> None:
        self._failures += 1
        seconds = self._patience.wait(self._failures, asyncio.get_running_loop().time() - self._began, wish)
        if seconds is None:
            if isinstance(error, ClusterError):
                raise error
            raise kind(f"{self._what}: {error}") from error
        log.debug("%s: %s; trying again in %.2f s", self._what, error, seconds)
        await asyncio.sleep(seconds)


def decoded(body: bytes) -> Any:
    """Return what JSON says; Unreachable if it is none, for then it is not an API server that answered."""
    try:
        return _DECODER.decode(body)
    except msgspec.DecodeError as error:
        raise Unreachable(f"the answer is no JSON ({error}): {body[:80]!r}") from error


def segment(name: str, what: str) -> str:
    """Return a name as a part of a path; BadRequest if it cannot be one."""
    if not name or name in (".", "..") or "/" in name or "%" in name:
        raise BadRequest(f"{what}: {name!r} cannot be part of a path")
    return quote(name, safe="")
