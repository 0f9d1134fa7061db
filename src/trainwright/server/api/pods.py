"""What is asked of single pods: logs, exec, attach, port-forward; passed on to whoever runs them."""

from trainwright.core.errors import BadRequest, ClusterError
from trainwright.core.objects import Object
from trainwright.node import pod_streams
from trainwright.node.pod_streams import Streams
from trainwright.web.exchange import Exchange


async def connect(exchange: Exchange, streams: Streams | None, pod: Object, what: str) -> None:
    """Answer a request for one of a pod's streams."""
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    if streams is None:
        raise ClusterError(f"nobody runs pod {namespace}/{name}: this cluster has no node that answers")
    if what == "portforward":
        await pod_streams.forward(exchange, streams, namespace, name)
        return
    container = _container(pod, exchange.request.value("container"))
    stdin = exchange.request.flag("stdin")
    if what == "log":
        await pod_streams.log(exchange, streams, namespace, name, container)
    elif what == "exec":
        await pod_streams.execute(exchange, streams, namespace, name, container, stdin=stdin)
    else:
        await pod_streams.attach(exchange, streams, namespace, name, container, stdin=stdin)


def _container(pod: Object, asked: str) -> str:
    """Return the container that is meant; BadRequest if that is none, or not to be told."""
    spec, name = pod["spec"], pod["metadata"]["name"]
    containers = [each["name"] for each in spec.get("containers") or ()]
    steps = [each["name"] for each in spec.get("initContainers") or ()]
    if not asked and len(containers) == 1:
        return str(containers[0])
    if not asked:
        choice = f"[{' '.join(containers)}]" + (f" or one of the init containers: [{' '.join(steps)}]" if steps else "")
        raise BadRequest(f"a container name must be specified for pod {name}, choose one of: {choice}")
    if asked not in (*containers, *steps):
        raise BadRequest(f"container {asked} is not valid for pod {name}")
    return asked
