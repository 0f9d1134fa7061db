"""What happens around an operator that keeps running: servers that go away and come back, namespaces and kinds too.

Each time it goes on by itself, the jobs end as they should, and while it waits it does not ask in a hot loop: all its
requests are counted, those that nobody answered included.
"""

import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kube.running import Kubectl, RunningOperator, account, install, operating
from tests.reconcile.making import manifest
from tools.kube import ControlPlane

from trainwright.core.objects import Object
from trainwright.desired import KUBERNETES
from trainwright.kinds import KINDS

pytestmark = [pytest.mark.e2e, pytest.mark.fault, pytest.mark.timeout(180)]

WORKERS = ("j-worker-0", "j-worker-1")
PODS = ("j-master-0", *WORKERS)
CRD = "crd/pytorchjobs.kubeflow.org"
WATCHED = len(
    {row for kind in KINDS for row in (kind.resource, *kind.owned(KUBERNETES.gang), kind.commands) if row is not None}
)
"""How many resources the operator watches: the kinds, their commands and what their jobs have."""


@pytest.fixture(scope="module")
def plane(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Return a control plane that may be broken."""
    control_plane = ControlPlane(tmp_path_factory.mktemp("outages"), strict=True)
    try:
        control_plane.start(controllers=False)
        install(Kubectl(control_plane.kubeconfig))
        control_plane.run("kube-controller-manager")  # after the kind is there, which it learns of only now and then
        yield control_plane  # what is refused is not asked at the end: an API server that starts knows no roles yet
    finally:
        control_plane.stop()


@pytest.fixture(scope="module")
def admin(plane: ControlPlane) -> Kubectl:
    """Return the administrator's kubectl."""
    return Kubectl(plane.kubeconfig)


@pytest.fixture
def operator(plane: ControlPlane, admin: Kubectl, tmp_path: Path) -> Iterator[RunningOperator]:
    """Return an operator that must still be the same at the end."""
    with operating(account(plane, admin), tmp_path) as running:
        yield running
        assert running.process.poll() is None


@pytest.fixture(scope="module")
def spaces(admin: Kubectl) -> Iterator[Kubectl]:
    """Return kubectl in one namespace after the other, all made while everything is well."""
    made = [Kubectl(admin.kubeconfig, f"space-{number}") for number in range(10)]
    for kubectl in made:
        admin("create", "namespace", kubectl.namespace)
    for kubectl in made:
        kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=30s")  # without it pods are refused
    return iter(made)


@pytest.fixture
def kubectl(spaces: Iterator[Kubectl]) -> Kubectl:
    """Return kubectl in a namespace of the test's own."""
    return next(spaces)


def job() -> Object:
    made = manifest(master=1, workers=2)
    made["metadata"] = {"name": "j"}
    return made


def begin(kubectl: Kubectl) -> None:
    """Have a job that runs."""
    kubectl.apply(job())
    kubectl.move("Running", *PODS)
    kubectl.wait("pytorchjob/j", "condition=Running")


def finish(kubectl: Kubectl) -> None:
    """Let a job end, and see that it ends once and without a restart."""
    kubectl.move("Succeeded", "j-master-0")
    kubectl.wait("pytorchjob/j", "condition=Succeeded")
    assert kubectl.get("pytorchjob/j")["status"]["restarts"] == 0
    assert kubectl.names("pods") == sorted(PODS)


def requests(operator: RunningOperator) -> int:
    """Return how many requests an operator has made, those included that nobody answered."""
    _, text = operator.ask("/metrics")
    return sum(int(float(count)) for count in re.findall(r"^trainwright_api_calls_total\{.*\} (\S+)$", text, re.M))


def test_the_api_server_is_killed_and_started_again(plane, operator, kubectl):
    begin(kubectl)
    before = requests(operator)
    plane.halt("kube-apiserver", signal.SIGKILL)
    time.sleep(5)  # so long it is away
    asked = requests(operator) - before
    plane.run("kube-apiserver")
    plane.wait_ready()

    assert WATCHED <= asked <= 12 * WATCHED
    finish(kubectl)
    assert operator.ask("/readyz")[0] == 200


def test_what_no_watch_could_tell_is_found_all_the_same(plane, operator, kubectl):
    begin(kubectl)
    operator.process.send_signal(signal.SIGSTOP)  # it sees nothing of what follows
    try:
        kubectl("delete", "service/j", "pod/j-worker-1", "--now")
        plane.halt("kube-apiserver", signal.SIGKILL)  # nor can its watches tell it later
        plane.run("kube-apiserver")
        plane.wait_ready()
    finally:
        operator.process.send_signal(signal.SIGCONT)

    kubectl("wait", "--for=create", "service/j", "pod/j-worker-1", "--timeout=30s")
    kubectl.wait("pytorchjob/j", "jsonpath={.status.restarts}=1")


def test_etcd_stands_still_for_ten_seconds(plane, operator, kubectl):
    begin(kubectl)
    second = {**job(), "metadata": {"name": "k"}}
    before = requests(operator)
    kubectl.apply(second)  # its objects are being made just then
    plane.halt("etcd", signal.SIGSTOP)
    try:
        time.sleep(10)  # so long it stands still
        asked = requests(operator) - before
    finally:
        plane.halt("etcd", signal.SIGCONT)

    assert asked <= 12 * WATCHED
    kubectl.move("Running", "k-master-0", "k-worker-0", "k-worker-1")
    kubectl.wait("pytorchjob/k", "condition=Running")
    assert kubectl.get("pytorchjob/k")["status"]["restarts"] == 0
    kubectl("delete", "pytorchjob/k", "--cascade=foreground", "--timeout=30s")
    finish(kubectl)


def test_a_namespace_is_deleted_under_a_running_job(operator, admin, kubectl, spaces):
    doomed = next(spaces)
    begin(kubectl)
    begin(doomed)
    before = requests(operator)

    admin("delete", "namespace", doomed.namespace, "--timeout=60s")

    asked = requests(operator) - before
    assert asked <= 150, "it does not keep trying to make what a namespace that is going cannot have"
    finish(kubectl)


def test_the_kind_is_deleted_and_registered_again(operator, admin, kubectl):
    begin(kubectl)
    before = requests(operator)
    admin("delete", CRD, "--timeout=60s")
    time.sleep(5)  # so long there is no such kind
    asked = requests(operator) - before
    kubectl.until_gone(*(f"pod/{pod}" for pod in PODS))
    install(admin)
    admin("wait", "--for=condition=Established", CRD, "--timeout=30s")

    assert asked <= 12 * WATCHED
    kubectl.apply(job())
    kubectl.until_names("pods", *PODS)
    kubectl.move("Running", *PODS)
    finish(kubectl)
    assert not [line for line in operator.lines() if line["level"] == "error"]
