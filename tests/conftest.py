"""Shared by all tests: where the repository's own files are, and where torch is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the repository's root."""
    return ROOT


@pytest.fixture(scope="session")
def torch_python(root: Path) -> Path:
    """Return the Python that has torch. Without it CI fails; elsewhere the test is skipped, and says so."""
    asked = [sys.executable, str(root / "tools" / "frameworks.py"), "--path", "torch"]
    python = Path(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip())
    if not (python.parent.parent / ".ready").exists():
        words = f"torch is not installed at {python}; `make frameworks` installs it"
        if os.environ.get("CI") == "true":
            pytest.fail(words, pytrace=False)
        pytest.skip(f"NOTHING WAS TESTED HERE: {words}")
    return python
