"""An operator that looks after some namespaces only, with rights in these alone."""

import asyncio
from datetime import UTC, datetime

import click
import pytest
from tests.operator.confined import confined
from tests.reconcile.making import manifest
from tests.scenarios.world import RESOURCES

from trainwright.admission import admit
from trainwright.cli.operator import command
from trainwright.cluster.kubernetes import Access, Server
from trainwright.cluster.memory import MemoryCluster
from trainwright.core.resources import NAMESPACE, POD
from trainwright.desired import KUBERNETES
from trainwright.kinds import KINDS, PYTORCH_JOB
from trainwright.operator.duties import Duties
from trainwright.operator.loop import Operator
from trainwright.operator.scaling import Autoscaler, Conduct
from trainwright.operator.serve import Options, feasible, lease_namespace


async def test_only_their_jobs_are_looked_after():
    cluster = MemoryCluster(RESOURCES, now=lambda: datetime.now(UTC))
    for namespace in ("a", "b", "c"):
        job = admit({**manifest(workers=1), "metadata": {"name": "j", "namespace": namespace}}).object
        await cluster.create(PYTORCH_JOB.resource, job)
    created = cluster.watch(POD, since="0")
    operator = Operator(confined(cluster, "ab"), KINDS, KUBERNETES, namespaces=("a", "b"))
    running = asyncio.create_task(operator.run())

    seen = {(await anext(created)).object["metadata"]["namespace"] for _ in range(2)}
    operator.stop()
    await running

    assert seen == {"a", "b"}
    assert (await cluster.list(POD, "c")).items == []


def test_nodes_are_not_waited_for_where_a_capacity_was_told():
    cluster = MemoryCluster(RESOURCES, now=lambda: datetime.now(UTC))

    def waited_for(conduct: Conduct) -> set[str]:
        operator = Operator(cluster, KINDS, KUBERNETES, namespaces=("a",))
        duties = Duties(operator, (Autoscaler(cluster, KINDS, conduct=conduct, namespaces=("a",)),))
        return {str(each) for each in duties.unsynced()}

    assert {"pods", "nodes"} <= waited_for(Conduct())
    assert "nodes" not in waited_for(Conduct(capacity={"cpu": 1000}))


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        pytest.param([], (), id="all of them"),
        pytest.param(["-n", "a"], (("a",),), id="one"),
        pytest.param(["-n", "a,b", "--namespace", "c"], (("a", "b"), ("c",)), id="several, in whatever way"),
        pytest.param(["-n", "A"], None, id="a name that cannot be one"),
    ],
)
def test_namespace(flags, named):
    if named is None:
        with pytest.raises(click.BadParameter, match="'A' cannot be a namespace; write namespaces such as"):
            command.make_context("operator", flags)
    else:
        assert command.make_context("operator", flags).params["named"] == named


@pytest.mark.parametrize(
    ("text", "amounts"),
    [
        pytest.param(
            "cpu=1.5,memory=2Ki,nvidia.com/gpu=4",
            {"cpu": 1500, "memory": 2048, "nvidia.com/gpu": 4, "pods": 1_000_000},
            id="amounts as nodes have them",
        ),
        pytest.param("cpu=1,pods=10", {"cpu": 1000, "pods": 10}, id="pods may be counted too"),
        pytest.param("cpu", "expected resources such as cpu=16,memory=64Gi", id="a resource needs its amount"),
        pytest.param("", "expected resources such as cpu=16", id="nothing is no capacity"),
        pytest.param("cpu=many", "'many' is not a quantity", id="an amount is a quantity"),
    ],
)
def test_capacity(text, amounts):
    if isinstance(amounts, str):
        with pytest.raises(click.BadParameter, match=amounts):
            command.make_context("operator", ["--capacity", text])
    else:
        assert command.make_context("operator", ["--capacity", text]).params["capacity"] == amounts


@pytest.mark.parametrize(
    ("options", "scales"),
    [
        pytest.param(Options(), True, id="all namespaces: nodes can be seen"),
        pytest.param(Options(namespaces=("a",)), False, id="some namespaces: they cannot"),
        pytest.param(Options(namespaces=("a",), capacity={"cpu": 1000}), True, id="unless it is said what there is"),
    ],
)
def test_the_autoscaler_needs_to_know_what_there_is(options, scales, caplog):
    assert (feasible(options).scaling is not None) == scales
    assert ("--capacity cpu=16,memory=64Gi" in caplog.text) == (not scales)


@pytest.mark.parametrize(
    ("context", "namespaces", "there", "place"),
    [
        pytest.param("in-cluster", ("a",), True, "mine", id="in a pod: where the pod is"),
        pytest.param("laptop", ("b", "a"), True, "a", id="for some namespaces: in one of them, the same for all"),
        pytest.param("laptop", (), True, "trainwright-system", id="for all: where an installed operator has it"),
        pytest.param("laptop", (), False, "mine", id="if none is installed: where the kubeconfig says"),
    ],
)
async def test_where_the_lease_is(context, namespaces, there, place):
    cluster = MemoryCluster((NAMESPACE,), now=lambda: datetime.now(UTC))
    if there:
        await cluster.create(NAMESPACE, {"metadata": {"name": "trainwright-system"}})
    access = Access(Server("https://127.0.0.1"), namespace="mine", context=context)

    assert await lease_namespace(cluster, access, namespaces) == place
