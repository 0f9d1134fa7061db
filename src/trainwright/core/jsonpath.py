r"""`-o jsonpath=…`: the templates kubectl takes, as far as people write them.

Text stands as it is and `{…}` is evaluated: `{.metadata.name}`, `{.items[*].spec}`, `{['a.b']}`, `[0]`, `[-1:]`,
`{..name}`, `[?(@.type=="Ready")]`, `{range .items[*]}{.kind}{"\n"}{end}`. What is not there prints nothing.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trainwright.core.errors import BadRequest

Step = Callable[[Any], Iterable[Any]]
"""From one value to those a step of a path leads to."""

_PIECE = re.compile(r"\{((?:\"(?:\\.|[^\"])*\"|'(?:\\.|[^'])*'|[^{}\"'])*)\}|([^{}]+)")
_STEP = re.compile(
    r"""(?P<deep>\.\.)?\.?(?:
        (?P<all>\*) | (?P<name>(?:[\w$/-]|\\.)+) | \[\s*(?:
        (?P<each>\*) | (?P<quoted>'(?:\\.|[^'])*'|"(?:\\.|[^"])*") | \?\((?P<test>.*?)\)(?=\s*\])
        | (?P<slice>-?\d*:-?\d*(?::-?\d+)?) | (?P<index>-?\d+))\s*\])""",
    re.VERBOSE,
)
_TEST = re.compile(r"\s*@(?P<path>[^=!<>]*?)\s*(?:(?P<sign>==|!=|<=|>=|<|>)\s*(?P<value>.+?)\s*)?")
_SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda one, other: one == other,
    "!=": lambda one, other: one != other,
    "<": lambda one, other: one < other,
    ">": lambda one, other: one > other,
    "<=": lambda one, other: one <= other,
    ">=": lambda one, other: one >= other,
}


@dataclass(frozen=True)
class _Range:
    """The pieces between {range …} and {end}, once for each value."""

    steps: tuple[Step, ...]
    body: tuple["_Piece", ...]


_Piece = str | tuple[Step, ...] | _Range


def render(template: str, value: Any) -> str:
    """Return the template filled in; BadRequest says which part of it makes no sense."""
    pieces, rest = _pieces(list(_tokens(template)))
    if rest:
        raise BadRequest(f"jsonpath: {{end}} without {{range …}} in {template!r}")
    return "".join(_rendered(pieces, value))


def values(path: str, value: Any) -> list[Any]:
    """Return what a path such as `.status.phase` leads to."""
    return _reached(_steps(path), [value])


def text(value: Any) -> str:
    """Return a value as it is printed: text as it is, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _tokens(template: str) -> Iterator[tuple[str, str]]:
    """Yield ("text", …) and ("{}", …)."""
    if "{" not in template:
        template = "{" + (template if template.startswith((".", "[")) else f".{template}") + "}"
    position = 0
    for match in _PIECE.finditer(template):
        if match.start() != position:
            break
        position = match.end()
        yield ("text", match[2]) if match[2] is not None else ("{}", match[1].strip())
    if position != len(template):
        raise BadRequest(f"jsonpath: {template[position:]!r} is not closed; write {{.metadata.name}}")


def _pieces(tokens: Sequence[tuple[str, str]]) -> tuple[tuple[_Piece, ...], Sequence[tuple[str, str]]]:
    """Return the pieces up to the {end} that belongs to them, and what comes after it."""
    found: list[_Piece] = []
    while tokens:
        (kind, words), tokens = tokens[0], tokens[1:]
        if kind == "text":
            found.append(words)
        elif words == "end":
            return tuple(found), [("", ""), *tokens]
        elif words.startswith("range "):
            body, after = _pieces(tokens)
            if not after:
                raise BadRequest(f"jsonpath: {{{words}}} has no {{end}}")
            found.append(_Range(_steps(words.removeprefix("range ").strip()), body))
            tokens = after[1:]
        elif words[:1] in ("'", '"'):
            found.append(_unquoted(words))
        else:
            found.append(_steps(words))
    return tuple(found), []


def _rendered(pieces: Iterable[_Piece], value: Any) -> Iterator[str]:
    for piece in pieces:
        if isinstance(piece, str):
            yield piece
        elif isinstance(piece, _Range):
            for each in _reached(piece.steps, [value]):
                yield from _rendered(piece.body, each)
        else:
            yield " ".join(text(each) for each in _reached(piece, [value]))


def _reached(steps: Iterable[Step], found: list[Any]) -> list[Any]:
    for step in steps:
        found = [each for value in found for each in step(value)]
    return found


def _steps(path: str) -> tuple[Step, ...]:
    path = path.strip()
    rest = path.removeprefix("$").removeprefix("@")
    if rest in ("", "."):
        return ()
    steps: list[Step] = []
    position = 0
    while position < len(rest):
        match = _STEP.match(rest, position)
        if match is None or match.end() == position:
            raise BadRequest(f"jsonpath: {path!r} makes no sense from {rest[position:]!r} on; write .metadata.name")
        step = _step(match)
        steps.append(_deep(step) if match["deep"] else step)
        position = match.end()
    return tuple(steps)


def _step(match: re.Match[str]) -> Step:
    if match["all"] or match["each"]:
        return _children
    if match["name"] is not None:
        return _named(re.sub(r"\\(.)", r"\1", match["name"]))
    if match["quoted"] is not None:
        return _named(_unquoted(match["quoted"]))
    if match["test"] is not None:
        return _tested(match["test"])
    if match["slice"] is not None:
        bounds = slice(*(int(each) if each else None for each in match["slice"].split(":")))
        return lambda value: value[bounds] if isinstance(value, list) else ()
    index = int(match["index"])
    return lambda value: [value[index]] if isinstance(value, list) and -len(value) <= index < len(value) else ()


def _named(name: str) -> Step:
    return lambda value: [value[name]] if isinstance(value, dict) and name in value else ()


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _deep(step: Step) -> Step:
    def reach(value: Any) -> Iterator[Any]:
        yield from step(value)
        for child in _children(value):
            yield from reach(child)

    return reach


def _tested(words: str) -> Step:
    match = _TEST.fullmatch(words)
    if match is None:
        raise BadRequest(f'jsonpath: ?({words}) is no test; write ?(@.type=="Ready")')
    steps, sign = _steps(match["path"]), match["sign"]
    wanted = _literal(match["value"]) if sign else None

    def holds(value: Any) -> bool:
        found = _reached(steps, [value])
        if not sign:
            return bool(found)
        return any(type(each) is type(wanted) and _SIGNS[sign](each, wanted) for each in found)

    return lambda value: [each for each in _children(value) if holds(each)]


def _literal(words: str) -> Any:
    if words[:1] in ("'", '"'):
        return _unquoted(words)
    try:
        return json.loads(words)
    except ValueError:
        return words


def _unquoted(words: str) -> str:
    r"""Return what stands in quotes; `\n` and `\t` are what they are in JSON."""
    inner = words[1:-1]
    return re.sub(r"\\(.)", lambda match: {"n": "\n", "t": "\t", "r": "\r"}.get(match[1], match[1]), inner)
