"""What is shipped for clusters: the files in deploy/ are what the code prints.

TRAINWRIGHT_GOLDEN=write pytest tests/operator/test_manifests.py      writes them; read the difference before committing
"""

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.conftest import ROOT
from tests.reconcile.making import look, manifest

from trainwright.cli.output import dump, stream
from trainwright.core.errors import AlreadyExists, HomeError, NotFound
from trainwright.core.objects import Object, at
from trainwright.kinds import KINDS, PYTORCH_JOB
from trainwright.operator.crds import definition, definitions, register
from trainwright.operator.manifests import Installation, manifests, operator_manifests
from trainwright.operator.rights import CUSTOM_RESOURCE, REGISTER_RIGHTS, RIGHTS, SCALING_RIGHTS, Right, rules

WRITE = os.environ.get("TRAINWRIGHT_GOLDEN") == "write"
APPLY_LIMIT = 262_144
"""Bytes of an object that `kubectl apply` can remember in an annotation."""
SHIPPED = {
    **{f"crds/{each['metadata']['name']}.yaml": dump(each, "yaml") for each in definitions(KINDS)},
    "operator.yaml": stream(operator_manifests(Installation()), "yaml"),
}


@pytest.mark.parametrize("name", SHIPPED)
def test_what_is_shipped_is_what_is_printed(name):
    path = ROOT / "deploy" / name
    if WRITE:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SHIPPED[name])

    assert path.read_text() == SHIPPED[name], "see the first lines of this module"


def test_nothing_else_is_shipped():
    deploy = ROOT / "deploy"

    assert {str(path.relative_to(deploy)) for path in deploy.rglob("*") if path.is_file()} == set(SHIPPED)


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


def test_everything_is_applied_in_an_order_that_works():
    kinds = [each["kind"] for each in manifests(Installation())]

    assert kinds == [
        *["CustomResourceDefinition"] * len(list(definitions(KINDS))),
        "Namespace",
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Service",
        "Deployment",
    ]


def test_an_installation_is_what_was_asked_for():
    made_here = list(manifests(Installation("training", "registry.example/tw:1")))
    namespaces = {each["metadata"].get("namespace") for each in made_here} - {None}
    pod = made_here[-1]["spec"]["template"]["spec"]

    assert namespaces == {"training"}
    assert next(each for each in made_here if each["kind"] == "Namespace")["metadata"]["name"] == "training"
    assert pod["containers"][0]["image"] == "registry.example/tw:1"
    assert "--image=registry.example/tw:1" in pod["containers"][0]["args"]


def test_the_operator_may_do_little():
    pod = made("Deployment")["spec"]["template"]["spec"]
    container = pod["containers"][0]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


@pytest.mark.parametrize("install_crds", [False, True], ids=["kinds are applied", "the operator registers the kinds"])
def test_rights_on_definitions_only_for_who_registers_them(install_crds):
    installation = Installation(install_crds=install_crds)
    groups = {group for rule in made("ClusterRole", installation)["rules"] for group in rule["apiGroups"]}
    flags = made("Deployment", installation)["spec"]["template"]["spec"]["containers"][0]["args"]

    assert (CUSTOM_RESOURCE.group in groups) is install_crds
    assert ("--install-crds" in flags) is install_crds
    assert any(each["kind"] == "CustomResourceDefinition" for each in manifests(installation)) is not install_crds


def test_rights_of_one_resource_are_one_rule():
    given = (Right("", "pods", "list", "a"), Right("", "pods", "watch", "b"), Right("g", "jobs", "get", "c", ("x",)))

    assert rules(given) == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
        {"apiGroups": ["g"], "resources": ["jobs"], "resourceNames": ["x"], "verbs": ["get"]},
    ]


def test_no_rule_says_everything():
    assert not [rule for rule in rules((*RIGHTS, *SCALING_RIGHTS, *REGISTER_RIGHTS)) if "*" in str(rule)]


def test_the_page_gives_the_reason_for_every_right():
    page = (ROOT / "docs" / "kubernetes.md").read_text()
    rows = re.findall(r"^\| `([^`]+)` \| `([a-z]+)` \| (.+) \|$", page, re.MULTILINE)

    assert rows == [(each.resource, each.verb, each.reason) for each in (*RIGHTS, *SCALING_RIGHTS, *REGISTER_RIGHTS)]


def test_the_page_names_every_metric():
    from trainwright.operator.measures import Measures

    page = (ROOT / "docs" / "kubernetes.md").read_text()
    names = re.findall(r"^# TYPE (\w+)", Measures().text(), re.MULTILINE)

    assert [name for name in names if f"`{name}`" not in page] == []


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
