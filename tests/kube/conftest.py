"""One control plane for all tests here, one operator on it with nothing but the rights we ship.

Every test has a namespace of its own. Whatever the operator is refused anywhere in the suite fails it at the end.
"""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kube.nodes import ACCOUNT as NODE_ACCOUNT
from tests.kube.nodes import Nodes, RunningNode, node_account
from tests.kube.running import Kubectl, RunningOperator, account, install, operating, refused
from tools.kube import PROGRAMS, ControlPlane, binaries

JUDGE = "test_rights_are_exactly_those_that_were_used"
_NUMBERS = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put what judges all tests of this folder after the last of them."""
    places = [index for index, item in enumerate(items) if item.path.parent == Path(__file__).parent]
    judged = sorted((items[index] for index in places), key=lambda item: item.name == JUDGE)
    for index, item in zip(places, judged, strict=True):
        items[index] = item


@pytest.fixture(scope="session")
def programs() -> Path:
    """Return the folder of the control plane's programs. Without it CI fails; elsewhere the test is skipped."""
    folder = binaries()
    if not all((folder / name).is_file() for name in PROGRAMS):
        words = f"there is no control plane in {folder}; `python tools/kube.py build` makes it"
        if os.environ.get("CI") == "true":
            pytest.fail(words, pytrace=False)
        pytest.skip(f"NOTHING WAS TESTED HERE: {words}")
    return folder


@pytest.fixture(scope="session")
def plane(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Return a running control plane that writes down every call of a service account."""
    control_plane = ControlPlane(tmp_path_factory.mktemp("plane"), strict=True)
    try:
        control_plane.start()
        yield control_plane
    finally:
        control_plane.stop()


@pytest.fixture(scope="session")
def admin(plane: ControlPlane) -> Kubectl:
    """Return the administrator's kubectl, after everything we ship was applied."""
    kubectl = Kubectl(plane.kubeconfig)
    install(kubectl)
    kubectl("wait", "--for=condition=Established", "crd/pytorchjobs.kubeflow.org", "--timeout=30s")
    return kubectl


@pytest.fixture(scope="session")
def operator(
    plane: ControlPlane, admin: Kubectl, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningOperator]:
    """Return an operator that has only the rights we ship; at the end none of its calls may have been refused."""
    with operating(account(plane, admin), tmp_path_factory.mktemp("operator")) as running:
        yield running
    assert not refused(plane)


@pytest.fixture
def kubectl(plane: ControlPlane, admin: Kubectl, operator: RunningOperator) -> Iterator[Kubectl]:
    """Return kubectl in a namespace of the test's own, where the operator looks after jobs."""
    namespace = f"test-{next(_NUMBERS)}"
    admin("create", "namespace", namespace)
    kubectl = Kubectl(plane.kubeconfig, namespace)
    kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=30s")
    yield kubectl
    admin("delete", "namespace", namespace, "--wait=false")


@pytest.fixture(scope="session")
def nodes(plane: ControlPlane, admin: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """Return what starts nodes that have only the rights we ship; at the end none of their calls may be refused."""
    yield Nodes(plane, node_account(plane, admin), tmp_path_factory.mktemp("nodes"))
    assert not refused(plane, NODE_ACCOUNT)


@pytest.fixture(scope="session")
def node(nodes: Nodes) -> Iterator[RunningNode]:
    """Return a node that is there for all tests."""
    with nodes.running("one") as running:
        yield running
