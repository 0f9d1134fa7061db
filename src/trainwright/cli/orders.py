"""Telling jobs to stop or to go on: what `suspend`, `resume` and `cancel` share. How a job is told says its face."""

import asyncio
import getpass
from collections.abc import Callable, Iterable, Mapping

from trainwright.api.faces import Face, Standing, Wish
from trainwright.cli import homes
from trainwright.cli.homes import Home, Where
from trainwright.core.actions import Create
from trainwright.core.errors import Conflict
from trainwright.core.objects import Object

_PREVENTED: Mapping[Wish, Callable[[Standing], bool]] = {
    "suspend": lambda standing: standing.finished or standing.resumable,
    "resume": lambda standing: standing.finished and not standing.resumable,
    "cancel": lambda standing: standing.finished,
}


async def give(home: Home, text: str, wish: Wish) -> tuple[Face, Object]:
    """Tell the job a user names, and return it as it was before; Conflict says why that makes no sense."""
    face, job = await homes.look_up(home, text)
    standing = face.standing(job.get("status") or {})
    name = job["metadata"]["name"]
    if wish not in face.orders:
        known = " and ".join(face.orders)
        raise Conflict(
            f"{name} is a {face.name}, and those cannot be told to {wish}; what they can be told is: {known}"
        )
    if _PREVENTED[wish](standing):
        raise Conflict(f"{name} is {standing.phase} already; there is nothing to {wish}")
    order = face.orders[wish](job, person())
    namespace = job["metadata"]["namespace"]
    if isinstance(order, Create):
        assert face.commands is not None, "who is told by objects has a kind for them"
        await home.cluster.create(face.commands, order.object)
    else:
        await home.cluster.patch(face.resource, namespace, name, order.patch)
    return face, job


def person() -> str:
    """Return who is at the keyboard."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"


def carry_out(where: Where, jobs: Iterable[str], wish: Wish, done: str) -> list[tuple[Object, str]]:
    """Tell every job a user names, and return each with what was done to it."""

    async def one(text: str) -> tuple[Object, str]:
        async with homes.opened(where, text) as home:
            _, job = await give(home, text, wish)
            return job, done

    async def each() -> list[tuple[Object, str]]:
        return [await one(text) for text in jobs]

    return asyncio.run(each())
