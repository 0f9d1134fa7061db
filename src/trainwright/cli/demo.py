"""`tw demo`: the static and the elastic example, one after the other; the elastic one loses a worker and gets another.

It promises something and checks it: a rank that does not come back, a worker that never joins or a loss that does not
fall make it fail. What it says at the end is read from the training's own log, not from what we did.
"""

import asyncio
import importlib.util
import os
import signal
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trainwright.cli import exits

if TYPE_CHECKING:
    from trainwright.cli.launch import Live, Result
    from trainwright.cli.screen import Screen
    from trainwright.cli.training import Step

MARK = "TRAINWRIGHT_DEMO"
"""In the environment of every process of a demo, so that exactly one rank can be found and killed."""
VICTIM, SIZE = 1, 3
"""The worker that is killed, and how many there are after one was added."""
WARM_UP_STEPS = 15
PATIENCE_SECONDS = 120.0
POLL_SECONDS = 0.05


class Broken(Exception):  # noqa: N818 - a promise, not an error of ours
    """Something the demo promises did not happen."""


@dataclass
class Story:
    """What was done to the elastic job, and when."""

    killed: float = 0.0
    trained_again: "Step | None" = None
    asked: float = 0.0
    joined: "Step | None" = None
    broken: list[str] = field(default_factory=list)


@click.command("demo")
@click.option("--light", is_flag=True, help="Without torch: a trainer that needs nothing but Python. Under 30 s.")
@click.option("--keep", is_flag=True, help="Keep the runs afterwards, for `tw logs`, `status` and `events`.")
@click.option(
    "--isolation", type=click.Choice(["auto", "net", "ports"]), default="auto", show_default=True, help="See `tw run`."
)
def command(light: bool, keep: bool, isolation: Any) -> int:
    """Train the static and the elastic PyTorchJob example; kill a worker of the elastic one, and add another.

    Needs the source tree, whose examples/pytorch it runs; with torch, also what `make frameworks` installs.
    """
    from trainwright.cli.screen import Screen

    root = _root()
    environment = dict(os.environ)
    if not light:
        environment["PATH"] = f"{_torch(root).parent}{os.pathsep}{environment.get('PATH', '')}"
    screen = Screen()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trainwright-demo-")))
        environment |= {MARK: uuid.uuid4().hex, "CHECKPOINTS": str(folder / "checkpoints")}
        demo = _Demo(root, environment, screen, isolation, None if keep else folder / "runs")
        return demo.run("light-" if light else "")


def _root() -> Path:
    """Return the source tree."""
    from trainwright.core.errors import HomeError

    root = Path(__file__).resolve().parents[3]
    if not (root / "examples" / "pytorch" / "static.yaml").exists():
        raise HomeError(
            "the examples are part of the source tree and not of the installed package; "
            "clone the repository and run `make demo` there"
        )
    return root


def _torch(root: Path) -> Path:
    """Return the interpreter that has torch, as tools/frameworks.py installs it."""
    from trainwright.core.errors import HomeError

    spec = importlib.util.spec_from_file_location("frameworks", root / "tools" / "frameworks.py")
    assert spec, "tools/frameworks.py is part of the source tree"
    assert spec.loader, "a file has a loader"
    frameworks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(frameworks)
    python: Path = frameworks.python("torch")
    if not (python.parent.parent / ".ready").exists():
        raise HomeError(
            "torch is not installed for the examples; run `make demo` (about 5 GB), or try `tw demo --light`"
        )
    return python


class _Demo:
    """The two runs and the account of them."""

    def __init__(
        self, root: Path, environment: dict[str, str], screen: "Screen", isolation: Any, state: Path | None
    ) -> None:
        self._root, self._environment, self._screen = root, environment, screen
        self._isolation, self._state = isolation, state
        self._account: list[str] = []

    def run(self, prefix: str) -> int:
        try:
            self._static(f"{prefix}static.yaml")
            self._elastic(f"{prefix}elastic.yaml")
        except Broken as broken:
            self._screen.say(f"the demo failed: {broken}", style="error")
            self._screen.settle()
            return self._code or exits.OURS
        click.echo()
        for line in self._account:
            click.echo(line)
        return exits.OK

    _code = 0

    def _launch(self, name: str, beside: Any = None) -> "Result":
        from trainwright.cli.launch import Wishes, launch
        from trainwright.cli.loading import load

        wishes = Wishes(
            isolation=self._isolation,
            environment=self._environment,
            cwd=self._root,
            state=self._state,
            timeout=600,
            autoscale=False,  # who comes and goes is the demo's own doing
        )
        result = asyncio.run(
            launch(load(str(self._root / "examples" / "pytorch" / name)), wishes, self._screen, beside)
        )
        self._code = result.code
        return result

    def _static(self, name: str) -> None:
        from trainwright.cli import training

        self._screen.say(f"\n1. A job with a fixed number of ranks: examples/pytorch/{name}")
        began = time.monotonic()
        result = self._launch(name)
        _expect(result.code == 0, f"{name} ended with exit code {result.code}")
        told = training.read(result.folder)
        ranks = {step.rank for step in told}
        first, last = (_mean(told, number) for number in (1, max((step.number for step in told), default=0)))
        _expect(
            len(ranks) > 1 and ranks == set(range(told[0].world)), f"not every rank of {name} trained: {sorted(ranks)}"
        )
        _expect(last < first, f"the loss of {name} did not fall: {first:.4f} to {last:.4f}")
        took = time.monotonic() - began
        self._account += [
            f"static    {len(ranks)} ranks trained {told[-1].number} steps together in {took:.0f} s",
            f"          loss {first:.4f} before, {last:.4f} after",
        ]

    def _elastic(self, name: str) -> None:
        from trainwright.cli import training

        self._screen.say(f"\n2. A job whose number of ranks changes: examples/pytorch/{name}")
        story = Story()
        result = self._launch(name, lambda live: _disturb(live, story, self._environment[MARK], self._screen.say))
        _expect(not story.broken, "".join(story.broken[:1]))
        _expect(result.code == 0, f"{name} ended with exit code {result.code}")
        told = training.read(result.folder)
        _expect(not (wrong := training.gaps(told)), wrong)
        restarts = sum(rank.restarts for key in result.view.jobs for rank in result.view.ranks(key))
        _expect(restarts > 0, "no rank was restarted, though one was killed")
        self._account += account(told, story, restarts)


def account(told: "Sequence[Step]", story: Story, restarts: int) -> list[str]:
    """Return what happened to the elastic job; Broken if something promised did not."""
    from trainwright.cli.training import disturbance
    from trainwright.cli.words import counted

    if story.trained_again is None or story.joined is None:
        raise Broken("the job ended before a worker was killed and another added; were its steps too few?")
    lost = disturbance(told, story.killed, story.trained_again)
    grown = disturbance(told, story.asked, story.joined)
    if lost is None or grown is None:
        raise Broken("the training log does not tell what the loss of a worker did")
    first, last = told[0], told[-1]
    if last.loss >= first.loss:
        raise Broken(f"the loss of the elastic job did not fall: {first.loss:.4f} to {last.loss:.4f}")
    worlds = sorted({step.world for step in told})
    later = story.joined.time - story.asked
    return [
        f"elastic   {worlds[0]} to {worlds[-1]} ranks trained {last.number} steps, each exactly once",
        f"          loss {first.loss:.4f} before, {last.loss:.4f} after; {counted(restarts, 'restart')}",
        f"          worker-{VICTIM} was killed after step {lost.before.number}: no training for {lost.seconds:.1f} s",
        f"          a worker was added: it trained {later:.1f} s later, the others paused {grown.seconds:.1f} s for it",
        f"          the job was disturbed for {lost.seconds + grown.seconds:.1f} s in all",
    ]


async def _disturb(live: "Live", story: Story, mark: str, say: Callable[[str], None]) -> None:
    """Kill a worker once training is under way, and add one once it has recovered."""
    from trainwright.cli.session import Stop

    try:
        await _disturbed(live, story, mark, say)
    except Broken as broken:
        story.broken.append(str(broken))
        live.session.stop(Stop(exits.OURS, ""))


async def _disturbed(live: "Live", story: Story, mark: str, say: Callable[[str], None]) -> None:
    from trainwright.core.objects import nest
    from trainwright.kinds import kind_of

    [job] = live.view.jobs.values()
    name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
    kind = kind_of(job)
    assert kind, "the example is a job"
    warm = await _step(live, lambda step: step.number >= WARM_UP_STEPS, "the elastic job trains")
    story.killed = time.time()
    _kill(mark, f"{name}-worker-{VICTIM}")
    say(f"SIGKILL for worker-{VICTIM} after step {warm.number}: the others go on, and it comes back")
    back = "training went on after a worker was killed"
    story.trained_again = await _step(
        live, lambda step: step.time > story.killed + 0.5 and step.world >= warm.world, back
    )
    await _step(live, lambda step: step.number >= (story.trained_again or step).number + WARM_UP_STEPS, back)
    story.asked = time.time()
    await live.home.cluster.patch(kind.resource, namespace, name, nest(kind.size_path, SIZE))
    say(f"one more worker: {'.'.join(kind.size_path)} is {SIZE} now")
    story.joined = await _step(
        live, lambda step: step.time > story.asked and step.world >= SIZE, "an added worker trains with the others"
    )


async def _step(live: "Live", is_it: "Callable[[Step], bool]", promise: str) -> "Step":
    """Wait for a step; Broken if it does not come."""
    from trainwright.cli import training

    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                found = next(filter(is_it, training.read(live.folder)), None)
                if found:
                    return found
                await asyncio.sleep(POLL_SECONDS)
    raise Broken(f"not within {PATIENCE_SECONDS:.0f} s: {promise}")


def _kill(mark: str, pod: str) -> None:
    """SIGKILL the main process of one pod of this demo, found by what only its processes have in their environment."""
    wanted = {f"{MARK}={mark}".encode(), f"HOSTNAME={pod}".encode()}
    inside: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            if wanted <= set((entry / "environ").read_bytes().split(b"\0")):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                inside[int(entry.name)] = parent
    tops = [pid for pid, parent in inside.items() if parent not in inside]
    if not tops:
        raise Broken(f"no process of {pod} was found")
    for pid in tops:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _mean(told: "Sequence[Step]", number: int) -> float:
    losses = [step.loss for step in told if step.number == number]
    return sum(losses) / max(len(losses), 1)


def _expect(kept: bool, otherwise: str) -> None:
    if not kept:
        raise Broken(otherwise)
