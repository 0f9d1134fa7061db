"""Create, get, patch: versions, conflicts, generations, status apart from the rest, codes and reasons."""

import pytest
from tests.contract.home import WIDGET, ClusterUnderTest

from trainwright.core.errors import AlreadyExists, BadRequest, ClusterError, Conflict, Invalid, NotFound
from trainwright.core.objects import Object, moment
from trainwright.core.resources import CONFIG_MAP, NODE, POD, Resource


def number(obj: Object) -> int:
    """Return a version as a number: opaque by contract, but both homes count."""
    return int(obj["metadata"]["resourceVersion"])


async def test_a_new_object_is_given_its_metadata(under: ClusterUnderTest):
    obj = await under.create(WIDGET, "new", spec={"size": 1}, labels={"app": "x"})

    meta = obj["metadata"]
    assert (obj["apiVersion"], obj["kind"]) == (WIDGET.api_version, "Widget")
    assert (meta["name"], meta["namespace"], meta["labels"]) == ("new", under.namespace, {"app": "x"})
    assert meta["uid"]
    assert number(obj) > 0
    assert meta["generation"] == 1
    assert moment(meta["creationTimestamp"]) is not None
    assert obj["spec"] == {"size": 1}
    assert await under.get(obj) == obj


async def test_what_only_the_server_may_set_is_ignored_on_create(under: ClusterUnderTest):
    obj = await under.create(
        WIDGET,
        uid="mine",
        generation=7,
        creationTimestamp="2001-01-01T00:00:00Z",
        deletionTimestamp="2001-01-01T00:00:00Z",
    )

    assert obj["metadata"]["uid"] != "mine"
    assert obj["metadata"]["generation"] == 1
    assert not obj["metadata"]["creationTimestamp"].startswith("2001")
    assert "deletionTimestamp" not in obj["metadata"]


async def test_what_was_handed_in_may_change_afterwards(under: ClusterUnderTest):
    mine = under.build(WIDGET, spec={"list": [1]})
    obj = await under.cluster.create(WIDGET, mine)
    mine["spec"]["list"].append(2)
    patch = {"spec": {"more": {"a": 1}}}
    await under.patch(obj, patch)
    patch["spec"]["more"]["a"] = 2

    assert (await under.get(obj))["spec"] == {"list": [1], "more": {"a": 1}}


async def test_versions_grow_with_every_write(under: ClusterUnderTest):
    first = await under.create(WIDGET)
    second = await under.create(WIDGET)
    third = await under.patch(first, {"spec": {"size": 2}})

    assert number(first) < number(second) < number(third)


class TestErrors:
    """Codes and reasons are the API server's."""

    @pytest.mark.parametrize(
        ("error", "code", "reason"),
        [
            (NotFound, 404, "NotFound"),
            (AlreadyExists, 409, "AlreadyExists"),
            (Conflict, 409, "Conflict"),
            (Invalid, 422, "Invalid"),
            (BadRequest, 400, "BadRequest"),
        ],
    )
    def test_codes(self, error: type[ClusterError], code, reason):
        assert (error.code, error.reason) == (code, reason)

    async def test_a_name_that_is_taken(self, under: ClusterUnderTest):
        await under.create(WIDGET, "taken")
        with pytest.raises(AlreadyExists, match="taken"):
            await under.create(WIDGET, "taken")

    async def test_the_same_name_in_two_namespaces_is_two_objects(self, under: ClusterUnderTest):
        one = await under.create(WIDGET, "twin")
        other = await under.create(WIDGET, "twin", under.other_namespace)
        assert one["metadata"]["uid"] != other["metadata"]["uid"]

    @pytest.mark.parametrize("call", ["get", "patch", "status", "delete"])
    async def test_an_object_that_is_not_there(self, under: ClusterUnderTest, call):
        calls = {
            "get": lambda: under.cluster.get(WIDGET, under.namespace, "absent"),
            "patch": lambda: under.cluster.patch(WIDGET, under.namespace, "absent", {}),
            "status": lambda: under.cluster.patch(WIDGET, under.namespace, "absent", {}, subresource="status"),
            "delete": lambda: under.cluster.delete(WIDGET, under.namespace, "absent"),
        }
        with pytest.raises(NotFound, match="absent"):
            await calls[call]()

    async def test_a_resource_nobody_knows(self, under: ClusterUnderTest):
        unknown = Resource("contract.trainwright.dev", "v1", "gadgets", "Gadget")
        with pytest.raises(NotFound):
            await under.cluster.list(unknown, under.namespace)

    @pytest.mark.parametrize(
        "metadata",
        [
            pytest.param({"name": "Upper"}, id="upper case in a name"),
            pytest.param({"name": "under_score"}, id="an underscore in a name"),
            pytest.param({"name": "-dash"}, id="a name that begins with a dash"),
            pytest.param({"name": "x" * 254}, id="a name of 254 characters"),
            pytest.param({"name": "a..b"}, id="an empty part in a name"),
            pytest.param({"labels": {"a": "not a value"}}, id="a label value with spaces"),
            pytest.param({"labels": {"a": "x" * 64}}, id="a label value of 64 characters"),
            pytest.param({"labels": {"a b": ""}}, id="a label key with spaces"),
            pytest.param({"annotations": {"a b": ""}}, id="an annotation key with spaces"),
            pytest.param({"finalizers": ["a b"]}, id="a finalizer with spaces"),
            pytest.param({"finalizers": ["a/b/c"]}, id="a finalizer with two slashes"),
            pytest.param(
                {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": ""}]},
                id="an owner without uid",
            ),
        ],
    )
    async def test_metadata_that_breaks_a_rule(self, under: ClusterUnderTest, metadata):
        with pytest.raises(Invalid):
            await under.create(WIDGET, **metadata)

    async def test_a_finalizer_of_a_built_in_kind_needs_a_domain(self, under: ClusterUnderTest):
        with pytest.raises(Invalid):
            await under.create(CONFIG_MAP, finalizers=["unqualified"])

    async def test_a_finalizer_of_a_custom_resource_needs_none(self, under: ClusterUnderTest):
        obj = await under.create(WIDGET, finalizers=["unqualified"])
        assert obj["metadata"]["finalizers"] == ["unqualified"]
        await under.patch(obj, {"metadata": {"finalizers": None}})

    async def test_all_problems_are_told_together(self, under: ClusterUnderTest):
        with pytest.raises(Invalid) as caught:
            await under.create(CONFIG_MAP, "Upper", labels={"a": "b c"})
        assert "Upper" in str(caught.value)
        assert "b c" in str(caught.value)

    async def test_an_object_without_any_name(self, under: ClusterUnderTest):
        obj = under.build(WIDGET)
        del obj["metadata"]["name"]
        with pytest.raises((Invalid, BadRequest)):
            await under.cluster.create(WIDGET, obj)

    async def test_an_object_without_namespace(self, under: ClusterUnderTest):
        obj = under.build(WIDGET)
        del obj["metadata"]["namespace"]
        with pytest.raises(BadRequest):
            await under.cluster.create(WIDGET, obj)

    async def test_a_namespace_where_there_is_none(self, under: ClusterUnderTest):
        with pytest.raises(BadRequest):
            await under.cluster.create(NODE, {"metadata": {"name": "n", "namespace": under.namespace}})

    async def test_an_object_of_another_kind(self, under: ClusterUnderTest):
        with pytest.raises(BadRequest):
            await under.cluster.create(WIDGET, under.build(CONFIG_MAP))

    async def test_a_version_on_create(self, under: ClusterUnderTest):
        with pytest.raises(ClusterError):
            await under.create(WIDGET, resourceVersion="1")

    async def test_a_label_that_is_a_number(self, under: ClusterUnderTest):
        with pytest.raises((BadRequest, Invalid)):
            await under.create(WIDGET, labels={"a": 1})


class TestPatch:
    """JSON merge patch, RFC 7386."""

    @pytest.mark.parametrize(
        ("before", "patch", "after"),
        [
            pytest.param({"a": 1}, {"b": 2}, {"a": 1, "b": 2}, id="a field is added"),
            pytest.param({"a": 1}, {"a": 2}, {"a": 2}, id="a field is replaced"),
            pytest.param({"a": 1, "b": 2}, {"a": None}, {"b": 2}, id="null removes"),
            pytest.param({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}, id="nested objects are merged"),
            pytest.param({"a": [1, 2]}, {"a": [3]}, {"a": [3]}, id="lists are replaced"),
            pytest.param({"a": 1}, {"a": {"b": 1}}, {"a": {"b": 1}}, id="an object replaces a value"),
            pytest.param({"a": {"b": 1}}, {"a": 1}, {"a": 1}, id="a value replaces an object"),
            pytest.param({}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}, id="null in something new is left out"),
        ],
    )
    async def test_merge(self, under: ClusterUnderTest, before, patch, after):
        obj = await under.create(WIDGET, spec=before)

        patched = await under.patch(obj, {"spec": patch})

        assert patched["spec"] == after
        assert (await under.get(obj))["spec"] == after

    async def test_a_patch_that_changes_nothing_makes_no_version(self, under: ClusterUnderTest):
        obj = await under.create(WIDGET, spec={"size": 1}, labels={"a": "b"})

        same = await under.patch(obj, {"spec": {"size": 1}, "metadata": {"labels": {"a": "b", "c": None}}})

        assert same["metadata"]["resourceVersion"] == obj["metadata"]["resourceVersion"]

    async def test_the_current_version_passes(self, under: ClusterUnderTest):
        obj = await under.create(WIDGET)
        version = obj["metadata"]["resourceVersion"]
        patched = await under.patch(obj, {"metadata": {"resourceVersion": version}, "spec": {"size": 2}})
        assert patched["spec"] == {"size": 2}

    @pytest.mark.parametrize("subresource", ["", "status"])
    async def test_an_old_version_is_a_conflict(self, under: ClusterUnderTest, subresource):
        obj = await under.create(WIDGET)
        await under.patch(obj, {"spec": {"size": 2}})

        version = {"metadata": {"resourceVersion": obj["metadata"]["resourceVersion"]}}
        with pytest.raises(Conflict, match="modified"):
            await under.patch(obj, {**version, "spec": {"size": 3}, "status": {"a": 1}}, subresource=subresource)

        now = await under.get(obj)
        assert now["spec"] == {"size": 2}
        assert not now.get("status")

    async def test_one_of_two_who_read_the_same_version_wins(self, under: ClusterUnderTest):
        obj = await under.create(WIDGET)
        version = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        await under.patch(obj, {"metadata": version, "spec": {"by": "first"}})
        with pytest.raises(Conflict):
            await under.patch(obj, {"metadata": version, "spec": {"by": "second"}})
        assert (await under.get(obj))["spec"] == {"by": "first"}

    async def test_another_uid_is_refused(self, under: ClusterUnderTest):
        obj = await under.create(WIDGET)
        with pytest.raises((Invalid, Conflict)):
            await under.patch(obj, {"metadata": {"uid": "another"}, "spec": {"size": 1}})
        assert (await under.patch(obj, {"metadata": {"uid": obj["metadata"]["uid"]}, "spec": {"size": 2}}))["spec"]

    @pytest.mark.parametrize("field", ["name", "namespace"])
    async def test_an_object_cannot_be_renamed(self, under: ClusterUnderTest, field):
        obj = await under.create(WIDGET)
        with pytest.raises((BadRequest, Invalid)):
            await under.patch(obj, {"metadata": {field: "another"}})

    async def test_what_the_server_set_stays(self, under: ClusterUnderTest):
        obj = await under.create(WIDGET, labels={"a": "b"})

        other = {"uid": None, "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 9, "labels": None}
        patched = await under.patch(obj, {"metadata": other})

        for field in ("uid", "creationTimestamp", "generation"):
            assert patched["metadata"][field] == obj["metadata"][field]
        assert "labels" not in patched["metadata"]

    async def test_a_deletion_cannot_be_patched_in(self, under: ClusterUnderTest):
        obj = await under.create(WIDGET, finalizers=["example.com/hold"])
        with pytest.raises(Invalid):
            await under.patch(obj, {"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}})

    async def test_nor_patched_away(self, under: ClusterUnderTest):
        obj = await under.create(WIDGET, finalizers=["example.com/hold"])
        await under.delete(obj)
        patched = await under.patch(obj, {"metadata": {"deletionTimestamp": None, "labels": {"a": "b"}}})
        assert patched["metadata"]["deletionTimestamp"]
        await under.patch(obj, {"metadata": {"finalizers": None}})

    async def test_metadata_is_checked_again(self, under: ClusterUnderTest):
        obj = await under.create(WIDGET)
        with pytest.raises(Invalid):
            await under.patch(obj, {"metadata": {"labels": {"a": "b c"}}})


class TestGeneration:
    @pytest.mark.parametrize(
        ("patch", "options", "grows"),
        [
            pytest.param({"spec": {"size": 2}}, {}, True, id="a new spec is a new generation"),
            pytest.param({"spec": {"size": 1}}, {}, False, id="the same spec is not"),
            pytest.param({"metadata": {"labels": {"a": "b"}}}, {}, False, id="metadata is not"),
            pytest.param({"metadata": {"finalizers": ["a.b/c"]}}, {}, False, id="a finalizer is not"),
            pytest.param({"status": {"a": 1}}, {"subresource": "status"}, False, id="status is not"),
        ],
    )
    async def test_generation(self, under: ClusterUnderTest, patch, options, grows):
        obj = await under.create(WIDGET, spec={"size": 1})
        patched = await under.patch(obj, patch, **options)
        assert patched["metadata"]["generation"] == (2 if grows else 1)
        await under.patch(obj, {"metadata": {"finalizers": None}})


class TestStatus:
    """Status is a subresource: it does not touch the rest, and the other way round."""

    async def test_create_ignores_status(self, under: ClusterUnderTest):
        obj = await under.create(WIDGET, status={"phase": "Done"})
        assert not obj.get("status")

    async def test_an_ordinary_patch_leaves_status_alone(self, under: ClusterUnderTest):
        obj = await under.create(WIDGET, spec={"size": 1})
        await under.patch(obj, {"status": {"phase": "Here"}}, subresource="status")

        patched = await under.patch(obj, {"spec": {"size": 2}, "status": {"phase": "Gone"}})

        assert patched["spec"] == {"size": 2}
        assert patched["status"] == {"phase": "Here"}

    async def test_a_status_patch_leaves_the_rest_alone(self, under: ClusterUnderTest):
        obj = await under.create(WIDGET, spec={"size": 1}, labels={"a": "b"})

        patch = {"spec": {"size": 9}, "metadata": {"labels": {"a": "z"}, "annotations": {"c": "d"}}, "status": {"n": 1}}
        patched = await under.patch(obj, patch, subresource="status")

        assert patched["spec"] == {"size": 1}
        assert patched["metadata"]["labels"] == {"a": "b"}
        assert "annotations" not in patched["metadata"]
        assert patched["status"] == {"n": 1}
        assert number(patched) > number(obj)

    async def test_only_a_status_in_an_ordinary_patch_changes_nothing(self, under: ClusterUnderTest):
        obj = await under.create(WIDGET)
        same = await under.patch(obj, {"status": {"phase": "Done"}})
        assert same["metadata"]["resourceVersion"] == obj["metadata"]["resourceVersion"]

    async def test_the_same_status_makes_no_version(self, under: ClusterUnderTest):
        obj = await under.create(WIDGET)
        first = await under.patch(obj, {"status": {"n": 1}}, subresource="status")
        second = await under.patch(obj, {"status": {"n": 1}}, subresource="status")
        assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]

    async def test_status_is_merged_too(self, under: ClusterUnderTest):
        obj = await under.create(WIDGET)
        await under.patch(obj, {"status": {"a": 1, "b": {"c": 1, "d": 2}}}, subresource="status")
        patched = await under.patch(obj, {"status": {"a": None, "b": {"c": 2}}}, subresource="status")
        assert patched["status"] == {"b": {"c": 2, "d": 2}}

    async def test_a_kind_without_status_has_no_such_subresource(self, under: ClusterUnderTest):
        obj = await under.create(CONFIG_MAP, data={"a": "b"})
        with pytest.raises(NotFound):
            await under.patch(obj, {"data": {"a": "c"}}, CONFIG_MAP, subresource="status")

    async def test_a_pod_is_born_pending(self, under: ClusterUnderTest):
        pod = await under.pod(status={"phase": "Running"})
        assert pod["status"]["phase"] == "Pending"
        running = await under.patch(pod, {"status": {"phase": "Running"}}, POD, subresource="status")
        assert running["status"]["phase"] == "Running"

    async def test_a_node_brings_its_own_status(self, under: ClusterUnderTest):
        node = under.build(NODE, f"{under.namespace}-node", status={"capacity": {"cpu": "4"}})
        node = await under.cluster.create(NODE, node)
        assert node["status"]["capacity"] == {"cpu": "4"}
        await under.cluster.delete(NODE, "", node["metadata"]["name"])


class TestGenerateName:
    async def test_a_suffix_of_five(self, under: ClusterUnderTest):
        obj = await under.create(WIDGET, generateName="train-")
        name = obj["metadata"]["name"]
        assert name.startswith("train-")
        assert len(name) == len("train-") + 5
        assert set(name[-5:]) <= set("bcdfghjklmnpqrstvwxz2456789")
        assert obj["metadata"]["generateName"] == "train-"

    async def test_names_differ(self, under: ClusterUnderTest):
        names = {(await under.create(WIDGET, generateName="many-"))["metadata"]["name"] for _ in range(20)}
        assert len(names) == 20

    async def test_a_long_base_is_cut(self, under: ClusterUnderTest):
        obj = await under.create(WIDGET, generateName="x" * 80)
        assert len(obj["metadata"]["name"]) == 63

    async def test_a_name_wins(self, under: ClusterUnderTest):
        obj = await under.create(WIDGET, "given", generateName="other-")
        assert obj["metadata"]["name"] == "given"
