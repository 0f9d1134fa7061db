"""What runs in the place of an image."""

import sys

import pytest

from trainwright.node.images import command, found
from trainwright.node.refusals import Refused


@pytest.mark.parametrize(
    ("container", "words"),
    [
        pytest.param({"command": ["a", "b"]}, ("a", "b"), id="the command"),
        pytest.param({"command": ["a"], "args": ["b"]}, ("a", "b"), id="and its arguments"),
        pytest.param({"command": ["a", "$(X)"], "args": ["$(X)$$(X)"]}, ("a", "1", "1$(X)"), id="variables replaced"),
    ],
)
def test_command(container, words):
    assert command(container, "c", {"X": "1"}) == words


@pytest.mark.parametrize(
    ("container", "lacks"),
    [
        pytest.param({}, "no command", id="nothing"),
        pytest.param({"command": []}, "no command", id="an empty one"),
        pytest.param({"args": ["x"]}, "args but no command", id="only arguments"),
    ],
)
def test_no_command_says_what_to_write(container, lacks):
    with pytest.raises(Refused) as caught:
        command(container, "spec.containers[0]", {})

    assert str(caught.value) == (
        f"spec.containers[0]: {lacks}; images are not run here, so write the command the image would run"
    )


def test_python_is_the_callers_or_else_ours(tmp_path):
    mine = tmp_path / "python"
    mine.write_text("#!/bin/sh")
    mine.chmod(0o755)

    assert found(("python", "x"), {"PATH": str(tmp_path)}) == ("python", "x")
    assert found(("python3", "x"), {"PATH": str(tmp_path)}) == (sys.executable, "x")
    assert found(("other", "x"), {"PATH": ""}) == ("other", "x")


@pytest.mark.parametrize(
    ("image", "ours"),
    [
        pytest.param("trainwright", True, id="by its bare name"),
        pytest.param("registry.example:5000/team/trainwright:0.1.0", True, id="from a registry, with a tag"),
        pytest.param("trainwright@sha256:00", True, id="by its digest"),
        pytest.param("trainwright-examples:1", False, id="a longer name is another image"),
        pytest.param("trainwright/worker", False, id="a folder of that name is not it"),
    ],
)
def test_the_python_of_our_own_image_is_ours(tmp_path, image, ours):
    mine = tmp_path / "python"
    mine.write_text("#!/bin/sh")
    mine.chmod(0o755)

    words = found(("python", "-m", "x"), {"PATH": str(tmp_path)}, image)

    assert (words[0] == sys.executable) is ours
