"""What `tw install` prints: the kinds, the operator's rights, and how it runs."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.reconcile.making import look, manifest

from trainwright.cli.output import dump, stream
from trainwright.core.errors import AlreadyExists, HomeError, NotFound
from trainwright.core.objects import Object, at, ref
from trainwright.kinds import KINDS, PYTORCH_JOB
from trainwright.operator.crds import definition, definitions, is_ours, register
from trainwright.operator.manifests import PARTS, Installation, manifests
from trainwright.operator.rights import (
    CUSTOM_RESOURCE,
    GANG_RIGHTS,
    LEADER_RIGHTS,
    REGISTER_RIGHTS,
    RIGHTS,
    SCALING_RIGHTS,
    WEBHOOK_RIGHTS,
    Right,
    rules,
)

APPLY_LIMIT = 262_144
"""Bytes of an object that `kubectl apply` can remember in an annotation."""
DEFINED = list(definitions(KINDS))


def made(kind: str, installation: Installation | None = None) -> Object:
    return next(each for each in manifests(installation or Installation()) if each["kind"] == kind)


def parts(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, value
    for key, below in value.items() if isinstance(value, dict) else ():
        yield from parts(below, (*path, key))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
class TestEveryDefinition:
    def test_is_small_enough_to_apply(self, kind):
        assert len(dump(definition(kind), "json")) < APPLY_LIMIT

    def test_scales_where_the_kind_says(self, kind):
        scale = definition(kind)["spec"]["versions"][0]["subresources"]["scale"]

        assert scale["specReplicasPath"] == "." + ".".join(kind.size_path)

    def test_checks_nothing_below_what_is_preserved(self, kind):
        """An API server refuses such a rule: it cannot see what is there."""
        schema = definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        preserved = [path for path, part in parts(schema) if at(part, ("x-kubernetes-preserve-unknown-fields",))]
        ruled = [path for path, part in parts(schema) if at(part, ("x-kubernetes-validations",))]

        assert preserved
        assert ruled
        assert not [path for path in ruled for above in preserved if path[: len(above)] == above]

    def test_is_found_with_all_training_jobs_and_takes_no_short_name_but_its_originals(self, kind):
        names = definition(kind)["spec"]["names"]

        assert names["categories"] == ["training"]
        originals = {"Job": ["vcjob", "vj"], "MPIJob": ["mj", "mpij"], "TrainingJob": ["tj"]}
        assert names.get("shortNames") == originals.get(kind.name)

    def test_shows_state_and_age(self, kind):
        columns = definition(kind)["spec"]["versions"][0]["additionalPrinterColumns"]
        narrow = [each["name"] for each in columns if not each.get("priority")]

        assert (narrow[0], narrow[-1]) in [("State", "Age"), ("Status", "Age")]


def cell(obj: Any, path: str) -> Any:
    """Return what `kubectl get` finds at a path; `[-1:]` is the last of a list."""
    for step in path.removeprefix(".").split("."):
        name, _, last = step.partition("[")
        obj = obj[name][-1] if last else obj[name]
    return obj


@pytest.mark.parametrize(
    ("pods", "cells"),
    [
        pytest.param("", ["Created", "0/3", 0], id="a new job"),
        pytest.param("master-0:Running worker-0:Running", ["Running", "2/3", 0], id="a job that runs"),
        pytest.param("master-0:Running worker-0:Running+2", ["Running", "2/3", 2], id="after two restarts"),
        pytest.param("master-0:Succeeded worker-0:Running", ["Succeeded", "0/3", 0], id="a job that has succeeded"),
    ],
)
def test_the_columns_of_a_pytorch_job(pods, cells):
    job = manifest(master=1, workers=2)
    status = look(job, pods).status

    columns = definition(PYTORCH_JOB)["spec"]["versions"][0]["additionalPrinterColumns"]

    assert [cell({"status": status}, each["jsonPath"]) for each in columns[:-1]] == cells


def test_the_commands_of_a_kind_are_defined_beside_it():
    commands = next(each for each in definitions(KINDS) if each["metadata"]["name"] == "commands.bus.volcano.sh")
    (version,) = commands["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]

    assert schema["required"] == ["action", "target"]
    assert schema["properties"]["metadata"] == {"type": "object"}
    assert "subresources" not in version


def printed(**asked: Any) -> list[str]:
    """Return the kinds of what is printed, in order, but for the definitions."""
    kinds = [each["kind"] for each in manifests(Installation(**asked))]
    return [kind for kind in kinds if kind != "CustomResourceDefinition"]


def args(**asked: Any) -> list[str]:
    found: list[str] = made("Deployment", Installation(**asked))["spec"]["template"]["spec"]["containers"][0]["args"]
    return found


def test_kinds_come_first_and_rights_before_who_needs_them():
    kinds = [each["kind"] for each in manifests(Installation())]

    assert kinds[: len(DEFINED)] == ["CustomResourceDefinition"] * len(DEFINED)
    order = ["Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Service", "Deployment"]
    assert [kind for kind in kinds if kind in order] == order


def test_an_installation_is_what_was_asked_for():
    made_here = list(manifests(Installation("training", "registry.example/tw:1")))
    namespaces = {each["metadata"].get("namespace") for each in made_here} - {None}
    container = made("Deployment", Installation("training", "registry.example/tw:1"))["spec"]["template"]["spec"]

    assert namespaces == {"training"}
    assert next(each for each in made_here if each["kind"] == "Namespace")["metadata"]["name"] == "training"
    assert container["containers"][0]["image"] == "registry.example/tw:1"
    assert "--image=registry.example/tw:1" in container["containers"][0]["args"]


def test_with_some_namespaces_nothing_is_asked_of_the_whole_cluster():
    made_here = list(manifests(Installation(watch=("a", "b"), capacity="cpu=4")))

    assert [each["kind"] for each in made_here if "namespace" not in each["metadata"]] == []
    roles = [each for each in made_here if each["kind"] == "Role" and each["metadata"]["name"] == "trainwright"]
    assert [each["metadata"]["namespace"] for each in roles] == ["a", "b"]
    assert not [rule for each in roles for rule in each["rules"] if "nodes" in rule["resources"]]
    assert "--namespace=a,b" in args(watch=("a", "b"), capacity="cpu=4")


@pytest.mark.parametrize(
    ("without", "gone"),
    [
        pytest.param("operator", {"Deployment", "ClusterRole", "Namespace"}, id="without operator only the kinds"),
        pytest.param("crds", {"CustomResourceDefinition"}, id="without crds everything but the kinds"),
    ],
)
def test_parts_can_be_left_out(without, gone):
    kinds = {each["kind"] for each in manifests(Installation(without=frozenset({without})))}

    assert kinds
    assert not kinds & gone


@pytest.mark.parametrize(
    ("asked", "replicas", "strategy", "budget"),
    [
        pytest.param({}, 2, "RollingUpdate", True, id="two operators are replaced one by one"),
        pytest.param({"replicas": 1}, 1, "RollingUpdate", False, id="one has its successor beside it for a moment"),
        pytest.param(
            {"replicas": 1, "without": frozenset({"leader-election"})},
            1,
            "Recreate",
            False,
            id="without leader election the old one goes first",
        ),
    ],
)
def test_operators_are_replaced(asked, replicas, strategy, budget):
    spec = made("Deployment", Installation(**asked))["spec"]

    assert (spec["replicas"], spec["strategy"]["type"]) == (replicas, strategy)
    assert ("PodDisruptionBudget" in printed(**asked)) is budget


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param({}, id="as shipped"),
        pytest.param({"install_crds": True}, id="registering the kinds"),
        pytest.param({"watch": ("a", "b"), "capacity": "cpu=4,memory=8Gi"}, id="in two namespaces"),
        pytest.param({"without": frozenset(PARTS) - {"operator"}, "replicas": 1}, id="with nothing but the operator"),
    ],
)
def test_the_operator_understands_its_flags(asked):
    from trainwright.cli.operator import command

    with command.make_context("operator", args(**asked)):
        pass


def test_the_operator_may_do_little():
    pod = made("Deployment")["spec"]["template"]["spec"]
    container = pod["containers"][0]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["resources"]["requests"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_what_is_to_be_kept_is_not_printed():
    kept = [ref(definition(PYTORCH_JOB)), ref(made("Namespace"))]

    names = {str(ref(each)) for each in manifests(Installation(), kept)}

    assert names.isdisjoint(map(str, kept))
    assert len(names) == len(list(manifests(Installation()))) - len(kept)


def test_everything_is_known_to_be_ours():
    assert [ref(each) for each in manifests(Installation()) if not is_ours(each)] == []


@pytest.mark.parametrize("install_crds", [False, True], ids=["kinds are applied", "the operator registers the kinds"])
def test_rights_on_definitions_only_for_who_registers_them(install_crds):
    installation = Installation(install_crds=install_crds)
    groups = {group for rule in made("ClusterRole", installation)["rules"] for group in rule["apiGroups"]}

    assert (CUSTOM_RESOURCE.group in groups) is install_crds
    assert ("--install-crds" in args(install_crds=install_crds)) is install_crds
    assert any(each["kind"] == "CustomResourceDefinition" for each in manifests(installation)) is not install_crds


def test_rights_of_one_resource_are_one_rule():
    given = (
        Right("", "pods", "list", "a"),
        Right("g", "jobs", "get", "c", ("x",)),
        Right("", "pods", "watch", "b"),
        Right("", "pods", "list", "for another reason"),
    )

    assert rules(given) == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
        {"apiGroups": ["g"], "resources": ["jobs"], "resourceNames": ["x"], "verbs": ["get"]},
    ]


EVERY_RIGHT = (
    *RIGHTS,
    *SCALING_RIGHTS,
    *WEBHOOK_RIGHTS,
    *LEADER_RIGHTS,
    *REGISTER_RIGHTS,
    *(right for rights in GANG_RIGHTS.values() for right in rights),
)


def test_no_rule_says_everything():
    assert not [rule for rule in rules(EVERY_RIGHT) if "*" in str(rule)]


class Definitions:
    """An API server with nothing but definitions, served after it was asked for them a few times."""

    def __init__(self, there: Object | None = None, *, served_after: int = 2, quicker: Object | None = None) -> None:
        self.there = there
        self._left = served_after
        self._quicker = quicker

    async def get(self, resource: Any, namespace: str, name: str) -> Object:
        if self.there is None:
            raise NotFound(name)
        self._left -= 1
        served = {"type": "Established", "status": "True" if self._left <= 0 else "False"}
        return {**self.there, "status": {"conditions": [served]}}

    async def create(self, resource: Any, obj: Object) -> Object:
        if self._quicker:
            self.there = self._quicker
            raise AlreadyExists(obj["metadata"]["name"])
        self.there = obj
        return obj


SOMEBODYS = {"metadata": {"name": "pytorchjobs.kubeflow.org", "labels": {"of": "another"}}}


@pytest.mark.parametrize(
    ("server", "there"),
    [
        pytest.param(Definitions(), definition(KINDS[0]), id="a kind that is missing is registered"),
        pytest.param(Definitions(SOMEBODYS), SOMEBODYS, id="one that is there stays as it is"),
        pytest.param(Definitions(quicker=SOMEBODYS), SOMEBODYS, id="another operator may be quicker"),
    ],
)
async def test_register(server: Any, there: Object):
    await register(server, KINDS)

    assert server.there == there


async def test_a_kind_that_is_never_served_is_said():
    server: Any = Definitions(served_after=1_000_000)

    with pytest.raises(HomeError, match=r"not served after 0\.01 s; see: kubectl describe crd pytorchjobs"):
        await register(server, KINDS, seconds=0.01)


def test_yaml_is_plain():
    text = stream(manifests(Installation()), "yaml")

    assert "&id" not in text
    assert list(yaml.safe_load_all(text)) == list(manifests(Installation()))
