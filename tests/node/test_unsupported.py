"""What a pod asks for in vain is said."""

import pytest

from trainwright.node.unsupported import unsupported

RIGHTS = "processes run with what you may do, no more and no less"
PRIVILEGED = {"privileged": True, "capabilities": {"add": ["SYS_ADMIN"]}}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        pytest.param({}, [], id="nothing special"),
        pytest.param({"securityContext": {"runAsUser": 1000, "runAsGroup": 1000}}, [], id="our own user"),
        pytest.param(
            {"securityContext": {"runAsUser": 0}},
            ["spec.securityContext.runAsUser: 0 is ignored; processes run as you (1000)"],
            id="another user",
        ),
        pytest.param({"securityContext": {"runAsNonRoot": True}}, [], id="not root, and we are not"),
        pytest.param(
            {"hostNetwork": True},
            ["spec.hostNetwork has no effect here: a pod always has a network of its own"],
            id="the host's network",
        ),
        pytest.param(
            {"containers": [{"securityContext": PRIVILEGED}]},
            [f"spec.containers[0].securityContext.{name} is ignored; {RIGHTS}" for name in PRIVILEGED],
            id="more rights",
        ),
        pytest.param(
            {"initContainers": [{"tty": True}]},
            ["spec.initContainers[0].tty has no effect here: output goes to a file"],
            id="a terminal",
        ),
    ],
)
def test_unsupported(spec, words):
    assert list(unsupported({"spec": {"containers": [], **spec}}, 1000, 1000)) == words
