"""The API over HTTP: codes, Status objects and objects, as kubectl and client libraries expect them."""

import msgspec
import pytest
from tests.server.serving import JOBS, MAPS, PARTIAL, TABLE, TOKEN, Asking, serving

from trainwright.core.resources import CONFIG_MAP, NAMESPACE, POD

MPI_JOBS = "/apis/kubeflow.org/{}/namespaces/ns/mpijobs"


def template():
    return {"spec": {"containers": [{"name": "pytorch", "image": "i", "command": ["true"]}]}}


def job(name="j", workers=2, **spec):
    roles = {"Worker": {"replicas": workers, "template": template()}}
    meta = {"name": name, "labels": {"app": name}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": meta,
        "spec": {"pytorchReplicaSpecs": roles, **spec},
    }


def config_map(name="m", **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"app": name}}, "data": data}


@pytest.fixture
async def api():
    async with serving() as served:
        yield served


@pytest.fixture
async def ask(api):
    wire = await api.connect()
    yield Asking(wire)
    wire.close()


@pytest.mark.parametrize(
    ("method", "target", "body", "code", "reason", "words"),
    [
        pytest.param("GET", f"{JOBS}/x", None, 404, "NotFound", 'pytorchjobs.kubeflow.org "x" not found', id="nobody"),
        pytest.param("GET", "/api/v1/nosuch", None, 404, "NotFound", "could not find the requested", id="no such kind"),
        pytest.param("GET", "/apis/no.group/v1", None, 404, "NotFound", "could not find", id="no such group"),
        pytest.param("GET", "/nothing", None, 404, "NotFound", "could not find", id="no such path"),
        pytest.param("GET", f"{MAPS}/m/status", None, 404, "NotFound", "could not find", id="no such subresource"),
        pytest.param("GET", f"{MAPS}/m/a/b", None, 404, "NotFound", "could not find", id="too many words"),
        pytest.param("POST", "/api/v1/pods", {}, 405, "MethodNotAllowed", "does not allow this method", id="no place"),
        pytest.param("POST", MAPS, b"{", 400, "BadRequest", "is not JSON", id="half an object"),
        pytest.param("POST", MAPS, [], 400, "BadRequest", "is not an object", id="a list"),
        pytest.param("POST", MAPS, job(), 400, "BadRequest", "does not match the expected", id="another kind"),
        pytest.param(
            "POST",
            MAPS,
            {"metadata": {"name": "m", "namespace": "other"}},
            400,
            "BadRequest",
            "does not match the namespace sent on the request",
            id="another namespace",
        ),
        pytest.param("POST", f"{MAPS}?dryRun=Some", {}, 400, "BadRequest", "dryRun: expected All", id="half a dry run"),
        pytest.param("GET", f"{MAPS}?labelSelector=((", None, 400, "BadRequest", "parse label", id="a broken selector"),
        pytest.param("POST", JOBS, job(nosuch=1), 422, "Invalid", "nosuch", id="an object that breaks a rule"),
        pytest.param("DELETE", f"{MAPS}/x", None, 404, "NotFound", 'configmaps "x" not found', id="nothing to delete"),
        pytest.param(
            "DELETE", "/api/v1/namespaces/default", None, 403, "Forbidden", "may not be deleted", id="a fixed place"
        ),
    ],
)
async def test_refusals_are_statuses(ask, method, target, body, code, reason, words):
    answered, status = await ask(method, target, body)

    assert (answered, status["code"], status["reason"]) == (code, code, reason)
    assert (status["kind"], status["status"]) == ("Status", "Failure")
    assert words in status["message"]


async def test_problems_are_told_one_by_one(ask):
    _, status = await ask("POST", JOBS, job(nosuch=1, other=2))

    assert status["details"]["kind"] == "PyTorchJob"
    assert {cause["field"] for cause in status["details"]["causes"]} == {"spec.nosuch", "spec.other"}


async def test_nothing_is_answered_without_a_token(api):
    wire = await api.connect()
    for target in ("/api/v1/pods", "/version", "/healthz", "/openapi/v3", "/apis"):
        wire.send(f"GET {target} HTTP/1.1\r\n\r\n")
        assert (await wire.answer())[0] == "401 Unauthorized"
    wire.close()


async def test_an_object_lives(api, ask):
    code, created = await ask("POST", MAPS, config_map(a="1"))
    assert (code, created["metadata"]["namespace"]) == (201, "ns")
    assert await ask("GET", f"{MAPS}/m") == (200, created)

    code, changed = await ask("PUT", f"{MAPS}/m", {**created, "data": {"a": "2"}})
    assert (code, changed["data"]) == (200, {"a": "2"})

    code, refused = await ask("PUT", f"{MAPS}/m", created)
    assert (code, refused["reason"]) == (409, "Conflict")

    code, gone = await ask("DELETE", f"{MAPS}/m")
    assert (code, gone["status"]) == (200, "Success")
    assert gone["details"] == {"name": "m", "kind": "configmaps", "uid": created["metadata"]["uid"]}
    assert (await ask("GET", f"{MAPS}/m"))[0] == 404


async def test_what_was_written_is_safe_before_it_is_answered(api, ask):
    await ask("POST", MAPS, config_map())
    await ask("PATCH", f"{MAPS}/m", {"data": {"a": "1"}}, kind="application/merge-patch+json")
    await ask("DELETE", f"{MAPS}/m")
    assert api.gate.saved == 3
    await ask("GET", MAPS)
    assert api.gate.saved == 3


async def test_a_namespace_springs_up_with_the_first_object_in_it(api, ask):
    await ask("POST", MAPS, config_map())

    _, listed = await ask("GET", "/api/v1/namespaces")

    assert [each["metadata"]["name"] for each in listed["items"]] == ["default", "ns"]


async def test_a_namespace_goes_with_all_that_is_in_it(api, ask):
    await ask("POST", MAPS, config_map())
    await ask("POST", JOBS, job())

    assert (await ask("DELETE", "/api/v1/namespaces/ns"))[0] == 200

    assert (await api.cluster.list(CONFIG_MAP)).items == []
    assert [each["metadata"]["name"] for each in (await api.cluster.list(NAMESPACE)).items] == ["default"]


async def test_a_namespace_stays_whole_when_something_in_it_may_not_go(api, ask):
    await ask("POST", MAPS, config_map("a"))
    await ask("POST", MAPS, config_map("theirs"))
    api.gate.kept = {"theirs"}

    assert (await ask("DELETE", "/api/v1/namespaces/ns"))[0] == 403
    assert (await ask("DELETE", MAPS))[0] == 403

    assert len((await api.cluster.list(CONFIG_MAP)).items) == 2


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["a", "b", "c"]),
        ("?labelSelector=app%3Da", ["a"]),
        ("?labelSelector=app%20in%20(a,b)", ["a", "b"]),
        ("?fieldSelector=metadata.name%3Dc", ["c"]),
        ("?limit=1", ["a", "b", "c"]),
    ],
)
async def test_lists(ask, query, names):
    for name in "cab":
        await ask("POST", MAPS, config_map(name))

    code, listed = await ask("GET", MAPS + query)

    assert (code, listed["kind"], listed["apiVersion"]) == (200, "ConfigMapList", "v1")
    assert [each["metadata"]["name"] for each in listed["items"]] == names
    assert int(listed["metadata"]["resourceVersion"]) > 1


@pytest.mark.parametrize(
    ("form", "kind", "patch", "code"),
    [
        pytest.param("merge-patch+json", MAPS, {"data": {"a": None, "b": "2"}}, 200, id="merge"),
        pytest.param(
            "json-patch+json",
            MAPS,
            [{"op": "remove", "path": "/data/a"}, {"op": "add", "path": "/data/b", "value": "2"}],
            200,
            id="json",
        ),
        pytest.param("strategic-merge-patch+json", MAPS, {"data": {"a": None, "b": "2"}}, 200, id="strategic"),
        pytest.param("strategic-merge-patch+json", JOBS, {}, 415, id="strategic, of a kind of ours"),
        pytest.param("apply-patch+yaml", MAPS, {}, 415, id="server-side apply"),
        pytest.param("xml", MAPS, {}, 415, id="anything else"),
    ],
)
async def test_patches(ask, form, kind, patch, code):
    await ask("POST", MAPS, config_map("x", a="1"))
    await ask("POST", JOBS, job("x"))

    answered, obj = await ask("PATCH", f"{kind}/x", patch, kind=f"application/{form}")

    assert answered == code
    assert obj.get("data", {"b": "2"}) == {"b": "2"}


async def test_a_patch_over_an_old_version_is_refused(ask):
    _, created = await ask("POST", MAPS, config_map(a="1"))
    version = {"resourceVersion": created["metadata"]["resourceVersion"]}
    patch = {"metadata": version, "data": {"a": "2"}}

    assert (await ask("PATCH", f"{MAPS}/m", patch, kind="application/merge-patch+json"))[0] == 200
    assert (await ask("PATCH", f"{MAPS}/m", patch, kind="application/merge-patch+json"))[0] == 409


@pytest.mark.parametrize(
    ("method", "target", "body", "kind"),
    [
        ("POST", MAPS, config_map("new"), "application/json"),
        ("PATCH", f"{MAPS}/m", {"data": {"a": "2"}}, "application/merge-patch+json"),
        ("DELETE", f"{MAPS}/m", None, "application/json"),
        ("DELETE", MAPS, None, "application/json"),
        ("DELETE", "/api/v1/namespaces/ns", None, "application/json"),
    ],
)
async def test_a_dry_run_changes_nothing(api, ask, method, target, body, kind):
    await ask("POST", MAPS, config_map(a="1"))
    before = api.cluster.version

    code, _ = await ask(method, f"{target}?dryRun=All", body, kind=kind)

    assert code in (200, 201)
    assert api.cluster.version == before


async def test_a_dry_run_in_the_options(api, ask):
    await ask("POST", MAPS, config_map(a="1"))
    before = api.cluster.version

    assert (await ask("DELETE", "/api/v1/namespaces/ns", {"dryRun": ["All"]}))[0] == 200

    assert api.cluster.version == before


async def test_a_dry_run_finds_what_is_wrong(ask):
    assert (await ask("POST", f"{JOBS}?dryRun=All", job(nosuch=1)))[0] == 422


async def test_status_is_written_apart(ask):
    _, created = await ask("POST", JOBS, job())
    both = {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 7}}}, "status": {"active": "1/2"}}

    _, changed = await ask("PATCH", f"{JOBS}/j/status", both, kind="application/merge-patch+json")

    assert changed["status"] == {"active": "1/2"}
    assert changed["spec"] == created["spec"]


async def test_scale(ask):
    await ask("POST", JOBS, job())
    _, scale = await ask("GET", f"{JOBS}/j/scale")
    assert (scale["kind"], scale["apiVersion"], scale["spec"]) == ("Scale", "autoscaling/v1", {"replicas": 2})

    code, wider = await ask("PUT", f"{JOBS}/j/scale", {**scale, "spec": {"replicas": 3}})
    assert (code, wider["spec"]) == (200, {"replicas": 3})

    code, refused = await ask("PUT", f"{JOBS}/j/scale", {**scale, "spec": {"replicas": 4}})
    assert (code, refused["reason"]) == (409, "Conflict")

    patch = {"spec": {"replicas": 5}}
    code, _ = await ask("PATCH", f"{JOBS}/j/scale", patch, kind="application/merge-patch+json")
    assert code == 200
    assert (await ask("GET", f"{JOBS}/j"))[1]["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] == 5

    code, refused = await ask(
        "PATCH", f"{JOBS}/j/scale", {"spec": {"replicas": -1}}, kind="application/merge-patch+json"
    )
    assert (code, refused["reason"]) == (422, "Invalid")


async def test_what_has_no_size_has_no_scale(ask):
    alone = job()
    alone["spec"]["pytorchReplicaSpecs"] = {"Master": {"replicas": 1, "template": template()}}
    await ask("POST", JOBS, alone)

    code, status = await ask("GET", f"{JOBS}/j/scale")

    assert (code, status["reason"]) == (500, "InternalError")
    assert ".spec.pytorchReplicaSpecs.Worker.replicas" in status["message"]


async def test_a_kind_of_ours_is_replaced_over_a_version_only(ask):
    await ask("POST", JOBS, job())

    code, status = await ask("PUT", f"{JOBS}/j", job())

    assert (code, status["details"]["causes"][0]["field"]) == (422, "metadata.resourceVersion")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        pytest.param({"preconditions": {"uid": "other"}}, 409, id="another uid"),
        pytest.param({"preconditions": {"resourceVersion": "1"}}, 409, id="another version"),
        pytest.param({"propagationPolicy": "Sideways"}, 400, id="no such way"),
        pytest.param({"propagationPolicy": "Foreground", "gracePeriodSeconds": 0}, 200, id="children first"),
    ],
)
async def test_options_of_a_deletion(ask, options, code):
    await ask("POST", MAPS, config_map())

    assert (await ask("DELETE", f"{MAPS}/m", {"kind": "DeleteOptions", "apiVersion": "v1", **options}))[0] == code


async def test_what_is_only_marked_for_deletion_is_shown(ask):
    held = config_map()
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await ask("POST", MAPS, held)

    _, left = await ask("DELETE", f"{MAPS}/m")

    assert left["kind"] == "ConfigMap"
    assert "deletionTimestamp" in left["metadata"]


async def test_a_collection_is_deleted_by_label(api, ask):
    for name in "ab":
        await ask("POST", MAPS, config_map(name))

    code, listed = await ask("DELETE", f"{MAPS}?labelSelector=app%3Da")

    assert (code, [each["metadata"]["name"] for each in listed["items"]]) == (200, ["a"])
    assert [each["metadata"]["name"] for each in (await api.cluster.list(CONFIG_MAP)).items] == ["b"]


async def test_a_table_has_the_columns_of_its_kind(ask):
    await ask("POST", JOBS, job())

    _, table = await ask("GET", JOBS, accept=TABLE)

    assert table["kind"] == "Table"
    assert [each["name"] for each in table["columnDefinitions"]] == ["Name", "State", "Active", "Restarts", "Age"]
    assert table["rows"][0]["cells"][:2] == ["j", None]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    _, one = await ask("GET", f"{JOBS}/j?includeObject=Object", accept=TABLE)
    assert one["rows"][0]["object"]["kind"] == "PyTorchJob"


async def test_metadata_alone(ask):
    await ask("POST", MAPS, config_map(a="1"))

    _, listed = await ask("GET", MAPS, accept=PARTIAL)

    assert listed["kind"] == "PartialObjectMetadataList"
    assert listed["items"][0].keys() == {"kind", "apiVersion", "metadata"}


async def test_forms_that_nobody_here_speaks(ask):
    code, status = await ask("GET", MAPS, accept="application/vnd.kubernetes.protobuf")

    assert (code, status["reason"]) == (406, "NotAcceptable")


async def test_one_kind_under_two_versions(ask):
    worker = {"spec": {"containers": [{"name": "m", "image": "i", "command": ["true"]}]}}
    old = {"kind": "MPIJob", "apiVersion": "kubeflow.org/v1alpha1", "metadata": {"name": "m"}}
    code, made = await ask("POST", MPI_JOBS.format("v1alpha1"), {**old, "spec": {"replicas": 2, "template": worker}})
    assert (code, made["apiVersion"]) == (201, "kubeflow.org/v1alpha1")

    _, new = await ask("GET", MPI_JOBS.format("v2beta1") + "/m")
    assert new == {**made, "apiVersion": "kubeflow.org/v2beta1"}

    label = {"metadata": {"labels": {"a": "b"}}}
    _, changed = await ask("PATCH", MPI_JOBS.format("v1alpha1") + "/m", label, kind="application/merge-patch+json")
    assert (changed["apiVersion"], changed["metadata"]["labels"]) == ("kubeflow.org/v1alpha1", {"a": "b"})


async def test_events_in_both_words(ask):
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "ns"},
        "reason": "R",
        "message": "said",
    }
    await ask("POST", "/api/v1/namespaces/ns/events", event)

    _, shown = await ask("GET", "/apis/events.k8s.io/v1/namespaces/ns/events/e")

    assert (shown["note"], shown["regarding"]["name"], shown["apiVersion"]) == ("said", "p", "events.k8s.io/v1")


async def test_who_may_not(api, ask):
    await ask("POST", MAPS, config_map())
    await ask("POST", "/api/v1/namespaces/ns/secrets", {"metadata": {"name": "s"}})
    api.gate.forbidden = {"delete", "get", "admit"}

    assert (await ask("DELETE", f"{MAPS}/m"))[0] == 403
    assert (await ask("DELETE", MAPS))[0] == 403
    assert (await ask("POST", MAPS, config_map("n")))[0] == 403
    assert (await ask("GET", f"{MAPS}/m"))[0] == 200, "only Secrets are hidden"
    assert (await ask("GET", "/api/v1/namespaces/ns/secrets/s"))[0] == 403
    assert (await ask("GET", "/api/v1/secrets"))[1]["items"] == []


@pytest.mark.parametrize(
    ("target", "path", "value"),
    [
        ("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", ("allowed",), True),
        ("/apis/authentication.k8s.io/v1/selfsubjectreviews", ("userInfo", "username"), "somebody"),
    ],
)
async def test_questions_about_oneself(ask, target, path, value):
    code, answer = await ask("POST", target, {"spec": {}})

    found = answer["status"]
    for step in path:
        found = found[step]
    assert (code, found) == (201, value)


async def test_a_pod_nobody_runs_has_no_log(api, ask):
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a"}, {"name": "b"}]}}
    await ask("POST", "/api/v1/namespaces/ns/pods", pod)
    assert (await api.cluster.get(POD, "ns", "p"))["status"] == {"phase": "Pending"}

    code, status = await ask("GET", "/api/v1/namespaces/ns/pods/p/log")

    assert (code, "nobody runs pod ns/p" in status["message"]) == (500, True)


async def test_what_the_author_should_know_goes_along(api):
    lenient = job(nosuch="é")
    lenient["metadata"]["annotations"] = {"trainwright.dev/lenient": "true"}
    wire = await api.connect()
    body = msgspec.json.encode(lenient)
    wire.send(f"POST {JOBS} HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {len(body)}\r\n\r\n")
    wire.send(body)

    status, headers, _ = await wire.answer()

    assert status == "201 Created"
    assert '299 - "spec.nosuch: ' in headers["warning"]
    assert '299 - "spec.pytorchReplicaSpecs.Worker: 2 workers without Master' in headers["warning"]
    wire.close()
