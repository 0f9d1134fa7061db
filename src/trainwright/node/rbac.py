"""What a service account may do, by the Roles of its namespace: the API server's own rule, as far as pods need it.

A rule allows a call when its groups, resources and verbs all name it, or "*", and its resourceNames do, or are none.
Only Roles count, since the local home has no ClusterRoles. Whatever no Role allows is refused.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from trainwright.core.objects import Object

_ALL = "*"


@dataclass(frozen=True)
class Account:
    """Who asks."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"system:serviceaccount:{self.namespace}:{self.name}"


@dataclass(frozen=True)
class Call:
    """What is asked for: of pods and what is below them, all in the core group."""

    verb: str
    resource: str
    """With the subresource: "pods/exec"."""
    namespace: str
    name: str

    def refusal(self, account: Account) -> str:
        """Return the API server's own sentence for it."""
        kind = self.resource.partition("/")[0]
        return (
            f'{kind} "{self.name}" is forbidden: User "{account}" cannot {self.verb} resource '
            f'"{self.resource}" in API group "" in the namespace "{self.namespace}"'
        )


def allowed(account: Account, call: Call, roles: Iterable[Object], bindings: Iterable[Object]) -> bool:
    """Say whether a Role that is bound to the account allows the call; both come from any namespace."""
    bound = {
        binding["roleRef"]["name"]
        for binding in bindings
        if binding["metadata"]["namespace"] == call.namespace
        and binding["roleRef"].get("kind") == "Role"
        and any(_is(subject, account, call.namespace) for subject in binding.get("subjects") or ())
    }
    return any(
        _permits(rule, call)
        for role in roles
        if role["metadata"]["namespace"] == call.namespace and role["metadata"]["name"] in bound
        for rule in role.get("rules") or ()
    )


def _is(subject: Object, account: Account, namespace: str) -> bool:
    home = subject.get("namespace") or namespace
    return (subject.get("kind"), subject.get("name"), home) == ("ServiceAccount", account.name, account.namespace)


def _permits(rule: Object, call: Call) -> bool:
    names: Sequence[Any] = rule.get("resourceNames") or ()
    return (
        _names(rule.get("apiGroups"), "")
        and _names(rule.get("resources"), call.resource)
        and _names(rule.get("verbs"), call.verb)
        and (not names or call.name in names)
    )


def _names(listed: Sequence[Any] | None, word: str) -> bool:
    return any(each in (word, _ALL) for each in listed or ())
