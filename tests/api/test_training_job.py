"""TrainingJob: what is filled in, what is refused in which words, and the Job that comes out."""

from typing import Any

import pytest
from tests.api.examples import GONE, TRAINING, changed, sentences

from trainwright.api.training_job import check, default, read
from trainwright.core.objects import Object, at

DOCUMENT: Object = {
    "apiVersion": "paddlepaddle.org/v1",
    "kind": "TrainingJob",
    "metadata": {"name": "paddlejob", "namespace": "testspace"},
    "spec": {
        "image": "paddlepaddle/paddlecloud-job",
        "port": 7164,
        "ports_num": 1,
        "ports_num_for_sparse": 1,
        "fault_tolerant": False,
        "mountPath": "/home/work/namespace/",
        "master": {"resources": {"limits": {"cpu": "800m"}, "requests": {"cpu": "500m", "memory": "600Mi"}}},
        "pserver": {"min-instance": 2, "max-instance": 2, "resources": {"requests": {"cpu": "500m"}}},
        "trainer": {
            "entrypoint": "python train.py",
            "workspace": "/home/job-1/",
            "passes": 10,
            "min-instance": 2,
            "max-instance": 6,
            "resources": {"limits": {"cpu": "200m", "memory": "200Mi"}, "requests": {"cpu": "200m"}},
        },
    },
}
TOLERANT = changed(TRAINING, {"spec.fault_tolerant": True, "spec.trainer.max-instance": 6})
FIXED = "2 trainers are started and never 6: only a fault-tolerant job can lose and gain trainers"


@pytest.mark.parametrize(
    ("changes", "path", "value"),
    [
        pytest.param({}, "image", "paddlepaddle/paddlecloud-job", id="the image of the first release"),
        pytest.param({}, "port", 7164, id="the port of the first release"),
        pytest.param({"spec.port": 0}, "port", 7164, id="a port of 0 counts as left out"),
        pytest.param({"spec.port": 80}, "port", 80, id="a port that is given stays"),
        pytest.param({}, "ports_num", 1, id="one port"),
        pytest.param({"spec.ports_num_for_sparse": 0}, "ports_num_for_sparse", 1, id="and one for sparse data"),
        pytest.param({}, "fault_tolerant", False, id="a job is not fault tolerant unless it says so"),
        pytest.param({}, "passes", 1, id="one pass"),
        pytest.param({"spec.trainer.passes": 10}, "passes", 10, id="passes may stand with the trainer"),
        pytest.param({"spec.trainer.max-instance": GONE}, "trainer.max-instance", 2, id="the fewest are the most too"),
        pytest.param({"spec.trainer.min-instance": GONE}, "trainer.min-instance", 2, id="the most are the fewest too"),
        pytest.param(
            {"spec.trainer.max-instance": 6}, "elasticReplicas", None, id="a job that cannot scale has no size"
        ),
        pytest.param({"spec.image": None}, "image", "paddlepaddle/paddlecloud-job", id="null counts as left out"),
    ],
)
def test_what_is_filled_in(changes, path, value):
    assert at(default(changed(TRAINING, changes))["spec"], path.split(".")) == value


def test_a_job_that_scales_begins_with_its_fewest_trainers():
    assert default(TOLERANT)["spec"]["elasticReplicas"] == 2


def test_defaults_are_filled_in_once():
    assert default(default(DOCUMENT)) == default(DOCUMENT)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param({}, [], id="a small job is fine"),
        pytest.param(
            {"spec.trainer": GONE},
            ["spec.trainer: missing; the trainers"],
            id="there must be trainers",
        ),
        pytest.param(
            {"spec.trainer.entrypoint": GONE},
            ["spec.trainer.entrypoint: missing; the command line that trains"],
            id="something must be run",
        ),
        pytest.param(
            {"spec.trainer.entrypoint": " "},
            ['spec.trainer.entrypoint: is empty; write the command line that trains, such as "python train.py"'],
            id="an empty entrypoint is none",
        ),
        pytest.param(
            {"spec.trainer.min-instance": GONE, "spec.trainer.max-instance": GONE},
            ["spec.trainer.min-instance: missing; write how many trainers there are"],
            id="a number of trainers is needed",
        ),
        pytest.param(
            {"spec.trainer.min-instance": 0},
            ["spec.trainer.min-instance: must be at least 1, found 0"],
            id="no trainers are too few",
        ),
        pytest.param(
            {"spec.trainer.min-instance": 4},
            ["spec.trainer.min-instance: 4 is more than max-instance (2); lower it, or raise max-instance"],
            id="the fewest are not more than the most",
        ),
        pytest.param(
            {"spec.pserver": {"min-instance": 3, "max-instance": 1}},
            ["spec.pserver.min-instance: 3 is more than max-instance (1); lower it, or raise max-instance"],
            id="of servers neither",
        ),
        pytest.param(
            {"spec.pserver": {"min-instance": 1, "max-instance": 3}},
            [
                (
                    "warning: spec.pserver.max-instance: 1 parameter servers are started and not 3: they do not scale; "
                    "write 1"
                )
            ],
            id="servers do not scale",
        ),
        pytest.param(
            {"spec.trainer.max-instance": 6},
            [f"warning: spec.trainer.max-instance: {FIXED}; write fault_tolerant: true, or max-instance: 2"],
            id="a range is of no use to a plain job",
        ),
        pytest.param(
            {"spec.elasticReplicas": 3},
            ["spec.elasticReplicas: 3 trainers are not possible: the job names no range; leave it out"],
            id="a job without a range has no other size",
        ),
        pytest.param(
            {"spec.port": 65535},
            [
                (
                    "spec.port: 65535 and 1 further ports end at 65536, but the last port is 65535; "
                    "lower port, ports_num or ports_num_for_sparse"
                )
            ],
            id="all ports must be ports",
        ),
        pytest.param(
            {"spec.passes": 3, "spec.trainer.passes": 4},
            ["spec.trainer.passes: 4 differs from spec.passes (3); leave one of them out"],
            id="passes are said once",
        ),
        pytest.param(
            {"spec.fault_tolerent": True},
            ["spec.fault_tolerent: unknown field 'fault_tolerent'; did you mean 'fault_tolerant'?"],
            id="a misspelt field is found",
        ),
        pytest.param(
            {"spec.volumeMounts": []},
            ["spec.volumeMounts: unknown field 'volumeMounts'; did you mean 'VolumeMounts'?"],
            id="also one that is spelled as it should have been",
        ),
        pytest.param(
            {"spec.mountPath": "/data"},
            [
                (
                    "warning: spec.mountPath: nothing is mounted there, for the job has no volumes; "
                    "add spec.volumes, or leave it out"
                )
            ],
            id="a place without a volume",
        ),
        pytest.param(
            {"spec.volumes": [{"name": "d", "emptyDir": {}}], "spec.VolumeMounts": [{"name": "e", "mountPath": "/d"}]},
            ["spec.VolumeMounts[0].name: there is no volume 'e'; add it to the volumes"],
            id="a mount without its volume",
        ),
        pytest.param(
            {"spec.trainer.resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}},
            [
                "spec.trainer.resources.requests.cpu: 2 is more than the limit (1); lower it, or raise the limit",
            ],
            id="no more is asked for than allowed",
        ),
        pytest.param(
            {"spec.trainer.resources": {"limits": {"alpha.kubernetes.io/nvidia-gpu": "0.5"}}},
            [
                "spec.trainer.resources.limits[nvidia.com/gpu]: nvidia.com/gpu is counted in whole numbers, found 0.5",
            ],
            id="half a GPU is none, under its old name too",
        ),
        pytest.param(
            {"spec.master": {"etcd-endpoint": "http://etcd:2379"}},
            ["warning: spec.master.etcd-endpoint: is never read; leave it out"],
            id="what was never read is said",
        ),
        pytest.param(
            {"metadata.name": "j" * 54},
            [
                (
                    f"metadata.name: pod '{'j' * 54}-pserver-0' would be 64 characters long, "
                    "but a host name has at most 63; shorten the name to 53"
                )
            ],
            id="pods must have names",
        ),
    ],
)
def test_what_is_said_of_a_job(changes, says):
    assert sentences(check(changed(TRAINING, changes))) == says


@pytest.mark.parametrize(
    ("size", "says"),
    [
        pytest.param(2, [], id="the fewest"),
        pytest.param(6, [], id="the most"),
        pytest.param(
            7,
            ["spec.elasticReplicas: 7 is more than trainer.max-instance (6); lower it, or raise max-instance"],
            id="more than the most",
        ),
        pytest.param(
            1,
            ["spec.elasticReplicas: 1 is less than trainer.min-instance (2); raise it, or lower min-instance"],
            id="fewer than the fewest",
        ),
    ],
)
def test_what_is_said_of_the_size_of_a_job_that_scales(size, says):
    assert sentences(check(changed(TOLERANT, {"spec.elasticReplicas": size}))) == says


def test_the_size_of_a_job_that_does_not_scale_cannot_be_changed():
    job = changed(TRAINING, {"spec.trainer.max-instance": 6, "spec.elasticReplicas": 4})

    errors = [problem for problem in check(job) if problem.severity == "error"]

    assert sentences(errors) == [f"spec.elasticReplicas: 4 trainers are not possible: {FIXED}; leave it out"]


_MAY = "an update may only change elasticReplicas and the min-instance and max-instance of trainer"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param({"spec.trainer.max-instance": 8}, [], id="the range may be changed"),
        pytest.param({"spec.elasticReplicas": 5}, [], id="the size may be changed"),
        pytest.param({"spec.port": 7164}, [], id="writing down a default is no change"),
        pytest.param(
            {"spec.image": "x"},
            [f"spec.image: 'paddlepaddle/paddlecloud-job' cannot become 'x'; {_MAY}"],
            id="the image stays",
        ),
        pytest.param(
            {"spec.pserver": {"min-instance": 1}}, [f"spec.pserver: cannot be changed; {_MAY}"], id="so do servers"
        ),
        pytest.param(
            {"spec.trainer.entrypoint": "x"},
            [f"spec.trainer.entrypoint: 'python train.py' cannot become 'x'; {_MAY}"],
            id="and what is run",
        ),
    ],
)
def test_what_is_said_of_a_change(changes, says):
    assert sentences(check(changed(TOLERANT, changes), TOLERANT)) == says


def test_the_documents_own_example_is_accepted_and_runs_at_its_minimum():
    assert not [problem for problem in check(DOCUMENT) if problem.severity == "error"]

    job = read(default(DOCUMENT))

    assert [(role.name, role.replicas) for role in job.roles] == [("master", 1), ("pserver", 2), ("trainer", 2)]
    assert job.elastic is None
    assert job.requests[0].options["passes"] == 10


@pytest.mark.parametrize(
    ("changes", "roles", "elastic"),
    [
        pytest.param({}, "trainer 2", None, id="trainers alone"),
        pytest.param({"spec.master": {}}, "master 1, trainer 2", None, id="a master that is asked for"),
        pytest.param(
            {"spec.fault_tolerant": True}, "master 1, trainer 2", None, id="a master because of fault tolerance"
        ),
        pytest.param({"spec.pserver": {"min-instance": 0}}, "trainer 2", None, id="no servers are none"),
        pytest.param({"spec.trainer.max-instance": 6}, "trainer 2", None, id="a plain job runs at its minimum"),
        pytest.param(
            {"spec.fault_tolerant": True, "spec.trainer.max-instance": 6}, "master 1, trainer 2", (2, 6), id="elastic"
        ),
        pytest.param(
            {"spec.fault_tolerant": True, "spec.trainer.max-instance": 6, "spec.elasticReplicas": 5},
            "master 1, trainer 5",
            (2, 6),
            id="elastic at another size",
        ),
    ],
)
def test_the_roles_of_a_job(changes, roles, elastic):
    job = read(default(changed(TRAINING, changes)))

    assert ", ".join(f"{role.name} {role.replicas}" for role in job.roles) == roles
    assert (job.elastic and (job.elastic.minimum, job.elastic.maximum)) == elastic


def pod(changes: dict[str, Any], role: str = "trainer") -> Object:
    found = read(default(changed(TRAINING, changes))).role(role)
    assert found
    spec: Object = found.template["spec"]
    return spec


@pytest.mark.parametrize(
    ("changes", "path", "value"),
    [
        pytest.param({"spec.host_network": True}, "hostNetwork", True, id="the network of the node"),
        pytest.param({"spec.HostNetwork": True}, "hostNetwork", True, id="the same as the first release wrote it"),
        pytest.param(
            {"spec.host_network": True}, "dnsPolicy", "ClusterFirstWithHostNet", id="where names still resolve"
        ),
        pytest.param({"spec.NodeSelector": {"a": "b"}}, "nodeSelector", {"a": "b"}, id="chosen nodes"),
        pytest.param({"spec.imagePullSecrets": [{"name": "s"}]}, "imagePullSecrets", [{"name": "s"}], id="secrets"),
        pytest.param({"spec.volumes": [{"name": "d"}]}, "volumes", [{"name": "d"}], id="volumes"),
    ],
)
def test_what_every_pod_takes_over(changes, path, value):
    assert pod(changes)[path] == value


def test_the_first_volume_is_mounted_where_the_job_says():
    changes = {"spec.volumes": [{"name": "d", "emptyDir": {}}], "spec.mountPath": "/work"}

    assert pod(changes)["containers"][0]["volumeMounts"] == [{"name": "d", "mountPath": "/work"}]


def test_a_gpu_gets_the_name_it_has_today():
    changes = {"spec.trainer.resources": {"limits": {"alpha.kubernetes.io/nvidia-gpu": 2}}}

    assert pod(changes)["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": 2}}


def test_a_master_without_resources_gets_those_of_the_released_controller():
    container = pod({"spec.master": {}}, "master")["containers"][0]

    assert container["resources"] == {
        "limits": {"cpu": "2", "memory": "1Gi"},
        "requests": {"cpu": "1", "memory": "500Mi"},
    }
