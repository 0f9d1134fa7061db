"""What keeps a gang together follows the job: stage by stage, and when pods that have ended no longer count."""

from dataclasses import replace

import pytest
from tests.reconcile import making, volcano
from tests.reconcile.making import NOON

from trainwright.core.actions import Create, Decision, Delete, Patch
from trainwright.core.objects import Object, Ref, at, ref
from trainwright.core.resources import POD_GROUP
from trainwright.desired import KUBERNETES, Gang
from trainwright.kinds import PYTORCH_JOB, VOLCANO_JOB
from trainwright.reconcile.decide import decide
from trainwright.reconcile.kind import Kind, Observed


class Life:
    """A job that is looked at again and again, with the objects around its pods as the looks before left them."""

    def __init__(self, kind: Kind, job: Object, gang: Gang) -> None:
        self._kind, self._job = kind, job
        self._settings = replace(KUBERNETES, gang=gang)
        self._pod = making.pod if kind is PYTORCH_JOB else volcano.pod
        self._around: dict[Ref, Object] = {}

    def look(self, pods: str) -> Decision:
        seen = Observed((*self._around.values(), *(self._pod(words) for words in pods.split())))
        decision = decide(self._kind, self._kind.read(self._job), seen, self._settings, NOON)
        self._job = {**self._job, "status": decision.status}
        for action in decision.actions:
            match action:
                case Create() if action.object["kind"] != "Pod":
                    self._around[ref(action.object)] = action.object
                case Delete():
                    self._around.pop(action.ref, None)
                case Patch():
                    there = self._around[action.ref]
                    self._around[action.ref] = {**there, "spec": {**there["spec"], **action.patch["spec"]}}
        return decision

    def group(self) -> str:
        """Return the group and how many it asks for; nothing if there is none."""
        found = [each for each in self._around.values() if each["kind"] == "PodGroup"]
        return ", ".join(
            f"{each['metadata']['name']}:"
            f"{each['spec'].get('minMember') or at(each, ('spec', 'schedulingPolicy', 'gang', 'minCount'))}"
            for each in found
        )

    def accept(self) -> None:
        """Say of the group what Volcano says when it wants to see the pods."""
        for name, each in self._around.items():
            if name.api_version == POD_GROUP.api_version:
                self._around[name] = {**each, "status": {"phase": "Inqueue"}}


def made(decision: Decision) -> str:
    return " ".join(
        each.object["metadata"]["name"]
        for each in decision.actions
        if isinstance(each, Create) and each.object["kind"] == "Pod"
    )


def grouped(decision: Decision) -> dict[str, str]:
    """Return the pods that are made, each with its native group; nothing for one that waits for nobody."""
    pods = [each.object for each in decision.actions if isinstance(each, Create) and each.object["kind"] == "Pod"]
    return {each["metadata"]["name"]: at(each, ("spec", "schedulingGroup", "podGroupName"), "") for each in pods}


@pytest.mark.parametrize(
    ("gang", "steps"),
    [
        pytest.param(
            "scheduler-plugins",
            [
                ("", "j-v0:3"),
                ("worker-0:Succeeded worker-1:Running worker-2:Running", "j-v0:3"),
                ("worker-0:Succeeded worker-1:Succeeded", "j-v0:1"),
            ],
            id="scheduler-plugins: it is changed then",
        ),
        pytest.param(
            "volcano",
            [("", "j:3"), ("worker-0:Succeeded worker-1:Succeeded", "j:3")],
            id="volcano: it counts what has ended",
        ),
    ],
)
def test_a_gang_of_which_some_have_ended(gang, steps):
    life = Life(PYTORCH_JOB, making.manifest(workers=3), gang)
    for pods, group in steps:
        life.look(pods)
        assert life.group() == group


@pytest.mark.parametrize(
    ("gang", "between"),
    [
        pytest.param("scheduler-plugins", "j-v0:5", id="scheduler-plugins"),
        pytest.param("volcano", f"j-{making.UID}:5", id="volcano"),
    ],
)
def test_a_gang_counts_the_stages_that_may_start(gang, between):
    job = volcano.manifest("a=2 b=3", after={"b": {"name": ["a"]}})
    life = Life(VOLCANO_JOB, job, gang)
    life.look("")
    life.accept()

    assert life.group().endswith(":2")
    assert made(life.look("")) == "j-a-0 j-a-1"
    assert made(life.look("a-0:Running a-1:Running")) == "j-b-0 j-b-1 j-b-2"
    assert life.group() == between
    life.look("a-0:Running a-1:Running b-0:Pending b-1:Pending b-2:Pending")
    assert life.group().endswith(":5")


def test_native_groups_cannot_be_changed_so_each_stage_has_its_own():
    job = volcano.manifest("a=2 b=3", after={"b": {"name": ["a"]}})
    life = Life(VOLCANO_JOB, job, "native")

    assert grouped(life.look("")) == {"j-a-0": "j-v0", "j-a-1": "j-v0"}
    assert life.group() == "j-v0:2, j-v0-b:3"
    assert grouped(life.look("a-0:Running a-1:Running")) == dict.fromkeys(["j-b-0", "j-b-1", "j-b-2"], "j-v0-b")
    life.look("a-0:Running a-1:Running b-0:Pending b-1:Pending b-2:Pending")
    assert life.group() == "j-v0:2, j-v0-b:3"


@pytest.mark.parametrize(
    ("pods", "made"),
    [
        pytest.param("", {"j-worker-0": "j-v0", "j-worker-1": "j-v0"}, id="first come those that must start together"),
        pytest.param("worker-0:Pending worker-1:Pending", {}, id="nobody else while these wait"),
        pytest.param("worker-1:Pending", {"j-worker-0": "j-v0"}, id="one that is lost before joins them again"),
        pytest.param(
            "worker-0:Running worker-1:Pending", {"j-worker-2": ""}, id="then the others, who wait for nobody"
        ),
        pytest.param(
            "worker-0:Succeeded worker-2:Running",
            {"j-worker-1": ""},
            id="nor does one that is made again: some have ended",
        ),
    ],
)
def test_who_waits_for_whom_in_a_native_group(pods, made):
    life = Life(VOLCANO_JOB, volcano.manifest("worker=3", minAvailable=2), "native")
    life.look("")
    if pods:
        life.look("worker-0:Pending worker-1:Pending")

    assert grouped(life.look(pods)) == made


@pytest.mark.parametrize("gang", ["native", "scheduler-plugins"])
def test_a_job_that_starts_again_has_another_group(gang):
    life = Life(VOLCANO_JOB, volcano.manifest("worker=2", "PodFailed:RestartJob"), gang)
    life.look("")
    life.look("worker-0:Running worker-1:Running")
    life.look("worker-0:Failed=1 worker-1:Running")
    life.look("")

    assert life.group() == "j-v1:2"


def test_pods_of_a_kubeflow_job_wait_until_volcano_wants_to_see_them():
    life = Life(PYTORCH_JOB, making.manifest(workers=2), "volcano")

    assert made(life.look("")) == ""
    assert made(life.look("")) == ""
    life.accept()
    assert made(life.look("")) == "j-worker-0 j-worker-1"


@pytest.mark.parametrize("gang", ["native", "volcano", "scheduler-plugins"])
@pytest.mark.parametrize(
    ("kind", "job", "ended"),
    [
        pytest.param(
            PYTORCH_JOB, making.manifest(workers=1, cleanPodPolicy="None"), "worker-0:Succeeded", id="PyTorchJob"
        ),
        pytest.param(VOLCANO_JOB, volcano.manifest("worker=1"), "worker-0:Succeeded", id="Volcano Job"),
    ],
)
def test_the_group_of_a_job_that_has_ended_goes(kind, job, ended, gang):
    """Schedulers set room aside for a group whose pods are not there."""
    life = Life(kind, job, gang)
    life.look("")
    life.accept()
    life.look("worker-0:Running")
    assert life.group()

    life.look(ended)
    life.look(ended)
    assert not life.group()
