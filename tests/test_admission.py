"""Admission: the one door for lint, webhooks and the local home."""

import pytest
from tests.api.examples import STATIC, VOLCANO, changed, sentences

from trainwright.admission import admit, review
from trainwright.api.pytorch_job import default
from trainwright.core.errors import ManifestError
from trainwright.kinds import KINDS

ROLES = "spec.pytorchReplicaSpecs"
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "b"}}
JOBS = ", ".join(f"{kind.resource.api_version} {kind.name}" for kind in KINDS)


def test_a_good_job_is_returned_as_it_is_stored():
    admitted = admit(STATIC)

    assert admitted.object == default(STATIC)
    assert admitted.warnings == ()


def test_warnings_do_not_stop_a_job():
    admitted = admit(changed(STATIC, {f"{ROLES}.Worker.restartPolicy": "Always"}))

    assert [str(warning) for warning in admitted.warnings] == [
        (
            f"{ROLES}.Worker.restartPolicy: a container that ends well is started again, so the job never succeeds; "
            "use OnFailure"
        )
    ]


def test_all_errors_are_raised_together_and_without_warnings():
    changes = {"metadata.name": "0", f"{ROLES}.Master.replicas": 2, f"{ROLES}.Worker.restartPolicy": "Always"}

    with pytest.raises(ManifestError) as caught:
        admit(changed(STATIC, changes))

    assert [problem.path for problem in caught.value.problems] == ["metadata.name", f"{ROLES}.Master.replicas"]


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        pytest.param(
            {"kind": "PyTorchJob"},
            ["apiVersion: missing; write for example apiVersion: kubeflow.org/v1"],
            id="no version",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": 5},
            ["kind: expected text, found 5; write for example kind: PyTorchJob"],
            id="a kind that is no text",
        ),
        pytest.param(
            {"apiVersion": "kubeflow.org/v1", "kind": "PytorchJob"},
            [
                (
                    "kind: there is no kind 'PytorchJob' in 'kubeflow.org/v1'; did you mean 'PyTorchJob'? "
                    f"(jobs are: {JOBS})"
                )
            ],
            id="a misspelt kind",
        ),
        pytest.param(
            {"apiVersion": "kubeflow.org/v2", "kind": "PyTorchJob"},
            ["apiVersion: there is no PyTorchJob in 'kubeflow.org/v2'; write kubeflow.org/v1"],
            id="another version of a kind",
        ),
        pytest.param(
            {"apiVersion": "example.com/v1", "kind": "Pizza"},
            [f"kind: there is no kind 'Pizza' in 'example.com/v1' (jobs are: {JOBS})"],
            id="a kind nobody knows",
        ),
        pytest.param(
            {"apiVersion": "v1beta1", "kind": "ConfigMap", "metadata": {"name": "x"}},
            ["apiVersion: there is no ConfigMap in 'v1beta1'; write v1"],
            id="another version of a built-in kind",
        ),
        pytest.param(CONFIG, [], id="a built-in kind passes as it is"),
        pytest.param(changed(CONFIG, {"anything": {"goes": 1}}), [], id="whatever it says"),
        pytest.param(
            {"apiVersion": "v1", "kind": "Secret"},
            ["metadata.name: missing; give the object a name"],
            id="but it needs a name",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "x"}},
            [
                (
                    "warning: kind: PersistentVolumeClaim only means something on a cluster; a run on this machine "
                    "leaves it out"
                )
            ],
            id="kinds of clusters are told apart",
        ),
        pytest.param(
            5, ["expected a manifest, found 5; write a mapping with apiVersion: and kind:"], id="not a manifest at all"
        ),
    ],
)
def test_kinds(obj, expected):
    assert sentences(review(obj)) == expected


def test_what_is_no_job_of_ours_is_admitted_unchanged():
    assert admit(CONFIG).object is CONFIG


UNKNOWN = changed(STATIC, {"spec.runPolicy.sometimes": True, f"{ROLES}.Worker.template.spec.containers[0].comand": []})


@pytest.mark.parametrize(
    ("obj", "lenient", "severities"),
    [
        pytest.param(UNKNOWN, False, ["error", "error"], id="unknown fields are errors"),
        pytest.param(UNKNOWN, True, ["warning", "warning"], id="lenient makes them warnings"),
        pytest.param(
            changed(UNKNOWN, {"metadata.annotations": {"trainwright.dev/lenient": "true"}}),
            False,
            ["warning", "warning"],
            id="so does the annotation",
        ),
        pytest.param(
            changed(UNKNOWN, {"metadata.annotations": {"trainwright.dev/lenient": "false"}}),
            False,
            ["error", "error"],
            id="unless it says false",
        ),
        pytest.param(changed(STATIC, {f"{ROLES}.worker": {}}), True, ["error", "error"], id="but not an unknown role"),
        pytest.param(changed(STATIC, {f"{ROLES}.Worker.replicas": 0}), True, ["error"], id="nor a wrong value"),
    ],
)
def test_lenient(obj, lenient, severities):
    assert [problem.severity for problem in review(obj, lenient=lenient)] == severities


def test_an_update_is_not_stopped_by_what_was_wrong_before():
    old = changed(STATIC, {f"{ROLES}.Worker.replicas": 0, "metadata.finalizers": ["x"]})

    assert admit(changed(old, {"metadata.finalizers": []}), old).object["metadata"]["finalizers"] == []
    with pytest.raises(ManifestError, match="exactly one Master"):
        admit(changed(old, {f"{ROLES}.Master.replicas": 2}), old)


def test_an_update_may_not_move_a_job_to_another_queue():
    queue = "spec.runPolicy.schedulingPolicy.queue"

    with pytest.raises(ManifestError, match="field is immutable"):
        admit(changed(STATIC, {queue: "b"}), changed(STATIC, {queue: "a"}))


def test_what_admission_has_added_is_no_change_that_a_user_makes():
    written = changed(VOLCANO, {"spec.plugins": {"pytorch": []}})
    stored = admit(written).object

    assert set(stored["spec"]["plugins"]) == {"pytorch", "svc"}
    assert review(written, stored) == []
