"""metrics.k8s.io: what pods use, measured when it is asked for. Nothing of it is stored."""

from trainwright.cluster import selectors
from trainwright.core.errors import NotFound
from trainwright.core.objects import Object
from trainwright.node.usage import GROUP, VERSION
from trainwright.web.exchange import Request

PATH = ("apis", GROUP, VERSION)
RESOURCE: Object = {
    "name": "pods",
    "singularName": "",
    "namespaced": True,
    "kind": "PodMetrics",
    "verbs": ["get", "list"],
}


def answer(request: Request, measured: list[Object]) -> Object:
    """Return the part of what was measured that a request asks for: all pods, those of a namespace, or one."""
    namespace, name = _asked(request.path[len(PATH) :])
    wanted = selectors.labels(request.value("labelSelector"))
    found = [
        pod
        for pod in measured
        if namespace in ("", pod["metadata"]["namespace"])
        and name in ("", pod["metadata"]["name"])
        and (wanted is None or wanted(pod))
    ]
    if not name:
        return {"kind": "PodMetricsList", "apiVersion": f"{GROUP}/{VERSION}", "metadata": {}, "items": found}
    if not found:
        raise NotFound(f'podmetrics.metrics.k8s.io "{namespace}/{name}" not found')
    return found[0]


def _asked(words: tuple[str, ...]) -> tuple[str, str]:
    """Return namespace and name of what is asked for, nothing for any."""
    match words:
        case ("pods",):
            return "", ""
        case ("namespaces", namespace, "pods"):
            return namespace, ""
        case ("namespaces", namespace, "pods", name):
            return namespace, name
    raise NotFound("the server could not find the requested resource")
