"""Downloads for pods that have no route to the outside: a proxy on their bridge, and the variables that say where."""

from contextlib import AsyncExitStack

from trainwright.node.base import Isolation
from trainwright.node.net import POD_RANGE, NetIsolation
from trainwright.node.proxy import Proxy, proxy_environment

DIRECT = (str(POD_RANGE), ".svc", ".cluster.local")
"""What pods reach without the proxy: each other."""


async def way_out(isolation: Isolation, stack: AsyncExitStack) -> dict[str, str]:
    """Serve downloads until `stack` is left, and return what pods must have in their environment to find them."""
    if not isinstance(isolation, NetIsolation):
        return {}
    listener, address = await isolation.listen(0)
    await stack.enter_async_context(Proxy(listener, inside=isolation.inside))
    return proxy_environment(f"{address}:{listener.getsockname()[1]}", DIRECT)
