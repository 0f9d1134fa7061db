"""Lives are lived twice: where the definitions of the kinds are ours, and where they are somebody else's."""

import pytest


@pytest.fixture(params=[False, True], ids=["ours", "definitions that drop the record"])
def prunes(request: pytest.FixtureRequest) -> bool:
    """Return whether the cluster drops what must be remembered from a status."""
    return bool(request.param)
