"""Webhooks on a real API server: what it refuses, stores and prints, while certificates follow each other.

The operator here has certificates that hold for seconds, so every test is also one of following from one to the next.
"""

import base64
import json
import re
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from tests.api.examples import GONE, STATIC, TRAINING, VOLCANO, changed
from tests.kube.running import (
    ACCOUNT,
    Call,
    Kubectl,
    Refusal,
    RunningOperator,
    account,
    calls,
    install,
    operating,
    refused,
    until,
)
from tests.operator.test_reviews import ABORT, ALWAYS
from tools.kube import ControlPlane

from trainwright.cli.lint import command as lint
from trainwright.core.objects import Object
from trainwright.kinds import TRAINING_JOB, VOLCANO_JOB
from trainwright.operator.rights import WEBHOOK_RIGHTS
from trainwright.web.listener import listener

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

VALIDITY = 20
SYSTEM = "trainwright-system"
SECRET = ("secret/trainwright-webhook", f"--namespace={SYSTEM}")
ROLES = "spec.pytorchReplicaSpecs"
PADDLE = changed(TRAINING, {"metadata.namespace": GONE})
ALPHA: Object = {
    "apiVersion": "kubeflow.org/v1alpha1",
    "kind": "MPIJob",
    "metadata": {"name": "bert"},
    "spec": {"gpus": 3, "gpusPerNode": 2, "template": {"spec": {"containers": [{"name": "mpi", "image": "mpi"}]}}},
}
BETA: Object = {
    "apiVersion": "kubeflow.org/v2beta1",
    "kind": "MPIJob",
    "metadata": {"name": "bert"},
    "spec": {
        "mpiReplicaSpecs": {
            "Worker": {"replicas": 2, "template": STATIC["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]}
        }
    },
}


@pytest.fixture(scope="module")
def plane(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Return a control plane of our own: what is registered here is asked about every job."""
    control_plane = ControlPlane(tmp_path_factory.mktemp("guarded"), strict=True)
    try:
        control_plane.start()
        yield control_plane
    finally:
        control_plane.stop()


@pytest.fixture(scope="module")
def admin(plane: ControlPlane) -> Kubectl:
    """Return the administrator's kubectl, after everything was applied, the webhooks included."""
    kubectl = Kubectl(plane.kubeconfig)
    install(kubectl, webhooks=True)
    kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    return kubectl


@pytest.fixture(scope="module")
def flags() -> tuple[str, ...]:
    """Return how webhooks are served to an API server that has no Services."""
    port = free_port()
    return (
        "--webhooks",
        f"--webhook-address=127.0.0.1:{port}",
        f"--webhook-url=https://127.0.0.1:{port}",
        f"--webhook-certificate-validity={VALIDITY}s",
    )


@pytest.fixture(scope="module")
def operator(
    plane: ControlPlane, admin: Kubectl, flags: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningOperator]:
    """Return an operator with webhooks that has only the rights we ship."""
    with operating(account(plane, admin), tmp_path_factory.mktemp("operator"), *flags) as running:
        until(lambda: bundle(admin), "the API server trusts the webhooks")
        until(lambda: is_asked(admin), "the API server has heard of it")
        yield running
    assert not refused(plane)


def free_port() -> int:
    with listener("127.0.0.1", 0) as free:
        port: int = free.getsockname()[1]
        return port


def bundle(admin: Kubectl) -> bytes:
    """Return whom the API server trusts when it asks about a job."""
    hooks = admin.get("validatingwebhookconfiguration/trainwright")["webhooks"]
    return base64.b64decode(hooks[0]["clientConfig"].get("caBundle", ""))


def is_asked(admin: Kubectl) -> bool:
    try:
        admin("create", "--dry-run=server", "--namespace=default", "-f", "-", stdin=STATIC)
    except Refusal:
        return False
    return True


def shown(admin: Kubectl) -> str:
    """Return the certificate that all replicas are to show."""
    chain = x509.load_pem_x509_certificates(base64.b64decode(admin.get(*SECRET)["data"]["tls.crt"]))
    return chain[0].public_bytes(Encoding.PEM).decode().strip()


def ends(certificate: str) -> datetime:
    return x509.load_pem_x509_certificate(certificate.encode()).not_valid_after_utc


def linted(obj: Object) -> list[str]:
    """Return what `tw lint` says about an object."""
    done = CliRunner().invoke(lint, ["-o", "json", "-"], input=yaml.safe_dump(obj))
    return [f"{row['path']}: {row['problem']}" for row in json.loads(done.stdout)]


def refusal(kubectl: Kubectl, obj: Object) -> str:
    with pytest.raises(Refusal) as caught:
        kubectl.apply(obj)
    return str(caught.value)


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(changed(STATIC, {f"{ROLES}.Master.replicas": 2, f"{ROLES}.Worker.replicas": -1}), id="PyTorchJob"),
        pytest.param(ALPHA, id="MPIJob v1alpha1"),
        pytest.param(BETA, id="MPIJob v2beta1"),
        pytest.param(changed(VOLCANO, {"spec.minAvailable": 9, "spec.plugins": {"pytorch": ["--mastr=x"]}}), id="Job"),
        pytest.param(changed(PADDLE, {"spec.trainer.min-instance": 9, "spec.port": -1}), id="TrainingJob"),
        pytest.param(changed(ABORT, {"action": "AbortTheJob", "metadata.namespace": GONE}), id="Command"),
    ],
)
def test_what_is_wrong_is_refused_in_the_words_of_lint(kubectl, obj):
    words = linted(obj)

    said = refusal(kubectl, obj)

    assert words
    for problem in words:
        assert problem in said
    assert f'The {obj["kind"]} "{obj["metadata"]["name"]}" is invalid' in said


@pytest.mark.parametrize(
    ("obj", "kind"),
    [pytest.param(VOLCANO, VOLCANO_JOB, id="Job"), pytest.param(PADDLE, TRAINING_JOB, id="TrainingJob")],
)
def test_what_the_user_left_out_is_stored(kubectl, obj, kind):
    tried = json.loads(kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=obj))
    assert kubectl.names(str(kind.resource)) == []
    kubectl.apply(obj)
    kubectl.apply(obj)
    stored = kubectl.get(f"{kind.resource}/{obj['metadata']['name']}")

    assert tried["spec"] == stored["spec"] == kind.default(obj)["spec"]
    kubectl("diff", "-f", "-", stdin=obj)


def test_warnings_are_printed(kubectl):
    kubectl.apply(ALWAYS)

    assert [f"Warning: {each}" for each in linted(ALWAYS)] == kubectl.warnings.splitlines()


def test_an_update_is_held_against_what_was_there(kubectl):
    kubectl.apply(changed(VOLCANO, {"spec.queue": "a"}))

    said = refusal(kubectl, changed(VOLCANO, {"spec.queue": "b"}))

    assert "spec.queue: 'a' cannot become 'b'" in said


def test_a_job_that_no_webhook_saw_is_told_the_same_by_its_condition(admin, operator):
    wrong = changed(STATIC, {"metadata.namespace": "kube-system", f"{ROLES}.Master.replicas": 2})
    kubectl = Kubectl(admin.kubeconfig, "kube-system")
    kubectl.apply(wrong)
    kubectl.wait("pytorchjob/mnist", "condition=Failed")

    conditions = kubectl.get("pytorchjob/mnist")["status"]["conditions"]
    kubectl("delete", "pytorchjob/mnist")

    assert conditions[-1]["message"] == f"PyTorchJob mnist is not valid: {'; '.join(linted(wrong))}"


def test_trust_that_somebody_takes_away_comes_back(admin, operator):
    nothing = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
    admin("patch", "validatingwebhookconfiguration/trainwright", "--type=json", "-p", json.dumps(nothing))

    until(lambda: bundle(admin), "the API server trusts the webhooks again")


def test_certificates_end_and_no_call_fails(kubectl, admin, plane, operator, flags, tmp_path):
    """Has a second replica that nobody calls: it must come to show the same, for it may be called next."""
    port = free_port()
    first, applied = shown(admin), 0
    seen = {first}
    with operating(account(plane, admin), tmp_path, *flags, f"--webhook-address=127.0.0.1:{port}"):
        while len(seen) < 3 or ends(first) > datetime.now(UTC):
            kubectl.apply(changed(STATIC, {"metadata.annotations": {"example.com/try": str(applied)}}))
            applied += 1
            seen.add(shown(admin))
        until(
            lambda: ssl.get_server_certificate(("127.0.0.1", port)).strip() == shown(admin),
            "the second replica shows what the first does",
        )

    assert ends(shown(admin)) > datetime.now(UTC)
    assert bundle(admin).count(b"BEGIN") <= 3, "who has ended is not trusted for ever"


def test_it_says_how_long_a_review_took_and_when_the_certificate_ends(operator, kubectl):
    kubectl.apply(STATIC)

    code, text = operator.ask("/metrics")

    assert code == 200
    assert re.search(r'trainwright_review_seconds_count\{webhook="mutate",result="allowed"\} [1-9]', text)
    assert re.search(r"trainwright_webhook_certificate_end_seconds [0-9]{10}", text)


def test_the_rights_for_webhooks_are_exactly_those_that_were_used(plane, operator):
    hooks = {Call(right.group, right.resource, right.verb) for right in WEBHOOK_RIGHTS}
    used = {call for call, _, _ in calls(plane, ACCOUNT)}

    assert hooks <= used
    assert {call for call in used if call.group == "admissionregistration.k8s.io"} <= hooks


def test_what_must_go_on_without_an_operator_does(kubectl, admin, operator):
    """Stands last: the operator goes."""
    for name in ("held", "parent", "running"):
        kubectl.apply(changed(STATIC, {"metadata.name": name, "metadata.finalizers": ["example.com/held"]}))
        kubectl("wait", "--for=create", f"pod/{name}-master-0", "--timeout=30s")
    assert operator.stop() == 0

    kubectl("delete", "pytorchjob/held", "--wait=false")
    kubectl("delete", "pytorchjob/parent", "--wait=false", "--cascade=foreground")
    for name in ("held", "parent"):
        kubectl.patch(f"pytorchjob/{name}", {"metadata": {"finalizers": None}})
        kubectl.until_gone(f"pytorchjob/{name}")
    kubectl.patch("pytorchjob/running", {"status": {"restarts": 3}}, "--subresource=status")
    kubectl("label", "pytorchjob/running", "team=vision")
    kubectl("scale", "pytorchjob/running", "--replicas=2")
    kubectl("delete", "pytorchjob/running", "--wait=false")
    kubectl.patch("pytorchjob/running", {"metadata": {"finalizers": None}})
    kubectl.until_gone("pytorchjob/running")

    assert 'failed calling webhook "jobs.trainwright.dev"' in refusal(kubectl, STATIC)
    everywhere = Kubectl(admin.kubeconfig, "kube-system")
    everywhere("create", "--dry-run=server", "-f", "-", stdin=STATIC)
