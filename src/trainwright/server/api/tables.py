"""Tables: what `kubectl get` prints, made on the server's side as every API server does."""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal

from trainwright.core.objects import Object
from trainwright.server.api.printers import PRINTERS, age, since
from trainwright.server.api.served import Served

Included = Literal["None", "Metadata", "Object"]
"""How much of each object goes along with its row."""

_SENSELESS = "<invalid>"
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(-?\d+)(:)?\]")


class Tables:
    """Makes the tables of one resource."""

    def __init__(self, row: Served) -> None:
        self._row = row
        printer = PRINTERS.get(row.resource)
        if printer:
            self._columns = [_column(name, wide=name in printer.wide) for name in printer.columns]
            self._cells = printer.cells
        else:
            declared = row.definition.get("additionalPrinterColumns") or [_AGE]
            self._columns = [_column("Name"), *(_declared(each) for each in declared)]
            readers = [_reader(each) for each in declared]
            self._cells = lambda obj, now: [obj["metadata"]["name"], *(read(obj, now) for read in readers)]

    def table(
        self,
        objects: Iterable[Object],
        now: datetime,
        *,
        version: str = "",
        include: Included = "Metadata",
        columns: bool = True,
    ) -> Object:
        """Return the table of objects; further events of a watch leave the columns out."""
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": version} if version else {},
            "columnDefinitions": self._columns if columns else [],
            "rows": [
                {"cells": self._filled(obj, now), "object": _included(self._row.shown(obj), include)} for obj in objects
            ],
        }

    def _filled(self, obj: Object, now: datetime) -> list[Any]:
        """Return an object's cells; one that makes no sense must not hide all others."""
        try:
            return self._cells(obj, now)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            name = obj["metadata"]["name"]
            return [name if column["format"] == "name" else _SENSELESS for column in self._columns]


def partial(obj: Object) -> Object:
    """Return an object's metadata alone, as an object of its own."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def _included(obj: Object, include: Included) -> Object | None:
    if include == "None":
        return None
    return obj if include == "Object" else partial(obj)


_AGE: Object = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def _column(name: str, *, wide: bool = False) -> Object:
    form = "name" if name == "Name" and not wide else ""
    return {"name": name, "type": "string", "format": form, "description": "", "priority": int(wide)}


def _declared(column: Object) -> Object:
    described = {"format": "", "description": column.get("description", ""), "priority": column.get("priority", 0)}
    return {"name": column["name"], "type": column["type"], **described}


def _reader(column: Object) -> Callable[[Object, datetime], Any]:
    """Return what fills a column that a definition declares; a cell without value stays empty."""
    path, kind = steps(column["jsonPath"]), column["type"]
    if column["jsonPath"] == _AGE["jsonPath"]:
        return age

    def read(obj: Object, now: datetime) -> Any:
        value = found(obj, path)
        if value is None:
            return None
        return since(value, now) if kind == "date" else _text(value) if kind == "string" else value

    return read


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


@lru_cache(64)
def steps(path: str) -> tuple[str | int, ...]:
    """Return the steps of a JSON path such as .status.conditions[-1:].type."""
    return tuple(int(match[2]) if match[2] else match[1] for match in _STEP.finditer(path))


def found(obj: Any, path: Sequence[str | int]) -> Any:
    """Return what a path leads to; None where it ends early."""
    for step in path:
        if isinstance(step, int):
            if not isinstance(obj, list) or not -len(obj) <= step < len(obj):
                return None
            obj = obj[step]
        elif isinstance(obj, dict):
            obj = obj.get(step)
        else:
            return None
    return obj
