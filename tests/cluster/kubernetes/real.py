"""A real API server for the tests that want one: the one somebody names, or one of our own."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.kube import PROGRAMS, ControlPlane, binaries

KUBECONFIG = "TRAINWRIGHT_TEST_KUBECONFIG"
"""Names the kubeconfig of a server to use, with rights to everything; tests make namespaces of their own there."""

_planes: list[ControlPlane] = []


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a kubeconfig for a running API server. Without one CI fails; elsewhere the test is skipped."""
    if named := os.environ.get(KUBECONFIG):
        yield Path(named)
        return
    if _planes:  # started for another folder's tests, and stopped after them
        yield _planes[0].kubeconfig
        return
    folder = binaries()
    if not all((folder / name).is_file() for name in PROGRAMS):
        words = f"there is no control plane in {folder}; `make kube` builds it"
        if os.environ.get("CI") == "true":
            pytest.fail(words, pytrace=False)
        pytest.skip(f"NOTHING WAS TESTED HERE: {words}")
    plane = ControlPlane(tmp_path_factory.mktemp("plane"))
    try:
        plane.start()
        _planes.append(plane)
        yield plane.kubeconfig
    finally:
        _planes.clear()
        plane.stop()
