"""`tw ps`: the jobs there are, one line each."""

import asyncio
import itertools
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from trainwright.cli.homes import Where, where_options
from trainwright.cli.output import Output, output_option

if TYPE_CHECKING:
    from trainwright.api.faces import Face
    from trainwright.cli.homes import Home

Object = dict[str, Any]
_LOOK = 1.0
"""Seconds after which a watch that hears nothing asks whether its homes are still there."""
_HEADS = ("NAME", "KIND", "PHASE", "READY", "RESTARTS", "AGE")


@click.command("ps")
@click.option("-l", "--selector", default="", metavar="LABELS", help="Only jobs with these labels.")
@click.option("-a", "--all", "every", is_flag=True, help="Also jobs that have ended.")
@click.option("-w", "--watch", is_flag=True, help="Go on and print a line for every change.")
@click.option("--no-headers", is_flag=True, help="Leave the first line out.")
@where_options
@output_option("wide")
def command(selector: str, every: bool, watch: bool, no_headers: bool, where: Where, output: Output | None) -> None:
    """List jobs: kind, phase, ranks that are up or done, restarts, age, and what a job waits for.

    Jobs that have ended are left out; --all lists them, too. Where no cluster is named and no `tw serve` runs, these
    are the jobs of the `tw run`s on this machine, and of the cluster of ~/.kube/config if there is one.

    \b
    tw ps
    tw ps -A --all
    tw ps -l team=vision -o name
    """  # noqa: D301 - click reads \b as "leave these lines alone"
    table = _Table(output, all_namespaces=where.all_namespaces, heads=not no_headers)
    asyncio.run(_ps(where, selector, table, every=every, watch=watch))


@dataclass(frozen=True)
class Row:
    """One job, and where it was found."""

    home: "Home"
    face: "Face"
    job: Object
    waits: str = ""

    @property
    def phase(self) -> str:
        """Return its phase; a job that a run has left unfinished shares how the run ended."""
        standing = self.face.standing(self.job.get("status") or {})
        return self.home.ended if self.home.ended and not standing.finished else standing.phase


async def _ps(where: Where, selector: str, table: "_Table", *, every: bool, watch: bool) -> None:
    from trainwright.cli import homes

    async with homes.everywhere(where, kept=every) as places:
        rows = await asyncio.gather(*(_rows(home, selector, every) for home in places))
        found = sorted(itertools.chain.from_iterable(rows), key=_order)
        if not found and not table.is_for_programs:
            click.echo(_nothing(places, every), err=True)
        table.print(found, datetime.now(UTC))
        if watch:
            await _watch(places, selector, table)


async def _rows(home: "Home", selector: str, every: bool) -> list[Row]:
    from trainwright.cli import homes

    found = await homes.listing(home, labels=selector, going=not every)
    waiting = not home.ended and any(_is_behind(face, job) for face, job in found)
    waits = await _waits(home) if waiting else {}
    return [Row(home, face, job, waits.get(_key(job), "")) for face, job in found]


def _is_behind(face: "Face", job: Object) -> bool:
    ranks = face.ranks(job)
    return not face.standing(job.get("status") or {}).finished and ranks.ready < (ranks.wanted or 1)


async def _waits(home: "Home") -> dict[tuple[str, str], str]:
    """Return what each job waits for that has a pod without a node, in the words of the first such pod."""
    from trainwright.cli import ranks
    from trainwright.core.errors import Forbidden
    from trainwright.core.names import JOB_LABEL
    from trainwright.core.resources import POD

    try:
        pods = (await home.cluster.list(POD, home.namespace, labels=JOB_LABEL, fields="status.phase=Pending")).items
    except Forbidden:  # who may see jobs and no pods sees jobs
        return {}
    waiting: dict[tuple[str, str], str] = {}
    for pod in ranks.order(pods):
        rank = ranks.rank(pod)
        if rank.phase == "Waiting" and rank.detail:
            waiting.setdefault((rank.namespace, rank.job), rank.detail)
    return waiting


def _key(job: Object) -> tuple[str, str]:
    return job["metadata"].get("namespace", ""), job["metadata"]["name"]


def _order(row: Row) -> tuple[str, str, str]:
    return *_key(row.job), row.face.name


def _nothing(places: "Sequence[Home]", every: bool) -> str:
    where = f"in {places[0].place}" if places else "on this machine"
    if every:
        return f"there are no jobs {where}"
    return f"there are no unfinished jobs {where}; tw ps --all shows those that have ended"


class _Table:
    """Prints jobs as lines, or in the form a program wants."""

    def __init__(self, output: Output | None, *, all_namespaces: bool, heads: bool) -> None:
        self._output = output
        self._wide = output is not None and output.form == "wide"
        self._namespaces = all_namespaces or self._wide
        self._with_heads = heads
        self._told: dict[str, tuple[str, ...]] = {}
        """What was last printed of each job, by uid."""
        self._widest = self._heads()
        """The longest word there was in each column, so that later lines stand below earlier ones."""
        self.is_for_programs = output is not None and not self._wide

    def knows(self, job: Object) -> bool:
        """Say whether a job was printed before."""
        return job["metadata"]["uid"] in self._told

    def print(self, rows: Sequence[Row], now: datetime) -> None:
        """Print what is there."""
        from trainwright.cli.output import as_list, in_form, printed
        from trainwright.cli.words import columns

        self._told = {row.job["metadata"]["uid"]: self._cells(row, now) for row in rows}
        self._widest = self._wider(*self._told.values())
        if self._output and self.is_for_programs:
            objects = [row.job for row in rows]
            by_name = self._output.form == "name"
            click.echo(printed(objects, self._output) if by_name else in_form(as_list(objects), self._output), nl=False)
            return
        lines = columns(self._heads(), self._told.values(), _room())
        for line in lines[0 if self._with_heads and rows else 1 :]:
            click.echo(line)

    def print_change(self, row: Row, now: datetime) -> None:
        """Print one job if it is not as it was last printed; it is aligned with the others."""
        from trainwright.cli.output import printed
        from trainwright.cli.words import columns

        uid, cells = row.job["metadata"]["uid"], self._cells(row, now)
        before = self._told.get(uid, ())
        self._told[uid] = cells
        self._widest = self._wider(cells)
        if self._without_age(before) == self._without_age(cells):
            return
        if self._output and self.is_for_programs:
            click.echo(printed([row.job], self._output), nl=False)
        else:
            click.echo(columns(self._widest, [cells], _room())[-1])

    def _wider(self, *rows: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(max(column, key=len) for column in zip(self._widest, *rows, strict=True))

    def _without_age(self, cells: tuple[str, ...]) -> tuple[str, ...]:
        age = self._heads().index("AGE")
        return (*cells[:age], *cells[age + 1 :])

    def _heads(self) -> tuple[str, ...]:
        place = ("NAMESPACE",) if self._namespaces else ()
        return (*place, *_HEADS, *(("HOME",) if self._wide else ()), "WAITS FOR")

    def _cells(self, row: Row, now: datetime) -> tuple[str, ...]:
        from trainwright.cli.words import span
        from trainwright.core.objects import moment

        meta, ranks = row.job["metadata"], row.face.ranks(row.job)
        created = moment(meta.get("creationTimestamp"))
        place = (str(meta.get("namespace", "")),) if self._namespaces else ()
        return (
            *place,
            meta["name"],
            row.face.name,
            row.phase,
            "" if ranks.wanted is None else f"{ranks.ready}/{ranks.wanted}",
            str(ranks.restarts),
            span(max((now - created).total_seconds(), 0)) if created else "",
            *((row.home.name,) if self._wide else ()),
            row.waits,
        )


def _room() -> int | None:
    """Return how wide the terminal is; None where nobody looks, so that nothing is cut."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


async def _heard(
    news: "asyncio.Queue[tuple[Home, Face, Object]]", places: "Sequence[Home]"
) -> "tuple[Home, Face, Object]":
    """Return the next job that has changed; HomeError once there is nobody left to tell of one."""
    from trainwright.cli import homes
    from trainwright.core.errors import HomeError

    while True:
        try:
            async with asyncio.timeout(_LOOK):
                return await news.get()
        except TimeoutError:
            if not any(homes.is_there(home) for home in places):
                raise HomeError(f"{places[0].name} has stopped") from None


async def _watch(places: "Sequence[Home]", selector: str, table: _Table) -> None:
    """Print a line for every job that changes, until the user has seen enough."""
    from trainwright.api.faces import FACES, Face
    from trainwright.cli import homes
    from trainwright.cluster.informer import Informer

    news: asyncio.Queue[tuple[Home, Face, Object]] = asyncio.Queue()

    def listen(home: "Home", face: Face) -> Informer:
        informer = Informer(home.cluster, face.resource, home.namespace, labels=selector)
        informer.subscribe(lambda change: news.put_nowait((home, face, change.object)))
        return informer

    async with asyncio.TaskGroup() as group:
        for home in places:
            for face in FACES if home.kind != "kept" else ():
                group.create_task(listen(home, face).run())
        while True:
            home, face, job = await _heard(news, places)
            if homes.is_over(face, job) and not table.knows(job):
                continue  # it had ended before anybody looked
            waits = (await _waits(home)).get(_key(job), "") if _is_behind(face, job) else ""
            table.print_change(Row(home, face, job, waits), datetime.now(UTC))
