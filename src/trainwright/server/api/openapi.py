"""OpenAPI v3, as far as kubectl reads it: `explain`, and which parameters a write accepts.

Job kinds are described by the schema of their definition; built-in kinds are objects with anything in them, because
kubectl knows those itself. Nobody is told that strategic merge patches are taken: kubectl then makes them from its own
knowledge of the built-in kinds.
"""

import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec

from trainwright.core.objects import Object
from trainwright.server.api.served import Served

_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation", "force", "pretty")
_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_FREE: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_COMMON = {
    "apiVersion": {"type": "string", "description": "Which version of the API the object is written in."},
    "kind": {"type": "string", "description": "What the object is."},
    "metadata": {"description": "Name, labels and the like.", "allOf": [{"$ref": f"#/components/schemas/{_META}"}]},
}


class OpenApi:
    """The documents, one per group and version, made when they are first asked for."""

    def __init__(self, rows: Iterable[Served]) -> None:
        self._rows: dict[str, list[Served]] = {}
        for row in rows:
            self._rows.setdefault(f"apis/{row.api_version}" if row.group else f"api/{row.version}", []).append(row)
        self._made: dict[str, bytes] = {}

    def index(self) -> Object:
        """Return where the documents are."""
        return {
            "paths": {
                path: {
                    "serverRelativeURL": f"/openapi/v3/{path}?hash={hashlib.sha256(self.document(path)).hexdigest()}"
                }
                for path in self._rows
            }
        }

    def document(self, path: str) -> bytes:
        """Return one document as JSON; KeyError if there is none."""
        if path not in self._made:
            self._made[path] = msgspec.json.encode(_document(path, self._rows[path]))
        return self._made[path]


def _document(path: str, rows: list[Served]) -> Object:
    schemas: dict[str, Any] = {_META: _FREE}
    paths: dict[str, Any] = {}
    for row in rows:
        schemas[_name(row)] = _schema(row)
        scope = "namespaces/{namespace}/" if row.resource.namespaced else ""
        collection = f"/{path}/{scope}{row.resource.plural}"
        paths[collection] = {"post": _operation(row, "application/json")}
        paths[f"{collection}/{{name}}"] = {
            "get": _operation(row),
            "put": _operation(row, "application/json"),
            "patch": _operation(row, "application/json-patch+json", "application/merge-patch+json"),
        }
    return {
        "openapi": "3.0.0",
        "info": {"title": "Trainwright", "version": "v1"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _name(row: Served) -> str:
    return ".".join((*reversed(row.group.split(".")), row.version, row.kind)).lstrip(".")


def _schema(row: Served) -> Object:
    schema: Object = row.definition["schema"]["openAPIV3Schema"] if row.custom else _FREE
    properties = {**schema.get("properties", {}), **_COMMON}
    return {**schema, "properties": properties, "x-kubernetes-group-version-kind": [_gvk(row)]}


def _gvk(row: Served) -> Object:
    return {"group": row.group, "version": row.version, "kind": row.kind}


def _operation(row: Served, *taken: str) -> Object:
    schema = {"$ref": f"#/components/schemas/{_name(row)}"}
    operation: Object = {
        "x-kubernetes-group-version-kind": _gvk(row),
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": schema}}}},
    }
    if not taken:
        return operation
    names = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in _PARAMETERS]
    return {
        **operation,
        "parameters": names,
        "requestBody": {"content": {kind: {"schema": schema} for kind in taken}},
    }
