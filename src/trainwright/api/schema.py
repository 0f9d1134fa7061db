"""The shapes of `reader.py` printed as structural OpenAPI v3, from which CRDs are generated.

Structural means what an API server demands: one type per place, no references, no null, integers with a format. What
only we can check (pod templates, most relations between fields) stays with the kind's `check`. The relations that a
shape knows itself become rules in CEL, an API server's own language, which answer in the reader's words.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from trainwright.api import scaling
from trainwright.api.reader import INT32, LONGEST_QUANTITY, QUANTITY, Shape, Type, more_than, shape_of

_INT_OR_STRING = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
_SPECIAL: dict[Type, dict[str, Any]] = {
    "any": {"x-kubernetes-preserve-unknown-fields": True},
    "int-or-string": _INT_OR_STRING,
    "int-or-quantity": {**_INT_OR_STRING, "pattern": QUANTITY, "maxLength": LONGEST_QUANTITY},
}


def schema(shape: Shape) -> dict[str, Any]:
    """Return the schema that accepts what the walker accepts; unknown fields are an API server's own business."""
    if shape.type == "quantity":
        raise ValueError("a CRD cannot say 'quantity', which takes 0.5 without quotes; use int-or-quantity")
    described = {"description": shape.doc} if shape.doc else {}
    return {**described, **_SPECIAL.get(shape.type, {"type": shape.type}), **_details(shape)}


_IMMUTABLE = {"rule": "self == oldSelf", "message": "field is immutable"}


def _details(shape: Shape) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if shape.preserved:
        details["x-kubernetes-preserve-unknown-fields"] = True
    if shape.fields:
        details["properties"] = {name: schema(below) for name, below in shape.fields.items()}
    if shape.required:
        details["required"] = list(shape.required)
    if shape.values:
        details["additionalProperties"] = schema(shape.values)
    if shape.type == "array":
        details["items"] = schema(shape.items or Shape("any"))
        details |= {"minItems": shape.fewest} if shape.fewest else {}
    if shape.enum:
        details["enum"] = list(shape.enum)
    if shape.text:
        details["pattern"] = shape.text.pattern
        details |= {"maxLength": shape.text.longest} if shape.text.longest is not None else {}
    if shape.type == "integer":
        details["format"] = "int32" if (shape.maximum or 0) < INT32 and (shape.minimum or 0) >= -INT32 else "int64"
        details |= {name: getattr(shape, name) for name in ("minimum", "maximum") if getattr(shape, name) is not None}
    if rules := [*([_IMMUTABLE.copy()] if shape.immutable else []), *_relations(shape)]:
        details["x-kubernetes-validations"] = rules
    return details


def _relations(shape: Shape) -> Iterator[dict[str, Any]]:
    for low, high in shape.ordered:
        least, most = f"self.{_escaped(low)}", f"self.{_escaped(high)}"
        yield {
            "rule": f"!has({least}) || !has({most}) || {least} <= {most}",
            "messageExpression": _sentence(more_than("%d", high, "%d"), (least, most)),
            "fieldPath": f".{low}" if low.isalnum() else f"['{low}']",
        }
    for rule in shape.rules:
        yield {
            "rule": rule.holds,
            "messageExpression": _sentence(rule.words, rule.numbers),
            "fieldPath": f".{rule.path}",
        }
    if shape.one_of:
        given = [f"has(self.{_escaped(name)})" for name in shape.one_of.names]
        yield {"rule": " || ".join(given), "message": shape.one_of.missing}
        words = shape.one_of.several(f"' + {_listed(shape.one_of.names, given)} + '")
        yield {
            "rule": f"[{', '.join(given)}].filter(given, given).size() <= 1",
            "messageExpression": f"'{words}'",
        }


def _sentence(words: str, numbers: Sequence[str]) -> str:
    """Return an expression for a sentence with numbers in it.

    An API server knows what `format` costs at most; of `string`, `join` and the like it expects too much.
    """
    return f"'{words}'.format([{', '.join(numbers)}])"


def _listed(names: Sequence[str], given: Sequence[str]) -> str:
    """Return an expression for the names that are given, with "and" between them."""
    parts = [f"({given[0]} ? '{names[0]}' : '')"]
    for place in range(1, len(names)):
        earlier = " || ".join(given[:place])
        parts.append(f"({given[place]} ? ({earlier} ? ' and ' : '') + '{names[place]}' : '')")
    return " + ".join(parts)


def _escaped(name: str) -> str:
    """Return a field's name as CEL takes it."""
    return name.replace("-", "__dash__")


def document(spec: type[Any], status: type[Any], doc: str = "") -> dict[str, Any]:
    """Return the schema of a whole object of a kind, given the dataclasses of its spec and status."""
    return {
        **({"description": doc} if doc else {}),
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": schema(shape_of(spec)),
            "status": _status(status),
        },
    }


def _status(status: type[Any]) -> dict[str, Any]:
    """Return the schema of a kind's status: its own fields, and those that every kind has."""
    own = schema(shape_of(status))
    history = {
        "description": "How its size was changed, and why; the newest last.",
        "type": "array",
        "items": schema(shape_of(scaling.Scaling)),
    }
    return {**own, "properties": {**own.get("properties", {}), scaling.HISTORY: history}}
