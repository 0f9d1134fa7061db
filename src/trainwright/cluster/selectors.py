"""Label and field selectors: the text a list or watch is narrowed by, read once into a test.

The grammar is the API server's. `a!=b` and `a notin (b)` also hold for objects without the label. Spaces mean nothing
in a label selector, but belong to the name or the value in a field selector. Which fields can be selected is a table,
as it is there: any object by name and namespace, some kinds by a few more, job kinds by those of their row.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from trainwright.core.errors import BadRequest
from trainwright.core.objects import Object, at
from trainwright.core.resources import Resource

Test = Callable[[Object], bool]

_TOKEN = re.compile(r"\s*(?:(?P<word>[A-Za-z0-9][-A-Za-z0-9_./]*)|(?P<sign>==|!=|[=!(),<>])|(?P<end>$))")
_FIELD_TERM = re.compile(r"(?:\\.|[^,])+", re.DOTALL)
"""What stands between commas that no backslash precedes."""
_FIELD = re.compile(r"(.*?)(!=|==|=)(.*)", re.DOTALL)
_FIELD_VALUE = re.compile(r"(?:[^\\,=]|\\[\\,=])*")

_FIELDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "Pod"): (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    ("", "Event"): (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    ("", "Node"): ("spec.unschedulable",),
    ("", "Namespace"): ("status.phase",),
    ("", "Secret"): ("type",),
    ("batch", "Job"): ("status.successful",),
}
_SPECIAL = {"source": ("source", "component"), "status.successful": ("status", "succeeded")}
_ZERO = {"spec.hostNetwork": "false", "spec.unschedulable": "false", "status.successful": "0"}
"""What a field that is left out compares as, where that is not the empty string."""


def labels(text: str) -> Test | None:
    """Return the test a label selector stands for, None when it holds for everything; BadRequest if it is broken."""
    if not text.strip():
        return None
    rules = _LabelReader(text).read()

    def holds(obj: Object) -> bool:
        have = obj["metadata"].get("labels") or {}
        return all(rule(have) for rule in rules)

    return holds


def fields(text: str, resource: Resource) -> Test | None:
    """Return the test a field selector stands for, None when it holds for everything; BadRequest if it is broken."""
    rules = tuple(_field_rule(term, resource) for term in _FIELD_TERM.findall(text))
    if not rules:
        return None

    def holds(obj: Object) -> bool:
        return all((_text(at(obj, path), zero) == value) is equal for path, zero, value, equal in rules)

    return holds


LabelRule = Callable[[Mapping[str, str]], bool]


class _LabelReader:
    """Reads "a=b, c in (d, e), !f" from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = self._tokens()
        self.position = 0

    def read(self) -> tuple[LabelRule, ...]:
        rules = [self._rule()]
        while self._take(","):
            rules.append(self._rule())
        if self._peek():
            raise self._broken(f"found {self._peek()!r}, expected ','")
        return tuple(rules)

    def _rule(self) -> LabelRule:
        if self._take("!"):
            absent = self._word("a label after '!'")
            return lambda have: absent not in have
        key = self._word("a label")
        if self._peek() in ("", ","):
            return lambda have: key in have
        sign = self._next()
        if sign in ("=", "=="):
            value = self._value()
            return lambda have: have.get(key) == value
        if sign == "!=":
            value = self._value()
            return lambda have: have.get(key) != value
        if sign in ("in", "notin"):
            values = self._values()
            if sign == "in":
                return lambda have: have.get(key) in values
            return lambda have: have.get(key) not in values
        if sign in ("<", ">"):
            return self._comparison(key, sign)
        raise self._broken(f"found {sign!r} after {key!r}, expected one of = == != in notin < >")

    def _comparison(self, key: str, sign: str) -> LabelRule:
        bound = self._value()
        if not bound.isdigit():
            raise self._broken(f"{bound!r} after {sign!r} is not a whole number")
        limit = int(bound)

        def holds(have: Mapping[str, str]) -> bool:
            number = have.get(key, "")
            return number.isdigit() and (int(number) < limit if sign == "<" else int(number) > limit)

        return holds

    def _value(self) -> str:
        return "" if self._peek() in ("", ",") else self._word("a value")

    def _values(self) -> frozenset[str]:
        if not self._take("("):
            raise self._broken("'in' and 'notin' take values in parentheses, such as (a, b)")
        values = set()
        while True:
            values.add("" if self._peek() in (",", ")") else self._word("a value"))
            if self._take(")"):
                return frozenset(values)
            if not self._take(","):
                raise self._broken(f"found {self._peek()!r}, expected ',' or ')'")

    def _word(self, what: str) -> str:
        token = self._next()
        if not token or not token[0].isalnum():
            raise self._broken(f"found {token!r}, expected {what}")
        return token

    def _peek(self) -> str:
        return self.tokens[self.position]

    def _next(self) -> str:
        token = self.tokens[self.position]
        if token:
            self.position += 1
        return token

    def _take(self, sign: str) -> bool:
        if self._peek() != sign:
            return False
        self.position += 1
        return True

    def _tokens(self) -> list[str]:
        tokens, position = [], 0
        while True:
            match = _TOKEN.match(self.text, position)
            if not match:
                raise self._broken(f"cannot read {self.text[position:].strip()!r}")
            tokens.append(match["word"] or match["sign"] or "")
            if match["end"] is not None:
                return tokens
            position = match.end()

    def _broken(self, problem: str) -> BadRequest:
        return BadRequest(f"unable to parse label selector {self.text!r}: {problem}")


def _field_rule(term: str, resource: Resource) -> tuple[tuple[str, ...], str, str, bool]:
    match = _FIELD.fullmatch(term)
    if not match:
        raise BadRequest(f"invalid field selector {term!r}: write field=value, field==value or field!=value")
    name, sign, value = match.groups()
    if not _FIELD_VALUE.fullmatch(value):
        raise BadRequest(
            rf"invalid field selector {term!r}: a comma, = or \ in a value is written \, or \= or \\ there"
        )
    own = (*_FIELDS.get((resource.group, resource.kind), ()), *resource.selectable)
    known = ("metadata.name", "metadata.namespace", *own)
    if name not in known:
        raise BadRequest(f"field label not supported: {name!r}; {resource} can be selected by {', '.join(known)}")
    path = _SPECIAL.get(name, tuple(name.split(".")))
    return path, _ZERO.get(name, ""), re.sub(r"\\(.)", r"\1", value), sign != "!="


def _text(value: Any, zero: str) -> str:
    if value is None:
        return zero
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
