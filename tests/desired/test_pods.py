"""Template and wiring to pod: what is added, what is left alone, and that every change has its reason."""

import pytest
from tests.reconcile.making import manifest, read

from trainwright.core import names
from trainwright.core.objects import Object
from trainwright.desired import KUBERNETES, Settings, explain, render
from trainwright.frameworks.base import HostNames
from trainwright.kinds import PYTORCH_JOB


def objects(obj: Object, settings: Settings = KUBERNETES, version: int = 0) -> dict[str, Object]:
    made = render(PYTORCH_JOB.build(read(obj), settings, version))
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in made}


def template(obj: Object, role: str = "Worker") -> Object:
    found: Object = obj["spec"]["pytorchReplicaSpecs"][role]["template"]
    return found


def rows(obj: Object, pod: str) -> dict[str, tuple[str, str]]:
    found = explain(PYTORCH_JOB.build(read(obj), KUBERNETES, 0))
    return {row.path: (row.value, row.source) for row in found if row.pod == pod}


def test_objects_come_in_the_order_in_which_they_are_needed():
    assert list(objects(manifest(master=1, workers=2))) == [
        "Service/j-master-0",
        "Service/j",
        "Pod/j-master-0",
        "Pod/j-worker-0",
        "Pod/j-worker-1",
    ]


def test_a_pod_is_found_by_its_labels_and_goes_with_its_job():
    pod = objects(manifest(master=1, workers=2), version=3)["Pod/j-worker-1"]

    assert pod["metadata"]["labels"] == {
        "training.kubeflow.org/operator-name": "pytorchjob-controller",
        "training.kubeflow.org/job-name": "j",
        "training.kubeflow.org/replica-type": "worker",
        "training.kubeflow.org/replica-index": "1",
        names.JOB_LABEL: "j",
        names.VERSION_LABEL: "3",
        names.GANG_LABEL: "j",
    }
    (owner,) = pod["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == (
        "PyTorchJob",
        "job-uid",
        True,
        True,
    )
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("j-worker-1", "j")


@pytest.mark.parametrize(
    ("master", "pod", "role"),
    [
        pytest.param(1, "j-master-0", "master", id="the master has the master's role"),
        pytest.param(1, "j-worker-0", None, id="a worker beside a master has no role"),
        pytest.param(0, "j-worker-0", "master", id="without a master worker 0 stands in"),
        pytest.param(0, "j-worker-1", None, id="other workers do not"),
    ],
)
def test_job_role(master, pod, role):
    made = objects(manifest(master=master, workers=2))[f"Pod/{pod}"]

    assert made["metadata"]["labels"].get(names.JOB_ROLE_LABEL) == role


@pytest.mark.parametrize(
    ("master", "policy", "minimum"),
    [
        pytest.param(1, {}, "3", id="all of a static job start together"),
        pytest.param(0, {"elastic": {"minReplicas": 1, "maxReplicas": 4}}, "1", id="an elastic job needs its minimum"),
        pytest.param(1, {"elastic": {"minReplicas": 1, "maxReplicas": 4}}, "2", id="and its master"),
        pytest.param(1, {"schedulingPolicy": {"minAvailable": 2}}, "2", id="what the user says goes"),
    ],
)
def test_gang(master, policy, minimum):
    pod = objects(manifest(master=master, workers=2, **policy))["Pod/j-worker-0"]

    assert pod["metadata"]["annotations"][names.GANG_MIN_ANNOTATION] == minimum


@pytest.mark.parametrize(
    ("policy", "restart"),
    [("Never", "Never"), ("Always", "Always"), ("OnFailure", "OnFailure"), ("ExitCode", "Never")],
)
def test_restart_policy(policy, restart):
    obj = manifest(workers=1, policy=policy)
    template(obj)["spec"]["restartPolicy"] = "Always"

    assert objects(obj)["Pod/j-worker-0"]["spec"]["restartPolicy"] == restart


def test_the_users_environment_always_wins():
    obj = manifest(master=1, workers=1)
    own = [{"name": "RANK", "value": "7"}, {"name": "WORLD_SIZE", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]
    template(obj)["spec"]["containers"][0]["env"] = own

    env = objects(obj)["Pod/j-worker-0"]["spec"]["containers"][0]["env"]

    assert env[:2] == own
    assert [each["name"] for each in env].count("RANK") == 1
    told = rows(obj, "j-worker-0")
    assert told["spec.containers[pytorch].env[RANK]"] == ("7", "user")
    assert told["spec.containers[pytorch].env[WORLD_SIZE]"] == ("from fieldRef", "user")
    assert told["spec.containers[pytorch].env[MASTER_ADDR]"] == ("j-master-0", "pytorch")


def test_every_container_is_told_and_init_containers_are_not():
    obj = manifest(workers=1)
    template(obj)["spec"]["containers"].append({"name": "sidecar", "image": "x"})
    template(obj)["spec"]["initContainers"] = [{"name": "fetch", "image": "x"}]

    spec = objects(obj)["Pod/j-worker-0"]["spec"]

    assert {each["name"]: bool(each.get("env")) for each in spec["containers"]} == {"pytorch": True, "sidecar": True}
    assert spec["initContainers"] == [{"name": "fetch", "image": "x"}]


def test_a_worker_of_a_master_waits_after_its_own_init_containers():
    obj = manifest(master=1, workers=1)
    template(obj)["spec"]["initContainers"] = [{"name": "fetch", "image": "x"}]
    settings = Settings(HostNames(), "own:1", ("python", "wait_for.py"))

    pods = objects(obj, settings)

    steps = pods["Pod/j-worker-0"]["spec"]["initContainers"]
    assert [each["name"] for each in steps] == ["fetch", "init-pytorch"]
    assert steps[1]["image"] == "own:1"
    assert steps[1]["command"] == ["python", "wait_for.py", "--host", "j-master-0", "--seconds", "200"]
    assert "initContainers" not in pods["Pod/j-master-0"]["spec"]


def test_a_step_of_the_users_own_by_that_name_is_kept():
    obj = manifest(master=1, workers=1)
    template(obj)["spec"]["initContainers"] = [{"name": "init-pytorch", "image": "mine"}]

    assert objects(obj)["Pod/j-worker-0"]["spec"]["initContainers"] == [{"name": "init-pytorch", "image": "mine"}]
    assert rows(obj, "j-worker-0")["spec.initContainers[init-pytorch]"][1] == "user"


def test_the_template_is_neither_changed_nor_lost():
    obj = manifest(master=1, workers=2)
    template(obj)["metadata"] = {"labels": {"team": "a"}, "annotations": {"note": "b"}, "finalizers": ["c/d"]}
    template(obj)["spec"]["nodeSelector"] = {"disk": "fast"}
    before = repr(obj)

    pod = objects(obj)["Pod/j-worker-1"]

    assert repr(obj) == before
    assert pod["metadata"]["labels"]["team"] == "a"
    assert pod["metadata"]["annotations"]["note"] == "b"
    assert pod["metadata"]["finalizers"] == ["c/d"]
    assert pod["spec"]["nodeSelector"] == {"disk": "fast"}


def test_a_host_name_of_the_users_own_is_kept():
    obj = manifest(workers=1)
    template(obj)["spec"]["hostname"] = "mine"

    assert objects(obj)["Pod/j-worker-0"]["spec"]["hostname"] == "mine"
    assert rows(obj, "j-worker-0")["spec.hostname"] == ("mine", "user")


def test_every_field_a_pod_has_beyond_its_template_is_explained():
    obj = manifest(master=1, workers=1)
    pod, told = objects(obj)["Pod/j-worker-0"], rows(obj, "j-worker-0")
    container = pod["spec"]["containers"][0]
    own = template(obj)["spec"]

    fields = {f"spec.{name}" for name in pod["spec"] if name not in own and name != "initContainers"}
    fields |= {f"spec.initContainers[{each['name']}]" for each in pod["spec"]["initContainers"]}
    fields |= {f"spec.containers[pytorch].env[{each['name']}]" for each in container["env"]}
    fields |= {f"metadata.labels[{name}]" for name in pod["metadata"]["labels"]}
    fields |= {f"metadata.annotations[{name}]" for name in pod["metadata"]["annotations"]}
    fields |= {"metadata.ownerReferences"}

    assert fields == told.keys()


def test_explain_can_be_narrowed_to_a_role():
    desired = PYTORCH_JOB.build(read(manifest(master=1, workers=2)), KUBERNETES, 0)

    assert {row.pod for row in explain(desired, "master")} == {"j-master-0"}
