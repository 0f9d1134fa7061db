"""Memory limits: where groups are made, what processes use, who belongs to whom."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trainwright.node.memory import MemoryLimits, descendants, group_parent, memory_limit, pss


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        pytest.param({"memory": "1Gi"}, 1 << 30, id="binary"),
        pytest.param({"memory": "500M"}, 500_000_000, id="decimal"),
        pytest.param({"cpu": "1"}, None, id="none"),
        pytest.param(None, None, id="nothing at all"),
    ],
)
def test_memory_limit(limits, expected):
    assert memory_limit({"resources": {"limits": limits}}) == expected


def everybody():
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def started(script):
    return subprocess.Popen(["sh", "-c", script], start_new_session=True)


@pytest.fixture
def tree(tmp_path):
    """A cgroup file system of plain folders."""

    def make(path, control=None):
        folder = tmp_path / path
        folder.mkdir(parents=True, exist_ok=True)
        if control is not None:
            (folder / "cgroup.subtree_control").write_text(control)
        return folder

    return make


def test_version_1_groups_are_made_in_our_own(tree, tmp_path):
    own = tree("memory/user/me")

    assert group_parent(tmp_path, "5:cpu:/user\n4:memory:/user/me\n0::/\n") == own


def test_version_1_in_a_container_uses_the_root_it_sees(tree, tmp_path):
    root = tree("memory")

    assert group_parent(tmp_path, "4:memory:/docker/abc\n") == root


@pytest.mark.parametrize(
    ("own", "parent", "expected"),
    [
        pytest.param("memory pids", "memory", "slice/scope", id="in our own, if that hands out memory"),
        pytest.param("", "cpu memory", "slice", id="beside it, if the one above does"),
        pytest.param("", "cpu", None, id="nowhere, if nobody does"),
    ],
)
def test_version_2_groups_are_made_where_memory_is_handed_out(tree, tmp_path, own, parent, expected):
    (tmp_path / "cgroup.controllers").write_text("cpu memory")
    tree("slice", parent)
    tree("slice/scope", own)
    tree("", "")

    found = group_parent(tmp_path, "0::/slice/scope\n")

    assert found == (tmp_path / expected if expected else None)


def test_what_a_killed_agent_left_is_removed(tree, tmp_path):
    own = tree("memory/me")
    left, mine = own / "trainwright-999999999-0", own / f"trainwright-{os.getpid()}-0"
    left.mkdir()
    mine.mkdir()

    group_parent(tmp_path, "4:memory:/me\n")

    assert not left.exists()
    assert mine.exists()


def test_no_groups_no_parent(tmp_path):
    assert group_parent(tmp_path, "") is None


def test_pss_of_a_process_that_is_and_one_that_is_not():
    assert pss(os.getpid()) > 1 << 20
    assert pss(999_999_999) == 0


def test_descendants_are_found_through_their_parents():
    child = started("sleep 30 & wait")
    try:
        while len(found := descendants(child.pid, everybody())) < 2:
            pass
        assert child.pid in found
        assert os.getpid() not in found
    finally:
        os.killpg(child.pid, 9)
        child.wait()


async def test_polling_sees_what_a_child_takes():
    code = "x = bytearray(200 << 20); import time; time.sleep(30)"
    parent = started(f"{sys.executable} -c '{code}' & wait")
    try:
        limit = MemoryLimits(None).limit(100 << 20, parent.pid, everybody)
        await asyncio.wait_for(limit.wait(), 20)
        assert limit.exceeded()
        assert limit.peak() > 100 << 20
    finally:
        os.killpg(parent.pid, 9)
        parent.wait()


def test_where_no_group_can_be_made_it_polls(tmp_path):
    limit = MemoryLimits(tmp_path / "no" / "such").limit(1 << 50, os.getpid(), lambda: [os.getpid()])

    assert not limit.exceeded()
    limit.close()
