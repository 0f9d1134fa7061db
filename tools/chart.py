"""The Helm chart: templates that render what `tw install` prints, for every choice that its values offer.

A template is found by comparing: what is printed with a part and what is printed without it differ in exactly what
belongs to the part, and that stands between an `if` and an `end`. Rights are the exception, since several parts may
need the same one: each is given where one of those parts is.

In templates `$` is the whole of what they are given, wherever in them one is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trainwright import __version__
from trainwright.cli.output import dump
from trainwright.core.objects import Object
from trainwright.operator.leader import lease_name
from trainwright.operator.manifests import Installation, Part, operator_manifests
from trainwright.operator.rights import (
    GANG_RIGHTS,
    HANDOVER_RIGHTS,
    RIGHTS,
    SCALING_RIGHTS,
    WEBHOOK_RIGHTS,
    Right,
    Scope,
    leader_rights,
    rules,
)

_NAMESPACE, _IMAGE, _WATCHED, _CAPACITY, _REPLICAS = (
    "namespace-here", "image-here", "watched-here", "capacity-here", 98765,
)  # fmt: skip
_VALUES = {
    f"--namespace={_WATCHED}": '--namespace={{ join "," $.Values.watch }}',
    lease_name((_WATCHED,)): 'trainwright.{{ join "." (sortAlpha $.Values.watch) }}',
    _NAMESPACE: "{{ $.Release.Namespace }}",
    _IMAGE: "{{ $.Values.image }}",
    _WATCHED: "{{ $namespace }}",
    "--gang=auto": "--gang={{ $.Values.gang }}",
    _CAPACITY: "{{ $.Values.capacity }}",
    str(_REPLICAS): "{{ $.Values.replicas }}",
}
_EVERYWHERE = Installation(namespace=_NAMESPACE, image=_IMAGE, replicas=_REPLICAS)
_SOMEWHERE = replace(_EVERYWHERE, watch=(_WATCHED,))


@dataclass(frozen=True)
class Choice:
    """What a user of the chart may choose: the condition of the full installation, and what it is otherwise."""

    condition: str
    other: Installation
    values: bool = True
    """Whether it changes what stands in objects, and not only which there are."""

    @property
    def negation(self) -> str:
        """Return the condition of the other installation."""
        yes = self.condition.removeprefix("not ")
        return yes if yes != self.condition else f"not {self.condition}"


def _choices(full: Installation) -> list[Choice]:
    """Return every choice but where jobs are looked after; each alone turns the full installation into another."""
    served = "(and $.Values.webhooks (not $.Values.watch))"
    return [
        Choice("$.Values.webhooks", _without(full, "webhooks")),
        Choice("$.Values.leaderElection", _without(full, "leader-election")),
        Choice("$.Values.autoscaler", _without(full, "autoscaler")),
        Choice("not $.Values.capacity", replace(full, capacity=_CAPACITY)),
        Choice("$.Values.metrics", _without(full, "metrics")),
        # What two choices share is there as long as one of them is made.
        Choice(f"or $.Values.metrics {served}", _without(full, "metrics", "webhooks"), values=False),
        Choice(f"or $.Values.leaderElection {served}", _without(full, "leader-election", "webhooks"), values=False),
        Choice("gt (int $.Values.replicas) 1", replace(full, replicas=1), values=False),
    ]


def _without(full: Installation, *parts: Part) -> Installation:
    return replace(full, without=frozenset(parts))


def files() -> dict[str, str]:
    """Return the text of every file of the chart but the kinds, by its path there."""
    return {
        "Chart.yaml": _chart(),
        "values.yaml": _values(),
        "templates/checks.yaml": _CHECKS,
        **{f"templates/{name}.yaml": text for name, text in _templates()},
    }


_GANGS = " ".join(f'"{gang}"' for gang in GANG_RIGHTS)
_CHECKS = f"""\
{{{{- if not (has $.Values.gang (list {_GANGS})) }}}}
{{{{- fail (printf "there is no gang %q (there are: {", ".join(GANG_RIGHTS)})" $.Values.gang) }}}}
{{{{- end }}}}
"""
_CHECKS += """\
{{- if and (not $.Values.leaderElection) (gt (int $.Values.replicas) 1) }}
{{- fail "several operators need leader election; write replicas: 1, or keep it" }}
{{- end }}
{{- if and $.Values.watch $.Values.autoscaler (not $.Values.capacity) }}
{{- fail "with watch the autoscaler sees no nodes; write capacity, such as cpu=64,memory=256Gi, or autoscaler: false" }}
{{- end }}
"""


def _chart() -> str:
    return dump(
        {
            "apiVersion": "v2",
            "name": "trainwright",
            "description": "One operator for PyTorchJob, MPIJob, Volcano Job and TrainingJob.",
            "type": "application",
            "version": __version__,
            "appVersion": __version__,
        },
        "yaml",
    )


def _values() -> str:
    shipped = Installation()
    return f"""\
# Written by tools/packaging.py. The same choices as the flags of `tw install`; docs/kubernetes.md explains them.

# The image of the operator and of the init containers it adds.
image: {shipped.image}

# How many operators: one works, the others wait, answer webhooks and take over.
replicas: {shipped.replicas}

# The only namespaces whose jobs are looked after, with rights in these alone; none: all.
watch: []

# How pods that start together are kept: auto, native, volcano, scheduler-plugins, gates or none.
gang: {shipped.gang}

# What elastic jobs share where nodes cannot be seen, such as cpu=64,memory=256Gi; needed with `watch`.
capacity: ""

# Check and complete jobs when they are applied. Not with `watch`: webhooks are the whole cluster's.
webhooks: true

# Resize elastic jobs so that they share what the nodes offer.
autoscaler: true

# Only one operator works at a time. Without it write `replicas: 1`.
leaderElection: true

# A Service port by which the metrics are found.
metrics: true
"""


def _templates() -> Iterator[tuple[str, str]]:
    everywhere, somewhere = _by_name(_EVERYWHERE), _by_name(_SOMEWHERE)
    for name, obj in everywhere.items():
        if obj["kind"] != "Namespace":  # Helm makes the namespace of a release, if it is told to
            where = [Choice("not $.Values.watch", _SOMEWHERE)]
            yield name, _template(name, obj, [*where, *_choices(_EVERYWHERE)])
    for name, obj in somewhere.items():
        if name not in everywhere:
            text = _template(name, obj, _choices(_SOMEWHERE))
            yield name, f"{{{{- range $namespace := $.Values.watch }}}}\n---\n{text}{{{{- end }}}}\n"


def _by_name(installation: Installation) -> dict[str, Object]:
    """Return the objects of an installation by the names of their files: kind, and what tells two of a kind apart."""
    found = {}
    for each in operator_manifests(installation):
        rest = each["metadata"]["name"].removeprefix("trainwright").removeprefix(_NAMESPACE)
        found[f"{each['kind'].lower()}{rest}"] = each
    return found


def _template(name: str, obj: Object, choices: Sequence[Choice]) -> str:
    """Return an object as a template: what a choice takes away, or brings, stands under its condition."""
    others = [(choice, _by_name(choice.other).get(name)) for choice in choices]
    whole = [choice.condition for choice, other in others if other is None]
    changed = [
        (choice, {key: value for key, value in other.items() if key != "rules"})
        for choice, other in others
        if other is not None and choice.values
    ]
    lines = list(_mapping({key: value for key, value in obj.items() if key != "rules"}, changed, (), 0))
    if "rules" in obj:
        lines += _rules(name)
    text = "".join(_conditional(lines))
    for here, value in _VALUES.items():
        text = text.replace(here, value)
    return f"{_if(whole)}{text}{_END}" if whole else text


# Objects that differ, as lines with conditions


@dataclass(frozen=True)
class _Line:
    text: str
    conditions: tuple[str, ...]


_Others = Sequence[tuple[Choice, Any]]
"""What stands in the place of a value where a choice is not made."""


def _mapping(full: Object, others: _Others, conditions: tuple[str, ...], indent: int) -> Iterator[_Line]:
    for key, value in full.items():
        lost = tuple(choice.condition for choice, other in others if key not in other)
        there = [(choice, other[key]) for choice, other in others if key in other]
        yield from _entry(key, value, there, (*conditions, *lost), indent)
    for choice, other in others:
        brought = {key: value for key, value in other.items() if key not in full}
        yield from _plain(brought, (*conditions, choice.negation), indent)


def _entry(key: str, value: Any, others: _Others, conditions: tuple[str, ...], indent: int) -> Iterator[_Line]:
    different = [(choice, other) for choice, other in others if other != value]
    if not different:
        yield from _plain({key: value}, conditions, indent)
    elif isinstance(value, dict):
        yield _Line(f"{' ' * indent}{key}:\n", conditions)
        yield from _mapping(value, different, conditions, indent + 2)
    elif isinstance(value, list):
        yield _Line(f"{' ' * indent}{key}:\n", conditions)
        yield from _items(value, different, conditions, indent)
    else:
        yield from _plain({key: value}, (*conditions, *(choice.condition for choice, _ in different)), indent)
        for choice, other in different:
            yield from _plain({key: other}, (*conditions, choice.negation), indent)


def _items(full: list[Any], others: _Others, conditions: tuple[str, ...], indent: int) -> Iterator[_Line]:
    known = {_identity(item) for item in full}
    brought: dict[str, list[_Line]] = {}
    for choice, other in others:
        before = ""
        for item in other:
            if _identity(item) in known:
                before = _identity(item)
            else:
                brought.setdefault(before, []).extend(_plain([item], (*conditions, choice.negation), indent))
    yield from brought.get("", ())
    for item in full:
        named = [(choice, {_identity(each): each for each in other}) for choice, other in others]
        lost = tuple(choice.condition for choice, there in named if _identity(item) not in there)
        there = [(choice, found[_identity(item)]) for choice, found in named if _identity(item) in found]
        yield from _item(item, there, (*conditions, *lost), indent)
        yield from brought.get(_identity(item), ())


def _item(item: Any, others: _Others, conditions: tuple[str, ...], indent: int) -> Iterator[_Line]:
    if all(other == item for _, other in others):
        yield from _plain([item], conditions, indent)
        return
    first, *rest = _mapping(item, others, conditions, indent + 2)
    yield _Line(f"{' ' * indent}- {first.text[indent + 2 :]}", first.conditions)
    yield from rest


def _identity(item: Any) -> str:
    """Return what makes two items of a list the same one, though they may differ."""
    return str(item.get("name", item) if isinstance(item, dict) else item)


def _plain(value: Any, conditions: tuple[str, ...], indent: int) -> Iterator[_Line]:
    if value:
        for line in dump(value, "yaml").splitlines(keepends=True):
            yield _Line(f"{' ' * indent}{line}", conditions)


# Rights, each under the conditions of all parts that need it

_GRANTS: tuple[tuple[str, Sequence[Right]], ...] = (
    ("", RIGHTS),
    ("", HANDOVER_RIGHTS),
    ("$.Values.autoscaler", [each for each in SCALING_RIGHTS if each.scope != "cluster"]),
    ("and $.Values.autoscaler (not $.Values.capacity)", [each for each in SCALING_RIGHTS if each.scope == "cluster"]),
    *((f'eq $.Values.gang "{gang}"', rights) for gang, rights in GANG_RIGHTS.items()),
    ("and $.Values.webhooks (not $.Values.watch)", WEBHOOK_RIGHTS),
    ("and $.Values.leaderElection (not $.Values.watch)", leader_rights()),
    ("and $.Values.leaderElection $.Values.watch", leader_rights(lease_name((_WATCHED,)))),
)
_SCOPES: dict[str, tuple[Scope, ...]] = {"clusterrole": ("jobs", "cluster"), "role": ("jobs",), "role-own": ("own",)}


def _rules(name: str) -> Iterator[_Line]:
    """Yield the rules of a role, each verb under the conditions of all parts that need it."""
    given: dict[str, dict[str, list[str]]] = {}
    for condition, rights in _GRANTS:
        for right in rights:
            if right.scope in _SCOPES[name]:
                (rule,) = rules([right])
                del rule["verbs"]
                given.setdefault(dump([rule], "yaml"), {}).setdefault(right.verb, []).append(condition)
    yield _Line("rules:\n", ())
    for rule_text, verbs in given.items():
        whole = _any([condition for conditions in verbs.values() for condition in conditions])
        yield from (_Line(line, whole) for line in (*rule_text.splitlines(keepends=True), "  verbs:\n"))
        yield from (_Line(f"  - {verb}\n", _any(conditions)) for verb, conditions in verbs.items())


def _any(conditions: Sequence[str]) -> tuple[str, ...]:
    """Return the condition that holds where one of several does; nothing always holds."""
    distinct = list(dict.fromkeys(conditions))
    if "" in distinct:
        return ()
    return tuple(distinct) if len(distinct) == 1 else (f"or {' '.join(f'({each})' for each in distinct)}",)


# Lines with conditions, as text

_END = "{{- end }}\n"


def _if(conditions: Sequence[str]) -> str:
    joined = conditions[0] if len(conditions) == 1 else f"and {' '.join(f'({each})' for each in conditions)}"
    return f"{{{{- if {joined} }}}}\n"


def _conditional(lines: Sequence[_Line]) -> Iterator[str]:
    """Yield the lines of a template, those with the same conditions between one `if` and one `end`."""
    now: tuple[str, ...] = ()
    for line in lines:
        if line.conditions != now:
            yield _END if now else ""
            yield _if(line.conditions) if line.conditions else ""
            now = line.conditions
        yield line.text
    yield _END if now else ""
