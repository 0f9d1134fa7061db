"""Webhook configurations: which objects an API server asks us about, where, and what holds when we do not answer.

What must go on while no operator runs is not asked about at all: deleting, finishing (status), resizing (scale), and
whatever leaves spec and annotations as they are. All else waits for an answer of `/validate` (`Fail`), so nothing
wrong gets in; the defaults that `/mutate` writes down are a courtesy (`Ignore`), since the loop reads a job with them.
"""

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from trainwright.core.names import RECORD_ANNOTATION
from trainwright.core.objects import Object
from trainwright.core.resources import Resource
from trainwright.kinds import COMMANDS, KINDS
from trainwright.operator.certificates import Terms

GROUP = "admissionregistration.k8s.io"
MUTATING = Resource(
    GROUP, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", namespaced=False, status=False
)
VALIDATING = Resource(
    GROUP, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", namespaced=False, status=False
)

NAME = "trainwright"
"""Of both configurations. API servers call mutating webhooks in the order of these names: most others come first."""
PORT = 9443
TIMEOUT = timedelta(seconds=5)
_DEFAULTS, _JOBS, _COMMANDS = "defaults.trainwright.dev", "jobs.trainwright.dev", "commands.trainwright.dev"
_PATHS = {_DEFAULTS: "/mutate", _JOBS: "/validate", _COMMANDS: "/validate"}

_STAYS = {"name": "stays", "expression": "!has(object.metadata.deletionTimestamp)"}
_NEW, _OLD = (f"{each}.metadata.?annotations.orValue({{}})" for each in ("object", "oldObject"))
_CHANGES = {
    "name": "changes",
    "expression": " || ".join(
        (
            "request.operation == 'CREATE'",
            "object.spec != oldObject.spec",
            # The record is the operator's own note: nobody is asked about it.
            f"{_NEW}.exists(key, key != '{RECORD_ANNOTATION}' && {_NEW}[?key] != {_OLD}[?key])",
            f"{_OLD}.exists(key, key != '{RECORD_ANNOTATION}' && !(key in {_NEW}))",
        )
    ),
}


@dataclass(frozen=True)
class Webhooks:
    """Where webhooks are served, and how an API server gets there."""

    host: str = ""
    """Where we listen; none: on all addresses."""
    port: int = PORT
    namespace: str = "trainwright-system"
    """Where the Secret and the Service are."""
    service: str = "trainwright"
    secret: str = "trainwright-webhook"  # noqa: S105 - a name
    url: str = ""
    """How an API server reaches us, such as https://10.0.0.7:9443, if not by the Service."""
    excluded: tuple[str, ...] = ("kube-system",)
    """Namespaces that are left alone, besides our own: they must come up without us."""
    terms: Terms = field(default_factory=Terms)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the names under which an API server looks for us."""
        if self.url:
            return (urlsplit(self.url).hostname or "",)
        name = f"{self.service}.{self.namespace}"
        return (f"{name}.svc", f"{name}.svc.cluster.local", name)


def configurations(webhooks: Webhooks) -> Iterator[Object]:
    """Yield both configurations; `trusting` adds whom an API server is to trust, once there is somebody."""
    jobs = [_rule(kind.resource, kind.api_versions) for kind in KINDS]
    commands = [_rule(row, (row.api_version,)) for row in COMMANDS]
    mutating = {**_hook(_DEFAULTS, jobs, [_STAYS, _CHANGES], webhooks), "failurePolicy": "Ignore"}
    yield _configuration(MUTATING, [{**mutating, "reinvocationPolicy": "IfNeeded"}])
    validating = (
        _hook(_JOBS, jobs, [_STAYS, _CHANGES], webhooks),
        _hook(_COMMANDS, commands, [_STAYS], webhooks),
    )
    yield _configuration(VALIDATING, [{**hook, "failurePolicy": "Fail"} for hook in validating])


def _configuration(row: Resource, hooks: list[Object]) -> Object:
    return {"apiVersion": row.api_version, "kind": row.kind, "metadata": {"name": NAME}, "webhooks": hooks}


def _rule(resource: Resource, api_versions: Iterable[str]) -> Object:
    return {
        "apiGroups": [resource.group],
        "apiVersions": [version.rpartition("/")[2] for version in api_versions],
        "resources": [resource.plural],
        "operations": ["CREATE", "UPDATE"],
        "scope": "Namespaced",
    }


def _hook(name: str, rules: list[Object], conditions: list[Object], webhooks: Webhooks) -> Object:
    return {
        "name": name,
        "rules": rules,
        "matchPolicy": "Equivalent",
        "matchConditions": conditions,
        "namespaceSelector": {"matchExpressions": [_namespaces(webhooks)]},
        "clientConfig": _client(name, webhooks),
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": int(TIMEOUT.total_seconds()),
    }


def _namespaces(webhooks: Webhooks) -> Object:
    excluded = list(dict.fromkeys((*webhooks.excluded, webhooks.namespace)))
    return {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": excluded}


def _client(name: str, webhooks: Webhooks) -> Object:
    path = _PATHS[name]
    if webhooks.url:
        return {"url": webhooks.url.rstrip("/") + path}
    return {"service": {"namespace": webhooks.namespace, "name": webhooks.service, "path": path, "port": 443}}


# Trust


def trusting(configuration: Object, webhooks: Webhooks, bundle: bytes) -> list[Object]:
    """Return the webhooks of a configuration so that each of ours is called where we are, and trusted."""
    trusted = base64.b64encode(bundle).decode()
    return [
        {**hook, "clientConfig": {**_client(hook["name"], webhooks), "caBundle": trusted}}
        if hook["name"] in _PATHS
        else hook
        for hook in configuration.get("webhooks") or ()
    ]


def trusts(configuration: Object, authority: bytes) -> bool:
    """Say whether whoever reads this configuration trusts an authority."""
    return all(
        authority in base64.b64decode(_bundle(hook))
        for hook in configuration.get("webhooks") or ()
        if hook["name"] in _PATHS
    )


def _bundle(hook: Object) -> Any:
    return hook["clientConfig"].get("caBundle") or ""
