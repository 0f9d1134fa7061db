"""A watch that goes on: every change after a version, across cut connections, until it is closed.

It resumes at the last version it has seen, a bookmark's included, and waits longer after each failure, so a server in
trouble is not asked in a hot loop. Only what a fresh list alone can mend is raised: Expired when the version is no
longer kept, and refusals that trying again would not change.
"""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator
from typing import Any, cast

from trainwright.cluster.base import Change
from trainwright.cluster.kubernetes.decode import DecodeError, Event, Shape, event_decoder
from trainwright.cluster.kubernetes.errors import Unreachable, status_error
from trainwright.cluster.kubernetes.rest import Rest
from trainwright.cluster.kubernetes.retry import Patience
from trainwright.cluster.kubernetes.transport import Broken, Stream, lines
from trainwright.cluster.queue import Backoff
from trainwright.core.errors import ClusterError

log = logging.getLogger(__name__)

_ONCE = Patience(tries=1)
_QUIET_FAILURES = 3
_LONG_ENOUGH = 5.0
"""A watch that stood so many seconds was a good one, even if nothing happened."""
_AGAIN = (429, 500, 502, 503, 504)


class Watching:
    """One watch's questions to the server."""

    def __init__(
        self,
        rest: Rest,
        path: str,
        query: dict[str, str],
        since: str,
        *,
        shape: Shape | None = None,
        backoff: Backoff | None = None,
        silence: float = 150.0,
    ) -> None:
        self._rest = rest
        self._path = path
        self._query = query
        self._version = since
        self._decode = event_decoder(shape)
        self._backoff = backoff or Backoff(first=0.1, longest=30.0)
        self._silence = silence
        """A server that asks for bookmarks is heard of every minute; one that is silent for so long is asked anew."""
        self._failures = 0

    async def changes(self) -> AsyncGenerator[Change, None]:
        """Yield every change after the version, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            trouble: Exception | None = None
            try:
                stream = await self._open()
                try:
                    async for batch in lines(stream, self._silence):
                        for line in batch:
                            if line:
                                yield self._change(self._decode(line))
                finally:
                    stream.close()
            except (Broken, DecodeError) as error:
                trouble = error
            except ClusterError as error:
                if not isinstance(error, Unreachable) and error.code not in _AGAIN:
                    raise
                trouble = error
            await self._rested(trouble, loop.time() - began)

    async def _open(self) -> Stream:
        # Servers end a watch at this time; not all clients' at once.
        query = {
            **self._query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(random.randint(290, 590)),  # noqa: S311 - no secret
        }
        return await self._rest.open(self._path, query=query, timeout=self._rest.timeout, patience=_ONCE)

    def _change(self, event: Event) -> Change:
        kind, obj = event
        if kind == "ERROR":
            raise status_error(obj)
        self._version = obj["metadata"]["resourceVersion"]
        self._failures = 0
        return Change(cast("Any", kind), obj)

    async def _rested(self, trouble: Exception | None, stood: float) -> None:
        """Wait before asking again: shortly after a watch that did something, ever longer after ones that did not."""
        if stood > _LONG_ENOUGH:
            self._failures = 0
        self._failures += 1
        seconds = self._backoff.seconds(self._failures)
        level = logging.WARNING if trouble and self._failures > _QUIET_FAILURES else logging.DEBUG
        log.log(level, "watch of %s ended (%s), resuming in %.2f s", self._path, trouble or "by the server", seconds)
        await asyncio.sleep(seconds)
