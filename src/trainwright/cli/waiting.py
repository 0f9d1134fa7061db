"""Looking at one object again and again: as it is, and as it becomes, until something holds of it."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, suppress

from trainwright.cli import homes
from trainwright.cli.homes import Home
from trainwright.cluster.base import Change
from trainwright.cluster.kubernetes import Unreachable
from trainwright.core.errors import Expired, HomeError, NotFound, OutOfTime
from trainwright.core.objects import Object
from trainwright.core.resources import Resource
from trainwright.core.words import span

Holds = Callable[[Object | None], bool]
_LOOK = 0.25
"""Seconds after which it is asked whether a home on this machine is still there: a watch alone would not tell."""


async def until(
    home: Home, resource: Resource, obj: Object, holds: Holds, timeout: float | None, what: str
) -> Object | None:
    """Return an object once `holds` is true of it (of None once it is gone); OutOfTime says what did not come."""
    try:
        async with asyncio.timeout(timeout), aclosing(states(home, resource, obj)) as seen:
            async for now in seen:
                if holds(now):
                    return now
    except TimeoutError:
        raise OutOfTime(f"{what} within {span(timeout or 0)} (--timeout)") from None
    raise HomeError(f"{what}, and nothing more will happen: {home.name} is over")


async def states(home: Home, resource: Resource, obj: Object) -> AsyncGenerator[Object | None, None]:
    """Yield an object as it is and each time it has changed; None once it is gone.

    A `tw run` that ends tells its last word through what was kept of it.
    """
    while True:
        try:
            now = await _current(home, resource, obj)
        except Unreachable:
            if homes.is_there(home):
                raise
            home = homes.afterwards(home)
            continue
        yield now
        if now is None or home.kind == "kept":
            return
        with suppress(Expired):
            async with aclosing(_changes(home, resource, now)) as changes:
                async for change in changes:
                    gone = change.type == "DELETED"
                    yield None if gone else change.object
                    if gone:
                        return
            home = homes.afterwards(home)


async def _current(home: Home, resource: Resource, obj: Object) -> Object | None:
    meta = obj["metadata"]
    try:
        now = await home.cluster.get(resource, meta.get("namespace", ""), meta["name"])
    except NotFound:
        return None
    return now if now["metadata"]["uid"] == meta["uid"] else None  # else its name was given to another one


async def _changes(home: Home, resource: Resource, obj: Object) -> AsyncGenerator[Change, None]:
    """Yield the changes of one object until the home itself is gone."""
    meta = obj["metadata"]
    watch = home.cluster.watch(
        resource, meta.get("namespace", ""), since=meta["resourceVersion"], fields=f"metadata.name={meta['name']}"
    )
    while (change := await next_change(home, watch)) is not None:
        if change.type != "BOOKMARK" and change.object["metadata"]["uid"] == meta["uid"]:
            yield change


async def next_change(home: Home, watch: AsyncIterator[Change]) -> Change | None:
    """Return the next change; None when the home is gone."""
    coming = asyncio.ensure_future(anext(watch))
    try:
        while not (await asyncio.wait({coming}, timeout=_LOOK))[0]:
            if not homes.is_there(home):
                return None
        return coming.result()
    finally:
        coming.cancel()
