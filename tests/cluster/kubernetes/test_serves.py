"""Whether an API server knows a kind: what it says of itself decides, and a trouble is no answer."""

import msgspec
import pytest
from tests.cluster.kubernetes.server import Handler, Request, serve
from tests.cluster.kubernetes.serving import answers, cluster_at, refuses

from trainwright.core.errors import ClusterError
from trainwright.core.resources import NATIVE_POD_GROUP, POD


def lists(*names: str) -> Handler:
    return answers(200, msgspec.json.encode({"resources": [{"name": name} for name in names]}))


@pytest.mark.parametrize(
    ("handler", "known"),
    [
        pytest.param(lists("workloads", "podgroups"), True, id="a kind that is listed"),
        pytest.param(lists("workloads", "podgroups/status"), False, id="one that is not"),
        pytest.param(refuses(404, "NotFound"), False, id="one whose group and version nobody knows"),
    ],
)
async def test_serves(handler, known):
    async with serve(handler) as serving, cluster_at(serving.url) as cluster:
        assert await cluster.serves(NATIVE_POD_GROUP) is known


async def test_what_is_asked():
    paths: list[str] = []

    async def note(request: Request) -> None:
        paths.append(request.path)
        await lists("pods")(request)

    async with serve(note) as serving, cluster_at(serving.url) as cluster:
        assert await cluster.serves(POD)
        assert not await cluster.serves(NATIVE_POD_GROUP)
    assert paths == ["/api/v1", "/apis/scheduling.k8s.io/v1alpha2"]


async def test_a_server_in_trouble_has_not_said_no():
    async with serve(refuses(500, "InternalError")) as serving, cluster_at(serving.url) as cluster:
        with pytest.raises(ClusterError):
            await cluster.serves(NATIVE_POD_GROUP)
