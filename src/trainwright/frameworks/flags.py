"""Options as users write them: flags of a command line, in the ways that programs written in Go take them.

`--port=2222`, `-port=2222` and the two words `--port 2222` are the same; a switch is on by its name alone. The flags
there are, and what may stand behind them, are read from the Options dataclass of a framework.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainwright.core.errors import Problem, did_you_mean

_WRITTEN = re.compile(r"--?([^-=\s][^=\s]*)(?:=(.*))?", re.DOTALL)
_SWITCH = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
LAST_PORT = 65535


def names(options: type[Any]) -> dict[str, "dataclasses.Field[Any]"]:
    """Return the flags there are, in the order of the fields they set."""
    named = {each.metadata.get("flag", each.name.replace("_", "-")): each for each in dataclasses.fields(options)}
    return {name: each for name, each in named.items() if name}


def of(options: type[Any], field: str) -> str:
    """Return the flag that sets a field."""
    return next(name for name, each in names(options).items() if each.name == field)


def read(options: type[Any], given: Sequence[str], path: str = "") -> tuple[dict[str, Any], list[Problem]]:
    """Return the values that flags set, by field, and all that is wrong with them; what is wrong sets nothing."""
    known = names(options)
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, text in _written(given, known):
        if name not in known:
            problems.append(_unknown(name, known, path))
            continue
        value, problem = _value(known[name], name, text, path)
        problems += [problem] if problem else []
        if value is not None:
            values[known[name].name] = value
    return values, problems


def write(name: str, value: object) -> str:
    """Return a flag as a user would write it."""
    return f"--{name}={value}"


def _written(given: Sequence[str], known: Mapping[str, "dataclasses.Field[Any]"]) -> Iterator[tuple[str, str | None]]:
    """Yield each flag with the text behind it; None: there is none. A word that is no flag comes as it stands."""
    words = iter(given)
    for word in words:
        match = _WRITTEN.fullmatch(word)
        if match is None:
            yield word, None
            continue
        name, text = match.groups()
        if text is None and name in known and not isinstance(known[name].default, bool):
            text = next(words, None)
        yield name, text


def _unknown(word: str, known: Mapping[str, Any], path: str) -> Problem:
    shown = f"--{word}" if not word.startswith("-") else word
    near = did_you_mean(shown, [f"--{name}" for name in known])
    there_are = ", ".join(f"--{name}" for name in sorted(known)) or "none"
    return Problem(path, f"unknown flag {shown!r}{near} (there are: {there_are})")


def _value(
    option: "dataclasses.Field[Any]", name: str, text: str | None, path: str
) -> tuple[bool | int | str | None, Problem | None]:
    """Return what a flag says, or None and what is wrong with it."""
    default = option.default
    if isinstance(default, bool):
        return _switch(name, text, path)
    if text is None:
        return None, Problem(path, f"--{name} lacks its value; write for example {write(name, default)}")
    if isinstance(default, str):
        return text, None
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text, re.ASCII):
        return None, Problem(path, f"--{name}: expected a whole number, found {text!r}; {_such_as(name, default)}")
    number = int(text)
    if option.metadata.get("port") and not 1 <= number <= LAST_PORT:
        return _no_port(option, name, number, path)
    if number < 0:
        return None, Problem(path, f"--{name}: must be at least 0, found {number}; {_such_as(name, default)}")
    return number, None


def _switch(name: str, text: str | None, path: str) -> tuple[bool | None, Problem | None]:
    if text is None:
        return True, None
    if text in _SWITCH:
        return _SWITCH[text], None
    return None, Problem(path, f"--{name}: expected true or false, found {text!r}; write --{name}=true")


def _no_port(option: "dataclasses.Field[Any]", name: str, number: int, path: str) -> tuple[None, Problem]:
    found = f"--{name}: a port is between 1 and {LAST_PORT}, found {number}"
    if option.metadata.get("forgiving"):
        return None, Problem(path, f"{found}; {option.default} is taken instead", "warning")
    return None, Problem(path, f"{found}; {_such_as(name, option.default)}")


def _such_as(name: str, default: object) -> str:
    return f"write for example {write(name, default or 1)}"
