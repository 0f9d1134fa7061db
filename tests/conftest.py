"""Shared by all tests: where the repository's own files are."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the repository's root."""
    return ROOT
