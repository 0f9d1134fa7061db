"""What a cluster has already of what we would install: asked for here, judged in `takeover.py`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from trainwright.cluster.base import Cluster
from trainwright.core.errors import NotFound
from trainwright.core.objects import Object, Ref, key, ref
from trainwright.core.resources import NAMESPACE, Resource, resource_of
from trainwright.kinds import KINDS
from trainwright.operator.configurations import MUTATING, VALIDATING
from trainwright.operator.crds import is_ours
from trainwright.operator.rights import CUSTOM_RESOURCE

DEPLOYMENT = Resource("apps", "v1", "deployments", "Deployment", size_path=("spec", "replicas"))
RESOURCES: Mapping[str, Resource] = {
    str(each): each for kind in KINDS for each in (kind.resource, kind.commands) if each
}
"""What we define, by the names of the definitions."""
_SHOWN = 5


@dataclass(frozen=True)
class Survey:
    """What a cluster has."""

    definitions: Mapping[str, Object] = field(default_factory=dict)
    """Those of our kinds that are there, by name, whoever brought them."""
    objects: Mapping[str, tuple[Object, ...]] = field(default_factory=dict)
    """What there is of each of them: jobs, and commands to jobs."""
    deployments: tuple[Object, ...] = ()
    webhooks: tuple[Object, ...] = ()
    """Configurations of either kind, of the whole cluster."""


async def definitions_there(cluster: Cluster) -> dict[str, Object]:
    """Return the definitions of our kinds that a cluster has, whoever brought them."""
    found = {}
    for name in RESOURCES:
        try:
            found[name] = await cluster.get(CUSTOM_RESOURCE, "", name)
        except NotFound:
            continue
    return found


async def brought_by_others(cluster: Cluster, wanted: Iterable[Object]) -> list[Ref]:
    """Return which definitions and namespaces, of those that we would apply, somebody else has brought already."""
    rows, found = (CUSTOM_RESOURCE, NAMESPACE), []
    for each in wanted:
        if each["kind"] not in (row.kind for row in rows):
            continue
        try:
            there = await cluster.get(resource_of(each, rows), "", each["metadata"]["name"])
        except NotFound:
            continue
        if not is_ours(there):
            found.append(ref(each))
    return found


async def objects_of(cluster: Cluster, definitions: Mapping[str, Object]) -> dict[str, tuple[Object, ...]]:
    """Return everything that is stored under definitions, in all namespaces."""
    return {
        name: tuple((await cluster.list(_served(definition, RESOURCES[name]))).items)
        for name, definition in definitions.items()
    }


async def survey(cluster: Cluster) -> Survey:
    """Return what a cluster has."""
    definitions = await definitions_there(cluster)
    return Survey(
        definitions,
        await objects_of(cluster, definitions),
        tuple((await cluster.list(DEPLOYMENT)).items),
        tuple([each for resource in (MUTATING, VALIDATING) for each in await _all(cluster, resource)]),
    )


async def _all(cluster: Cluster, resource: Resource) -> list[Object]:
    """Return all objects of a kind, each with the name of the kind: items of a list go without it."""
    named = {"apiVersion": resource.api_version, "kind": resource.kind}
    return [{**each, **named} for each in (await cluster.list(resource)).items]


def some(objects: Sequence[Object]) -> str:
    """Return the names of the first few objects, and how many more there are."""
    more = f" and {len(objects) - _SHOWN} more" if len(objects) > _SHOWN else ""
    return f"{', '.join(key(each) for each in objects[:_SHOWN])}{more}"


def _served(definition: Object, resource: Resource) -> Resource:
    """Return a resource in a version that is served: another project's definition may lack ours."""
    versions = served_versions(definition)
    return resource if resource.version in versions or not versions else replace(resource, version=versions[0])


def served_versions(definition: Object) -> list[str]:
    """Return the versions of a definition under which objects can be read."""
    return [each["name"] for each in _versions(definition) if each.get("served")]


def _versions(definition: Object) -> Iterable[Object]:
    versions: Iterable[Object] = definition["spec"].get("versions") or ()
    return versions
