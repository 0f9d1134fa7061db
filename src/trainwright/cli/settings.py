r"""`--set path=value`: change a manifest on the way in.

A path is dotted (`spec.pytorchReplicaSpecs.Worker.replicas`), numbers or `[n]` count through lists, `\.` is a dot
inside a key, and the value is YAML. Only the last step may be new; a path that ends earlier is most likely misspelt.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import click

from trainwright.core.errors import did_you_mean
from trainwright.core.objects import Object


@dataclass(frozen=True)
class Setting:
    """One value to put at one place."""

    path: tuple[str, ...]
    value: Any

    def __str__(self) -> str:
        return ".".join(self.path)


def read(text: str) -> Setting:
    """Return the setting a user wrote, or raise ValueError with what would be right."""
    import yaml

    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise ValueError(f"{text!r} sets nothing; write path=value, such as spec.runPolicy.suspend=true")
    steps = re.split(r"(?<!\\)\.", re.sub(r"\[(\d+)\]", r".\1", path.strip()))
    if not all(steps):
        raise ValueError(f"{path!r} is not a path; write keys with one dot between them")
    try:
        return Setting(tuple(step.replace("\\.", ".") for step in steps), yaml.safe_load(value))
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: {value!r} is not YAML; put quotes around it") from error


def apply(obj: Object, settings: Iterable[Setting]) -> Object:
    """Return the object with every setting in its place, or raise ValueError that says where a path ends."""
    for setting in settings:
        obj = _put(obj, setting, 0)
    return obj


def _put(here: Any, setting: Setting, depth: int) -> Any:
    step, last = setting.path[depth], depth == len(setting.path) - 1
    where = ".".join(setting.path[:depth]) or "the manifest"
    if isinstance(here, list):
        if not step.isdecimal() or int(step) >= len(here):
            raise ValueError(f"{setting}: {where} is a list of {len(here)}; write a number from 0 to {len(here) - 1}")
        place = int(step)
        new = setting.value if last else _put(here[place], setting, depth + 1)
        return [*here[:place], new, *here[place + 1 :]]
    if not isinstance(here, Mapping):
        raise ValueError(f"{setting}: the path ends at {where}, which is {here!r}")
    if last:
        return {**here, step: setting.value}
    if step not in here:
        rest = "{" + ".".join(setting.path[depth + 1 :]) + ": …}"
        there = ", ".join(map(str, here)) or "nothing"
        reach = ".".join(setting.path[: depth + 1])
        raise ValueError(
            f"{setting}: the path ends at {where}, which has no {step!r}{did_you_mean(step, map(str, here))} "
            f"(there is: {there}); to add it, write --set '{reach}={rest}'"
        )
    return {**here, step: _put(here[step], setting, depth + 1)}


class SettingType(click.ParamType[Setting]):
    """`--set path=value` on the command line."""

    name = "path=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Setting:
        """Return the setting, or fail with what would be right."""
        if isinstance(value, Setting):
            return value
        try:
            return read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
