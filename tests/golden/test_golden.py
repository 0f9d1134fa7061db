"""Manifest in, every object out: whole objects, as YAML, one folder per case.

A case may have a `settings.yaml`: what its home decides otherwise than a plain cluster, by the names of `Settings`.

TRAINWRIGHT_GOLDEN=write pytest tests/golden      writes what is made now; read the difference before committing
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainwright.desired import KUBERNETES, Settings, explain, render
from trainwright.kinds import kind_of

HERE = Path(__file__).parent
CASES = sorted(path.parent for path in HERE.glob("*/*/manifest.yaml"))
WRITE = os.environ.get("TRAINWRIGHT_GOLDEN") == "write"


class Dumper(yaml.SafeDumper):
    """YAML without anchors: objects share parts in memory, which is nobody's concern here."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def dump(documents: list[Any]) -> str:
    return yaml.dump_all(documents, Dumper=Dumper, sort_keys=False, width=120, explicit_start=True)


def settings(case: Path) -> Settings:
    chosen = case / "settings.yaml"
    return replace(KUBERNETES, **yaml.safe_load(chosen.read_text())) if chosen.exists() else KUBERNETES


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_golden(case: Path):
    manifest = yaml.safe_load((case / "manifest.yaml").read_text())
    kind = kind_of(manifest)
    assert kind
    stored = kind.default(manifest)
    assert [problem for problem in kind.check(manifest, None) if problem.severity == "error"] == []
    desired = kind.build(kind.read(stored), settings(case), 0)
    rows = [
        {"pod": row.pod, "path": row.path, "value": row.value, "source": row.source, "reason": row.reason}
        for row in explain(desired)
    ]
    made = {"stored.yaml": dump([stored]), "objects.yaml": dump(list(render(desired))), "explain.yaml": dump([rows])}
    if WRITE:
        for name, text in made.items():
            (case / name).write_text(text)

    for name, text in made.items():
        assert text == (case / name).read_text(), f"{name} differs; see the first lines of this module"


def test_there_are_cases():
    assert CASES
