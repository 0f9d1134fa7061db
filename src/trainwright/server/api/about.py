"""Questions about the API itself: what there is (`discovery`, `openapi`), which version, whether it lives."""

from collections.abc import Iterable

import msgspec

from trainwright.core.errors import NotFound
from trainwright.server.api.discovery import AGGREGATED, VERSION, Discovery
from trainwright.server.api.openapi import OpenApi
from trainwright.server.api.served import Served
from trainwright.web.exchange import Exchange
from trainwright.web.server import TEXT

_HEALTH = ("healthz", "livez", "readyz")


class About:
    """Answers them, for everything that is served."""

    def __init__(self, rows: Iterable[Served]) -> None:
        rows = tuple(rows)
        self._discovery = Discovery(rows)
        self._openapi = OpenApi(rows)

    async def answer(self, exchange: Exchange) -> None:
        """Answer one; NotFound if there is nothing to be said."""
        path = exchange.request.path
        try:
            if path[0] in _HEALTH:
                await exchange.answer(b"ok", kind=TEXT)
            elif path[0] in ("api", "apis"):
                aggregated = len(path) == 1 and "as=APIGroupDiscoveryList" in exchange.request.headers.get("accept", "")
                kind = AGGREGATED if aggregated else "application/json"
                await exchange.answer(self._discovered(path, aggregated=aggregated), kind=kind)
            else:
                await exchange.answer(self._described(path))
        except KeyError as error:
            raise NotFound("the server could not find the requested resource") from error

    def _discovered(self, path: tuple[str, ...], *, aggregated: bool) -> bytes:
        found, legacy = self._discovery, path[0] == "api"
        if aggregated:
            return msgspec.json.encode(found.aggregated(legacy=legacy))
        if len(path) == 1:
            return msgspec.json.encode(found.versions() if legacy else found.groups())
        if legacy:
            return msgspec.json.encode(found.resources("", path[1]))
        return msgspec.json.encode(found.group(path[1]) if len(path) == 2 else found.resources(path[1], path[2]))

    def _described(self, path: tuple[str, ...]) -> bytes:
        if path == ("version",):
            return msgspec.json.encode(VERSION)
        if path == ("openapi", "v3"):
            return msgspec.json.encode(self._openapi.index())
        if path[:2] == ("openapi", "v3"):
            return self._openapi.document("/".join(path[2:]))
        raise KeyError(path)
