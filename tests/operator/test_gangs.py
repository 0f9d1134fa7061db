"""Which gang strategy is taken where nobody has chosen one."""

from datetime import UTC, datetime

import pytest

from trainwright.cluster.memory import MemoryCluster
from trainwright.core.errors import Forbidden
from trainwright.core.objects import Object
from trainwright.core.resources import NATIVE_POD_GROUP, PLUGIN_POD_GROUP, POD_GROUP, Resource
from trainwright.operator.gangs import QUEUE, chosen, detect


class Served(MemoryCluster):
    """A cluster that serves some kinds, and where queues may be hidden."""

    def __init__(self, *served: Resource, hidden: bool = False) -> None:
        super().__init__((*served, QUEUE), now=lambda: datetime(2026, 3, 1, tzinfo=UTC))
        self._served = served
        self._hidden = hidden

    async def serves(self, resource: Resource) -> bool:
        return resource in self._served

    async def get(self, resource: Resource, namespace: str, name: str) -> Object:
        if self._hidden:
            raise Forbidden("queues are none of your business")
        return await super().get(resource, namespace, name)


@pytest.mark.parametrize(
    ("served", "queue", "hidden", "found"),
    [
        pytest.param((), None, False, "gates", id="the stock scheduler needs gates"),
        pytest.param((NATIVE_POD_GROUP,), None, False, "native", id="PodGroups of Kubernetes itself are taken"),
        pytest.param((NATIVE_POD_GROUP, POD_GROUP), "Open", False, "native", id="before those of Volcano"),
        pytest.param((POD_GROUP,), "Open", False, "volcano", id="Volcano is taken where its scheduler has been"),
        pytest.param((POD_GROUP,), None, False, "gates", id="definitions alone are not enough"),
        pytest.param((POD_GROUP,), "Closed", False, "gates", id="nor is a queue that is closed"),
        pytest.param((POD_GROUP,), "Open", True, "gates", id="nor one that cannot be seen"),
        pytest.param((PLUGIN_POD_GROUP,), None, False, "gates", id="the plugin is only taken by choice"),
    ],
)
async def test_what_a_cluster_offers(served, queue, hidden, found):
    cluster = Served(*served, hidden=hidden)
    if queue:
        await cluster.create(QUEUE, {"metadata": {"name": "default"}, "status": {"state": queue}})
        await cluster.patch(QUEUE, "", "default", {"status": {"state": queue}}, subresource="status")

    assert await detect(cluster) == found


async def test_a_choice_is_not_questioned():
    assert await chosen(Served(NATIVE_POD_GROUP), "none") == "none"
    assert await chosen(Served(NATIVE_POD_GROUP), "auto") == "native"
