"""How a user names a job or one of its ranks: `mnist`, `pytorchjob/mnist`, `mnist/worker-1`, `mnist/3`."""

from dataclasses import dataclass

from trainwright.api.faces import FACES
from trainwright.core.errors import BadRequest


@dataclass(frozen=True)
class Address:
    """One job, or one rank of it: `worker-1` by role, or `3` counted through all ranks."""

    job: str
    kind: str = ""
    rank: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in (self.kind, self.job, self.rank) if part)


def parse(text: str) -> Address:
    """Return what a user means; the first part is a kind only if a kind is called so."""
    parts = text.split("/")
    kind = kinds().get(parts[0].lower(), "") if len(parts) > 1 else ""
    rest = parts[1:] if kind else parts
    if not 1 <= len(rest) <= 2 or not all(rest):
        raise BadRequest(f"{text!r} names no job; write JOB, KIND/JOB, JOB/worker-1 or JOB/3")
    return Address(job=rest[0], kind=kind, rank=rest[1] if len(rest) == 2 else "")


def kinds() -> dict[str, str]:
    """Return every word that names a kind, and the kind: also with its group, as `-o name` prints it."""
    words: dict[str, str] = {}
    for face in FACES:
        names = (face.name.lower(), face.resource.plural)
        groups = (face.resource.group, f"{face.resource.version}.{face.resource.group}")
        grouped = (f"{name}.{group}" for name in names for group in groups)
        words |= dict.fromkeys((*face.short_names, *names, *grouped), face.name)
    return words
