"""Lists: namespaces, label selectors, field selectors."""

import pytest
from tests.contract.home import WIDGET, ClusterUnderTest

from trainwright.core.errors import BadRequest
from trainwright.core.resources import EVENT, NODE, POD


async def test_a_list_is_in_order_of_names(under: ClusterUnderTest):
    for name in ("b", "c", "a"):
        await under.create(WIDGET, name)
    assert await under.names() == ["a", "b", "c"]


async def test_one_namespace_or_all(under: ClusterUnderTest):
    await under.create(WIDGET, "here")
    await under.create(WIDGET, "there", under.other_namespace)

    assert await under.names() == ["here"]
    assert {"here", "there"} <= set(await under.names(namespace=""))
    assert await under.names(namespace="no-such-namespace") == []


async def test_a_list_tells_its_version(under: ClusterUnderTest):
    obj = await under.create(WIDGET)
    listing = await under.cluster.list(WIDGET, under.namespace)
    assert int(listing.version) >= int(obj["metadata"]["resourceVersion"])
    assert listing.items == [obj]


async def test_kinds_without_namespace_are_not_listed_by_one(under: ClusterUnderTest):
    with pytest.raises(BadRequest):
        await under.cluster.list(NODE, under.namespace)


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("", "a b c d"),
        ("app=web", "a b"),
        ("app==web", "a b"),
        ("app!=web", "c d"),
        ("app=web,tier=front", "a"),
        ("app = web , tier != front", "b"),
        ("app in (web, db)", "a b c"),
        ("app in (web)", "a b"),
        ("app notin (web, db)", "d"),
        ("app notin (web)", "c d"),
        ("app", "a b c"),
        ("!app", "d"),
        ("tier", "a b"),
        ("app,!tier", "c"),
        ("app=", ""),
        ("empty=", "d"),
        ("example.com/long-key_1=x.y", "c"),
        ("number>3", "b"),
        ("number<3", "a"),
        ("app=web,app=db", ""),
        ("absent in (a)", ""),
    ],
)
async def test_label_selectors(under: ClusterUnderTest, selector, names):
    await under.create(WIDGET, "a", labels={"app": "web", "tier": "front", "number": "1"})
    await under.create(WIDGET, "b", labels={"app": "web", "tier": "back", "number": "12"})
    await under.create(WIDGET, "c", labels={"app": "db", "example.com/long-key_1": "x.y"})
    await under.create(WIDGET, "d", labels={"empty": ""})

    assert await under.names(labels=selector) == names.split()


@pytest.mark.parametrize(
    "selector", ["a in b", "a in (b", "=b", "a=b=c", "a b", "!", "a,,b", "a=(", "a>x", "a@b", "in (a)"]
)
async def test_broken_label_selectors(under: ClusterUnderTest, selector):
    with pytest.raises(BadRequest):
        await under.names(labels=selector)


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("metadata.name=bound", "bound"),
        ("metadata.name!=bound", "done free"),
        ("metadata.namespace=no-such", ""),
        ("spec.nodeName=no-such-node", "bound done"),
        ("spec.nodeName=", "free"),
        ("spec.nodeName!=", "bound done"),
        ("status.phase=Pending", "bound free"),
        ("status.phase!=Pending", "done"),
        ("spec.nodeName=no-such-node,status.phase=Pending", "bound"),
        ("spec.nodeName==no-such-node,status.phase!=Pending", "done"),
        ("spec.nodeName=no-such-node,,status.phase=Pending,", "bound"),
        ("spec.nodeName= no-such-node", ""),
        ("status.phase=Pending ", ""),
        ("status.phase!= Pending", "bound done free"),
    ],
)
async def test_field_selectors_of_pods(under: ClusterUnderTest, selector, names):
    await under.pod("free")
    await under.pod("bound", node="no-such-node")
    done = await under.pod("done", node="no-such-node")
    await under.patch(done, {"status": {"phase": "Succeeded"}}, POD, subresource="status")

    assert await under.names(POD, fields=selector) == names.split()


async def test_field_selectors_of_events(under: ClusterUnderTest):
    for name, about in (("one", "x"), ("two", "y")):
        event = under.build(EVENT, name)
        involved = {"kind": "Widget", "name": about, "namespace": under.namespace, "uid": f"uid-{about}"}
        await under.cluster.create(EVENT, {**event, "involvedObject": involved, "type": "Normal", "reason": "Tried"})

    assert await under.names(EVENT, fields="involvedObject.name=x") == ["one"]
    assert await under.names(EVENT, fields="involvedObject.uid=uid-y,involvedObject.kind=Widget") == ["two"]
    assert await under.names(EVENT, fields="reason=Tried,type=Normal") == ["one", "two"]
    assert await under.names(EVENT, fields="type=Warning") == []


async def test_labels_and_fields_together(under: ClusterUnderTest):
    await under.create(WIDGET, "a", labels={"x": "1"})
    await under.create(WIDGET, "b", labels={"x": "1"})
    assert await under.names(labels="x=1", fields="metadata.name=b") == ["b"]


@pytest.mark.parametrize(
    "selector",
    [
        "metadata.name",
        "spec.size=1",
        "=x",
        "status.phase=Pending",
        " ",
        " metadata.name=x",
        "metadata.name =x",
        "metadata.name=x, metadata.namespace=y",
        "metadata.name=x=y",
        r"metadata.name=x\y",
    ],
)
async def test_broken_field_selectors(under: ClusterUnderTest, selector):
    with pytest.raises(BadRequest):
        await under.names(fields=selector)
