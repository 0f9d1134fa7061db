"""What clients learn about the API before they use it."""

import jsonschema_rs
import pytest
from tests.server.serving import Asking, serving

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


@pytest.fixture
async def ask():
    async with serving() as served:
        wire = await served.connect()
        yield Asking(wire)
        wire.close()


async def test_groups_and_versions(ask):
    _, legacy = await ask("GET", "/api")
    _, listed = await ask("GET", "/apis")

    groups = {each["name"]: [version["version"] for version in each["versions"]] for each in listed["groups"]}
    assert legacy["versions"] == ["v1"]
    assert groups["kubeflow.org"] == ["v1", "v2beta1", "v1alpha1"]
    assert groups["apps"] == ["v1"]
    assert (await ask("GET", "/apis/apps"))[1]["preferredVersion"]["groupVersion"] == "apps/v1"


async def test_resources_of_a_group(ask):
    _, listed = await ask("GET", "/apis/batch.volcano.sh/v1alpha1")

    names = {each["name"]: each for each in listed["resources"]}
    assert names.keys() == {"jobs", "jobs/status", "jobs/scale"}
    assert (names["jobs"]["shortNames"], names["jobs"]["categories"]) == (["vcjob", "vj"], ["training"])
    assert names["jobs/scale"]["kind"] == "Scale"


async def test_all_in_one_document_says_the_same(ask):
    for root, path in (("/api", "/api"), ("/apis", "/apis/")):
        _, whole = await ask("GET", root, accept=AGGREGATED)
        for group in whole["items"]:
            for version in group["versions"]:
                name = group["metadata"].get("name", "")
                _, single = await ask("GET", f"{path}{name}/{version['version']}")
                told = {each["resource"] for each in version["resources"]}
                below = {
                    f"{each['resource']}/{sub['subresource']}"
                    for each in version["resources"]
                    for sub in each.get("subresources", ())
                }
                assert told | below == {each["name"] for each in single["resources"]}


async def test_every_document_is_there_and_says_which_parameters_a_patch_takes(ask):
    _, index = await ask("GET", "/openapi/v3")

    for path, where in index["paths"].items():
        code, document = await ask("GET", where["serverRelativeURL"])
        patches = [each["patch"] for each in document["paths"].values() if "patch" in each]
        assert (code, bool(patches)) == (200, True), path
        for patch in patches:
            assert {"dryRun", "fieldValidation"} <= {each["name"] for each in patch["parameters"]}


async def test_schemas_of_our_kinds_are_schemas(ask):
    _, document = await ask("GET", "/openapi/v3/apis/kubeflow.org/v1")

    schema = document["components"]["schemas"]["org.kubeflow.v1.PyTorchJob"]
    spec = jsonschema_rs.validator_for(schema["properties"]["spec"])
    assert not spec.is_valid({"pytorchReplicaSpecs": 3})
    assert schema["x-kubernetes-group-version-kind"] == [
        {"group": "kubeflow.org", "version": "v1", "kind": "PyTorchJob"}
    ]


@pytest.mark.parametrize("target", ["/healthz", "/livez", "/readyz", "/readyz/ping"])
async def test_health(ask, target):
    assert await ask("GET", target) == (200, "ok")


async def test_version(ask):
    _, version = await ask("GET", "/version")

    assert (version["major"], version["minor"]) == ("1", "36")
    assert "trainwright" in version["gitVersion"]


async def test_a_schema_nobody_has(ask):
    assert (await ask("GET", "/openapi/v3/apis/none/v1"))[0] == 404
    assert (await ask("GET", "/openapi/v2"))[0] == 404
