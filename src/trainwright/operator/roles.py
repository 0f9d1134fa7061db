"""Rights as Roles and bindings: the whole cluster's jobs, or those of some namespaces without a single ClusterRole.

What the operator needs in its own namespace (its Lease, the Secret of its certificate) is a Role there in either case.
"""

from collections.abc import Iterable, Iterator, Sequence

from trainwright.core.objects import Object
from trainwright.operator.rights import Right, rules

_API = "rbac.authorization.k8s.io"


def roles(rights: Iterable[Right], account: Object, watch: Sequence[str], labels: Object) -> Iterator[Object]:
    """Yield what gives rights to an account; with `watch` only in these namespaces, and none on the cluster itself."""
    given = tuple(rights)
    name, home = account["metadata"]["name"], account["metadata"]["namespace"]
    jobs, own = (tuple(each for each in given if each.scope == scope) for scope in ("jobs", "own"))
    if watch:
        for namespace in watch:
            yield from _pair(jobs, name, account, labels, namespace)
    else:
        yield from _pair(tuple(each for each in given if each.scope != "own"), name, account, labels)
    if own:
        yield from _pair(own, f"{name}-own", account, labels, home)


def _pair(rights: Iterable[Right], name: str, account: Object, labels: Object, namespace: str = "") -> Iterator[Object]:
    """Yield a role and its binding."""
    kind = "Role" if namespace else "ClusterRole"
    place = {"namespace": namespace} if namespace else {}
    metadata = {"name": name, **place, "labels": labels}
    yield {"apiVersion": f"{_API}/v1", "kind": kind, "metadata": metadata, "rules": rules(rights)}
    subject = {"kind": "ServiceAccount", **{key: account["metadata"][key] for key in ("name", "namespace")}}
    yield {
        "apiVersion": f"{_API}/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _API, "kind": kind, "name": name},
        "subjects": [subject],
    }
