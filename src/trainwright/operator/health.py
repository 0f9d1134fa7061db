"""Probes and metrics: GET of a few fixed paths, for a kubelet and for Prometheus.

They are answered on the event loop of the operator: if it does not answer, the operator hangs.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus

from trainwright.web.exchange import Exchange
from trainwright.web.listener import listener
from trainwright.web.server import TEXT, Server


@dataclass(frozen=True)
class Reply:
    """What a path answers."""

    text: str
    status: HTTPStatus = HTTPStatus.OK
    content: str = TEXT


Routes = Mapping[str, Callable[[], Reply]]


@asynccontextmanager
async def serving(host: str, port: int, routes: Routes) -> AsyncIterator[tuple[str, int]]:
    """Serve `routes` while the body runs; yields where. No host means all addresses of this machine."""

    async def answer(exchange: Exchange) -> None:
        request = exchange.request
        reply = _reply(request.method, f"/{'/'.join(request.path)}", routes)
        allow = (("Allow", "GET, HEAD"),) if reply.status == HTTPStatus.METHOD_NOT_ALLOWED else ()
        status = f"{reply.status.value} {reply.status.phrase}"
        await exchange.answer(reply.text.encode(), status=status, kind=reply.content, headers=allow)

    listening = listener(host, port)
    address = listening.getsockname()
    async with Server(listening, answer):
        yield address[0], address[1]


def _reply(method: str, path: str, routes: Routes) -> Reply:
    if path not in routes:
        there_are = ", ".join(routes)
        return Reply(f"there is no {path} here (there are: {there_are})\n", HTTPStatus.NOT_FOUND)
    if method not in ("GET", "HEAD"):
        return Reply(f"{method} is not answered here; use GET\n", HTTPStatus.METHOD_NOT_ALLOWED)
    return routes[path]()
