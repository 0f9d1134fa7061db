"""Gates open for one gang at a time, and only if all of it fits."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwright.core.names import GANG_GATE, GANG_LABEL, GANG_MIN_ANNOTATION
from trainwright.core.objects import Object
from trainwright.placement.gangs import Member, Room, member
from trainwright.placement.gates import Opening, opening

FOUR = {"box": {"cpu": 4000, "pods": 100}}
TWO_BY_TWO = {"a": {"cpu": 2000, "pods": 100}, "b": {"cpu": 2000, "pods": 100}}


def pod(text: str, arrival: int) -> Object:
    """Read "a1 a/3 cpu=2 on=box gated other urgent ended leaving" as a pod: a gang and its minimum come second."""
    name, gang, *words = text.split()
    facts = dict(word.partition("=")[::2] for word in words)
    meta: Object = {
        "name": name,
        "namespace": "default",
        "uid": name,
        "creationTimestamp": f"2026-01-01T00:00:{arrival:02}Z",
    }
    if gang != "-":
        label, _, minimum = gang.partition("/")
        meta |= {"labels": {GANG_LABEL: label}, "annotations": {GANG_MIN_ANNOTATION: minimum}}
    if "leaving" in facts:
        meta["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    gates = [{"name": gate} for word, gate in (("gated", GANG_GATE), ("other", "kueue")) if word in facts]
    spec = {
        "containers": [{"resources": {"requests": {"cpu": facts.get("cpu", "1")}}}],
        "nodeName": facts.get("on", ""),
        "schedulingGates": gates,
        "priority": 1000 if "urgent" in facts else 0,
    }
    return {"metadata": meta, "spec": spec, "status": {"phase": "Succeeded" if "ended" in facts else "Pending"}}


def members(text: str) -> list[Member]:
    return [member(pod(each.strip(), arrival)) for arrival, each in enumerate(text.split(","))]


def room(offered: dict[str, dict[str, int]], pods: list[Member]) -> Room:
    free = {node: dict(amounts) for node, amounts in offered.items()}
    for each in pods:
        if each.node and not each.ended:
            free[each.node] = {name: value - each.needs.get(name, 0) for name, value in free[each.node].items()}
    return Room(offered, dict(free))


def look(text: str, given_up: str = "") -> Opening:
    pods = members(text)
    return opening(pods, room(FOUR, pods), {("default", f"gang {name}") for name in given_up.split()})


@pytest.mark.parametrize(
    ("pods", "opened"),
    [
        pytest.param("a1 a/2 gated, a2 a/2 gated", "a1 a2", id="a gang that fits goes in"),
        pytest.param("a1 a/3 gated, a2 a/3 gated", "", id="one that is not complete does not"),
        pytest.param("a1 a/2 cpu=3 gated, a2 a/2 cpu=3 gated", "", id="nor one that does not fit as a whole"),
        pytest.param("x - on=box cpu=3, a1 a/2 gated, a2 a/2 gated", "", id="what pods of others hold is not free"),
        pytest.param("x - cpu=3, a1 a/2 gated, a2 a/2 gated", "", id="what they are about to hold neither"),
        pytest.param("x - on=box cpu=3 leaving, a1 a/2 gated, a2 a/2 gated", "", id="nor what one gives up"),
        pytest.param("x - cpu=9, a1 a/2 gated, a2 a/2 gated", "a1 a2", id="pods that fit nowhere hold nothing up"),
        pytest.param(
            "a1 a/2 gated, a2 a/2 gated, b1 b/2 gated, b2 b/2 gated", "a1 a2", id="one gang at a time, the first first"
        ),
        pytest.param(
            "a1 a/2 gated, a2 a/2 gated, b1 b/2 gated urgent, b2 b/2 gated urgent", "b1 b2", id="what is urgent before"
        ),
        pytest.param("a1 a/2, a2 a/2, b1 b/2 gated, b2 b/2 gated", "", id="the next one not before it was placed"),
        pytest.param("a1 a/2 on=box, a2 a/2, b1 b/2 gated, b2 b/2 gated", "", id="as a whole"),
        pytest.param("a1 a/2 on=box, a2 a/2 on=box, b1 b/2 gated, b2 b/2 gated", "b1 b2", id="and then it does"),
        pytest.param(
            "a1 a/2 cpu=3 gated, a2 a/2 cpu=3 gated, b1 b/2 gated, b2 b/2 gated", "b1 b2", id="unless the first cannot"
        ),
        pytest.param("s a/1 cpu=9, b1 b/2 gated, b2 b/2 gated", "b1 b2", id="a pod that waits for nobody is no gang"),
        pytest.param("a1 a/2 on=box, a2 a/2 gated", "a2", id="one that is made again joins those that run"),
        pytest.param("a1 a/2 on=box ended, a2 a/2 gated", "a2", id="or those that have ended"),
        pytest.param("a1 a/2 on=box leaving, a2 a/2 gated", "", id="but nobody who leaves"),
        pytest.param("a1 a/2 on=box cpu=2, a2 a/2 cpu=3 gated", "", id="and only if it fits"),
        pytest.param(
            "a1 a/2 on=box, a2 a/2 on=box, a3 a/2 gated, a4 a/2 gated, a5 a/2 gated",
            "a3 a4",
            id="beyond the minimum as many go in as fit",
        ),
        pytest.param("a1 a/2 gated, a2 a/2 gated, a3 a/2 gated", "a1 a2", id="the minimum comes before them"),
        pytest.param("a1 a/2 gated other, a2 a/2 gated", "", id="whom others hold back is not there yet"),
        pytest.param("a1 a/3 gated, a2 a/3 cpu=2 gated, a3 a/3 gated", "a2", id="the hungriest go first"),
        pytest.param("a1 a/3 gated, a2 a/3 cpu=2 on=box, a3 a/3 gated", "a1 a3", id="and the others then"),
        pytest.param(
            "b1 b/2 gated, b2 b/2 gated, a1 a/3 gated, a2 a/3 cpu=2 on=box, a3 a/3 gated",
            "a1 a3",
            id="before anybody else, however old",
        ),
    ],
)
def test_who_is_let_in(pods, opened):
    assert " ".join(look(pods).pods) == opened


@pytest.mark.parametrize(
    ("pods", "given_up", "opened"),
    [
        pytest.param("a1 a/2 cpu=9, a2 a/2, b1 b/2 gated, b2 b/2 gated", "a", "b1 b2", id="others go in beside it"),
        pytest.param("a1 a/2 cpu=3, a2 a/2, b1 b/2 gated, b2 b/2 gated", "a", "", id="but not where it may still go"),
        pytest.param(
            "a1 a/2 cpu=9, b1 b/2, c1 c/2 gated, c2 c/2 gated", "a", "", id="and another one that is under way counts"
        ),
    ],
)
def test_a_gang_that_the_scheduler_does_not_place(pods, given_up, opened):
    assert " ".join(look(pods, given_up).pods) == opened


@pytest.mark.parametrize(
    ("pods", "sentences"),
    [
        pytest.param(
            "a1 a/2 cpu=3 gated, a2 a/2 cpu=2 gated, b1 b/2 cpu=9 gated, b2 b/2 gated",
            {
                "a1": "a gang of 2 pods needs cpu 5, but 4 of 4 is free; it can never fit here",
                "b1": "a gang of 2 pods needs cpu 10, but 4 of 4 is free; it can never fit here",
            },
            id="of each gang once, by its first pod",
        ),
        pytest.param(
            "a1 a/2 gated", {"a1": "waiting for the rest of the gang: 1 of 2 pods are there"}, id="pods are missing"
        ),
        pytest.param(
            "x - on=box cpu=3, a1 a/2 on=box, a2 a/2 gated, a3 a/2 gated",
            {"a2": "one pod needs cpu 1, but 0 of 4 is free"},
            id="a pod is missing",
        ),
        pytest.param("a1 a/2, a2 a/2 gated", {}, id="nothing while somebody is under way"),
    ],
)
def test_why_gangs_wait(pods, sentences):
    assert dict(look(pods).waits) == sentences


def test_pods_go_where_nodes_take_them():
    pods = members("a1 a/2 gated, a2 a/2 gated")
    space = room(TWO_BY_TWO, pods)
    space.takers = lambda each: frozenset({"a"}) if each.uid == "a1" else frozenset()

    found = opening(pods, space)

    assert found.pods == ()
    assert "a1" in found.waits


def test_without_sight_of_nodes_a_gang_goes_in_when_it_is_there():
    assert opening(members("a1 a/2 gated, b1 b/2 cpu=99 gated, b2 b/2 gated"), None).pods == ("b1", "b2")
    assert opening(members("b1 b/2 cpu=99, b2 b/2 gated, a1 a/2 gated, a2 a/2 gated"), None).pods == ()


# Any nodes and gangs, and a scheduler that places pods wherever they fit, in any order


NODES = st.lists(st.integers(1, 8), min_size=1, max_size=4)
GANGS = st.lists(st.tuples(st.integers(2, 5), st.integers(1, 6)), min_size=1, max_size=5)
"""Gangs as (pods, cpus of each)."""


class World:
    """Nodes, pods of gangs, and what a scheduler does to them."""

    def __init__(self, nodes: list[int], gangs: list[tuple[int, int]]) -> None:
        self.offered = {f"n{index}": {"cpu": size * 1000, "pods": 100} for index, size in enumerate(nodes)}
        self.pods = {
            f"g{gang}-{index}": pod(f"g{gang}-{index} g{gang}/{count} cpu={cpu} gated", gang)
            for gang, (count, cpu) in enumerate(gangs)
            for index in range(count)
        }

    def members(self) -> list[Member]:
        return [member(each) for each in self.pods.values()]

    def open(self) -> tuple[str, ...]:
        pods = self.members()
        opened = opening(pods, room(self.offered, pods)).pods
        for name in opened:
            self.pods[name]["spec"]["schedulingGates"] = []
        return opened

    def bind_one(self, chance: random.Random) -> bool:
        """Place any pod of those without a gate, anywhere it fits; say whether there is such a place."""
        free = room(self.offered, self.members()).free
        each = chance.choice(self.queued())
        fitting = [node for node, left in free.items() if left["cpu"] >= each.needs["cpu"]]
        if fitting:
            self.pods[each.uid]["spec"]["nodeName"] = chance.choice(fitting)
        return bool(fitting)

    def queued(self) -> list[Member]:
        return [each for each in self.members() if each.homeless and not each.gates]

    def running(self) -> list[str]:
        """Return the gangs all of whose pods have a node."""
        names = dict.fromkeys(name.partition("-")[0] for name in self.pods)
        return [gang for gang in names if all(self.pods[name]["spec"]["nodeName"] for name in self._of(gang))]

    def end(self, gang: str) -> None:
        for name in self._of(gang):
            del self.pods[name]

    def _of(self, gang: str) -> list[str]:
        return [name for name in self.pods if name.startswith(f"{gang}-")]


def fits_alone(nodes: list[int], count: int, cpu: int) -> bool:
    return sum(size // cpu for size in nodes) >= count


@settings(max_examples=60, deadline=None)
@given(NODES, GANGS, st.randoms(use_true_random=False))
def test_every_gang_that_fits_alone_runs_and_no_two_wait_for_each_other(nodes, gangs, chance):
    world = World(nodes, gangs)
    ran = set()
    while True:
        opened = world.open()
        assert len({name.partition("-")[0] for name in opened}) <= 1
        while world.queued():
            assert not world.open(), "a gang was let in while another one was under way"
            assert world.bind_one(chance), "somebody was let in whom nobody can place"
        running = world.running()
        if not running and not opened:
            break
        for gang in running if chance.random() < 0.5 else running[:1]:
            ran.add(gang)
            world.end(gang)

    assert ran == {f"g{index}" for index, (count, cpu) in enumerate(gangs) if fits_alone(nodes, count, cpu)}
