"""The launch by exec once more, as a user without any privilege."""

import os

import pytest
from tests.node.test_sandbox_plain_user import again

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="these tests run as a plain user already")


@pytest.mark.e2e
@pytest.mark.timeout(300)
def test_everything_as_a_plain_user(tmp_path, root, framework, monkeypatch):
    monkeypatch.setenv("TRAINWRIGHT_FRAMEWORKS", str(framework("mpich").parent.parent.parent))

    assert "skipped" not in again(tmp_path / "home", root, "tests/node/test_launch.py")
