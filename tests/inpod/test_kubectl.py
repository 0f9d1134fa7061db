"""The stand-in for kubectl reads kubectl's own command lines."""

import pytest

from trainwright.inpod.kubectl import WrongCallError, ask, read

EXEC = {"verb": "exec", "pod": "w", "namespace": "", "container": "", "command": ["a", "-b"], "stdin": False}


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        pytest.param("exec w -- a -b", EXEC, id="a pod and a command"),
        pytest.param("exec -i w -- a -b", EXEC | {"stdin": True}, id="with input"),
        pytest.param("exec --stdin pod/w -- a -b", EXEC | {"stdin": True}, id="written out"),
        pytest.param("exec w -c c -n ns -- a -b", EXEC | {"container": "c", "namespace": "ns"}, id="options after"),
        pytest.param("exec --namespace=ns w -- a -b", EXEC | {"namespace": "ns"}, id="values after a sign"),
        pytest.param(
            "get pod w -o jsonpath={.status.phase}",
            {"verb": "get", "pod": "w", "namespace": "", "path": ["status", "phase"]},
            id="a field of a pod",
        ),
    ],
)
def test_what_is_asked_for(line, asked):
    assert read(line.split()) == asked


@pytest.mark.parametrize(
    ("line", "words"),
    [
        pytest.param("delete pod w", "unknown command 'delete'", id="another verb"),
        pytest.param("exec -- a", "expected one pod, found none", id="no pod"),
        pytest.param("exec w", "there is no command", id="no command"),
        pytest.param("exec -t w -- a", "unknown option '-t'", id="an option that is not known"),
        pytest.param("exec w -n", "-n needs a value", id="an option without its value"),
        pytest.param("get pod w", "expected jsonpath", id="no field"),
    ],
)
def test_what_cannot_be_asked_for_is_said(line, words):
    with pytest.raises(WrongCallError, match=words):
        read(line.split())


def test_a_node_that_is_not_there_is_said():
    assert "does not answer" in str(ask({"verb": "get"}, "\0trainwright/nobody")["error"])
