"""Two operators on one cluster: one is killed, stopped and woken, or ended; and one that has Roles and nothing else.

Each operator has an account of its own, so that the API server's audit log tells who has called what, and when.
"""

import itertools
import json
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.kube.running import Call, Kubectl, RunningOperator, calls, install, operating, refused, until
from tests.operator.scaling_world import pytorch_job
from tools.kube import ControlPlane

from trainwright.core.objects import Object, at, moment
from trainwright.kinds import PYTORCH_JOB
from trainwright.operator.rights import LEADER_RIGHTS

pytestmark = [pytest.mark.e2e, pytest.mark.fault, pytest.mark.timeout(180)]

SYSTEM = "trainwright-system"
NAMES = ("trainwright", "second")
FAILOVER_SECONDS = 20
CHANGES = ("create", "update", "patch", "delete", "deletecollection")
_NUMBERS = itertools.count(1)


def user(name: str, namespace: str = SYSTEM) -> str:
    return f"system:serviceaccount:{namespace}:{name}"


class Changed(NamedTuple):
    """One call that has changed something."""

    time: datetime
    user: str
    verb: str
    resource: str
    name: str


def changes(plane: ControlPlane, *users: str) -> Iterator[Changed]:
    """Yield what accounts asked the API server to change, whatever it answered."""
    for line in plane.audit_log.read_text().splitlines():
        event = json.loads(line)
        what = event.get("objectRef")
        if event["user"]["username"] in users and what and event["verb"] in CHANGES:
            when = moment(event["requestReceivedTimestamp"])
            assert when
            yield Changed(when, event["user"]["username"], event["verb"], what["resource"], what.get("name", ""))


@pytest.fixture(scope="module")
def stage(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Return a control plane where nobody else's operator disturbs; nothing may be refused to ours."""
    plane = ControlPlane(tmp_path_factory.mktemp("leaders"), strict=True)
    try:
        plane.start(controllers=False)
        install(Kubectl(plane.kubeconfig), "--without=webhooks")
        plane.run("kube-controller-manager")  # after the kinds are there, which it learns of only now and then
        yield plane
    finally:
        plane.stop()
    assert not [refused(plane, user(name)) for name in NAMES if refused(plane, user(name))]


def accounts(plane: ControlPlane) -> dict[str, Path]:
    """Return kubeconfigs of two accounts that have the same rights."""
    admin = Kubectl(plane.kubeconfig)
    first, second = ({"kind": "ServiceAccount", "name": name, "namespace": SYSTEM} for name in NAMES)
    admin.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": second["name"], "namespace": SYSTEM}}
    )
    for binding in admin.get("clusterrolebindings,rolebindings", "--all-namespaces"):
        if first in (binding.get("subjects") or ()):
            binding["subjects"] = [first, second]
            admin.apply(binding)
    return {name: kubeconfig(plane, name, SYSTEM) for name in NAMES}


def kubeconfig(plane: ControlPlane, name: str, namespace: str) -> Path:
    admin = Kubectl(plane.kubeconfig)
    token = admin("create", "token", name, f"--namespace={namespace}", "--duration=8h").strip()
    path = plane.folder / f"{namespace}-{name}.kubeconfig"
    path.write_text(plane.config(token))
    return path


@pytest.fixture
def kubectl(stage: ControlPlane) -> Kubectl:
    """Return kubectl in a namespace of the test's own."""
    return opened(stage, f"test-{next(_NUMBERS)}")


def opened(plane: ControlPlane, namespace: str) -> Kubectl:
    """Return kubectl in a new namespace that pods can be in."""
    kubectl = Kubectl(plane.kubeconfig, namespace)
    Kubectl(plane.kubeconfig)("create", "namespace", namespace)
    kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=30s")
    return kubectl


@contextmanager
def two(stage: ControlPlane, folder: Path) -> Iterator[tuple[RunningOperator, RunningOperator]]:
    """Run one operator that leads and another that stands by."""
    for name in NAMES:
        (folder / name).mkdir()
    flags = ("--leader-elect", f"--lease-namespace={SYSTEM}")
    configs = accounts(stage)
    with operating(configs[NAMES[0]], folder / NAMES[0], *flags) as first:
        until(lambda: first.ask("/readyz") == (200, "ready\n"), "the first one leads")
        with operating(configs[NAMES[1]], folder / NAMES[1], *flags) as second:
            yield first, second


def jobs(count: int, prefix: str) -> Object:
    """Return so many jobs of two workers."""
    items = []
    for number in range(count):
        made = pytorch_job(f"{prefix}{number}", 1, 2, 2)
        del made["metadata"]["namespace"]
        items.append(made)
    return {"apiVersion": "v1", "kind": "List", "items": items}


@contextmanager
def applying(kubectl: Kubectl, objects: Object) -> Iterator[None]:
    """Apply objects while the body runs, and to the end."""
    with ThreadPoolExecutor(1) as pool:
        applied = pool.submit(kubectl.apply, objects)
        yield
        applied.result()


def names_of(count: int, prefix: str) -> list[str]:
    """Return the names of all pods such jobs have."""
    return sorted(f"{prefix}{number}-worker-{index}" for number in range(count) for index in range(2))


def taken(operator: RunningOperator) -> datetime:
    """Return when an operator last took the lease."""
    said = [line["time"] for line in operator.lines() if line["message"] == "lease taken"]
    return datetime.fromisoformat(said[-1])


def says(operator: RunningOperator, sentence: str) -> bool:
    return any(line["message"] == sentence for line in operator.lines())


def test_the_leader_is_killed_in_the_middle_of_a_hundred_jobs(stage, kubectl, tmp_path):
    with two(stage, tmp_path) as (first, second):
        assert second.ask("/readyz") == (200, "standing by\n")
        assert [leader(each) for each in (first, second)] == [1, 0]
        with applying(kubectl, jobs(100, "j")):
            until(lambda: len(kubectl.names("pods")) >= 20, "some pods are there")
            first.process.send_signal(signal.SIGKILL)
            killed = datetime.now(UTC)
            first.process.wait()
            there = len(kubectl.names("pods"))
        until(lambda: leader(second) == 1, "the second one leads")
        until(lambda: kubectl.names("pods") == names_of(100, "j"), "every job has all its pods")
        until(lambda: len(restarts(kubectl)) == 100, "every job has its status")
        assert restarts(kubectl) == ["0"] * 100

    begun = next(each.time for each in changes(stage, user("second")) if each.resource != "leases")
    assert there < 200
    assert (begun - killed).total_seconds() < FAILOVER_SECONDS
    # What the first one had asked for when it died may be created without an answer, which the log then does not show.
    created = Counter(json.loads(line)["objectRef"]["name"] for line in created_pods(stage, kubectl.namespace))
    assert not created - Counter(names_of(100, "j")), "no pod was created twice"
    assert not [each for each in changes(stage, *map(user, NAMES)) if each.verb == "delete"]


def restarts(kubectl: Kubectl) -> list[str]:
    """Return how often each job was restarted, of those that say it."""
    return kubectl("get", "pytorchjobs", "-o", "jsonpath={.items[*].status.restarts}").split()


def leader(operator: RunningOperator) -> int:
    """Return what an operator's metrics say about who leads."""
    _, text = operator.ask("/metrics")
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("trainwright_leader ")))


def created_pods(plane: ControlPlane, namespace: str) -> Iterator[str]:
    """Yield the lines of the audit log by which pods were created."""
    for line in plane.audit_log.read_text().splitlines():
        event: Any = json.loads(line)
        what = event.get("objectRef") or {}
        created = event["verb"] == "create" and (event.get("responseStatus") or {}).get("code") == 201
        if created and what.get("resource") == "pods" and what.get("namespace") == namespace:
            yield line


def test_a_leader_that_was_stopped_wakes_up_and_does_nothing(stage, kubectl, tmp_path):
    with two(stage, tmp_path) as (first, second):
        with applying(kubectl, jobs(15, "j")):
            until(lambda: len(kubectl.names("pods")) >= 10, "some pods are there")
            first.process.send_signal(signal.SIGSTOP)
        try:
            until(lambda: says(second, "lease taken"), "the second one has taken over")
            kubectl.apply(jobs(15, "k"))
            until(lambda: kubectl.names("pods") == sorted(names_of(15, "j") + names_of(15, "k")), "all have their pods")
        finally:
            first.process.send_signal(signal.SIGCONT)
        kubectl.apply(jobs(5, "l"))  # it hears of these, and would like to do something
        until(lambda: says(first, "lease lost") and says(first, "standing by"), "the first one stands by")
        until(lambda: len(kubectl.names("pods")) == 70, "all have their pods")

        late = [each for each in changes(stage, user("trainwright")) if each.time >= taken(second)]
        assert late == []
        assert first.ask("/readyz") == (200, "standing by\n")

        ended = datetime.now(UTC)
        assert second.stop() == 0
        until(lambda: first.ask("/readyz") == (200, "ready\n"), "the first one leads again, with caches of its own")
        assert says(second, "lease given up")
        assert (taken(first) - ended).total_seconds() < 5
        kubectl.apply(jobs(1, "m"))
        until(lambda: len(kubectl.names("pods")) == 72, "a new job has its pods")
    lease = Kubectl(stage.kubeconfig, SYSTEM).get("lease/trainwright")
    assert "holderIdentity" not in lease["spec"]
    used = {call for call, _, _ in calls(stage, user("trainwright"))}
    assert {Call(right.group, right.resource, right.verb) for right in LEADER_RIGHTS} <= used


def test_an_operator_with_roles_only(stage, tmp_path):
    _, first, second, other = (opened(stage, name) for name in ("ops", "team-a", "team-b", "team-c"))
    capacity = "--capacity=cpu=6,memory=64Gi"
    install(Kubectl(stage.kubeconfig), "--watch=team-a,team-b", "--namespace=ops", capacity)
    elastic = pytorch_job("j", 1, 4, 1)
    for each in (first, second, other):
        each.apply({**elastic, "metadata": {"name": "j"}})

    flags = ("--leader-elect", "--lease-namespace=ops", "--namespace=team-a,team-b", "--autoscaler", capacity)
    with operating(kubeconfig(stage, "trainwright", "ops"), tmp_path, *flags) as running:
        for each in (first, second):
            each.until_names("pods", "j-worker-0")
            bind(each, "j-worker-0")
        until(lambda: sum(size(each) for each in (first, second)) == 6, "both share the capacity")
        assert other.names("pods") == []
        assert leader(running) == 1

    assert not refused(stage, user("trainwright", "ops"))
    assert Kubectl(stage.kubeconfig, "ops").names("leases") == ["trainwright.team-a.team-b"]


def size(kubectl: Kubectl) -> int:
    return int(at(kubectl.get("pytorchjob/j"), PYTORCH_JOB.size_path))


def bind(kubectl: Kubectl, pod: str) -> None:
    """Say that a pod runs on a node, as scheduler and kubelet would."""
    path = f"/api/v1/namespaces/{kubectl.namespace}/pods/{pod}/binding"
    target = {"apiVersion": "v1", "kind": "Node", "name": "somewhere"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
    kubectl("create", "--raw", path, "-f", "-", stdin=binding)
    kubectl.move("Running", pod)
