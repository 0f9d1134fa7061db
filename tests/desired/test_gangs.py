"""Every way to keep gangs together, for jobs of every kind: which object there is, and what pods carry."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

import pytest
from tests.desired.jobs import JOBS, mpi_job, pytorch_job, training_job

from trainwright.core.names import GANG_GATE, GANG_LABEL, GANG_MIN_ANNOTATION
from trainwright.core.objects import Object, at
from trainwright.core.resources import NATIVE_POD_GROUP, PLUGIN_POD_GROUP, POD_GROUP
from trainwright.desired import KUBERNETES, Gang, explain, gangs, render
from trainwright.kinds import KINDS, kind_of


def made(job: Object, gang: Gang, version: int = 0, **settings: Any) -> list[Object]:
    kind = kind_of(job)
    assert kind
    return list(render(kind.build(kind.read(kind.default(job)), replace(KUBERNETES, gang=gang, **settings), version)))


def templates(objects: list[Object]) -> Iterator[Object]:
    """Yield every pod, also those that others make from a template."""
    for each in objects:
        if each["kind"] == "Pod":
            yield each
        elif template := at(each, ("spec", "template")):
            yield template


def launches(pod: Object) -> bool:
    return str(at(pod, ("metadata", "labels", GANG_LABEL))).endswith("-launcher")


def groups(objects: list[Object]) -> list[str]:
    """Return the objects that keep gangs together, as "v1alpha2 j-v0 of 3"."""
    found = [each for each in objects if each["kind"] == "PodGroup"]
    return [
        f"{each['apiVersion']} {each['metadata']['name']} of "
        f"{each['spec'].get('minMember') or at(each, ('spec', 'schedulingPolicy', 'gang', 'minCount'))}"
        for each in found
    ]


def carried(pod: Object) -> str:
    """Return what a pod carries because of its gang, beyond what all carry."""
    meta, spec = pod["metadata"], pod["spec"]
    found = {
        "scheduler": spec.get("schedulerName"),
        "native": at(spec, ("schedulingGroup", "podGroupName")),
        "volcano": meta["annotations"].get("scheduling.k8s.io/group-name"),
        "task": meta["annotations"].get("volcano.sh/task-spec"),
        "plugin": meta["labels"].get(gangs.PLUGIN_LABEL),
        "gates": ",".join(each["name"] for each in spec.get("schedulingGates") or ()),
    }
    return " ".join(f"{name}={value}" for name, value in found.items() if value)


HELD = f"gates={GANG_GATE}"
VOLCANO, NATIVE, PLUGIN = (f"{row.api_version} {{}} of 3" for row in (POD_GROUP, NATIVE_POD_GROUP, PLUGIN_POD_GROUP))
BY_PLUGIN = "scheduler=scheduler-plugins-scheduler"
OWN = "volcano=j-uid task=worker"
"""The pods of Volcano's Job say so whoever schedules them."""
ROWS: list[tuple[str, Gang, str, str]] = [
    ("PyTorchJob", "none", "", ""),
    ("PyTorchJob", "labels", "", ""),
    ("PyTorchJob", "gates", "", HELD),
    ("PyTorchJob", "native", NATIVE.format("j-v0"), "native=j-v0"),
    ("PyTorchJob", "volcano", VOLCANO.format("j"), "scheduler=volcano volcano=j task=worker"),
    ("PyTorchJob", "scheduler-plugins", PLUGIN.format("j-v0"), f"{BY_PLUGIN} plugin=j-v0"),
    ("Job", "none", "", OWN),
    ("Job", "labels", "", OWN),
    ("Job", "gates", "", f"{OWN} {HELD}"),
    ("Job", "native", NATIVE.format("j-v0"), f"native=j-v0 {OWN}"),
    ("Job", "volcano", VOLCANO.format("j-uid"), f"scheduler=volcano {OWN}"),
    ("Job", "scheduler-plugins", PLUGIN.format("j-v0"), f"{BY_PLUGIN} {OWN} plugin=j-v0"),
    ("TrainingJob", "none", "", ""),
    ("TrainingJob", "labels", "", ""),
    ("TrainingJob", "gates", "", HELD),
    ("TrainingJob", "native", NATIVE.format("j-v0"), "native=j-v0"),
    ("TrainingJob", "volcano", VOLCANO.format("j"), "scheduler=volcano volcano=j task=trainer"),
    ("TrainingJob", "scheduler-plugins", PLUGIN.format("j-v0"), f"{BY_PLUGIN} plugin=j-v0"),
    ("MPIJob", "none", "", ""),
    ("MPIJob", "labels", "", ""),
    ("MPIJob", "gates", "", HELD),
    ("MPIJob", "native", NATIVE.format("j-v0"), "native=j-v0"),
    ("MPIJob", "volcano", VOLCANO.format("j"), "scheduler=volcano volcano=j task=worker"),
    ("MPIJob", "scheduler-plugins", PLUGIN.format("j-v0"), f"{BY_PLUGIN} plugin=j-v0"),
]


@pytest.mark.parametrize(("kind", "gang", "group", "pods"), ROWS, ids=[f"{row[0]} with {row[1]}" for row in ROWS])
def test_strategies(kind, gang, group, pods):
    objects = made(JOBS[kind], gang)

    assert groups(objects) == ([group] if group else [])
    assert {carried(pod) for pod in templates(objects) if not launches(pod)} == {pods}
    for pod in templates(objects):
        assert at(pod, ("metadata", "labels", GANG_LABEL))
        assert at(pod, ("metadata", "annotations", GANG_MIN_ANNOTATION)) == ("1" if launches(pod) else "3")


def test_every_kind_and_every_strategy_has_its_row():
    assert {row[:2] for row in ROWS} == {(kind.name, gang) for kind in KINDS for gang in get_args(Gang)}
    assert set(gangs.STRATEGIES) == set(get_args(Gang))


@pytest.mark.parametrize(
    ("gang", "carries"),
    [
        pytest.param("gates", "", id="no gate: it waits for nobody"),
        pytest.param("native", "", id="no group"),
        pytest.param("scheduler-plugins", "", id="no group of the plugin"),
        pytest.param("volcano", "scheduler=volcano volcano=j task=launcher", id="Volcano's group, for its queue"),
    ],
)
@pytest.mark.parametrize("job", [mpi_job(3), mpi_job(3, modern=True)], ids=["v1alpha1", "v2beta1"])
def test_a_launcher_never_waits_for_workers_to_fit_again(job, gang, carries):
    (launcher,) = [pod for pod in templates(made(job, gang)) if launches(pod)]

    assert carried(launcher) == carries


@pytest.mark.parametrize("gang", ["native", "scheduler-plugins"])
def test_each_run_has_a_group_of_its_own(gang):
    """Pods of the last run that are stopping would count for the next."""
    objects = made(pytorch_job(3), gang, version=2)

    assert [each.rpartition(" of ")[0].split()[1] for each in groups(objects)] == ["j-v2"]
    assert all("j-v2" in carried(pod) for pod in templates(objects))


def test_where_a_group_cannot_be_changed_each_stage_has_one_of_what_it_must_have():
    job = training_job(3)
    job["spec"] |= {"fault_tolerant": True, "pserver": {"entrypoint": "c", "min-instance": 2, "max-instance": 2}}
    job["spec"]["trainer"]["max-instance"] = 5
    job["spec"]["elasticReplicas"] = 5
    objects = made(job, "native")

    assert [each.partition(" ")[2] for each in groups(objects)] == [
        "j-v0 of 1",
        "j-v0-pserver of 2",
        "j-v0-trainer of 3",
    ]
    assert [carried(pod) for pod in templates(objects)] == [
        "native=j-v0",
        *["native=j-v0-pserver"] * 2,
        *["native=j-v0-trainer"] * 3,
        *[""] * 2,
    ]


@pytest.mark.parametrize("gang", ["native", "volcano", "scheduler-plugins"])
def test_an_elastic_job_needs_its_minimum(gang):
    job = pytorch_job(5)
    job["spec"]["elasticPolicy"] = {"minReplicas": 2, "maxReplicas": 8}

    assert [each.rpartition(" of ")[2] for each in groups(made(job, gang))] == ["2"]


def test_a_gate_stands_behind_those_of_the_user():
    job = pytorch_job(3)
    template = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
    template["spec"]["schedulingGates"] = [{"name": "kueue"}]

    assert {carried(pod) for pod in templates(made(job, "gates"))} == {f"gates=kueue,{GANG_GATE}"}


@pytest.mark.parametrize(
    ("template", "settings", "scheduler"),
    [
        pytest.param({}, {}, "scheduler-plugins-scheduler", id="the one that goes with the strategy"),
        pytest.param({}, {"gang_scheduler": "mine"}, "mine", id="the one the operator was told"),
        pytest.param({"schedulerName": "theirs"}, {"gang_scheduler": "mine"}, "theirs", id="the one the user names"),
    ],
)
def test_who_schedules(template, settings, scheduler):
    job = pytorch_job(3)
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"] |= template

    assert {pod["spec"]["schedulerName"] for pod in templates(made(job, "scheduler-plugins", **settings))} == {
        scheduler
    }


@pytest.mark.parametrize(
    ("gang", "policy", "spec"),
    [
        pytest.param(
            "volcano",
            {"queue": "team", "priorityClass": "high", "minAvailable": 2, "minResources": {"cpu": "9"}},
            {"queue": "team", "priorityClassName": "high", "minMember": 2, "minResources": {"cpu": "9"}},
            id="Volcano: queue, class, minimum, resources",
        ),
        pytest.param("volcano", {}, {"queue": "default", "minMember": 3}, id="Volcano: the default queue"),
        pytest.param(
            "scheduler-plugins",
            {"scheduleTimeoutSeconds": 60, "minResources": {"cpu": "9"}},
            {"minMember": 3, "scheduleTimeoutSeconds": 60, "minResources": {"cpu": "9"}},
            id="the plugin: how long to try, resources",
        ),
    ],
)
def test_what_a_kubeflow_job_wishes(gang, policy, spec):
    job = pytorch_job(3)
    job["spec"]["runPolicy"] = {"schedulingPolicy": policy}
    (group,) = [each for each in made(job, gang) if each["kind"] == "PodGroup"]

    assert {name: group["spec"].get(name) for name in spec} == spec


@pytest.mark.parametrize(
    ("gang", "carries"),
    [
        pytest.param("labels", "high", id="our own scheduler sees only pods"),
        pytest.param("gates", None, id="elsewhere nobody may know the class"),
    ],
)
@pytest.mark.parametrize("job", [pytorch_job(3), mpi_job(3, modern=True)])
def test_the_priority_class_of_a_kubeflow_job(job, gang, carries):
    policy = {"runPolicy": {"schedulingPolicy": {"priorityClass": "high"}}}
    found = templates(made({**job, "spec": {**job["spec"], **policy}}, gang))

    assert {each["spec"].get("priorityClassName") for each in found} == {carries}


@pytest.mark.parametrize("gang", ["gates", "native", "volcano", "scheduler-plugins"])
@pytest.mark.parametrize("name", [name for name in JOBS if name != "Job"])  # it says all of it by itself
def test_why_is_explained(name, gang):
    kind = kind_of(JOBS[name])
    assert kind
    desired = kind.build(kind.read(kind.default(JOBS[name])), replace(KUBERNETES, gang=gang), 0)

    assert gangs.STRATEGIES[gang].why in {row.reason for row in explain(desired)}
