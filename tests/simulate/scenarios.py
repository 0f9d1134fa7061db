"""Small scenarios for the tests: a row changes only what its sentence is about."""

import copy
from typing import Any

from trainwright.simulate import Result, read, simulate

SMALL: dict[str, Any] = {
    "until": 100,
    "maxLoad": 1,
    "nodes": [{"name": "node", "count": 2, "offers": {"cpu": 10}}],
    "jobs": [
        {
            "name": "job",
            "count": 1,
            "arrives": {"at": 5},
            "roles": [{"name": "master", "replicas": 1, "requests": {"cpu": 1}}],
            "elastic": {"min": 1, "max": 4, "requests": {"cpu": 2}, "grace": 10},
        }
    ],
}


def scenario(**changes: Any) -> dict[str, Any]:
    """Return the small scenario with values changed by path: jobs__0__elastic__min=3; None takes a value out."""
    document = copy.deepcopy(SMALL)
    for path, value in changes.items():
        *steps, last = [int(step) if step.isdigit() else step for step in path.split("__")]
        here: Any = document
        for step in steps:
            here = here[step]
        if value is None:
            del here[last]
        else:
            here[last] = value
    return document


def lived(policy: str, seed: int = 1, **changes: Any) -> Result:
    """Return what came of the small scenario with values changed."""
    return simulate(read(scenario(**changes)), policy, seed)
