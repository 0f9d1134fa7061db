"""Services and the autoscaler of a PyTorchJob."""

import pytest
from tests.desired.test_pods import objects
from tests.reconcile.making import manifest

METRIC = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}


@pytest.mark.parametrize(
    ("master", "name", "role"),
    [
        pytest.param(1, "j-master-0", "master", id="the master has a name of its own"),
        pytest.param(0, "j-worker-0", "worker", id="without a master worker 0 has"),
    ],
)
def test_two_services_make_every_name_resolve(master, name, role):
    made = objects(manifest(master=master, workers=3))
    services = {key: each["spec"] for key, each in made.items() if each["kind"] == "Service"}

    assert set(services) == {f"Service/{name}", "Service/j"}
    for spec in services.values():
        assert spec["clusterIP"] == "None"
        assert spec["publishNotReadyAddresses"] is True
        assert spec["ports"] == [
            {"name": "pytorchjob-port", "port": 23456, "targetPort": 23456, "protocol": "TCP"},
        ]
    lead, everyone = services[f"Service/{name}"]["selector"], services["Service/j"]["selector"]
    pod_labels = made[f"Pod/{name}"]["metadata"]["labels"]
    assert lead.items() <= pod_labels.items()
    assert (lead["training.kubeflow.org/replica-type"], lead["training.kubeflow.org/replica-index"]) == (role, "0")
    for pod in (each for each in made.values() if each["kind"] == "Pod"):
        assert everyone.items() <= pod["metadata"]["labels"].items()
        assert (lead.items() <= pod["metadata"]["labels"].items()) == (pod["metadata"]["name"] == name)


def test_the_port_of_the_template_is_the_services():
    obj = manifest(master=1, workers=2)
    ports = [{"name": "pytorchjob-port", "containerPort": 8080}, {"name": "metrics", "containerPort": 9}]
    obj["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]["ports"] = ports

    service = objects(obj)["Service/j-master-0"]

    assert [each["port"] for each in service["spec"]["ports"]] == [8080, 9]


def test_metrics_make_an_autoscaler_named_as_the_job():
    obj = manifest(workers=1, elastic={"minReplicas": 1, "maxReplicas": 3, "metrics": [METRIC]})

    scaler = objects(obj)["HorizontalPodAutoscaler/j"]

    assert scaler["spec"] == {
        "scaleTargetRef": {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "j"},
        "minReplicas": 1,
        "maxReplicas": 3,
        "metrics": [METRIC],
    }


def test_without_metrics_there_is_no_autoscaler():
    assert not [key for key in objects(manifest(workers=1, elastic={})) if key.startswith("Horizontal")]


def test_an_elastic_job_with_a_master_says_two_names_and_both_resolve():
    made = objects(manifest(master=1, workers=2, elastic={"minReplicas": 1, "maxReplicas": 2}))

    assert [key for key in made if key.startswith("Service/")] == [
        "Service/j-master-0",
        "Service/j-worker-0",
        "Service/j",
    ]
