"""What a node answers over HTTPS: the API server passes on to it what users ask about its pods.

    /containerLogs/NS/POD/CONTAINER   kubectl logs
    /exec/NS/POD/CONTAINER            kubectl exec: a WebSocket
    /attach/NS/POD/CONTAINER          kubectl attach: a WebSocket; output only, as processes here have no input
    /portForward/NS/POD               kubectl port-forward: a WebSocket
    /pods, /healthz

Who may ask is settled by certificates (`certificate`), what is answered about a pod by `pod_streams`.
"""

import socket
import ssl

import msgspec

from trainwright.core.errors import NotFound
from trainwright.node import pod_streams
from trainwright.node.kubelet import Kubelet
from trainwright.web.exchange import Exchange
from trainwright.web.server import TEXT, Handler, Server


class NodeServer:
    """Serves one kubelet. An async context manager: leaving it ends everything that is under way."""

    def __init__(self, kubelet: Kubelet, listener: socket.socket, context: ssl.SSLContext) -> None:
        self._kubelet = kubelet
        self._server = Server(listener, self._answer, context=context)
        self._routes: dict[tuple[str, int], Handler] = {
            ("containerLogs", 3): self._logs,
            ("exec", 3): self._exec,
            ("attach", 3): self._attach,
            ("portForward", 2): self._port_forward,
            ("pods", 0): self._pods,
            ("healthz", 0): self._health,
        }

    async def __aenter__(self) -> "NodeServer":
        await self._server.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._server.__aexit__(*error)

    async def _answer(self, exchange: Exchange) -> None:
        what, *names = exchange.request.path
        handle = self._routes.get((what, len(names)))
        if handle is None:
            raise NotFound(f"this node does not serve /{'/'.join(exchange.request.path)}")
        await handle(exchange)

    async def _health(self, exchange: Exchange) -> None:
        await exchange.answer(b"ok", kind=TEXT)

    async def _pods(self, exchange: Exchange) -> None:
        listed = {"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": self._kubelet.pods()}
        await exchange.answer(msgspec.json.encode(listed))

    async def _logs(self, exchange: Exchange) -> None:
        _, namespace, pod, container = exchange.request.path
        await pod_streams.log(exchange, self._kubelet, namespace, pod, container)

    async def _exec(self, exchange: Exchange) -> None:
        _, namespace, pod, container = exchange.request.path
        stdin = exchange.request.flag("input")
        await pod_streams.execute(exchange, self._kubelet, namespace, pod, container, stdin=stdin)

    async def _attach(self, exchange: Exchange) -> None:
        _, namespace, pod, container = exchange.request.path
        stdin = exchange.request.flag("input")
        await pod_streams.attach(exchange, self._kubelet, namespace, pod, container, stdin=stdin)

    async def _port_forward(self, exchange: Exchange) -> None:
        _, namespace, pod = exchange.request.path
        await pod_streams.forward(exchange, self._kubelet, namespace, pod)
