"""Tokens by which pods are known to the API server: each bound to its pod, and another one before it ends.

A token ends with its pod, whatever it says itself. Who hands them out is not here: `Issue` is the API server's answer
to a TokenRequest. Where nobody does, pods have none.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from trainwright.core.objects import Object

Issue = Callable[[str, str, Object], Awaitable[Object]]
"""Given a namespace, a service account of it and a TokenRequest: the TokenRequest, answered."""

_DEFAULT_SECONDS = 3600
_USED = 0.8
"""So much of its life a token is used: what it is for must not fail while the next one is late."""


@dataclass(frozen=True)
class Wish:
    """A token as a volume asks for it."""

    audience: str = ""
    """Whom it shall convince; none: the API server."""
    seconds: int = _DEFAULT_SECONDS

    @classmethod
    def read(cls, source: Mapping[str, object]) -> "Wish":
        """Return what a projected `serviceAccountToken` asks for."""
        return cls(str(source.get("audience") or ""), int(str(source.get("expirationSeconds") or _DEFAULT_SECONDS)))


@dataclass(frozen=True)
class _Token:
    text: str
    renewed_at: datetime


class Tokens:
    """The tokens of one pod."""

    def __init__(self, issue: Issue, now: Callable[[], datetime]) -> None:
        self._issue = issue
        self._now = now
        self._held: dict[Wish, _Token] = {}

    async def current(self, pod: Object, wishes: Iterable[Wish]) -> dict[Wish, str]:
        """Return a token for each wish, a new one where the last is getting old; ClusterError if there is none."""
        for wish in wishes:
            held = self._held.get(wish)
            if held is None or self._now() >= held.renewed_at:
                self._held[wish] = await self._asked(pod, wish)
        return {wish: held.text for wish, held in self._held.items()}

    async def _asked(self, pod: Object, wish: Wish) -> _Token:
        meta, began = pod["metadata"], self._now()
        bound = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
        spec = {
            "expirationSeconds": wish.seconds,
            "boundObjectRef": bound,
            **({"audiences": [wish.audience]} if wish.audience else {}),
        }
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        account = pod["spec"].get("serviceAccountName") or "default"
        answer = await self._issue(meta["namespace"], account, request)
        # How long it lives, not until when: the API server's clock need not be ours.
        life = timedelta(seconds=float(answer["spec"]["expirationSeconds"]))
        return _Token(answer["status"]["token"], began + life * _USED)
