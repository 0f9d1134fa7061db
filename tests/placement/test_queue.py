"""Gangs start whole or not at all, in their turn, and nobody at the cost of those ahead."""

from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trainwright.core.names import GANG_LABEL, GANG_MIN_ANNOTATION, JOB_LABEL
from trainwright.core.objects import Object
from trainwright.placement.amounts import amounts
from trainwright.placement.gangs import Gang, Member, accounted, gather
from trainwright.placement.queue import Pass, Scene, schedule
from trainwright.placement.quotas import Quota

FOUR = {"box": amounts({"cpu": "4", "pods": 100})}


def pod(text: str, arrival: int) -> Object:
    """Read "a1 gang=a/3 cpu=1 gpu=1 on=box phase=Running priority=5 leaving" as a pod."""
    name, *words = text.split()
    facts = dict(word.partition("=")[::2] for word in words)
    meta: Object = {
        "name": name,
        "namespace": facts.get("ns", "default"),
        "uid": name,
        "creationTimestamp": f"2026-01-01T00:00:{arrival:02}Z",
    }
    if "gang" in facts:
        gang, minimum = facts["gang"].split("/")
        meta |= {"labels": {GANG_LABEL: gang}, "annotations": {GANG_MIN_ANNOTATION: minimum}}
    if "job" in facts:
        meta["labels"] |= {JOB_LABEL: facts["job"]}
    if "leaving" in facts:
        meta["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    requests = {"nvidia.com/gpu": facts["gpu"]} if "gpu" in facts else {}
    if facts.get("cpu") != "none":
        requests |= {"cpu": facts.get("cpu", "1")}
    limits = {"cpu": facts["limit"]} if "limit" in facts else {}
    spec: Object = {
        "containers": [{"resources": {"requests": requests, "limits": limits}}],
        "nodeName": facts.get("on", ""),
        "priority": int(facts.get("priority", 0)),
    }
    if "gated" in facts:
        spec["schedulingGates"] = [{"name": "later"}]
    return {"metadata": meta, "spec": spec, "status": {"phase": facts.get("phase", "Pending")}}


def waits(each: Member) -> bool:
    return each.homeless and not each.gates


def look(text: str, offered: dict[str, dict[str, int]] | None = None, quotas: tuple[Quota, ...] = ()) -> Pass:
    pods = [accounted(pod(each.strip(), arrival)) for arrival, each in enumerate(text.split(","))]
    holding = [each for each in pods if each.node and not each.ended]
    elastic = {("default", "gang e")}
    return schedule(Scene(FOUR if offered is None else offered, holding, gather(pods, waits), {}, elastic, quotas))


@pytest.mark.parametrize(
    ("pods", "started"),
    [
        pytest.param("solo", "solo", id="a pod without gang starts when it fits"),
        pytest.param("a1 gang=a/2, a2 gang=a/2", "a1 a2", id="a whole gang starts"),
        pytest.param("a1 gang=a/3, a2 gang=a/3", "", id="an incomplete gang waits"),
        pytest.param("a1 gang=a/3, b1", "b1", id="and holds nobody up"),
        pytest.param("a1 gang=a/2 cpu=3, a2 gang=a/2 cpu=2", "", id="never half a gang"),
        pytest.param("x on=box cpu=3, a1 gang=a/2, a2 gang=a/2", "", id="a gang waits for room"),
        pytest.param(
            "a1 gang=a/2 cpu=2, a2 gang=a/2 cpu=2, b1 gang=b/2 cpu=2, b2 gang=b/2 cpu=2",
            "a1 a2",
            id="first come, first served",
        ),
        pytest.param("a1 gang=a/2 cpu=3, a2 gang=a/2 cpu=3, b1 cpu=2", "b1", id="what can never fit holds nobody up"),
        pytest.param("a1 gang=a/2 on=box, a2 gang=a/2", "a2", id="a replaced member joins those that run"),
        pytest.param(
            "a1 gang=a/2 on=box phase=Succeeded cpu=4, a2 gang=a/2 cpu=4", "a2", id="who has ended holds nothing"
        ),
        pytest.param("a1 gang=a/2 on=box leaving, a2 gang=a/2", "", id="one that leaves is no company"),
        pytest.param("x on=box cpu=4 leaving, y", "", id="a stopping pod holds its share"),
        pytest.param("a gated", "", id="a gated pod is not looked at"),
        pytest.param("a1 gang=a/2, a2 gang=a/2 ns=other", "", id="gangs do not cross namespaces"),
    ],
)
def test_gangs(pods, started):
    assert " ".join(sorted(look(pods).bindings)) == started


@pytest.mark.parametrize(
    ("pods", "started"),
    [
        pytest.param("a cpu=3, b cpu=3 priority=5", "b", id="the more urgent first"),
        pytest.param("a cpu=3 priority=-1, b cpu=3", "b", id="a priority may be below nothing"),
        pytest.param("a cpu=3 priority=5, b cpu=3 priority=5", "a", id="of equals who came first"),
        pytest.param(
            "a1 gang=a/2 cpu=2, a2 gang=a/2 cpu=2, b1 gang=b/2 cpu=2, b2 gang=b/2 cpu=2 priority=1",
            "b1 b2",
            id="a gang is as urgent as the most urgent of its pods",
        ),
        pytest.param("x on=box cpu=3 priority=0, a cpu=4 priority=9", "", id="nothing that runs is ended for it"),
        pytest.param(
            "e1 gang=e/1 on=box, e2 gang=e/1, b1 gang=b/3, b2 gang=b/3, b3 gang=b/3",
            "b1 b2 b3",
            id="the growth of an elastic job comes after every minimum",
        ),
        pytest.param(
            "x on=box, e1 gang=e/1 on=box, e2 gang=e/1, b1 gang=b/3, b2 gang=b/3, b3 gang=b/3",
            "",
            id="and does not take what a minimum waits for",
        ),
        pytest.param(
            "b1 gang=b/3, b2 gang=b/3, b3 gang=b/3, a1 gang=a/1 on=box, a2 gang=a/1 cpu=2",
            "a2",
            id="another job needs the pods beyond its minimum",
        ),
        pytest.param(
            "b cpu=4 priority=9, a1 gang=a/2 on=box, a2 gang=a/2",
            "a2",
            id="what has begun is completed before all others",
        ),
        pytest.param(
            "b cpu=4 priority=9, w gang=w/1 job=j on=box, l gang=l/1 job=j",
            "l",
            id="also by another gang of the same job",
        ),
        pytest.param(
            "a1 gang=a/2 cpu=2, a2 gang=a/2, a3 gang=a/2 cpu=2, a4 gang=a/2", "a1 a2", id="no pod passes one of its own"
        ),
        pytest.param(
            "a1 gang=a/1 on=box cpu=3, a2 gang=a/1 cpu=2, b", "b", id="who waits for pods of its own holds nobody up"
        ),
    ],
)
def test_the_order(pods, started):
    assert " ".join(sorted(look(pods).bindings)) == started


GPUS = {"box": amounts({"cpu": "10", "nvidia.com/gpu": "2", "pods": 100})}
TWO = {"one": amounts({"cpu": "4", "pods": 9}), "two": amounts({"cpu": "8", "pods": 9})}


@pytest.mark.parametrize(
    ("offered", "pods", "started"),
    [
        pytest.param(GPUS, "x on=box cpu=9, a cpu=8, b cpu=1", "b", id="a small one beside a large one, whoever ends"),
        pytest.param(GPUS, "x on=box cpu=9, a cpu=8, b cpu=1, c cpu=1", "b", id="no more than fit beside it"),
        pytest.param(GPUS, "x on=box cpu=9, a cpu=10, b cpu=1", "", id="who needs everything is passed by nobody"),
        pytest.param(
            GPUS, "x on=box cpu=4, y on=box cpu=4, a cpu=6, b cpu=2", "", id="a starts when x ends, and not beside b"
        ),
        pytest.param(GPUS, "x on=box cpu=4, y on=box cpu=5, a cpu=5, b cpu=1", "", id="nor when y ends, beside x"),
        pytest.param(GPUS, "x on=box cpu=3, y on=box cpu=6, a cpu=5, b cpu=1", "b", id="beside x it fits with b"),
        pytest.param(
            GPUS, "x on=box gpu=2 cpu=1, a gpu=1 cpu=1, b cpu=7", "b", id="what is short is not what it takes"
        ),
        pytest.param(GPUS, "x on=box gpu=2 cpu=1, a gpu=1 cpu=1, b cpu=9", "", id="as long as enough is left of it"),
        pytest.param(GPUS, "x on=box gpu=2, a gpu=2 cpu=none, b cpu=9", "b", id="what it does not ask for is free"),
        pytest.param(GPUS, "x on=box cpu=9, a cpu=8, c cpu=9, b cpu=1", "b", id="all ahead count, each by itself"),
        pytest.param(GPUS, "x on=box cpu=9, a cpu=8, c cpu=2, b cpu=1", "", id="and what they take beside each other"),
        pytest.param(
            TWO,
            "x on=one cpu=2, y on=two cpu=4, a cpu=6, b cpu=1",
            "b",
            id="a node that is too small is free for others",
        ),
        pytest.param(
            TWO,
            "x on=one cpu=2, y on=two cpu=6, a1 gang=a/2 cpu=3, a2 gang=a/2 cpu=3, b cpu=1",
            "",
            id="several nodes that a gang may use are its own",
        ),
    ],
)
def test_back_fill(offered, pods, started):
    assert " ".join(sorted(look(pods, offered).bindings)) == started


@pytest.mark.parametrize(
    ("pods", "who", "reason", "sentence"),
    [
        pytest.param(
            "a1 gang=a/3, a2 gang=a/3",
            "a1",
            "GangIncomplete",
            "waiting for the rest of the gang: 2 of 3 pods are there",
            id="not all are there",
        ),
        pytest.param(
            "a1 gang=a/2 cpu=3, a2 gang=a/2 cpu=2",
            "a2",
            "Unschedulable",
            "a gang of 2 pods needs cpu 5, but 4 of 4 is free; it can never fit here",
            id="never is said",
        ),
        pytest.param(
            "x on=box cpu=3, a1 gang=a/2, a2 gang=a/2",
            "a2",
            "Queued",
            "1st in the queue; a gang of 2 pods needs cpu 2, but 1 of 4 is free (default/x holds 3)",
            id="who holds what is short",
        ),
        pytest.param(
            "x on=box cpu=3, a cpu=4, b cpu=2, c",
            "c",
            "Queued",
            "3rd in the queue behind default/b; there is room, but it is kept for default/a, which is ahead",
            id="the place, and who is ahead",
        ),
        pytest.param(
            "u on=box cpu=100m, v on=box cpu=200m, w on=box, x on=box, y on=box, a1 gang=a/1 cpu=2",
            "a1",
            "Queued",
            "1st in the queue; one pod needs cpu 2, but 700m of 4 is free "
            "(default/w holds 1, default/x holds 1, default/y holds 1 and 2 others the rest)",
            id="those who hold most are named",
        ),
        pytest.param(
            "a1 gang=a/1 on=box cpu=3, a2 gang=a/1 cpu=2, a3 gang=a/1 cpu=2",
            "a3",
            "Queued",
            "one pod needs cpu 2, but 1 of 4 is free (default/a holds 3)",
            id="who waits for pods of its own has no place in the queue",
        ),
    ],
)
def test_why_they_wait(pods, who, reason, sentence):
    wait = look(pods).waits[who]

    assert (wait.reason, wait.sentence) == (reason, sentence)


def quota(namespace: str = "default", **hard: str) -> Quota:
    named = {name.replace("_", "."): value for name, value in hard.items()}
    counted = {key: amounts({key.rpartition(".")[2]: value})[key.rpartition(".")[2]] for key, value in named.items()}
    return Quota(namespace, "team", counted)


@pytest.mark.parametrize(
    ("allowed", "pods", "started", "why"),
    [
        pytest.param(quota(cpu="2"), "a, b, c", "a b", "", id="as much as it allows"),
        pytest.param(
            quota(cpu="2"),
            "x on=box, a1 gang=a/2, a2 gang=a/2",
            "",
            "the quota team of default allows cpu 2, 1 is used and 2 needed",
            id="a gang waits whole",
        ),
        pytest.param(
            quota(requests_cpu="2"), "x on=box, a cpu=2, b ns=other cpu=3", "b", "", id="and holds up nobody elsewhere"
        ),
        pytest.param(
            quota(requests_cpu="2"),
            "x on=box, a cpu=2, b cpu=1",
            "",
            "the quota team of default allows requests.cpu 2, 1 is used and 2 needed",
            id="but those behind it",
        ),
        pytest.param(
            quota(cpu="2"),
            "a cpu=3, b",
            "b",
            "the quota team of default allows cpu 2, 0 is used and 3 needed; it can never start",
            id="unless it can never start",
        ),
        pytest.param(
            quota(cpu="2"),
            "b1 gang=b/1 on=box cpu=2, b2 gang=b/1, a",
            "",
            "the quota team of default allows cpu 2, 2 is used and 1 needed",
            id="or waits for pods of its own",
        ),
        pytest.param(quota(pods="1"), "a, b", "a", "", id="so many pods"),
        pytest.param(quota(limits_cpu="3"), "a limit=2, b limit=1, c limit=1", "a b", "", id="by limits"),
        pytest.param(
            quota(limits_cpu="3"),
            "a",
            "",
            "the quota team counts it, so every container of a must state resources.limits.cpu",
            id="which must be stated",
        ),
        pytest.param(
            quota(cpu="3"),
            "a cpu=none, b",
            "b",
            "the quota team counts it, so every container of a must state resources.requests.cpu",
            id="as requests",
        ),
        pytest.param(quota("other", cpu="1"), "a, b", "a b", "", id="another namespace's does not matter"),
        pytest.param(
            quota(cpu="3"),
            "x on=box cpu=3, a cpu=3, b cpu=1",
            "",
            "the quota team of default allows cpu 3, 3 is used and 3 needed",
            id="by what has a place, not by what waits",
        ),
    ],
)
def test_quotas(allowed, pods, started, why):
    decided = look(pods, quotas=(allowed,))

    assert " ".join(sorted(decided.bindings)) == started
    if why:
        assert decided.waits["a1" if "a1" in decided.waits else "a"].sentence == why


def test_without_nodes_nobody_starts():
    decided = look("solo", {})

    assert not decided.bindings
    assert decided.waits["solo"].sentence == "no node takes pods: none is ready, or all are cordoned"


# Any gangs that run for any time: who may be passed starts no later than where nobody passes anybody

JOBS = st.lists(
    st.tuples(
        st.integers(0, 6),  # when it comes
        st.integers(1, 9),  # how long it runs
        st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2)), min_size=1, max_size=2),  # cpu and gpu of its pods
    ),
    min_size=4,
    max_size=9,
)
Decide = Callable[[Scene], Pass]


def in_turn(scene: Scene) -> Pass:
    """Start those who fit, until one does not."""
    bindings: dict[str, str] = {}
    for gang in sorted(scene.gangs, key=lambda each: each.waiting[0].arrival):
        alone = schedule(Scene(scene.offered, (), [gang]))
        if not alone.bindings:
            continue
        placed = {each.uid: each for other in scene.gangs for each in other.waiting if each.uid in bindings}
        now = [*scene.holding, *(on_box(each) for each in placed.values())]
        fitting = schedule(Scene(scene.offered, now, [gang])).bindings
        if not fitting:
            break
        bindings |= fitting
    return Pass(bindings)


def on_box(each: Member) -> Member:
    return Member(each.uid, each.name, each.gang, each.minimum, each.needs, "box", each.arrival)


def lived(jobs: list[tuple[int, int, list[tuple[int, int]]]], decide: Decide) -> dict[int, int]:
    """Run jobs through a pass whenever one comes or ends; return when each started."""
    offered = {"box": {"cpu": 8, "gpu": 4, "pods": 100}}
    gangs = [gang_of(number, pods, comes) for number, (comes, _, pods) in enumerate(jobs)]
    times = {comes for comes, _, _ in jobs}
    started: dict[int, int] = {}
    while times:
        times.remove(now := min(times))
        running = [gangs[job] for job, begun in started.items() if now < begun + jobs[job][1]]
        there = [gang for job, gang in enumerate(gangs) if jobs[job][0] <= now and job not in started]
        decided = decide(Scene(offered, [on_box(each) for gang in running for each in gang.waiting], there))
        begun = {int(uid.split("-")[0]) for uid in decided.bindings}
        started |= dict.fromkeys(begun, now)
        times |= {now + jobs[job][1] for job in begun}
    return started


def gang_of(number: int, pods: list[tuple[int, int]], comes: int) -> Gang:
    key = ("default", f"gang {number}")
    members = [
        Member(
            f"{number}-{index}",
            f"{number}-{index}",
            key,
            len(pods),
            {"cpu": cpu, "gpu": gpu, "pods": 1},
            "",
            (f"{comes:03}", number, str(index)),
        )
        for index, (cpu, gpu) in enumerate(pods)
    ]
    return Gang(key, members, 0, len(pods))


@settings(max_examples=100, deadline=None)
@given(JOBS)
@example([(0, 9, [(3, 0)]), (0, 3, [(3, 0)]), (1, 5, [(5, 0)]), (2, 9, [(2, 0)])])
def test_nobody_starts_later_because_somebody_passed(jobs):
    with_back_fill, without = lived(jobs, schedule), lived(jobs, in_turn)

    assert with_back_fill.keys() == without.keys()
    assert {job: at for job, at in with_back_fill.items() if at > without[job]} == {}


def test_somebody_does_pass():
    jobs = [(0, 9, [(7, 0)]), (1, 5, [(6, 0)]), (2, 1, [(1, 0)])]

    assert lived(jobs, in_turn)[2] == 9
    assert lived(jobs, schedule)[2] == 2
