"""Metrics as Prometheus reads them, and what the loop measures."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from tests.reconcile.making import manifest
from tests.scenarios.test_loop import Slow, job_is, pods_are, start
from tests.scenarios.world import RESOURCES

from trainwright.cluster.memory import MemoryCluster
from trainwright.desired import KUBERNETES
from trainwright.kinds import KINDS
from trainwright.operator.loop import Operator
from trainwright.operator.measures import Measures
from trainwright.operator.metrics import Counter, Family, Gauge, Histogram, exposition


def counter() -> Family:
    calls = Counter("calls_total", "Calls.", "verb", "code")
    calls.add("GET", "200")
    calls.add("GET", "200")
    calls.add("POST", "409")
    return calls


def quoted() -> Family:
    odd = Counter("odd_total", 'A "quoted"\nline with a \\.', "name")
    odd.add('a "b"\n\\c')
    return odd


def gauge() -> Family:
    jobs = Gauge("jobs", "Jobs.", "phase")
    jobs.read = lambda: {("Running",): 2, ("New",): 0.5}
    return jobs


def histogram() -> Family:
    seconds = Histogram("seconds", "Seconds.", "kind", bounds=(0.1, 1.0))
    for number in (0.05, 0.1, 0.5, 7):
        seconds.observe(number, "PyTorchJob")
    return seconds


@pytest.mark.parametrize(
    ("family", "text"),
    [
        pytest.param(
            counter,
            "# HELP calls_total Calls.\n# TYPE calls_total counter\n"
            'calls_total{verb="GET",code="200"} 2\ncalls_total{verb="POST",code="409"} 1\n',
            id="a counter has a line for each set of labels",
        ),
        pytest.param(
            lambda: Counter("plain_total", "Plain."),
            "# HELP plain_total Plain.\n# TYPE plain_total counter\nplain_total 0\n",
            id="without labels it begins with nothing, so that a rate can be told from the first one on",
        ),
        pytest.param(
            lambda: Counter("labelled_total", "Labelled.", "kind"),
            "# HELP labelled_total Labelled.\n# TYPE labelled_total counter\n",
            id="with labels there is nothing to say before it counts",
        ),
        pytest.param(
            quoted,
            '# HELP odd_total A "quoted"\\nline with a \\\\.\n# TYPE odd_total counter\n'
            'odd_total{name="a \\"b\\"\\n\\\\c"} 1\n',
            id="what would break a line is escaped",
        ),
        pytest.param(
            gauge,
            '# HELP jobs Jobs.\n# TYPE jobs gauge\njobs{phase="Running"} 2\njobs{phase="New"} 0.5\n',
            id="a gauge is asked when it is read",
        ),
        pytest.param(
            histogram,
            "# HELP seconds Seconds.\n# TYPE seconds histogram\n"
            'seconds_bucket{kind="PyTorchJob",le="0.1"} 2\n'
            'seconds_bucket{kind="PyTorchJob",le="1"} 3\n'
            'seconds_bucket{kind="PyTorchJob",le="+Inf"} 4\n'
            'seconds_sum{kind="PyTorchJob"} 7.65\n'
            'seconds_count{kind="PyTorchJob"} 4\n',
            id="a bucket counts everything up to its bound, the bound included",
        ),
    ],
)
def test_exposition(family: Callable[[], Family], text: str):
    assert exposition([family()]) == text


def test_every_metric_has_one_name_and_says_what_it_is():
    described = [line.split(" ", 3)[2:] for line in Measures().text().splitlines() if line.startswith("# HELP")]

    assert len(described) == 13
    assert len({name for name, _ in described}) == len(described)
    assert all(name.startswith("trainwright_") and doc.endswith(".") for name, doc in described)


class Measured:
    """An operator on a memory cluster; leaving it lets the rounds under way end."""

    def __init__(self) -> None:
        self.cluster = MemoryCluster(RESOURCES, now=lambda: datetime.now(UTC))
        self.slow = Slow(self.cluster, 0.0)
        self.measures = Measures()
        self._operator = Operator(self.slow, KINDS, KUBERNETES, measures=self.measures)

    async def __aenter__(self) -> "Measured":
        self._task = asyncio.create_task(self._operator.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._operator.stop()
        await self._task

    def lines(self) -> set[str]:
        return set(self.measures.text().splitlines())


async def test_a_job_leaves_its_traces():
    async with Measured() as measured:
        measured.slow.refuse.add("create Pod/j-worker-1")
        await start(measured.cluster, manifest(workers=2))
        await pods_are(measured.cluster, "j-worker-0")
        assert "trainwright_job_start_seconds_count" not in measured.measures.text()
        measured.slow.refuse.clear()
        await pods_are(measured.cluster, "j-worker-0", "j-worker-1")
    lines = measured.lines()

    assert 'trainwright_job_start_seconds_count{kind="PyTorchJob"} 1' in lines
    assert 'trainwright_jobs{kind="PyTorchJob",phase="Created"} 1' in lines
    assert 'trainwright_rounds_total{kind="PyTorchJob",result="refused"} 1' in lines
    assert any(line.startswith('trainwright_rounds_total{kind="PyTorchJob",result="done"} ') for line in lines)
    assert "trainwright_queue_seconds_count 0" not in lines


async def test_a_job_without_pods_has_not_started():
    async with Measured() as measured:
        await start(measured.cluster, manifest(workers=1, suspend=True))
        await job_is(measured.cluster, "Created Suspended")

    assert "trainwright_job_start_seconds_count" not in measured.measures.text()
