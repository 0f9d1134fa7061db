"""The operator's rights from both sides: all that was called was allowed, and all that is allowed was called.

The last test judges all tests of this folder, on whatever control plane they ran. What no other test needs is used
here: groups for schedulers of others, whose definitions are enough for an operator.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import get_args

import pytest
from tests.kube.running import (
    ACCOUNT,
    Kubectl,
    RunningOperator,
    account,
    as_call,
    audited,
    install,
    operating,
    refused,
    until,
)
from tests.kube.test_gangs import THEIRS, definition, job
from tools.kube import ControlPlane

from trainwright.core.objects import Object
from trainwright.core.resources import PLUGIN_POD_GROUP, POD_GROUP, Resource
from trainwright.operator.gangs import DEFAULT_QUEUE, QUEUE, Choice
from trainwright.operator.rights import (
    GANG_RIGHTS,
    HANDOVER_RIGHTS,
    LEADER_RIGHTS,
    REGISTER_RIGHTS,
    RIGHTS,
    SCALING_RIGHTS,
    WEBHOOK_RIGHTS,
    Right,
)

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

PARTS: Mapping[str, tuple[Right, ...]] = {
    "always": RIGHTS,
    "handing over": HANDOVER_RIGHTS,
    "the autoscaler": SCALING_RIGHTS,
    "webhooks": WEBHOOK_RIGHTS,
    "leader election": LEADER_RIGHTS,
    "--install-crds": REGISTER_RIGHTS,
    **{f"--gang={choice}": GANG_RIGHTS[choice] for choice in get_args(Choice)},
}
GROUPS: Mapping[Choice, Resource] = {"auto": POD_GROUP, "scheduler-plugins": PLUGIN_POD_GROUP}
"""What is made for which scheduler; Volcano's is to be found without being named."""


@pytest.fixture(scope="module")
def groups(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Return an API server that serves the PodGroups of others, with nobody who looks at them."""
    assert programs
    plane = ControlPlane(tmp_path_factory.mktemp("groups"), strict=True)
    try:
        plane.start(controllers=False)
        admin = Kubectl(plane.kubeconfig)
        for resource, spec in THEIRS.items():
            admin.apply(definition(resource, spec))
        admin.apply(queues())
        admin("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        state = {"state": "Open"}
        admin.apply(
            {"apiVersion": QUEUE.api_version, "kind": QUEUE.kind, "metadata": {"name": DEFAULT_QUEUE}, "status": state}
        )
        yield plane
    finally:
        plane.stop()
    assert not refused(plane)


def queues() -> Object:
    """Return the definition of Volcano's queues, as far as we look at them."""
    made = definition(QUEUE, {})
    schema = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["status"] = {"type": "object", "properties": {"state": {"type": "string"}}}
    made["spec"]["scope"] = "Cluster"
    return made


@pytest.mark.parametrize("choice", GROUPS)
def test_groups_for_other_schedulers_are_kept_as_they_should_be(choice: Choice, groups: ControlPlane, tmp_path: Path):
    admin, group = Kubectl(groups.kubeconfig), GROUPS[choice]
    kubectl = Kubectl(groups.kubeconfig, f"groups-{choice}")
    admin("create", "namespace", kubectl.namespace)
    kubectl("create", "serviceaccount", "default")
    install(admin, f"--gang={choice}")
    admin("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    with operating(account(groups, admin), tmp_path, f"--gang={choice}"):
        kubectl.apply(job("a", 3, "true"))
        until(lambda: kubectl.names(str(group)), "the job has a group")
        (name,) = kubectl.names(str(group))
        kubectl.patch(f"{group}/{name}", {"spec": {"minMember": 7}})
        kubectl("wait", f"{group}/{name}", "--for=jsonpath={.spec.minMember}=3", "--timeout=30s")

        theirs = json.loads(
            kubectl("get", f"{group}/{name}", "-o", "json").replace(f'"{name}"', f'"{name.replace("a", "b", 1)}"')
        )
        theirs["metadata"] = {"name": theirs["metadata"]["name"]}
        kubectl.apply(theirs)
        kubectl.apply(job("b", 3, "true"))
        until(lambda: "NameTaken" in kubectl("get", "events"), "it is said that somebody else has the group's name")

        kubectl.patch("pytorchjob/a", {"spec": {"runPolicy": {"suspend": True}}})
        kubectl.until_gone(f"{group}/{name}")


def test_rights_are_exactly_those_that_were_used(operator: RunningOperator, tmp_path_factory: pytest.TempPathFactory):
    """Judges all tests of this folder, so it runs last (see conftest): alone it finds that next to nothing was used."""
    assert operator.process.poll() is None
    logs = tmp_path_factory.getbasetemp().glob("*/audit.log")
    used = {call for log in logs for call, _, _ in audited(log)}

    unused = {part: {as_call(right) for right in rights if right.called} - used for part, rights in PARTS.items()}
    assert {part: calls for part, calls in unused.items() if calls} == {}, f"{ACCOUNT} never used these rights"
    given = {as_call(right) for rights in PARTS.values() for right in rights}
    assert used - given == set(), "these calls are allowed by somebody else's role"
