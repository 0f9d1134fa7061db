"""Whether an API server knows a kind: what it says of itself decides, and a trouble is no answer."""

import msgspec
import pytest
from tests.cluster.kubernetes.server import Handler, Request, serve
from tests.cluster.kubernetes.serving import answers, cluster_at, refuses

from trainwright.cluster.kubernetes import Access, Server
from trainwright.cluster.kubernetes.whole import WholeCluster
from trainwright.core.errors import ClusterError
from trainwright.core.names import RECORD_ANNOTATION
from trainwright.core.objects import Object
from trainwright.core.resources import NATIVE_POD_GROUP, POD, Resource
from trainwright.core.whole import annotation


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


@pytest.mark.parametrize(
    ("told", "found"),
    [
        pytest.param({"v1": ["jobs"], "v2": ["jobs"]}, ("v1", "v2"), id="all that have the kind"),
        pytest.param({"v1": ["others"], "v2": ["jobs"]}, ("v2",), id="but not those without"),
        pytest.param({}, (), id="none where nobody knows the group"),
    ],
)
async def test_versions(told, found):
    async def answer(request: Request) -> None:
        version = request.path.removeprefix("/apis/example.com").strip("/")
        if version:
            await lists(*told[version])(request)
        elif told:
            body = {"versions": [{"version": each} for each in told]}
            await answers(200, msgspec.json.encode(body))(request)
        else:
            await refuses(404, "NotFound")(request)

    async with serve(answer) as serving, cluster_at(serving.url) as cluster:
        assert await cluster.versions(Resource("example.com", "v3", "jobs", "Job")) == found


async def test_commands_see_the_whole_status_of_a_job():
    job: Object = {"metadata": {"name": "j", "namespace": "ns", "uid": "u"}, "status": {}}
    job["metadata"]["annotations"] = {RECORD_ANNOTATION: annotation(job, {"restarts": 3})}

    async def answer(request: Request) -> None:
        found = {"metadata": {"resourceVersion": "7"}, "items": [job]} if request.path.endswith("/jobs") else job
        await answers(200, msgspec.json.encode(found))(request)

    jobs = Resource("example.com", "v1", "jobs", "Job")
    async with serve(answer) as serving, (cluster := WholeCluster(Access(Server(serving.url)))):
        assert (await cluster.get(jobs, "ns", "j"))["status"] == {"restarts": 3}
        assert (await cluster.list(jobs, "ns")).items[0]["status"] == {"restarts": 3}
        changes = cluster.watch(jobs, "ns", since="")
        assert (await anext(changes)).object["status"] == {"restarts": 3}
        await changes.aclose()
