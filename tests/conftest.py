"""Shared by all tests: where the repository's own files are, and where the real frameworks are."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the repository's root."""
    return ROOT


Framework = Callable[[str], Path]


@pytest.fixture(scope="session")
def framework(root: Path) -> Framework:
    """Return a function from a framework's name to its Python; a missing one skips the test and fails it in CI."""

    def find(name: str) -> Path:
        asked = [sys.executable, str(root / "tools" / "frameworks.py"), "--path", name]
        python = Path(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip())
        environment = python.parent.parent
        if (environment / ".ready").exists():
            return python
        excuse = environment.with_name(f"{environment.name}.skipped")
        words = f"{name} is not installed at {python}; `make frameworks` installs it"
        if os.environ.get("CI") == "true" and not excuse.exists():
            pytest.fail(words, pytrace=False)
        reason = excuse.read_text().strip() if excuse.exists() else words
        pytest.skip(f"NOTHING WAS TESTED HERE: {name}: {reason}")

    return find


@pytest.fixture(scope="session")
def torch_python(framework: Framework) -> Path:
    """Return the Python that has torch."""
    return framework("torch")
