"""Sockets: in the place of what was there, for whom they are meant, also at long paths, answered when asked."""

import asyncio
import stat
from pathlib import Path
from urllib.parse import quote

import pytest

from trainwright.cluster.kubernetes import Access, KubernetesCluster, Server
from trainwright.core.errors import HomeError
from trainwright.core.resources import NODE
from trainwright.operator.home import HomeOptions, local_home
from trainwright.server import sockets


@pytest.mark.parametrize("mode", [pytest.param(0o600, id="for one user"), pytest.param(0o666, id="for everybody")])
def test_who_may_connect(tmp_path: Path, mode: int):
    path = tmp_path / "api.sock"
    path.write_text("left by somebody")
    with sockets.listen(path, mode):
        assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_place_where_nobody_can_listen(tmp_path: Path):
    with pytest.raises(HomeError, match="nobody can be answered there: No such file"):
        sockets.listen(tmp_path / "none" / "api.sock", 0o600)


async def test_a_home_is_answered_once_somebody_asks_also_at_a_long_path(tmp_path: Path):
    folder = tmp_path / ("x" * 100)
    await asyncio.to_thread(folder.mkdir)
    path = folder / "api.sock"
    async with local_home(HomeOptions(folder, "ports")) as home, sockets.answering(home, path):
        access = Access(Server(f"unix://{quote(str(path))}"), namespace="default")
        async with KubernetesCluster(access) as cluster:
            assert [node["metadata"]["name"] for node in (await cluster.list(NODE)).items] == ["local"]
    assert not await asyncio.to_thread(path.exists)
