"""What a job object says about itself, and how a job is told to stop or go on."""

import pytest

from trainwright.api.faces import FACES, MPI_JOB, PYTORCH_JOB, TRAINING_JOB, VOLCANO_JOB, Ranks, face_of
from trainwright.core.actions import Create, Patch
from trainwright.core.errors import Conflict
from trainwright.core.names import CANCEL_ANNOTATION


def conditions(*types: str, **record: str):
    return {"conditions": [{"type": name, "status": "True"} for name in types], "record": record}


@pytest.mark.parametrize(
    ("face", "status", "phase", "outcome"),
    [
        pytest.param(PYTORCH_JOB, {}, "Pending", "", id="a job that nobody has looked at is pending"),
        pytest.param(
            PYTORCH_JOB, conditions("Created", "Running"), "Running", "", id="the most telling condition counts"
        ),
        pytest.param(PYTORCH_JOB, conditions("Suspended", "Running"), "Suspended", "", id="suspended tells more"),
        pytest.param(MPI_JOB, conditions("Succeeded"), "Succeeded", "Succeeded", id="succeeded"),
        pytest.param(MPI_JOB, conditions("Failed"), "Failed", "Failed", id="failed"),
        pytest.param(MPI_JOB, conditions("Failed", cause="Cancelled"), "Cancelled", "Failed", id="failed by a wish"),
        pytest.param(VOLCANO_JOB, {}, "Pending", "", id="a new Volcano Job is pending"),
        pytest.param(VOLCANO_JOB, {"state": {"phase": "Completed"}}, "Completed", "Succeeded", id="completed"),
        pytest.param(VOLCANO_JOB, {"state": {"phase": "Aborted"}}, "Aborted", "Failed", id="aborted counts as failed"),
        pytest.param(VOLCANO_JOB, {"state": {"phase": "Nonsense"}}, "Pending", "", id="an unknown phase is none"),
        pytest.param(TRAINING_JOB, {"phase": "creating"}, "Creating", "", id="a TrainingJob writes phases small"),
        pytest.param(TRAINING_JOB, {"phase": "failed"}, "Failed", "Failed", id="and its end, too"),
    ],
)
def test_where_a_job_stands(face, status, phase, outcome):
    standing = face.standing(status)

    assert (standing.phase, standing.outcome) == (phase, outcome)


@pytest.mark.parametrize(
    ("face", "status", "resumable"),
    [
        pytest.param(PYTORCH_JOB, conditions("Suspended"), True, id="a suspended job can be resumed"),
        pytest.param(VOLCANO_JOB, {"state": {"phase": "Aborted"}}, True, id="so can an aborted one"),
        pytest.param(VOLCANO_JOB, {"state": {"phase": "Terminated"}}, False, id="a terminated one cannot"),
        pytest.param(PYTORCH_JOB, conditions("Failed"), False, id="nor can what has failed"),
    ],
)
def test_what_can_be_resumed(face, status, resumable):
    assert face.standing(status).resumable is resumable


def replicas(active: str, restarts: int = 0, **roles: tuple[int, int]):
    told = {name: {"active": up, "succeeded": done} for name, (up, done) in roles.items()}
    return {"active": active, "restarts": restarts, "replicaStatuses": told}


@pytest.mark.parametrize(
    ("face", "job", "ranks"),
    [
        pytest.param(PYTORCH_JOB, {}, Ranks(), id="nothing is known of a new job"),
        pytest.param(
            PYTORCH_JOB, {"status": replicas("2/3", 4, Worker=(2, 0))}, Ranks(2, 3, 4), id="active pods are up"
        ),
        pytest.param(PYTORCH_JOB, {"status": replicas("1/3", Worker=(1, 2))}, Ranks(3, 3), id="done counts as up"),
        pytest.param(
            PYTORCH_JOB,
            {"status": {**replicas("2/2", Worker=(2, 0)), **conditions("Failed")}},
            Ranks(0, 2),
            id="after the end nobody is up any more",
        ),
        pytest.param(
            VOLCANO_JOB,
            {
                "spec": {"tasks": [{"name": "a", "replicas": 2}, {"name": "b"}]},
                "status": {"state": {"phase": "Running"}, "running": 2, "succeeded": 1, "retryCount": 1},
            },
            Ranks(3, 3, 1),
            id="the tasks of a Volcano Job are added up",
        ),
        pytest.param(
            VOLCANO_JOB,
            {
                "spec": {"elasticReplicas": 5, "tasks": [{"name": "head"}, {"name": "worker", "replicas": 2}]},
                "status": {"state": {"phase": "Running"}, "elasticSelector": "volcano.sh/task-spec=worker"},
            },
            Ranks(0, 6),
            id="its elastic task has the size of the job",
        ),
        pytest.param(
            TRAINING_JOB,
            {
                "status": {
                    "scale_status": {"wanted": 4},
                    "replica_statuses": [
                        {"training_resource_type": "PSERVER", "resource_states": {"running": 2}},
                        {"training_resource_type": "TRAINER", "resource_states": {"running": 3, "starting": 1}},
                    ],
                    "record": {"roles": {"trainer": {"restarts": 2}}},
                }
            },
            Ranks(3, 4, 2),
            id="only the trainers of a TrainingJob have ranks",
        ),
    ],
)
def test_ranks(face, job, ranks):
    assert face.ranks(job) == ranks


def job(face, **spec):
    return {
        "apiVersion": face.resource.api_version,
        "kind": face.name,
        "metadata": {"name": "j", "namespace": "ns", "uid": "u"},
        "spec": spec,
    }


SUSPENDED = {"spec": {"runPolicy": {"suspend": True}}}
CANCELLED = {"metadata": {"annotations": {CANCEL_ANNOTATION: "ann"}}}


@pytest.mark.parametrize(
    ("face", "spec", "wish", "change"),
    [
        pytest.param(PYTORCH_JOB, {}, "suspend", SUSPENDED, id="a PyTorchJob is suspended by a field"),
        pytest.param(
            MPI_JOB, {"mpiReplicaSpecs": {}}, "suspend", SUSPENDED, id="an MPIJob with replica specs likewise"
        ),
        pytest.param(PYTORCH_JOB, {}, "cancel", CANCELLED, id="and cancelled by an annotation that says who"),
        pytest.param(TRAINING_JOB, {}, "cancel", CANCELLED, id="so is a TrainingJob"),
    ],
)
def test_jobs_are_told_by_a_change(face, spec, wish, change):
    order = face.orders[wish](job(face, **spec), "ann")

    assert isinstance(order, Patch)
    assert order.patch == change


@pytest.mark.parametrize(
    ("wish", "action"), [("suspend", "AbortJob"), ("resume", "ResumeJob"), ("cancel", "TerminateJob")]
)
def test_a_volcano_job_is_told_by_a_command(wish, action):
    order = VOLCANO_JOB.orders[wish](job(VOLCANO_JOB), "ann")

    assert isinstance(order, Create)
    assert (order.object["action"], order.object["target"]["uid"]) == (action, "u")
    assert order.object["message"] == "asked for by ann"


def test_an_mpi_job_without_replica_specs_cannot_be_suspended():
    with pytest.raises(Conflict, match="j is written as v1alpha1 has it"):
        MPI_JOB.orders["suspend"](job(MPI_JOB, replicas=2), "ann")


def test_a_training_job_has_no_way_to_be_suspended():
    assert set(TRAINING_JOB.orders) == {"cancel"}


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.name)
def test_a_face_is_found_by_every_version(face):
    assert all(face_of({"apiVersion": version, "kind": face.name}) is face for version in face.api_versions)
    assert face_of({"apiVersion": "v1", "kind": "Pod"}) is None
