"""A proxy on a bad day: it refuses, stalls, drops and cuts, as a seeded die says, and counts what it did.

It stands between the client and any API server, the stub or a real one, and reads HTTP with code of its own.
"""

import asyncio
import contextlib
import random
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from tests.cluster.kubernetes.server import Request, serve

REFUSALS: Mapping[str, tuple[int, str, dict[str, str]]] = {
    "409": (409, "Conflict", {}),
    "410": (410, "Expired", {}),
    "429": (429, "TooManyRequests", {"Retry_After": "0"}),
    "500": (500, "InternalError", {}),
    "503": (503, "ServiceUnavailable", {}),
}


@dataclass
class Day:
    """What may happen, and how likely: of each request "409", "410", "429", "500", "503", "drop" (before the server
    has seen it), "lose" (after it has answered), "stall"; of each watch "cut", somewhere inside a line."""

    odds: Mapping[str, float]
    seed: int = 1
    stall: float = 0.05
    happened: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    _die: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._die = random.Random(self.seed)

    def fate(self, request: Request) -> str:
        """Return what happens to a request, "" for nothing."""
        point = self._die.random()
        for what, odds in self.odds.items():
            if what != "cut":
                point -= odds
                if point < 0:
                    return what
        return ""

    def cut_after(self, request: Request) -> int | None:
        """Return after how many bytes a watch is cut, if it is."""
        if "watch" in request.query and self._die.random() < self.odds.get("cut", 0):
            return self._die.randint(1, 3000)
        return None

    def calm(self) -> None:
        """Let nothing happen any more."""
        self.odds = {}


@contextlib.asynccontextmanager
async def between(port: int, day: Day, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Run the proxy in front of the server at a port of this machine; yield its URL."""

    async def handle(request: Request) -> None:
        verb = "WATCH" if "watch" in request.query else request.method
        day.requests[verb] += 1
        what = day.fate(request)
        if what == "lose" and verb == "WATCH":
            what = "drop"  # an answer without end cannot be waited for
        if what:
            day.happened[what] += 1
        if what in REFUSALS:
            status, reason, headers = REFUSALS[what]
            await request.refuse(status, reason, f"the proxy says {what}", **headers)
            return
        if what == "stall":
            await asyncio.sleep(day.stall)
        if what in ("stall", "drop"):
            request.writer.transport.abort()
            return
        await forward(request, port, context, day, lose=what == "lose")

    async with serve(handle) as serving:
        yield serving.url


async def forward(request: Request, port: int, context: ssl.SSLContext | None, day: Day, *, lose: bool) -> None:
    """Pass a request on and its answer back; an answer to be lost is waited for, and dropped."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    cut = day.cut_after(request)
    try:
        writer.write(request.head + request.body)
        head = await reader.readuntil(b"\r\n\r\n")
        if not lose:
            request.writer.write(head)
        async for data in body(head, reader):
            if lose:
                continue
            if cut is not None and cut < len(data):
                day.happened["cut"] += 1
                request.writer.write(data[:cut])
                await request.writer.drain()
                break
            cut = None if cut is None else cut - len(data)
            request.writer.write(data)
            await request.writer.drain()
        else:
            if not lose:
                return
        request.writer.close()
    finally:
        writer.transport.abort()


async def body(head: bytes, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield the body of an answer, framing included."""
    lowered = head.lower()
    if b"transfer-encoding: chunked" in lowered:
        while True:
            line = await reader.readuntil(b"\r\n")
            size = int(line, 16)
            yield line + await reader.readexactly(size + 2)
            if not size:
                return
    _, _, rest = lowered.partition(b"content-length:")
    if size := int(rest.split(b"\r\n")[0] or 0):
        yield await reader.readexactly(size)
