"""Whatever is asked, it is answered or refused in words: never a fault of ours."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.server.serving import JOBS, MAPS, TABLE, Asking, serving

PODS = "/api/v1/namespaces/ns/pods"
WORDS = ("api", "apis", "v1", "kubeflow.org", "namespaces", "ns", "pods", "pytorchjobs", "x", "status", "scale", "log")
FIELDS = (
    *("metadata", "name", "namespace", "labels", "spec", "status", "replicas", "containers", "data", "kind"),
    *("gracePeriodSeconds", "preconditions", "dryRun", "op", "path", "value"),
)
KINDS = ("json", "merge-patch+json", "json-patch+json", "strategic-merge-patch+json")
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from(("x", "", "ns", "All", "/spec"))),
    lambda below: st.one_of(st.lists(below, max_size=2), st.dictionaries(st.sampled_from(FIELDS), below, max_size=3)),
    max_leaves=8,
)
NAMED = st.fixed_dictionaries({"metadata": st.just({"name": "x"})}, optional={"spec": VALUES, "status": VALUES})
PATHS = st.lists(st.sampled_from(WORDS), max_size=8).map(lambda words: "/" + "/".join(words))
TARGETS = st.one_of(PATHS, st.sampled_from([each + name for each in (JOBS, MAPS, PODS) for name in ("", "/x")]))
REQUESTS = st.tuples(
    st.sampled_from(("GET", "POST", "PUT", "PATCH", "DELETE")),
    TARGETS,
    st.one_of(VALUES, NAMED),
    st.sampled_from(KINDS),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(REQUESTS, min_size=1, max_size=20))
def test_anything(requests):
    async def asked() -> None:
        async with serving() as served:
            wire = await served.connect()
            ask = Asking(wire)
            for method, target, body, kind in requests:
                code, status = await ask(method, target, body, kind=f"application/{kind}")
                assert code < 500 or "nobody runs pod" in status["message"], status
            for target in ("/api/v1/pods", "/apis/kubeflow.org/v1/pytorchjobs", "/api/v1/namespaces"):
                assert (await ask("GET", target, accept=TABLE))[0] == 200, "what was stored can be shown"
            wire.close()

    asyncio.run(asked())
