"""Typed reads that remember their path, "spec.tasks[1].replicas", and find every problem instead of the first.

What a user may write is described by frozen dataclasses (`entry` adds words and bounds to a field) or, for Kubernetes'
own types, by a compact table (`shapes`). Both become a `Shape`. One walker, `walk`, holds a value against a shape;
`build` takes the values that fit into the dataclass; `schema.py` prints the same shape as OpenAPI.

Null means absent where a field may be absent, as on an API server; in a list or a map it is a problem.
"""

import dataclasses
import json
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, TypeVar

from trainwright.core import quantity
from trainwright.core.errors import Problem, did_you_mean

T = TypeVar("T")
Type = Literal[
    "object", "array", "string", "integer", "number", "boolean", "int-or-string", "int-or-quantity", "quantity", "any"
]
"""`quantity` also takes 0.5 without quotes, as pods do; a CRD can only say `int-or-quantity`."""

QUANTITY = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3}|[numkMGTPE]|[KMGTPE]i)?$"
LONGEST_QUANTITY = 64
INT32, INT64 = 2**31, 2**63
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STEP = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")
_SHOWN = 60
_FEW = 14


# Paths


def child(path: str, step: str | int) -> str:
    """Return the path of what stands below: a key behind a dot, an index or a key with dots of its own in brackets."""
    if isinstance(step, int) or not _PLAIN_KEY.fullmatch(step):
        return f"{path}[{step}]"
    return f"{path}.{step}" if path else step


def steps(path: str) -> list[str]:
    """Return the keys and indices a path goes through."""
    return [key or bracketed for bracketed, key in _STEP.findall(path)]


# Shapes


@dataclass(frozen=True)
class Text:
    """How a text must be written: as a pattern for schemas, and in words."""

    what: str
    """What it is: "a queue's name"."""
    pattern: str
    """From ^ to $, in the words that all dialects of regular expressions share."""
    rule: str
    """What to write: "small letters and digits"."""
    longest: int | None = None

    def fits(self, value: str) -> bool:
        """Say whether a text is written like that."""
        if self.longest is not None and len(value) > self.longest:
            return False
        return bool(re.fullmatch(self.pattern[1:-1], value))


@dataclass(frozen=True)
class OneOf:
    """Fields of which an object must have exactly one."""

    names: tuple[str, ...]
    about: str
    """What they say: "how large the job is"."""
    choice: str
    """What to write: "gpus or replicas"."""

    @property
    def missing(self) -> str:
        """Return the words for an object that has none."""
        return f"says nothing about {self.about}; write one of {self.choice}"

    def several(self, there: str) -> str:
        """Return the words for an object that has several, given their names joined by " and "."""
        return f"has {there}, which exclude each other; write one of {self.choice}"


@dataclass(frozen=True)
class Rule:
    """What the `check` of a kind demands of an object, said in CEL as well: an API server then asks for it always.

    Also where no webhook is asked: `kubectl scale` is one such place.
    """

    holds: str
    """An expression that is true where all is well."""
    words: str
    """The sentence of `check`, with %d for each of `numbers`."""
    numbers: tuple[str, ...]
    path: str
    """The field that the sentence is about, from the object on."""


@dataclass(frozen=True)
class Shape:
    """What may stand in one place."""

    type: Type
    doc: str = ""
    fields: Mapping[str, "Shape"] = field(default_factory=dict)
    """The entries of an object, by the name users write."""
    required: tuple[str, ...] = ()
    values: "Shape | None" = None
    """What stands under each key, of an object whose keys are the user's own."""
    items: "Shape | None" = None
    enum: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    text: "Text | None" = None
    """How a text must be written."""
    fewest: int = 0
    """How many entries a list must have."""
    preserved: bool = False
    """An API server keeps the whole object as it is: it is checked here and not by the schema."""
    foreign: bool = False
    """Not our type: a newer Kubernetes may know fields that we do not."""
    immutable: bool = False
    """An update that changes it is refused."""
    ordered: tuple[tuple[str, str], ...] = ()
    """Pairs of numbers in an object of which the first must not be more than the second."""
    one_of: OneOf | None = None
    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True)
class _Entry:
    doc: str
    name: str
    required: bool
    minimum: int | None
    maximum: int | None
    wide: bool
    immutable: bool
    shape: Shape | None


def entry(
    doc: str,
    *,
    name: str = "",
    default: Any = None,
    required: bool = False,
    minimum: int | None = None,
    maximum: int | None = None,
    wide: bool = False,
    immutable: bool = False,
    shape: Shape | None = None,
) -> Any:
    """Describe one field: its words, its name if that is not the camelCase of ours, its bounds (`wide`: 64 bits)."""
    described = _Entry(doc, name, required, minimum, maximum, wide, immutable, shape)
    return dataclasses.field(default=default, metadata={"entry": described})


_SHAPES: dict[type[Any], Shape] = {}


def shape_of(cls: type[Any]) -> Shape:
    """Return the shape that a dataclass of entries describes; ORDERED, ONE_OF and RULES of the class relate fields."""
    if cls not in _SHAPES:
        _SHAPES[cls] = _shape_of_class(cls)
    return _SHAPES[cls]


def _shape_of_class(cls: type[Any]) -> Shape:
    hints = typing.get_type_hints(cls)
    fields = {_name(each): _described(hints[each.name], each.metadata["entry"]) for each in dataclasses.fields(cls)}
    required = tuple(_name(each) for each in dataclasses.fields(cls) if each.metadata["entry"].required)
    return Shape(
        "object",
        doc=(cls.__doc__ or "").strip(),
        fields=fields,
        required=required,
        ordered=getattr(cls, "ORDERED", ()),
        one_of=getattr(cls, "ONE_OF", None),
        rules=getattr(cls, "RULES", ()),
    )


def _name(each: "dataclasses.Field[Any]") -> str:
    given: str = each.metadata["entry"].name
    first, *rest = each.name.split("_")
    return given or first + "".join(word.capitalize() for word in rest)


def _described(hint: Any, described: _Entry) -> Shape:
    shape = described.shape or _shape_of_hint(hint)
    shape = dataclasses.replace(shape, doc=described.doc or shape.doc, immutable=described.immutable)
    if shape.type != "integer":
        return shape
    limit = INT64 if described.wide else INT32
    minimum = -limit if described.minimum is None else described.minimum
    maximum = limit - 1 if described.maximum is None else described.maximum
    return dataclasses.replace(shape, minimum=minimum, maximum=maximum)


def _shape_of_hint(hint: Any) -> Shape:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return _shape_of_hint(next(each for each in arguments if each is not type(None)))
    if origin is Literal:
        return Shape("string", enum=arguments)
    if origin is tuple:
        return Shape("array", items=_shape_of_hint(arguments[0]))
    if origin in (dict, Mapping):
        return Shape("object", values=_shape_of_hint(arguments[1]))
    if dataclasses.is_dataclass(hint):
        return shape_of(typing.cast("type[Any]", hint))
    names: dict[Any, Type] = {str: "string", int: "integer", bool: "boolean", float: "number", Any: "any"}
    return Shape(names[hint])


def shapes(table: str) -> dict[str, Shape]:
    """Read a table of foreign types: `Name: field:type required!:type`; a line that is indented continues the last.

    Types: str, int, bool, num, any, quantity, int-or-quantity, int-or-string; [T] a list, {T} a map, A|B an enum,
    1..65535 an integer with bounds (0.. with one), or another Name.
    """
    rows = dict(line.split(":", 1) for line in re.split(r"\n(?=\S)", table.strip()))
    made: dict[str, Shape] = {}
    for name in rows:
        _struct(name, rows, made)
    return made


def _struct(name: str, rows: Mapping[str, str], made: dict[str, Shape]) -> Shape:
    if name not in made:
        fields, required = {}, []
        for word in rows[name].split():
            key, _, kind = word.partition(":")
            if key.endswith("!"):
                key = key[:-1]
                required.append(key)
            fields[key] = _kind(kind, rows, made)
        made[name] = Shape("object", fields=fields, required=tuple(required), foreign=True)
    return made[name]


def _kind(kind: str, rows: Mapping[str, str], made: dict[str, Shape]) -> Shape:
    simple: dict[str, Type] = {"str": "string", "bool": "boolean", "num": "number"}
    if kind in ("any", "quantity", "int-or-quantity", "int-or-string"):
        return Shape(typing.cast("Type", kind))
    if kind in simple:
        return Shape(simple[kind])
    if kind == "int":
        return Shape("integer", minimum=-INT64, maximum=INT64 - 1)
    if kind[0] == "[":
        return Shape("array", items=_kind(kind[1:-1], rows, made))
    if kind[0] == "{":
        return Shape("object", values=_kind(kind[1:-1], rows, made))
    if ".." in kind:
        low, high = kind.split("..")
        return Shape("integer", minimum=int(low), maximum=int(high) if high else INT32 - 1)
    if "|" in kind:
        return Shape("string", enum=tuple(kind.split("|")))
    return _struct(kind, rows, made)


# Walking


def walk(shape: Shape, value: Any, path: str = "") -> Iterator[Problem]:
    """Yield everything in which a value differs from its shape."""
    if not _fits(shape.type, value):
        yield Problem(path, _wrong_type(shape, value))
    elif shape.type == "object":
        yield from _walk_object(shape, value, path)
    elif shape.type == "array" and shape.items:
        if len(value) < shape.fewest:
            yield Problem(path, f"there must be at least {shape.fewest}, found {len(value) or 'none'}")
        for index, item in enumerate(value):
            yield from walk(shape.items, item, child(path, index))
    else:
        yield from _walk_scalar(shape, value, path)


def _walk_object(shape: Shape, value: Mapping[str, Any], path: str) -> Iterator[Problem]:
    for key, below in value.items():
        if shape.values:
            if not _is_plain_text(shape.values, below):
                yield from walk(shape.values, below, child(path, key))
        elif key in shape.fields:
            if below is not None and not _is_plain_text(shape.fields[key], below):
                yield from walk(shape.fields[key], below, child(path, key))
        elif shape.fields:
            yield unknown("field", key, shape.fields, child(path, key), passed_on=shape.foreign)
    for key in shape.required:
        if value.get(key) is None:
            doc = shape.fields[key].doc
            yield Problem(child(path, key), f"missing; {doc[0].lower()}{doc[1:].rstrip('.')}" if doc else "missing")
    yield from _related(shape, value, path)


def _related(shape: Shape, value: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Yield where the fields of an object do not go together, as far as its shape relates them."""
    for low, high in shape.ordered:
        least, most = (each if _fits("integer", each) else None for each in (value.get(low), value.get(high)))
        if least is not None and most is not None and least > most:
            yield Problem(child(path, low), more_than(str(least), high, str(most)))
    if shape.one_of:
        there = [name for name in shape.one_of.names if value.get(name) is not None]
        if len(there) != 1:
            yield Problem(path, shape.one_of.several(" and ".join(there)) if there else shape.one_of.missing)


def _is_plain_text(shape: Shape, value: Any) -> bool:
    """Say whether this is the most common of all: any text where any text may stand, and nothing more to look at."""
    return shape.type == "string" and not shape.enum and shape.text is None and isinstance(value, str)


def _walk_scalar(shape: Shape, value: Any, path: str) -> Iterator[Problem]:
    if shape.enum and value not in shape.enum:
        yield Problem(path, not_one_of(value, shape.enum))
    if shape.text and not shape.text.fits(value):
        yield Problem(path, f"{show(value)} cannot be {shape.text.what}; write {shape.text.rule}")
    if shape.type == "integer":
        if shape.minimum is not None and value < shape.minimum:
            yield Problem(path, f"must be at least {shape.minimum}, found {show(value)}")
        if shape.maximum is not None and value > shape.maximum:
            yield Problem(path, f"must be at most {shape.maximum}, found {show(value)}")
    if shape.type in ("quantity", "int-or-quantity") and isinstance(value, str) and amount(value) is None:
        yield Problem(path, _not_a_quantity(value))


_PYTHON: dict[Type, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "int-or-string": (int, str),
    "int-or-quantity": (int, str),
    "quantity": (int, float, str),
    "any": object,
}


def _fits(kind: Type, value: Any) -> bool:
    if isinstance(value, bool):  # which is an int to Python, but to nobody else
        return kind in ("boolean", "any")
    return isinstance(value, _PYTHON[kind])


# Words


def unknown(what: str, word: str, known: Mapping[str, Any], path: str, *, passed_on: bool = False) -> Problem:
    """Return the problem of a name nobody knows; a warning when it may be passed on and is no misspelling."""
    near = did_you_mean(word, known) if len(word) <= _SHOWN else ""
    inside = [name for name, shape in known.items() if isinstance(shape, Shape) and word in shape.fields]
    if inside and not near:
        return Problem(path, f"unknown {what} {show(word)} here; it belongs into {' or '.join(inside)}")
    there_are = f" (there are: {', '.join(sorted(known))})" if len(known) <= _FEW else ""
    if passed_on and not near:
        return Problem(path, f"unknown {what} {show(word)}; it is passed on as it is", "warning")
    return Problem(path, f"unknown {what} {show(word)}{near}{there_are}")


def is_unknown(problem: Problem) -> bool:
    """Say whether a problem is only that a name is not known: what `--lenient` forgives."""
    return problem.message.startswith("unknown ")


def once(name: str, seen: dict[str, str], path: str) -> Iterator[Problem]:
    """Yield the problem of a name that something else has already; `seen` remembers who has which."""
    if name in seen:
        yield Problem(path, f"{show(name)} is taken already, by {seen[name]}")
    seen.setdefault(name, path)


def not_one_of(value: Any, known: tuple[str, ...]) -> str:
    """Return the words for a value that is not among those there are."""
    near = did_you_mean(value, known) if isinstance(value, str) and len(value) <= _SHOWN else ""
    choice = f"must be {known[0]}" if len(known) == 1 else f"must be one of {', '.join(known)}"
    return f"{choice}; found {show(value)}{near}"


def more_than(least: str, high: str, most: str) -> str:
    """Return the words for a number that is more than the one that bounds it."""
    return f"{least} is more than {high} ({most}); lower it, or raise {high}"


def show(value: Any) -> str:
    """Return a value as a user would recognise it, not longer than a line."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def amount(value: Any) -> Decimal | None:
    """Return the number a quantity stands for, or None if it is none."""
    text = str(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else ""
    if len(text) > LONGEST_QUANTITY or not re.fullmatch(QUANTITY[1:-1], text):
        return None
    return quantity.parse(text)


def _not_a_quantity(value: str) -> str:
    return f"{show(value)} is not a quantity; write a number with an optional suffix, such as 500m, 2 or 4Gi"


_WANTED: dict[Type, str] = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "int-or-string": "a whole number or text",
    "int-or-quantity": "a quantity such as 500m, 2 or 4Gi",
    "quantity": "a quantity such as 500m, 2 or 4Gi",
    "any": "anything",
}


_QUOTABLE: dict[Type, Any] = {"string": (int, float), "int-or-quantity": float}


def _wrong_type(shape: Shape, value: Any) -> str:
    return f"expected {_WANTED[shape.type]}, found {show(value)}{_cure(shape, value)}"


def _cure(shape: Shape, value: Any) -> str:
    """Return what to type instead, where that is plain."""
    if isinstance(value, str) and value and len(value) <= _SHOWN:
        if shape.type == "array" and shape.items and shape.items.type == "string":
            return f"; write {json.dumps(value.split())}"
        if shape.type == "array":
            return "; put '- ' in front of each entry"
        if shape.type == "boolean" and value.lower() in ("true", "false"):
            return f"; write {value.lower()} without quotes"
        if shape.type in ("integer", "number") and re.fullmatch(r"-?[0-9]+", value):
            return f"; write {value} without quotes"
    if shape.text and isinstance(value, int | float):
        return f"; write {shape.text.rule}"
    if isinstance(value, _QUOTABLE.get(shape.type, ())):
        return f'; put it in quotes: "{show(value)}"'
    if shape.type == "string" and value is None:
        return '; write "" for an empty text'
    if shape.type == "array" and value is None:
        return "; write [] for an empty list"
    if shape.type == "array" and isinstance(value, dict):
        return "; put '- ' in front of each entry"
    return ""


# Building

_Take = Callable[[Any], Any]
_PLANS: dict[type[Any], list[tuple[str, str, Shape, _Take]]] = {}


def build(cls: type[T], value: Any) -> T:
    """Return the dataclass with every value that fits its field; what does not fit is left out, as `walk` has said."""
    if cls not in _PLANS:
        _PLANS[cls] = _plan(cls)
    given: Mapping[str, Any] = value if isinstance(value, dict) else {}
    taken = {}
    for attribute, name, shape, take in _PLANS[cls]:
        found = given.get(name)
        if found is not None and _acceptable(shape, found):
            taken[attribute] = take(found)
    return cls(**taken)


def _plan(cls: type[Any]) -> list[tuple[str, str, Shape, _Take]]:
    """Return how each field is taken, worked out once: reading a job is done in every round."""
    hints, fields = typing.get_type_hints(cls), shape_of(cls).fields
    return [(each.name, _name(each), fields[_name(each)], _taker(hints[each.name])) for each in dataclasses.fields(cls)]


def _acceptable(shape: Shape, value: Any) -> bool:
    if not _fits(shape.type, value) or (shape.enum and value not in shape.enum):
        return False
    return shape.text is None or shape.text.fits(value)


def _taker(hint: Any) -> _Take:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return _taker(next(each for each in arguments if each is not type(None)))
    if origin is tuple:
        item, take = _shape_of_hint(arguments[0]), _taker(arguments[0])
        return lambda value: tuple(take(each) for each in value if _acceptable(item, each))
    if origin in (dict, Mapping) and arguments[1] is not Any:
        item, take = _shape_of_hint(arguments[1]), _taker(arguments[1])
        return lambda value: {key: take(each) for key, each in value.items() if _acceptable(item, each)}
    if dataclasses.is_dataclass(hint):
        return lambda value: build(typing.cast("type[Any]", hint), value)
    return lambda value: value
