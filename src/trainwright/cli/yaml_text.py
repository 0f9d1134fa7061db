"""YAML as PyYAML would write it, byte for byte, but at once where objects share parts.

The pods of a job have most of their parts in common, in memory too. `Writer` keeps the text of every part of one
document until the next one is written, and from then on if that has the part as well. PyYAML itself is asked for all
that takes thought: quoting, folding, blocks, unusual keys.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import yaml

_WIDTH = 120
_STEP = 2
_SHORT = 100
_END = "\n...\n"
_PARTS = (dict, list)
_EMPTY: tuple[Any, ...] = ({}, [])
_ORDINARY = re.compile(r"[A-Za-z/][A-Za-z0-9_/.-]*", re.ASCII)
_INDEX = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
"""Text that would be a number without quotes."""
_NO_TEXT = frozenset(("null", "true", "false", "yes", "no", "on", "off"))
"""Words that look ordinary and are something else than text."""


def documents(objects: Iterable[Any]) -> Iterator[str]:
    """Yield the text of each object, to be put together as the documents of one stream."""
    writer = Writer()
    for place, obj in enumerate(objects):
        text = writer.document(obj)
        yield f"---\n{text}" if place else text


class Writer:
    """Writes documents one after the other."""

    def __init__(self) -> None:
        # Parts and their texts by identity and indentation. A part is held together with its text, so that nothing else
        # can come to have its identity.
        self._shared: dict[tuple[int, int], tuple[Any, str]] = {}
        self._last: dict[tuple[int, int], tuple[Any, str]] = {}
        self._this: dict[tuple[int, int], tuple[Any, str]] = {}

    def document(self, value: Any) -> str:
        """Return the text of one document."""
        text = self._part(value, 0) if isinstance(value, _PARTS) and value else _dumped(value)
        self._last, self._this = self._this, {}
        return text

    def _part(self, value: dict[Any, Any] | list[Any], indent: int) -> str:
        """Return the lines of a mapping or a list that is not empty; the first one begins where it is put."""
        key = (id(value), indent)
        known = self._shared.get(key)
        if known:
            return known[1]
        if key in self._last:
            self._shared[key] = self._last[key]
            return self._last[key][1]
        text = (self._mapping(value, indent) if isinstance(value, dict) else self._list(value, indent))[indent:]
        self._this[key] = (value, text)
        return text

    def _mapping(self, mapping: dict[Any, Any], indent: int) -> str:
        lines: list[str] = []
        for name, value in mapping.items():
            if isinstance(value, str) and len(value) <= _SHORT and isinstance(name, str):
                lines.append(_short_entry(name, value, indent))
            elif isinstance(value, _PARTS) and value and _is_ordinary(name):
                inner = indent if isinstance(value, list) else indent + _STEP  # PyYAML does not indent lists
                lines.append(f"{' ' * indent}{name}:\n{' ' * inner}{self._part(value, inner)}")
            else:
                lines.append(_entry(name, value, indent))
        return "".join(lines)

    def _list(self, items: list[Any], indent: int) -> str:
        dash, inner = f"{' ' * indent}- ", indent + _STEP
        lines: list[str] = []
        for item in items:
            if known := self._shared.get((id(item), inner)):  # as `_part` would find, without a call for each variable
                lines.append(f"{dash}{known[1]}")
            elif isinstance(item, _PARTS) and item:
                lines.append(f"{dash}{self._part(item, inner)}")
            else:
                lines.append(_item(item, indent))
        return "".join(lines)


def _entry(name: Any, value: Any, indent: int) -> str:
    """Return the lines of a key and a value that has no parts."""
    if (isinstance(value, int) or value in _EMPTY) and _is_ordinary(name):
        return f"{' ' * indent}{name}: {str(value).lower()}\n"  # of bool too: True is true
    return _asked({name: value}, indent)


@lru_cache(maxsize=8192)
def _short_entry(name: str, text: str, indent: int) -> str:
    """Return the lines of a key and a short text. The same ones come again and again."""
    if _is_ordinary(name) and _is_ordinary(text):
        return f"{' ' * indent}{name}: {text}\n"
    if _is_ordinary(name) and _INDEX.fullmatch(text):
        return f"{' ' * indent}{name}: '{text}'\n"
    return _asked({name: text}, indent)


def _item(value: Any, indent: int) -> str:
    """Return the lines of an item of a list."""
    return f"{' ' * indent}- {value}\n" if _is_ordinary(value) else _asked([value], indent)


def _is_ordinary(text: Any) -> bool:
    """Say whether PyYAML would write a key or a text as it stands, wherever it stands."""
    return isinstance(text, str) and len(text) <= _SHORT and _looks_ordinary(text)


@lru_cache(maxsize=8192)
def _looks_ordinary(text: str) -> bool:
    return bool(_ORDINARY.fullmatch(text)) and text.lower() not in _NO_TEXT


def _asked(value: Any, indent: int) -> str:
    """Return what PyYAML writes for a mapping or a list that stands that far right: where it folds depends on it."""
    outer = indent // _STEP + (1 if indent and isinstance(value, list) else 0)
    for _ in range(outer):
        value = {"in": value}
    lines = _dumped(value).split("\n", outer)[-1]
    # Behind text that ends with empty lines PyYAML marks the end of the document, in a line that is not indented.
    return lines[: -len(_END) + 1] if lines.endswith(_END) else lines


def _dumped(value: Any) -> str:
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)
    return text


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc] # chosen by what is installed
    """No anchors: that objects share parts in memory is nobody's concern."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML asks so
        """Say that every part is written out."""
        return True


def _represent_text(dumper: Any, value: str) -> Any:
    """Write text of several lines as a block, so that a script in a ConfigMap reads as a script."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _represent_text)
