"""Manifests as no user should write them: valid examples with parts removed, replaced, renamed, moved or nulled.

`objects()` gives mutated objects and `texts()` mutated YAML; both are meant for whoever promises never to crash.
"""

import copy
import random
from typing import Any

import yaml
from hypothesis import strategies as st
from tests.api.examples import ELASTIC, FULL, STATIC, TRAINING, TRAINING_FULL, VOLCANO, VOLCANO_FULL

from trainwright.core.objects import Object

JUNK: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 65536, 2**31, 2**63, 1.5, -0.1, 1e300),
    *("", " ", "x", "0", "-1", "auto", "Worker", "5Gi", "None", "a\nb", "\x00", "é☃\U0001f600", "y" * 300, "a.b[0]"),
    *([], [None], [[]], ["x", 1], [{"name": "pytorch"}], [{}, {}]),
    *({}, {"": None}, {"name": 5}, {"name": "pytorch"}, {"a.b/c]": {"d": [None]}}),
)
EXAMPLES = {
    "PyTorchJob": (STATIC, ELASTIC, FULL, FULL),
    "Job": (VOLCANO, VOLCANO_FULL, VOLCANO_FULL),
    "TrainingJob": (TRAINING, TRAINING_FULL, TRAINING_FULL),
}
"""What is mutated, by kind; the larger ones more often."""
KEYS = (
    "",
    "x",
    "a.b",
    "replica",
    "Worker",
    "master",
    "name",
    "spec",
    "image",
    "backend",
    "nProcPerNode",
    "minAvailable",
    "event",
    "y" * 300,
    "é",
)
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
SCRAPS = (
    *("\t", "  ", "- ", ": ", "'", '"', "{", "[", "*a", "&a ", "!!x ", "---\n", "...\n", "\n", "<<: ", "|", "%", "? "),
    *("\ufeff", "\x07", "\u2028", "{a: &b [*b]}", ".nan", "2024-01-01"),
)


def _places(value: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return every (container, key) inside a value."""
    for key, below in list(value.items()) if isinstance(value, dict) else enumerate(value):
        found.append((value, key))
        if isinstance(below, dict | list):
            _places(below, found)
    return found


def _mutate(chance: random.Random, obj: Object) -> None:
    places = _places(obj, [])
    if not places:
        return
    holder, key = chance.choice(places)
    match chance.choice(["delete", "replace", "null", "insert", "swap", "rename", "double", "wrap"]):
        case "delete":
            del holder[key]
        case "null":
            holder[key] = None
        case "swap":
            other, name = chance.choice(places)
            holder[key], other[name] = copy.deepcopy(other[name]), copy.deepcopy(holder[key])
        case "wrap":
            holder[key] = chance.choice([[holder[key]], {"x": holder[key]}])
        case "insert" if isinstance(holder, list):
            holder.insert(key, copy.deepcopy(chance.choice(JUNK)))
        case "insert":
            holder[chance.choice(KEYS)] = copy.deepcopy(chance.choice(JUNK))
        case "double" if isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        case "rename" if isinstance(holder, dict):
            holder[chance.choice(KEYS)] = holder.pop(key)
        case _:
            holder[key] = copy.deepcopy(chance.choice(JUNK))


def mutated(seed: int, kind: str = "PyTorchJob") -> Object:
    """Return the example of a kind, with one to four mutations, that belongs to a seed."""
    chance = random.Random(seed)
    obj = copy.deepcopy(chance.choice(EXAMPLES[kind]))
    for _ in range(chance.choice([1, 1, 2, 3, 4])):
        _mutate(chance, obj)
    return obj


def broken(seed: int) -> str:
    """Return a mutated example as YAML, with a few of its lines broken as well."""
    chance = random.Random(seed)
    lines = yaml.dump(mutated(seed), Dumper=_DUMPER, sort_keys=False, allow_unicode=True).split("\n")
    for _ in range(chance.randint(0, 3)):
        number = chance.randrange(len(lines))
        line = lines[number]
        column = chance.randint(0, len(line))
        match chance.choice(["insert", "remove", "double", "cut"]):
            case "insert":
                lines[number] = line[:column] + chance.choice(SCRAPS) + line[column:]
            case "remove":
                lines[number] = ""
            case "double":
                lines.insert(number, line)
            case _:
                lines[number] = line[:column]
    return "\n".join(lines)


# One draw each: hypothesis spends its time on draws, and a seed names a manifest well enough.
_SEEDS = st.integers(0, 2**32)


def objects(kind: str = "PyTorchJob") -> st.SearchStrategy[Object]:
    """Draw a mutated manifest of a kind."""
    return _SEEDS.map(lambda seed: mutated(seed, kind))


def texts() -> st.SearchStrategy[str]:
    """Draw a mutated manifest as broken YAML."""
    return _SEEDS.map(broken)
