"""What is said about a cluster that others look after already."""

from typing import Any

import pytest

from trainwright.core.objects import Object, ref
from trainwright.kinds import KINDS
from trainwright.operator.crds import definitions
from trainwright.operator.manifests import Installation
from trainwright.operator.removal import removal
from trainwright.operator.survey import Survey, brought_by_others
from trainwright.operator.takeover import Takeover, plan

OURS = {each["metadata"]["name"]: each for each in definitions(KINDS)}
PYTORCH, MPI = "pytorchjobs.kubeflow.org", "mpijobs.kubeflow.org"


def theirs(name: str, *versions: str, schema: Object | None = None, stored: tuple[str, ...] = ()) -> dict[str, Object]:
    """Return a definition that another project has brought."""
    served = [
        {"name": each, "served": True, "storage": each == versions[0], "schema": {"openAPIV3Schema": schema or {}}}
        for each in versions
    ]
    definition = {**OURS[name], "metadata": {"name": name}, "spec": {"versions": served}}
    return {name: {**definition, "status": {"storedVersions": list(stored or versions)}}}


def operator(name: str, image: str = "i", replicas: int = 1) -> Object:
    pod = {"spec": {"containers": [{"image": image}]}}
    return {"metadata": {"namespace": "ops", "name": name}, "spec": {"replicas": replicas, "template": pod}}


def jobs(*states: str) -> dict[str, tuple[Object, ...]]:
    """Return PyTorchJobs, named after their conditions."""
    return {
        PYTORCH: tuple(
            {
                "metadata": {"namespace": "team", "name": state.lower()},
                "status": {"conditions": [{"type": state, "status": "True"}]},
            }
            for state in states
        )
    }


def training_jobs(phase: str) -> dict[str, tuple[Object, ...]]:
    name = "trainingjobs.paddlepaddle.org"
    return {name: ({"metadata": {"namespace": "team", "name": "j"}, "status": {"phase": phase}},)}


def webhook(group: str, resource: str, name: str = "theirs", **metadata: Any) -> Object:
    rule = {"apiGroups": [group], "resources": [resource]}
    return {
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name, **metadata},
        "webhooks": [{"rules": [rule]}],
    }


def words(found: Takeover) -> str:
    rows = (*found.kinds, *found.operators, *found.webhooks, *found.jobs)
    return "\n".join([*(f"{each.name} {each.words}" for each in rows), *found.steps])


KEEPS = {"x-kubernetes-preserve-unknown-fields": True}
PRUNES = {"properties": {"status": {"properties": {"conditions": {}}}, "spec": {"properties": {}}}}


@pytest.mark.parametrize(
    ("survey", "said"),
    [
        pytest.param(Survey(), f"{PYTORCH} is missing; it is created", id="an empty cluster gets the kinds"),
        pytest.param(Survey({PYTORCH: OURS[PYTORCH]}), f"{PYTORCH} is ours already", id="ours stays"),
        pytest.param(
            Survey({PYTORCH: {**OURS[PYTORCH], "spec": {**OURS[PYTORCH]["spec"], "versions": []}}}),
            f"{PYTORCH} is ours; it is brought up to date",
            id="an older one of ours is brought up to date",
        ),
        pytest.param(
            Survey(theirs(PYTORCH, "v1", schema=KEEPS)),
            f"{PYTORCH} is somebody else's (v1); it is left alone",
            id="another project's is left alone",
        ),
        pytest.param(
            Survey(theirs(PYTORCH, "v1", schema=PRUNES)),
            "it is left alone, and drops our status.record",
            id="what it drops of ours is said",
        ),
        pytest.param(
            Survey(deployments=(operator("training-operator"),)),
            "ops/training-operator Kubeflow's training operator runs; it looks after PyTorchJob, MPIJob",
            id="another operator is known by its name",
        ),
        pytest.param(
            Survey(deployments=(operator("x", "registry.example:5000/mpioperator/mpi-operator:0.6"),)),
            "ops/x Kubeflow's MPI operator runs; it looks after MPIJob",
            id="or by its image",
        ),
        pytest.param(
            Survey(deployments=(operator("volcano-controllers", replicas=0),)),
            "Volcano's controllers is stopped; it looks after Job",
            id="one that was stopped is said too",
        ),
        pytest.param(
            Survey(deployments=(operator("training-operator"),)),
            "kubectl -n ops scale deployment/training-operator --replicas=0",
            id="how to stop it is said",
        ),
        pytest.param(
            Survey(webhooks=(webhook("kubeflow.org", "pytorchjobs"),)),
            f"validatingwebhookconfiguration/theirs is asked about {PYTORCH}",
            id="a webhook that is asked about our kinds",
        ),
        pytest.param(
            Survey(webhooks=(webhook("kubeflow.org", "*"),)),
            "if validatingwebhookconfiguration/theirs belongs to what was stopped, delete it",
            id="what becomes of a webhook whose operator is stopped",
        ),
        pytest.param(
            Survey(theirs(PYTORCH, "v1"), jobs("Running", "Succeeded")),
            "PyTorchJob 2 jobs, 1 not ended: team/running",
            id="jobs are counted, and those that go on are named",
        ),
        pytest.param(
            Survey(theirs(PYTORCH, "v1"), jobs("Running"), (operator("training-operator"),)),
            "nothing to do: 1 job of what was stopped goes on, and no pod is restarted",
            id="jobs that run are gone on with",
        ),
        pytest.param(
            Survey(objects=training_jobs("running"), deployments=(operator("edl-controller"),)),
            "let the TrainingJob controller see 1 job to the end",
            id="but for those that are made of other things: these end under who has started them",
        ),
        pytest.param(
            Survey(theirs(MPI, "v1")),
            f"{MPI} is somebody else's (v1); it is left alone, and so are its jobs: we do not read that version",
            id="a version that nobody reads here",
        ),
    ],
)
def test_what_is_said(survey, said):
    assert said in words(plan(survey))


@pytest.mark.parametrize(
    ("survey", "not_said"),
    [
        pytest.param(Survey(deployments=(operator("web", "nginx"),)), "ops/web", id="what is no operator of ours"),
        pytest.param(
            Survey(webhooks=(webhook("apps", "deployments"),)), "webhookconfiguration", id="webhooks about other things"
        ),
        pytest.param(
            Survey(webhooks=(webhook("kubeflow.org", "*", labels={"app.kubernetes.io/name": "trainwright"}),)),
            "webhookconfiguration",
            id="our own webhooks",
        ),
        pytest.param(Survey(webhooks=(webhook("*", "*"),)), "webhookconfiguration", id="webhooks about everything"),
        pytest.param(Survey(), "--adopt-crds", id="adopting, where there is nothing to adopt"),
        pytest.param(
            Survey(deployments=(operator("training-operator", replicas=0),)), "scale deployment", id="to stop it twice"
        ),
    ],
)
def test_what_is_not_said(survey, not_said):
    assert not_said not in words(plan(survey))


@pytest.mark.parametrize(
    ("there", "said"),
    [
        pytest.param(theirs(PYTORCH, "v1"), "ours takes its place, and the jobs stay", id="adopted"),
        pytest.param(
            theirs(MPI, "v2beta1", stored=("v1", "v2beta1")),
            "cannot be adopted while v1 is among its status.storedVersions",
            id="not while jobs may be stored in a version that ours lacks",
        ),
    ],
)
def test_what_is_said_about_adopting(there, said):
    assert said in words(plan(Survey(there), adopt=True))


def test_the_last_step_can_be_typed():
    assert plan(Survey()).steps == ("tw install | kubectl apply -f -",)


class There:
    """A cluster that has some objects, by name."""

    def __init__(self, *objects: Object) -> None:
        self.objects = {each["metadata"]["name"]: each for each in objects}

    async def get(self, resource: Any, namespace: str, name: str) -> Object:
        from trainwright.core.errors import NotFound

        if name not in self.objects:
            raise NotFound(name)
        return self.objects[name]


async def test_only_what_others_have_brought_is_left_alone():
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    cluster: Any = There(OURS[MPI], *theirs(PYTORCH, "v1").values(), namespace)

    found = await brought_by_others(cluster, [*OURS.values(), namespace])

    assert [each.name for each in found] == [PYTORCH, "team"]


# Uninstalling

ALL_OURS = Survey(OURS)


def deleted(survey: Survey | None, *, force: bool = False, **asked: Any) -> list[str]:
    return [each["kind"] for each in removal(Installation(**asked), survey, force=force).objects]


def test_what_asks_the_operator_goes_first_and_kinds_last():
    kinds = deleted(ALL_OURS)

    assert kinds.index("Deployment") < kinds.index("ClusterRole") < kinds.index("Namespace")
    assert kinds[-len(OURS) :] == ["CustomResourceDefinition"] * len(OURS)


@pytest.mark.parametrize(
    ("survey", "force", "kept"),
    [
        pytest.param(ALL_OURS, False, [], id="kinds without jobs go"),
        pytest.param(Survey(OURS, jobs("Running", "Failed")), False, [PYTORCH], id="a kind with jobs stays"),
        pytest.param(Survey(OURS, jobs("Running")), True, [], id="unless it is forced"),
        pytest.param(Survey(theirs(PYTORCH, "v1")), True, [PYTORCH], id="another project's stays even so"),
        pytest.param(None, False, list(OURS), id="without asking the cluster kinds stay"),
        pytest.param(None, True, [], id="unless it is forced, too"),
    ],
)
def test_which_kinds_stay(survey, force, kept):
    planned = removal(Installation(), survey, force=force)

    assert [reason.partition(" ")[0] for reason in planned.kept] == kept
    assert not {each["metadata"]["name"] for each in planned.objects} & set(kept)


def test_it_is_said_how_many_jobs_would_go():
    (reason,) = removal(Installation(), Survey(OURS, jobs("Running", "Failed"))).kept

    assert "2 stored under it (team/running, team/failed) would be deleted with it" in reason


def test_a_namespace_that_is_not_ours_by_name_stays():
    planned = removal(Installation(namespace="team"), ALL_OURS)

    assert "Namespace" not in deleted(ALL_OURS, namespace="team")
    assert planned.kept == ("the namespace team stays: others may have something in it",)


def test_what_was_installed_for_some_namespaces_leaves_the_kinds_to_others():
    planned = removal(Installation(watch=("a", "b")), None, force=True)

    assert {each["metadata"].get("namespace") for each in planned.objects} == {"a", "b", "trainwright-system"}
    assert planned.kept == ()


def test_nothing_but_names_is_printed():
    for each in removal(Installation(), ALL_OURS).objects:
        assert set(each) == {"apiVersion", "kind", "metadata"}
        assert ref(each).name
