"""Waiting on request: who waits for whom, in which words, and what is refused."""

from dataclasses import dataclass

import pytest
from tests.frameworks.volcano import job, manifest

from trainwright.api import volcano_job
from trainwright.api.common import Job
from trainwright.core.names import WAIT_FOR_ANNOTATION
from trainwright.core.objects import Object
from trainwright.frameworks import plugins, waiting
from trainwright.frameworks.base import Endpoint, HostNames


@dataclass(frozen=True)
class Loopback(HostNames):
    """A net where all pods share one address, on ports that say whose they are."""

    names: bool = False

    def endpoint(self, job: Job, role: str, index: int, port: int) -> Endpoint:
        return Endpoint("127.0.0.1", port + 1000 * index)


def asking(everyone: str = "", **roles: str) -> Object:
    """Return a job of one ps and two workers with these annotations on the job and on the templates of its tasks."""
    obj = manifest("ps:1 worker:2", svc=[])
    if everyone:
        obj["metadata"]["annotations"] = {WAIT_FOR_ANNOTATION: everyone}
    for task in obj["spec"]["tasks"]:
        if task["name"] in roles:
            meta = {"annotations": {WAIT_FOR_ANNOTATION: roles[task["name"]]}}
            task["template"] = {**task["template"], "metadata": meta}
    return obj


def read(obj: Object) -> Job:
    return plugins.complete(volcano_job.read(volcano_job.default(obj)))


@pytest.mark.parametrize(
    ("obj", "role", "steps"),
    [
        pytest.param(asking(), "worker", [], id="nobody waits unasked"),
        pytest.param(asking("ps"), "worker", ["wait-for-ps: j-ps-0.j"], id="on the job it is for every role"),
        pytest.param(asking("ps"), "ps", [], id="but not for the one that is waited for"),
        pytest.param(asking(worker="ps"), "worker", ["wait-for-ps: j-ps-0.j"], id="on a template it is for that role"),
        pytest.param(asking(worker="ps"), "ps", [], id="and for no other"),
        pytest.param(
            asking(ps="worker:2222"),
            "ps",
            ["wait-for-worker: j-worker-0.j j-worker-1.j at 2222"],
            id="with a port all replicas must answer there",
        ),
        pytest.param(
            asking("ps", worker="ps, worker:80"),
            "worker",
            ["wait-for-ps: j-ps-0.j", "wait-for-worker: j-worker-0.j j-worker-1.j at 80"],
            id="what both say is done once",
        ),
    ],
)
def test_steps(obj, role, steps):
    found = waiting.steps(read(obj), role, HostNames())

    assert [f"{each.name}: {' '.join(each.hosts)}{f' at {each.port}' if each.port else ''}" for each in found] == steps
    assert all(each.seconds == waiting.SECONDS for each in found)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        pytest.param("ps", "trainwright.dev/wait-for: the names of ps must resolve first", id="a name"),
        pytest.param("ps:2222", "trainwright.dev/wait-for: ps must answer on port 2222 first", id="a port"),
    ],
)
def test_the_reason_names_who_is_waited_for(asked, words):
    assert [each.why for each in waiting.steps(read(asking(asked)), "worker", HostNames())] == [words]


@pytest.mark.parametrize(
    ("asked", "hosts"),
    [
        pytest.param("worker", [], id="names are not waited for where there are none"),
        pytest.param("worker:80", [("127.0.0.1:80", "127.0.0.1:1080")], id="ports are, each where it really is"),
    ],
)
def test_where_pods_have_no_names(asked, hosts):
    assert [each.hosts for each in waiting.steps(read(asking(ps=asked)), "ps", Loopback())] == hosts


@pytest.mark.parametrize(
    ("obj", "path", "words"),
    [
        pytest.param(
            asking("pss"),
            "metadata.annotations[trainwright.dev/wait-for]",
            "there is no task 'pss'; did you mean 'ps'? (there are: ps, worker)",
            id="a task that is not there",
        ),
        pytest.param(
            asking(worker="ps:0"),
            "spec.tasks[1].template.metadata.annotations[trainwright.dev/wait-for]",
            "a port is between 1 and 65535, found '0'; write for example ps:2222",
            id="a port that cannot be one",
        ),
        pytest.param(
            asking(worker="ps:http"),
            "spec.tasks[1].template.metadata.annotations[trainwright.dev/wait-for]",
            "a port is between 1 and 65535, found 'http'; write for example ps:2222",
            id="a port that is no number",
        ),
    ],
)
def test_refused(obj, path, words):
    (problem,) = plugins.check(obj)

    assert (problem.severity, problem.path, problem.message) == ("error", path, words)


def test_a_role_without_replicas_is_not_waited_for():
    made = job("ps:0 worker:1", svc=[])
    made.object["metadata"]["annotations"] = {WAIT_FOR_ANNOTATION: "ps"}

    assert waiting.steps(made, "worker", HostNames()) == ()
