"""--set: what it changes, and what it says when a path does not fit."""

from typing import Any

import pytest

from trainwright.cli.settings import apply, read

JOB = {
    "metadata": {"name": "mnist", "annotations": {}},
    "spec": {"replicas": {"Worker": {"count": 2, "args": ["a", "b"]}}},
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("spec.replicas.Worker.count=3", 3, id="a number is a number"),
        pytest.param("spec.replicas.Worker.count='3'", "3", id="a quoted number is a string"),
        pytest.param("spec.replicas.Worker.suspend=true", True, id="the last step may be new"),
        pytest.param("spec.replicas.Worker.args.1=c", "c", id="a number counts through a list"),
        pytest.param("spec.replicas.Worker.args[0]=a=b", "a=b", id="brackets do too, and only the first = counts"),
        pytest.param(r"metadata.annotations.trainwright\.dev/lenient='true'", "true", id="a dot inside a key"),
        pytest.param("spec.policy={deadline: 5}", {"deadline": 5}, id="a whole mapping"),
        pytest.param("spec.replicas.Worker.count=", None, id="nothing is null"),
    ],
)
def test_a_value_lands_at_its_path(text, expected):
    setting = read(text)

    found: Any = apply(JOB, [setting])
    for step in setting.path:
        found = found[int(step)] if isinstance(found, list) else found[step]

    assert found == expected


def test_the_original_is_left_alone():
    apply(JOB, [read("spec.replicas.Worker.args.0=z"), read("spec.replicas.Worker.count=9")])

    assert JOB["spec"] == {"replicas": {"Worker": {"count": 2, "args": ["a", "b"]}}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("spec.replicas.Wroker.count=3", "no 'Wroker'; did you mean 'Worker'?", id="misspelt"),
        pytest.param("spec.policy.x=3", "--set 'spec.policy={x: …}'", id="says how to add a mapping"),
        pytest.param("spec.replicas.Worker.count.x=3", "ends at spec.replicas.Worker.count", id="beyond a value"),
        pytest.param("spec.replicas.Worker.args.7=3", "is a list of 2; write a number from 0 to 1", id="beyond a list"),
        pytest.param("spec.replicas", "write path=value", id="no value"),
        pytest.param("spec..x=1", "one dot between", id="an empty step"),
        pytest.param("spec.x=[", "is not YAML", id="broken YAML"),
    ],
)
def test_a_path_that_does_not_fit_says_where_it_ends(text, words):
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the words are looked at below
        apply(JOB, [read(text)])

    assert words in str(error.value)
