"""Text to plain objects, with a line for every path: how Kubernetes reads YAML, and in plain words what it cannot read.

Values are those of JSON. Scalars are resolved as kubectl does it (sigs.k8s.io/yaml): `yes` and `on` are true, 0644 is
octal, 1e3 is 1000, 12:30 and 2024-01-01 are text. Documents are split first and parsed one by one, so that a broken one
does not hide the others: a line that begins with `---` ends a document wherever it stands, says YAML.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from trainwright.api.reader import child, show, steps
from trainwright.core.errors import Problem, Severity
from trainwright.core.objects import Object

DEEPEST = 100
LARGEST = 200_000
"""How many values a document may have once its aliases are followed."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MARKER = re.compile(r"---(?=\s|$)")
_END = re.compile(r"\.\.\.(?=\s|$)")
_TAG = "tag:yaml.org,2002:"
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_INTEGER = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_HIGHEST = 2**64
_LONGEST_INTEGER = 70


@dataclass(frozen=True)
class Place:
    """Where a value stands, and the places of what is inside it."""

    line: int
    below: "Mapping[str, Place] | tuple[Place, ...]" = ()

    def at(self, path: str) -> "Place":
        """Return the place a path leads to, or the last one on the way that exists."""
        place = self
        for step in steps(path):
            below = place.below
            if isinstance(below, Mapping):
                inside = below.get(step)
            else:
                inside = below[int(step)] if step.isdecimal() and int(step) < len(below) else None
            if inside is None:
                break
            place = inside
        return place


@dataclass(frozen=True)
class Document:
    """One document of a file: the object if it could be read, and what is wrong with its text."""

    object: Object | None
    problems: tuple[Problem, ...] = ()
    place: Place = Place(1)
    lines: Mapping[Problem, int] = field(default_factory=dict)
    """The lines of problems whose path leads elsewhere, or nowhere."""

    def line(self, path: str) -> int:
        """Return the line on which a path stands, or the nearest thing above it that exists."""
        return self.place.at(path).line

    def line_of(self, problem: Problem) -> int:
        """Return the line of a problem, whoever has found it."""
        return self.lines.get(problem) or self.line(problem.path)


def parse(text: str) -> list[Document]:
    """Return every document of a text; a text without any gives one that says so."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    documents = [_document(lines, first) for lines, first in _split(text.split("\n"))]
    found = [each for document in documents if document for each in _items(document)]
    return found or [_broken(1, "the file is empty; a manifest begins with apiVersion: and kind:")]


def _items(document: Document) -> Iterator[Document]:
    """Yield the objects of a List, which is how kubectl prints several, or the document itself."""
    obj, place = document.object, document.place
    if (
        obj is None
        or (obj.get("apiVersion"), obj.get("kind")) != ("v1", "List")
        or not isinstance(obj.get("items"), list)
    ):
        yield document
        return
    if document.problems:
        yield Document(None, document.problems, place, document.lines)
    for index, item in enumerate(obj["items"]):
        inside = place.at(f"items[{index}]")
        yield Document(item, place=inside) if isinstance(item, dict) else _no_manifest(item, inside.line)


def _split(lines: list[str]) -> Iterator[tuple[list[str], int]]:
    """Yield the lines of each document and the number of its first line, from 0."""
    start, begun = 0, False
    for number, line in enumerate(lines):
        if _MARKER.match(line):
            if begun:
                yield lines[start:number], start
                start = number
            begun = True
        elif _END.match(line):
            yield lines[start : number + 1], start
            start, begun = number + 1, False
        elif line.strip() and line[0] not in "#%":
            begun = True
    yield lines[start:], start


def _document(lines: list[str], first: int) -> Document | None:
    """Read one document, or return None for one in which nothing stands."""
    if all(not line.strip() or line[0] in "#%" or _END.match(line) for line in lines):
        return None
    builder = _Builder(first)
    try:
        built = builder.document("\n".join(lines))
    except _Unreadable as stop:
        return builder.finished(None, Place(first + 1), stop)
    except yaml.YAMLError as error:
        return builder.finished(None, Place(first + 1), _in_plain_words(error, lines, first))
    except UnicodeEncodeError as error:
        line = "\n".join(lines)[: error.start].count("\n")
        message = "there is a character that is no valid Unicode; save the file as UTF-8"
        return builder.finished(None, Place(first + 1), _Unreadable(first + line + 1, message))
    if built is None or (built.value is None and not builder.problems):
        return None
    if isinstance(built.value, dict):
        return builder.finished(built.value, built.place)
    if builder.problems:
        return builder.finished(None, built.place)
    return _no_manifest(built.value, built.place.line)


def _no_manifest(value: Any, line: int) -> Document:
    found = f"{show(value)}; a manifest is a mapping that begins with apiVersion: and kind:"
    return _broken(line, f"expected a manifest, found {found}")


def _broken(line: int, message: str) -> Document:
    problem = Problem("", message)
    return Document(None, (problem,), Place(line), {problem: line})


class _Unreadable(Exception):  # noqa: N818 - it never leaves this module
    """The document ends here: nothing behind this line can be understood."""

    def __init__(self, line: int, message: str, path: str = "") -> None:
        self.line, self.message, self.path = line, message, path


@dataclass(frozen=True)
class _Built:
    value: Any
    place: Place
    weight: int
    """How many values it holds, aliases followed."""


class _Builder:
    """Builds one document from the parser's events, and keeps what is wrong on the way."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._events: Iterator[Any] = iter(())
        self._anchors: dict[str, _Built | None] = {}
        self._weight = 0
        self.problems: dict[Problem, int] = {}

    def document(self, text: str) -> _Built | None:
        self._events = iter(yaml.parse(text, Loader=_LOADER))
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                built = self._node(next(self._events), "", 0)
                for _ in self._events:  # the rest must be readable too
                    pass
                return built
        return None

    def finished(self, value: Object | None, place: Place, stop: _Unreadable | None = None) -> Document:
        if stop:
            self._note(stop.line, stop.path, stop.message)
        return Document(value, tuple(self.problems), place, dict(self.problems))

    def _note(self, line: int, path: str, message: str, severity: Severity = "error") -> None:
        self.problems.setdefault(Problem(path, message, severity), line)

    def _line(self, event: Any) -> int:
        return int(event.start_mark.line) + self._first + 1

    def _node(self, event: Any, path: str, depth: int) -> _Built:
        line = self._line(event)
        if depth > DEEPEST:
            raise _Unreadable(line, f"more than {DEEPEST} levels stand inside each other")
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, line, path)
        if event.anchor:
            self._anchors[event.anchor] = None  # open: an alias inside would never end
        if isinstance(event, yaml.ScalarEvent):
            built = _Built(self._scalar(event, line, path), Place(line), 1)
        elif isinstance(event, yaml.SequenceStartEvent):
            built = self._sequence(event, line, path, depth)
        else:
            built = self._mapping(event, line, path, depth)
        if event.anchor:
            self._anchors[event.anchor] = built
        return built

    def _alias(self, event: Any, line: int, path: str) -> _Built:
        if event.anchor not in self._anchors:
            raise _Unreadable(line, f"*{event.anchor} refers to &{event.anchor}, which does not stand before it", path)
        built = self._anchors[event.anchor]
        if built is None:
            raise _Unreadable(line, f"*{event.anchor} contains itself", path)
        self._weight += built.weight
        if self._weight > LARGEST:
            raise _Unreadable(line, f"the aliases stand for more than {LARGEST} values", path)
        return _Built(built.value, Place(line, built.place.below), built.weight)

    def _sequence(self, event: Any, line: int, path: str, depth: int) -> _Built:
        self._refuse_tag(event, line, path, "seq")
        items: list[_Built] = []
        for below in self._events:
            if isinstance(below, yaml.SequenceEndEvent):
                break
            items.append(self._node(below, child(path, len(items)), depth + 1))
        place = Place(line, tuple(item.place for item in items))
        return _Built([item.value for item in items], place, 1 + sum(item.weight for item in items))

    def _mapping(self, event: Any, line: int, path: str, depth: int) -> _Built:
        self._refuse_tag(event, line, path, "map")
        values: dict[str, Any] = {}
        places: dict[str, Place] = {}
        merged: list[_Built] = []
        weight = 1
        for below in self._events:
            if isinstance(below, yaml.MappingEndEvent):
                break
            key_line = self._line(below)
            key = self._key(below, path, depth)
            built = self._node(next(self._events), path if key is None else child(path, key), depth + 1)
            weight += built.weight
            if key is None:
                continue
            if key == "<<" and isinstance(below, yaml.ScalarEvent) and below.implicit[0]:
                merged.append(built)
                continue
            if key in values:
                twice = f"the key {show(key)} stands here a second time; the first is on line {places[key].line}"
                self._note(key_line, child(path, key), twice)
            values[key], places[key] = built.value, Place(key_line, built.place.below)
        for built in merged:
            self._merge(built, values, places, path)
        return _Built(values, Place(line, places), weight)

    def _merge(self, built: _Built, values: dict[str, Any], places: dict[str, Place], path: str) -> None:
        """Add what `<<` brings; keys that stand in the mapping itself win, and earlier ones over later ones."""
        sources = [(built.value, built.place)]
        if isinstance(built.value, list) and isinstance(built.place.below, tuple):
            sources = list(zip(built.value, built.place.below, strict=True))
        for value, place in sources:
            if not isinstance(value, dict) or not isinstance(place.below, Mapping):
                self._note(built.place.line, path, f"<< merges a mapping, found {show(value)}")
                continue
            for key in value:
                if key not in values:
                    values[key], places[key] = value[key], place.below[key]

    def _key(self, event: Any, path: str, depth: int) -> str | None:
        """Return a key as text; None, and a problem, where no key can be made of it."""
        line = self._line(event)
        value = self._node(event, path, depth + 1).value
        if isinstance(value, str):
            return value
        if value is None or isinstance(value, dict | list):
            self._note(line, path, f"a key must be text, found {show(value)}")
            return None
        text = (
            str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
        )
        written = getattr(event, "value", text)
        read = "" if written == text else f", and read as {text}"
        quoted = f'the key {written} is not text{read}; put it in quotes: "{written}"'
        self._note(line, child(path, text), quoted, "warning")
        return text

    def _refuse_tag(self, event: Any, line: int, path: str, usual: str) -> None:
        if event.tag not in (None, "!", _TAG + usual):
            self._note(line, path, f"the tag {_short(event.tag)} means nothing in a manifest; leave it out")

    def _scalar(self, event: Any, line: int, path: str) -> Any:
        if event.tag in ("!", _TAG + "str") or (event.tag is None and event.style):
            return event.value
        value = _resolved(event.value)
        if isinstance(value, float) and not math.isfinite(value):
            self._note(line, path, f"{event.value} is not a number that JSON knows; write a finite one")
            return None
        if event.tag is None:
            return value
        wanted: dict[str, Any] = {"int": int, "float": int | float, "bool": bool, "null": type(None)}
        kind = wanted.get(event.tag.removeprefix(_TAG))
        if kind is None:
            self._note(line, path, f"the tag {_short(event.tag)} means nothing in a manifest; leave it out")
        elif not isinstance(value, kind):
            self._note(line, path, f"{show(event.value)} is no {_short(event.tag)}; leave the tag out")
        return value


def _short(tag: str) -> str:
    return f"!!{tag.removeprefix(_TAG)}" if tag.startswith(_TAG) else tag


def _resolved(text: str) -> Any:
    """Return the value of a plain scalar, as kubectl reads it."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if _NOT_FINITE.fullmatch(text):
        return math.inf
    plain = text.replace("_", "") if text[0] != "." else text
    if len(plain) <= _LONGEST_INTEGER and _INTEGER.fullmatch(plain):
        number = _integer(plain)
        if -_HIGHEST // 2 <= number < _HIGHEST:
            return number
    if not _FLOAT.fullmatch(plain):
        return text
    real = float(plain)
    if not math.isfinite(real):
        return text
    # On the way to the API server it becomes JSON, which does not tell 2.0 from 2.
    return int(real) if real == int(real) and abs(real) < _HIGHEST // 2 else real


def _integer(text: str) -> int:
    digits = text.lstrip("+-")
    sign = -1 if text[0] == "-" else 1
    octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdecimal()
    return sign * int(digits, 8 if octal else 0)


_OPEN_QUOTE = "a quote is opened and never closed"
_SENTENCES = (
    (
        "mapping values are not allowed",
        "a ': ' stands where none can; put the value in quotes, or mend the indentation",
    ),
    ("did not find expected key", "the indentation fits nothing above; align the line with the keys it belongs to"),
    ("did not find expected '-'", "a list has begun above, but this line is no entry of it; mend the indentation"),
    ("could not find expected ':'", "there is a key without ':' behind it; add it, or mend the indentation"),
    ("found unexpected end of stream", _OPEN_QUOTE),
    ("found unexpected document indicator", _OPEN_QUOTE),
    ("did not find expected ',' or '}'", "a '{' is opened and not closed before this line"),
    ("did not find expected ',' or ']'", "a '[' is opened and not closed before this line"),
    ("did not find expected node content", "a value is missing between brackets or commas"),
    ("unknown escape character", "a backslash in double quotes must be doubled; or use single quotes"),
    ("block sequence entries are not allowed", "a list entry '- ' stands where none can; put it on a line of its own"),
    ("expected comment or line break", "only a comment may follow | or > on its line"),
    ("incompatible YAML document", "the %YAML line asks for a version that is not known; leave it out"),
    ("exceeded maximum nesting depth", f"more than {DEEPEST} levels stand inside each other"),
)


def _in_plain_words(error: yaml.YAMLError, lines: list[str], first: int) -> "_Unreadable":
    """Return where the parser stopped, and what a user should do about it."""
    if isinstance(error, yaml.reader.ReaderError):
        line = "\n".join(lines)[: error.position].count("\n")
        return _Unreadable(first + line + 1, "there is a control character, which YAML does not allow; remove it")
    problem, mark, opened = (getattr(error, name, None) for name in ("problem", "problem_mark", "context_mark"))
    line = min(mark.line if mark else 0, len(lines) - 1)
    text = lines[line]
    sentence = next((words for part, words in _SENTENCES if part in str(problem)), f"this is not YAML: {problem}")
    if "\t" in text[: len(text) - len(text.lstrip())] or "tab character" in str(problem):
        sentence = "the line is indented with a tab; use spaces"
    elif "cannot start any token" in str(problem) and mark:
        sentence = f"a value cannot begin with {text[mark.column : mark.column + 1]}; put it in quotes"
    elif opened and sentence == _OPEN_QUOTE:
        line = opened.line
    elif opened and opened.line < line and "opened" in sentence:
        sentence = f"{sentence} (it is on line {first + opened.line + 1})"
    return _Unreadable(first + line + 1, sentence)
